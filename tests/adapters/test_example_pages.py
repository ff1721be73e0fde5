"""The walk-throughs under docs/examples/, typed as they stand: what they show is what is printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from real_data import published
from walk_through import DOCS, alike, blocks, commands, follow


@pytest.mark.parametrize(
    ("name", "page"), [("heartsteps", "heartsteps.md"), ("open-bandit", "open-bandit.md"), ("oats", "oats.md")]
)
def test_a_page_shows_what_its_commands_print(name: str, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = follow(page, tmp_path, published(name), monkeypatch)
    assert len(done) >= 4
    for command, (code, out) in done.items():
        assert code in (0, 3, 4), f"{command}\n{out}"


def test_no_page_is_left_out() -> None:
    assert {path.name for path in DOCS.glob("*.md")} >= {"heartsteps.md", "open-bandit.md", "oats.md"}
    for page in ("heartsteps.md", "open-bandit.md", "oats.md"):
        shown = [pair for kind, text in blocks(page) if kind == "console" for pair in commands(text)]
        assert all(command.startswith("aegis ") for command, _ in shown)
        assert sum(bool(lines) for _, lines in shown) >= 4


def test_a_changed_number_or_word_is_noticed() -> None:
    assert alike("certified 0.100  of 1,000", "certified 0.101 of 1,001")
    assert not alike("certified 0.100", "certified 0.110")
    assert not alike("certified 0.100", "refused 0.100")
