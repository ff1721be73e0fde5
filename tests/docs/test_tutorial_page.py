"""docs/tutorial.md, followed literally, gives what it shows: a refusal that teaches what to log, a certificate, a 'not yet'."""

from __future__ import annotations

import json
from pathlib import Path

import page_steps


def test_the_tutorial_gives_what_it_shows(tmp_path: Path) -> None:
    reader = page_steps.follow("tutorial.md", tmp_path)
    printed = [text for _, text in reader.printed]
    assert sum("no-propensity" in text for text in printed) == 1
    assert json.loads((tmp_path / "certificate.json").read_text())["verdict"] == "certified"
    assert any(text.startswith("Not yet:") for text in printed)
    assert "<html" in (tmp_path / "report.html").read_text()[:1000]


def test_the_way_is_as_long_as_it_says() -> None:
    headings = [line for line in page_steps.page("tutorial.md").splitlines() if line.startswith("## ")]
    assert [line.split(".")[0] for line in headings[:-1]] == [f"## {number}" for number in range(1, 11)]
