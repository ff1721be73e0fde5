"""Shell completion: the scripts, what they are answered, and that answers come without heavy imports."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typed import run

from aegis.cli import COMMANDS
from aegis.cli.commands.completion import SHELLS
from aegis.cli.options import COMPLETIONS, bench_names

HEAVY = "{'numpy', 'scipy', 'pyarrow', 'pydantic', 'yaml', 'jinja2', 'sqlalchemy', 'fastapi', 'dask'}"
LIGHT = f"{{'rich', *{HEAVY}}}"


def completed(line: str, shell: str = "bash", loaded: str = HEAVY) -> tuple[list[str], str]:
    """Return what a shell is told that asks for the end of a line, and which modules of a set were imported for it."""
    words = line.split(" ")
    position = words[-1] if shell == "fish" else str(len(words) - 1)
    asked = {"_AEGIS_COMPLETE": f"{shell}_complete", "COMP_WORDS": line, "COMP_CWORD": position}
    code = (
        "import sys\nfrom aegis.cli import main\ntry:\n    main()\nfinally:\n"
        f"    print(sorted({loaded} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True, check=True)
    return done.stdout.splitlines(), done.stderr.strip()


def test_commands_are_completed_without_importing_any() -> None:
    assert completed("aegis cer", loaded=LIGHT) == (["plain,certify"], "[]")
    names, modules = completed("aegis ", loaded=LIGHT)
    assert names == [f"plain,{name}" for name in COMMANDS] and modules == "[]"


def test_options_are_completed_without_heavy_imports() -> None:
    found, modules = completed("aegis certify --pol")
    assert (found, modules) == (["plain,--policy"], "[]")


def test_logs_are_completed_as_files() -> None:
    assert completed("aegis certify lo")[0] == ["file,lo"]
    assert completed("aegis certify log.csv --problem pr")[0] == ["file,pr"]


def test_commands_of_a_group_and_shells_are_completed() -> None:
    assert completed("aegis store up")[0] == ["plain,upgrade"]
    assert completed("aegis completion z")[0] == ["plain,zsh"]


def test_a_misspelt_command_is_no_error_while_typing() -> None:
    found, said = completed("aegis certfy --pol")
    assert not any(found) and said == "[]"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_show_what_a_command_does(shell: str) -> None:
    said = " ".join(completed("aegis cer", shell)[0])
    assert "certify" in said and COMMANDS["certify"] in said and "demo" not in said


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_says_where_to_put_what(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("completion", shell, capsys=capsys)
    assert code == 0
    assert out.startswith(f"# Put this line into {SHELLS[shell]['file']}") and f"#   {SHELLS[shell]['line']}\n" in out
    assert "_AEGIS_COMPLETE" in out and f"{shell}_complete" in out
    _, out, _ = run("completion", shell, "--json", capsys=capsys)
    assert json.loads(out)["line"] == SHELLS[shell]["line"] and "_AEGIS_COMPLETE" in json.loads(out)["script"]


def test_without_a_shell_all_are_told_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("completion", capsys=capsys)
    _, told, _ = run("completion", "--json", capsys=capsys)
    assert code == 0 and list(json.loads(told)) == list(SHELLS)
    _, page, _ = run("completion", "--help", capsys=capsys)
    for how in SHELLS.values():
        assert all(words in out and words in page for words in how.values())


def test_an_unknown_shell_is_a_clear_error(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run("completion", "tcsh", capsys=capsys)
    assert code == 2 and "'bash', 'zsh', 'fish'" in err


@pytest.mark.skipif(shutil.which("bash") is None or os.name == "nt", reason="there is no bash")
def test_bash_itself_completes(tmp_path: Path) -> None:
    command = tmp_path / "aegis"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m aegis "$@"\n')
    command.chmod(0o755)
    typed = (
        f"{SHELLS['bash']['line']}\n"
        'complete -p aegis\nCOMP_WORDS=(aegis cer) COMP_CWORD=1\n_aegis_completion aegis\necho "${COMPREPLY[@]}"'
    )
    surroundings = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", typed], env=surroundings, capture_output=True, text=True, check=True)
    registered, found = done.stdout.splitlines()
    assert "-F _aegis_completion aegis" in registered and found == "certify", done.stderr


def test_values_are_completed_without_heavy_imports() -> None:
    assert completed("aegis simulate --world d") == (["plain,dosing"], "[]")
    assert completed("aegis dataset h") == (["plain,heartsteps", "plain,hillstrom"], "[]")
    assert completed("aegis certify log.csv --method w") == (["plain,water-filled"], "[]")
    assert completed("aegis convert x --from o") == (["plain,obp"], "[]")
    assert "plain,1a" in completed("aegis bench run 1")[0]


def test_values_are_those_that_exist() -> None:
    from aegis.adapters import DATASETS
    from aegis.adapters.dsjson_events import SKIPPED, UNOBSERVED
    from aegis.agents import CANDIDATES
    from aegis.certificate.claims import CLAIM_METHODS
    from aegis.certificate.request import OTHER_LEVELS_ACT
    from aegis.cli.handover_run import EXTERNAL
    from aegis.handover import HOSTS
    from aegis.handover.gate_settings import MODES
    from aegis.logs.source import SIDES, SPLIT_KINDS
    from aegis.paper import list_benches
    from aegis.worlds import ALL_WORLDS, WORLDS

    assert {what: set(values) for what, values in COMPLETIONS.items()} == {
        "world": set(ALL_WORLDS),
        "level world": set(WORLDS),
        "data set": {"list", *DATASETS},
        "method": set(CLAIM_METHODS),
        "kind": set(CANDIDATES),
        "split": set(SPLIT_KINDS),
        "others": set(OTHER_LEVELS_ACT),
        "side": {*SIDES, "all"},
        "mode": set(MODES),
        "engine": {"local", "dask"},
        "unobserved": set(UNOBSERVED),
        "skipped": set(SKIPPED),
        "host": set(HOSTS) - {EXTERNAL},
    }
    assert set(bench_names()) == {"all", *list_benches()}
