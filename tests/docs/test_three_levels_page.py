"""docs/three-levels.md, followed literally, and its table of `per:` against the rule that it tells."""

from __future__ import annotations

import re
from pathlib import Path

import page_steps
import pytest

from aegis.worlds import make_world

PAGE = page_steps.page("three-levels.md")


@pytest.mark.ci
def test_the_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    reader = page_steps.follow("three-levels.md", tmp_path)
    assert any("batch + recipe + dose" in text for _, text in reader.printed)


def test_per_may_be_what_the_table_says() -> None:
    names = make_world("plant").problem.names
    assert names == ("batch", "recipe", "dose")
    assert re.findall(r"^\| `(\w+)` \|", PAGE, flags=re.M) == ["decision", "recipe", "batch", "episode"]
