"""docs/audit.md prints the table of codes, and its numbers are those of the code."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from aegis.audit import (
    CAVEAT,
    CODES,
    at_end,
    calibration,
    carry_over,
    cells,
    copies,
    cuts,
    drift,
    held,
    history,
    loggers,
    neighbours,
    pairs,
    propensities,
    sizes,
    thinning,
)

PAGE = (Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")


def test_every_code_is_on_the_page_as_it_is_in_the_table() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+?) \| (.+?) \|$", PAGE.split("## Codes")[1], flags=re.M)
    assert rows == [(name, code.meaning, code.fix) for name, code in CODES.items()]


def test_codes_are_kebab_case_and_say_what_to_do() -> None:
    for name, code in CODES.items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
        assert code.meaning.endswith(".") and not code.fix.endswith(".") and "|" not in code.meaning + code.fix


def test_the_page_says_what_the_audit_cannot_do() -> None:
    assert CAVEAT in PAGE


def test_numbers_on_the_page() -> None:
    assert sizes.MOST_DECISIONS == carry_over.MOST_DECISIONS == history.MOST_DECISIONS == 65_536
    assert (calibration.MOST_DECISIONS, thinning.STEP, cuts.MOST_EPISODES, drift.KEPT) == (524_288, 32, 256, 16_384)
    assert (neighbours.MOST_EPISODES, pairs.MOST_PAIRS, copies.MOST) == (16_384, 32_768, 16_384)
    assert (at_end.FEWEST, math.exp(at_end.CHANCE), math.exp(propensities.DOUBT)) == pytest.approx((20, 1000, 20))
    assert (loggers.KEPT, loggers.SAME) == (1024, 0.001)
    assert cells.MOST_PAIRS == 128 and held.LAGS == (1, 2, 3, 4, 5, 6, 8, 12)
