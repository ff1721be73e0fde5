"""docs/commands.md: its commands exist and run, the picture shows what they print, Python runs, and no command is left out."""

from __future__ import annotations

import contextlib
import html
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pages import ROOT

NAME = "commands.md"
PAGE = (ROOT / "docs" / NAME).read_text(encoding="utf-8")
TERMINAL = ROOT / "docs" / "figures" / "terminal.svg"
WRITTEN = ("log.parquet", "problem.yaml", "report.html")


def test_python_example_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
    assert len(blocks) == 1
    assert len([line for line in blocks[0].splitlines() if line.strip()]) <= 20
    with contextlib.chdir(tmp_path), contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(blocks[0], NAME, "exec"), {"__name__": "__main__"})
    lines = out.getvalue().splitlines()
    legacy, best = (float(word) for word in re.findall(r"-?\d+\.\d+", lines[0]))
    agent = float(lines[1].split()[1])
    assert legacy < agent <= best + 0.3
    assert lines[2] == "audit: fit"
    assert lines[3].startswith("Certified: with probability at least 95 %")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(WRITTEN)


def test_commands_named_on_the_page_exist() -> None:
    from aegis.cli import COMMANDS

    named = re.findall(r"^    aegis ([a-z]+)", PAGE, flags=re.M) + re.findall(r"`aegis ([a-z]+)", PAGE)
    assert len(named) >= 5
    for name in named:
        assert name in COMMANDS


def test_the_table_has_every_command_once() -> None:
    from aegis.cli import COMMANDS

    rows = re.findall(r"^\| ((?:`[a-z]+`(?:, )?)+) \|.*\]\(.*\) \|$", PAGE, flags=re.M)
    assert sorted(re.findall(r"`([a-z]+)`", " ".join(rows))) == sorted(COMMANDS)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the commands of the page, run one after the other where its example has run before, and what each printed."""
    place, found = tmp_path_factory.mktemp("commands"), {}
    for name in WRITTEN:  # by the Python example of the page: nothing may stand in their way
        (place / name).write_text("here before")
    first, *others = re.findall(r"^    aegis (.*)$", PAGE, flags=re.M)
    command = [sys.executable, "-m", "aegis", *shlex.split(first)]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{first}\n{done.stderr}"
    found[first] = done.stdout
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "120")  # as in the picture
        for line in others:
            short = ("--episodes", "60") if line.startswith("handover") else ()  # the last one counts
            found[line] = typed(place, line, *short)
    return found


def typed(place: Path, line: str, *more: str) -> str:
    """Return what a command prints. It runs in this process: one of its own would import everything again."""
    from aegis.cli import main

    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(place),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as stop,
    ):
        main([*shlex.split(line), *more])
    assert not stop.value.code, f"{line}\n{err.getvalue()}"
    return out.getvalue()


@pytest.mark.ci
def test_the_handover_of_the_page_runs_as_long_as_it_says(tmp_path: Path) -> None:
    (line,) = re.findall(r"^    aegis (handover .*)$", PAGE, flags=re.M)
    assert "Handed over: 'inner'" in typed(tmp_path, line)


def test_the_commands_of_the_page_run_one_after_the_other(printed: dict[str, str]) -> None:
    assert len(printed) >= 7
    (line,) = (line for line in printed if line.startswith("handover"))
    assert "Probability of any wrong handover: at most 0.05" in " ".join(printed[line].split())


def shape(text: str) -> tuple[str, list[float]]:
    """Return a text without blanks and numbers, and its numbers."""
    number = r"\d+(?:\.\d+)?"
    return re.sub(r"\s", "", re.sub(number, "#", text)), [float(found) for found in re.findall(number, text)]


def test_the_picture_of_the_terminal_shows_what_the_commands_print(printed: dict[str, str]) -> None:
    lines = [line for line in printed if line.split()[0] in ("audit", "certify", "verify")]
    words, numbers = shape("".join(f"$ aegis {line}\n{printed[line]}" for line in lines))
    picture = TERMINAL.read_text(encoding="utf-8")
    title, *drawn = [html.unescape(text) for text in re.findall(r"<text[^>]*>(.*?)</text>", picture)]
    assert shape(title)[0] == "fromalogtoaverdict"
    shown, others = shape("".join(drawn))
    assert words == shown, "draw it again: make screenshots"
    assert numbers == pytest.approx(others, rel=0.05)


def test_the_picture_of_the_terminal_is_there_small_and_loads_nothing() -> None:
    assert re.findall(r"!\[.+\]\((.+)\)", PAGE) == ["figures/terminal.svg"]
    assert 0 < TERMINAL.stat().st_size < 200_000
    text = TERMINAL.read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\"' )]+", text)) == {"http://www.w3.org/2000/svg"} and "<script" not in text
