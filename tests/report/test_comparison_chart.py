"""The chart of a comparison: marks keep their kind, and text is escaped."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from aegis.comparison import Comparison, Estimate, LowerBound
from aegis.report.charts.comparison_chart import method_marks


def made_up(goal: str = "maximise") -> Comparison:
    """Return a comparison in which a number that is no certificate would look the best."""
    good = LowerBound("good", "value", 1.0, 0.05, 10, "anytime", True, "certificate", "c")
    bad = LowerBound("bad", "value", 5.0, 0.05, 10, "anytime", False, "not a certificate: x", "c", (), ("x",))
    far = LowerBound("far", "value", -1e6, 0.05, 10, "anytime", True, "certificate", "c")
    guess = Estimate("guess", "value", 2.0, 0.5, 10)
    shared: dict[str, Any] = {"choices": (), "missing": (), "notes": (), "settings": {}}
    return Comparison(
        "c", ("a",), "<EUR>", goal, "episodes", 10, 2, 0.05, 0.05, "not yet", Estimate("legacy", "value", 0.5, 0.1, 10), (guess,),
        (good, bad, far), **shared,
    )  # fmt: skip


@pytest.mark.parametrize("goal", ["maximise", "minimise"])
def test_marks_keep_their_kind_and_text_is_escaped(goal: str, tmp_path: Path) -> None:
    from aegis.report import draw_comparison

    found = made_up(goal)
    assert [(mark.method, mark.kind) for mark in method_marks(found, "value")] == [
        ("good", "certificate"), ("far", "certificate"), ("guess", "estimate"), ("bad", "nominal"),
    ]  # fmt: skip
    draw_comparison(found, tmp_path / "made.svg")
    text = (tmp_path / "made.svg").read_text()
    ElementTree.fromstring(text)
    assert "&lt;EUR&gt;" in text and ("≥ 1" in text) == (goal == "maximise") and ("≤ 1" in text) == (goal == "minimise")
    assert "(5)" in text
