"""Printing: names are shown as they are."""

from __future__ import annotations

import pytest

from aegis.cli.output import console, table


def test_names_with_colons_are_no_emoji(capsys: pytest.CaptureFixture[str]) -> None:
    console().print(table("", ["scope"], [["candidates:mens: email"]]))
    console().print("candidates:mens: email")
    assert capsys.readouterr().out.count("candidates:mens: email") == 2
