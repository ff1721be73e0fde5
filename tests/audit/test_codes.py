"""docs/audit.md prints the table of codes, and its numbers are those of the code."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from aegis.audit import CAVEAT, CODES, check, slices
from aegis.audit.checks import calibration, carry_over, drift, duplicates, independence, propensities, rewards

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
    assert carry_over.MOST_DECISIONS == propensities.MOST_DECISIONS == 65_536
    assert (calibration.MOST_CALIBRATED, check.STEP, slices.MOST_EPISODES, drift.KEPT) == (524_288, 32, 256, 16_384)
    assert (independence.MOST_EPISODES, carry_over.MOST_DECISION_PAIRS, duplicates.MOST) == (16_384, 32_768, 16_384)
    assert (rewards.FEWEST_ENDS, math.exp(rewards.CHANCE), math.exp(propensities.DOUBT)) == pytest.approx((20, 1000, 20))
    assert (drift.KEPT_LOGGERS, drift.SAME_DISTRIBUTION) == (1024, 0.001)
    assert slices.MOST_PAIRS == 128 and independence.EPISODE_LAGS == (1, 2, 3, 4, 5, 6, 8, 12)
