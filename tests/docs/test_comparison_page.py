"""docs/comparison.md: every figure is that of benchmarks/RESULTS.md, and there are none elsewhere on the page.

When a section of RESULTS.md was measured anew, `python benchmarks/comparison_page.py` writes the figures again.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from comparison_page import BLOCKS, END, PAGE, START, section, written  # noqa: E402

TEXT = PAGE.read_text(encoding="utf-8")
RESULTS = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")


def test_the_figures_are_those_of_the_results() -> None:
    assert written(TEXT, RESULTS) == TEXT, "write them again: python benchmarks/comparison_page.py"


def test_a_stale_figure_is_noticed() -> None:
    shown = next(re.finditer(r"\d+\.\d%", TEXT)).group(0)
    assert written(TEXT.replace(shown, "99.9%"), RESULTS) == TEXT


def test_every_rate_on_the_page_stands_in_the_results() -> None:
    block = TEXT.split(START.format(name="looks"))[1].split(END.format(name="looks"))[0]
    figures = re.findall(r"-?\d+(?:\.\d)?%", block)
    assert len(figures) > 30
    own = section(RESULTS, "Looking fifty times")
    assert all(figure in own for figure in figures)


def test_there_are_no_figures_in_the_prose() -> None:
    prose = TEXT
    for name in BLOCKS:
        before, rest = prose.split(START.format(name=name))
        prose = before + rest.split(END.format(name=name))[1]
    assert not re.findall(r"\d", re.sub(r"\]\([^)]*\)", "", prose))


def test_a_section_that_is_gone_is_named() -> None:
    with pytest.raises(SystemExit, match="no section 'Peers'"):
        section("# Results\n", "Peers")


def test_every_peer_of_the_measurements_is_on_the_page() -> None:
    table = TEXT.split("## In one table")[1].split("\n## ")[0]
    for row in re.findall(r"^\| ([^|]+) \| [^|]+ \| [\d.]+ \w+ \(", section(RESULTS, "Peers"), flags=re.M):
        assert f"[{row.strip().removesuffix(' gcm')}]" in table, row
