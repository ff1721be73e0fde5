"""The chart of a plan: a panel for each level, a line for each cap, and what is wanted as a rule."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

from aegis.report import draw_plan

SVG = "{http://www.w3.org/2000/svg}"


def test_caps_are_lines_and_a_level_without_numbers_says_so(tmp_path: Path) -> None:
    rows = [
        SimpleNamespace(explore=rate, cap=cap, episodes=int(100 / rate), likely=int(200 / rate))
        for rate in (0.1, 0.5)
        for cap in (2.0, float("inf"))
    ]
    levels = [SimpleNamespace(level="dose", rows=rows), SimpleNamespace(level="<plan>", rows=[])]
    plan = SimpleNamespace(levels=levels, wanted=500, unit_word="episodes")
    draw_plan(plan, tmp_path / "plan.svg")  # type: ignore[arg-type]
    drawn = ElementTree.parse(tmp_path / "plan.svg").getroot()
    first, second = drawn.findall(f"{SVG}g")
    assert len(first.findall(f"{SVG}polyline")) == 4  # two caps, half of the studies and nine in ten
    assert {"W = 2", "no cap", "≤ 500"} <= {text.text for text in first.iter(f"{SVG}text")}
    words = [text.text for text in second.iter(f"{SVG}text")]
    assert words == ["<plan>: episodes until a certificate", "no exploration rate and cap has a certificate here"]
