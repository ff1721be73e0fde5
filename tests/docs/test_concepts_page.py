"""docs/concepts.md: its code prints what it shows, its small table is right, and its words are those of the product."""

from __future__ import annotations

import math
import re
from pathlib import Path

import page_steps
import pytest

from aegis.audit import CODES
from aegis.certificate import CERTIFIED, NOT_YET, REFUSED

PAGE = page_steps.page("concepts.md")


def test_the_code_prints_what_the_page_shows(tmp_path: Path) -> None:
    page_steps.follow("concepts.md", tmp_path)


def test_the_weights_of_the_table_are_ratios() -> None:
    rows = re.findall(r"^\| spray \d \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", PAGE, flags=re.M)
    assert len(rows) == 3
    for legacy, candidate, weight in rows:
        assert float(candidate) / float(legacy) == pytest.approx(float(weight))


def test_the_price_of_a_smaller_delta() -> None:
    (told,) = re.findall(r"([\d.]+) times as long\s+as 0.05", PAGE)
    assert round(math.log(1000) / math.log(20), 1) == float(told)


def test_the_verdicts_are_those_of_a_certificate() -> None:
    assert re.findall(r"^\| `([a-z ]+)` \|", PAGE, flags=re.M) == [CERTIFIED, NOT_YET, REFUSED]
    assert "carry-over" in CODES and "duplicated-episodes" in CODES  # what the audit is said to find
