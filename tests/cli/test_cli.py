"""The commands as a user types them: output, JSON, exit codes, and errors without tracebacks."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aegis.cli import COMMANDS, main


def aegis(*arguments: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    code = stop.value.code
    return (0 if code is None else int(code)), captured.out, captured.err


HEAVY = {"numpy", "scipy", "pyarrow", "pydantic", "yaml", "jinja2", "sqlalchemy", "fastapi", "dask"}


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = aegis("--help", capsys=capsys)
    assert code == 0
    assert all(name in out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = aegis(name, "--help", capsys=capsys)
    assert code == 0
    assert "--json" in out


@pytest.mark.parametrize("group", ["bench", "store", "token"])
def test_every_command_of_a_group_has_help_and_json(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = importlib.import_module(f"aegis.cli.commands.{group}").command
    for name in command.commands:
        if (group, name) == ("bench", "report"):
            continue  # it writes its numbers as JSON beside the page
        code, out, _ = aegis(group, name, "--help", capsys=capsys)
        assert code == 0 and "--json" in out, name


def test_help_is_light() -> None:
    code = (
        "import sys\nfrom aegis.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'numpy', 'pyarrow', 'scipy', 'rich', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_no_command_loads_a_heavy_library_when_it_is_imported() -> None:
    """Help and completion import the module of a command, and should be instant."""
    code = (
        "import importlib, sys\n"
        f"heavy = {HEAVY}\n"
        f"for name in {list(COMMANDS)}:\n"
        "    importlib.import_module(f'aegis.cli.commands.{name}')\n"
        "    assert not heavy & set(sys.modules), (name, sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


BAD = {
    "unknown command": (["simulat"], "did you mean 'simulate'"),
    "unknown option": (["simulate", "--wrold", "additive"], "--wrold"),
    "unknown world": (["simulate", "--world", "aditive", "--out", "x"], "did you mean 'additive'"),
    "unknown setting": (["simulate", "--set", "f_b=1", "--out", "x"], "did you mean 'f_a'"),
    "not a setting": (["simulate", "--set", "f_a", "--out", "x"], "KEY=VALUE"),
    "non-finite parameter": (["simulate", "--set", "f_a=.nan", "--out", "x"], "f_a"),
    "text for a number": (["simulate", "--set", "f_a=two", "--out", "x"], "f_a"),
    "one-point grid": (["simulate", "--set", "outer_points=1", "--out", "x"], "world 'additive': 'outer_points' is"),
    "huge parameter": (["simulate", "--world", "unified", "--set", "gamma=1e300", "--out", "x"], "from -1e+06 to 1e+06"),
    "huge size": (["simulate", "--set", "inner_steps=100000000", "--out", "x"], "'inner_steps' is a whole number from 1 to"),
    "a setting given twice": (["simulate", "--set", "f_a=1", "--set", "f_a=2", "--out", "x"], "'f_a' is given twice"),
    "not YAML": (["simulate", "--set", "f_a=[1", "--out", "x"], "--set f_a=[1: not valid YAML"),
    "a setting that is an option": (["simulate", "--set", "shift=T", "--out", "x"], "--shift T"),
    "a setting that is an argument": (["simulate", "--set", "name=x", "--out", "x"], "no setting 'name'"),
    "unknown preset": (["simulate", "--world", "unified", "--preset", "stres", "--out", "x"], "did you mean 'stress'"),
    "preset of another world": (["simulate", "--preset", "stress", "--out", "x"], "world 'additive' has no presets"),
    "unknown shift": (["simulate", "--shift", "NQ", "--out", "x"], "did you mean 'N_Q'"),
    "shift and setting": (["simulate", "--shift", "N_Q", "--set", "sigma_q=2", "--out", "x"], "leave out 'sigma_q'"),
    "legacy of another world": (["simulate", "--world", "clinic", "--legacy", "sign:epsilon=0.3", "--out", "x"], "sign"),
    "legacy with a bad rate": (["simulate", "--legacy", "sign:epsilon=3", "--out", "x"], "epsilon"),
    "unknown agent": (["simulate", "--agent", "nested_ct", "--out", "x"], "did you mean 'nested_cts'"),
    "unknown level": (["simulate", "--agent", "nested_cts", "--scope", "iner", "--out", "x"], "did you mean 'inner'"),
    "scope without agent": (["simulate", "--scope", "inner", "--out", "x"], "--agent"),
    "features without agent": (["simulate", "--features", "linear", "--temper", "1", "--out", "x"], "--features, --temper"),
    "nodes without agent": (["simulate", "--nodes", "8", "--out", "x"], "--agent"),
    "unknown features": (["simulate", "--agent", "nested_cts", "--features", "liner", "--out", "x"], "did you mean 'linear'"),
    "features for a table": (["simulate", "--agent", "flat_joint", "--features", "linear", "--out", "x"], "without features"),
    "no tempering": (
        ["simulate", "--agent", "nested_cts", "--temper", "0", "--out", "x"],
        "the temper of a model is a finite number above 0",
    ),
    "tempering that is no number": (["simulate", "--agent", "nested_cts", "--temper", "nan", "--out", "x"], "found nan"),
    "no nodes": (["simulate", "--agent", "nested_cts", "--nodes", "0", "--out", "x"], "1 to 256 nodes"),
    "too many particles": (["simulate", "--agent", "nested_cts", "--particles", "1000000000", "--out", "x"], "--particles"),
    "particles for greedy": (["simulate", "--agent", "greedy_nig", "--particles", "3", "--out", "x"], "particles"),
    "no episodes": (["simulate", "--episodes", "0", "--out", "x"], "episodes"),
    "empty place": (["simulate", "--out", ""], "the path is empty"),
    "negative seed": (["simulate", "--seed", "-1", "--out", "x"], "seed"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_a_clear_error_and_writes_nothing(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, expected = BAD[what]
    code, out, err = aegis(*arguments, capsys=capsys)
    assert code == 2
    assert expected in err
    assert "Traceback" not in err + out
    assert list(tmp_path.iterdir()) == []


def test_unwritable_output_is_a_clear_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    for extra in ([], ["--agent", "nested_cts"]):
        code, _, err = aegis("simulate", *extra, "--episodes", 3, "--out", tmp_path / "file" / "deeper", capsys=capsys)
        assert code == 2
        assert "cannot write" in err or "choose" in err
    assert (tmp_path / "file").read_text() == "in the way"


def test_full_disk_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    code, _, err = aegis("simulate", "--episodes", 3, "--out", tmp_path / "log", capsys=capsys)
    assert code == 2
    assert "No space left on device" in err
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
