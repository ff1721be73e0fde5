"""docs/deterministic.md, followed literally: refused before, certified after, and the plan between them."""

from __future__ import annotations

from pathlib import Path

import page_steps


def test_the_example_goes_as_shown(tmp_path: Path) -> None:
    reader = page_steps.follow("deterministic.md", tmp_path)
    printed = [text for _, text in reader.printed]
    assert any("deterministic-level" in text for text in printed)
    assert any("Certified: with probability at least 95 %" in text for text in printed)
