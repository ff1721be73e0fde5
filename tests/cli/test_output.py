"""Printing: names are shown as they are."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from aegis.cli.output import console, episode_progress, table


def test_names_with_colons_are_no_emoji(capsys: pytest.CaptureFixture[str]) -> None:
    console().print(table("", ["scope"], [["candidates:mens: email"]]))
    console().print("candidates:mens: email")
    assert capsys.readouterr().out.count("candidates:mens: email") == 2


def test_the_progress_line_ends(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with episode_progress(False) as report:
        report("scaling", 7)
        report("fitting", 9)
    assert screen.getvalue().count("\n") == 1 and screen.getvalue().endswith("fitting: 9 episodes\n")

    def interrupted() -> None:
        with episode_progress(False) as report:
            report("scaling", 7)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert screen.getvalue().endswith("scaling: 7 episodes\n")
    with episode_progress(True) as nothing:
        assert nothing is None
