"""The walk-throughs under docs/examples/, typed as they stand: what they show is what is printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from real_data import published
from walk_through import alike, blocks, commands, follow

from aegis.adapters import DATASETS

# By page, the data set it reads, and how its commands end, one after the other: 0 done, 2 bad input, 3 not yet, 4 refused.
ENDS = {
    "heartsteps.md": ("heartsteps", [0, 4, 0, 3, 0]),
    "open-bandit.md": ("open-bandit", [0, 4, 0, 0, 3, 0, 3, 0, 3, 0, 3]),
    "oats.md": ("oats", [0, 0, 3, 2, 0, 0]),
    "hillstrom.md": ("hillstrom", [0, 0, 0, 0, 0, 0]),
}


@pytest.mark.parametrize("page", ENDS)
def test_a_page_shows_what_its_commands_print(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, ends = ENDS[page]
    done = follow(page, tmp_path, published(name), monkeypatch)
    assert [code for code, _ in done.values()] == ends, list(done)


def test_no_page_is_left_out() -> None:
    of_their_own = {"docs/tutorial.md"}  # tests/docs/test_tutorial_page.py
    assert {entry.page for entry in DATASETS.values()} == {f"docs/examples/{page}" for page in ENDS} | of_their_own
    for page, (_, ends) in ENDS.items():
        shown = [pair for kind, text in blocks(page) if kind == "console" for pair in commands(text)]
        assert len(shown) == len(ends) and all(command.startswith(("aegis ", "python ")) and lines for command, lines in shown)


def test_a_changed_number_or_word_is_noticed() -> None:
    assert alike("certified 0.100  of 1,000", "certified 0.101 of 1,001")
    assert not alike("certified 0.100", "certified 0.110")
    assert not alike("certified 0.100", "refused 0.100")
