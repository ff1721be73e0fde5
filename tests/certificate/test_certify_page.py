"""docs/certify.md: its numbers are those of the code."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

from aegis.certificate import candidate, digests, unit_split
from aegis.certificate.certificate import Sensitivity
from aegis.certificate.results import GAMMAS
from aegis.problem import fingerprints, parse_problem

TEXT = (Path(__file__).parents[2] / "docs" / "certify.md").read_text(encoding="utf-8")
PAGE = " ".join(TEXT.split())
PROBLEM = """
episode: batch
reward: {{column: margin, range: [0, 40]}}
levels:
  - name: dose
    context: [temperature]
    action: {{column: dose, values: [1, 2, 3]}}
    {propensity}
"""


def test_numbers_on_the_page() -> None:
    for text, number in (
        (f"up to {fingerprints.MOST_FINGERPRINTS} of the episodes", 4096),
        (f"below {candidate.CONTAMINATION_ALPHA:g}", 1e-4),
        (f"up to {digests.MOST_HASHED_ROWS:,} rows".replace(",", " "), 2**20),
        (f"at most {digests.MOST_BLOCKS} blocks", 1024),
        (f"more than {unit_split.HEAD_ROWS:,} rows".replace(",", " "), 400_000),
        (f"makes {unit_split.LEAST_PLACING} on average", 20),
    ):
        assert text.replace("e-0", "e-").replace("0.0001", "1e-4") in PAGE, (text, number)
    assert unit_split.PLACING_SHARE == 1 / 20 and "a twentieth of them" in PAGE


def test_the_sensitivity_on_the_page_has_its_fields() -> None:
    (shown,) = re.findall(r'^    ("sensitivity": .*\n .*)$', TEXT, flags=re.M)
    found = json.loads(f"{{{shown}}}")["sensitivity"]
    assert sorted(found) == sorted(item.name for item in fields(Sensitivity))
    assert tuple(found["tried"]) == GAMMAS and found["gamma"] in GAMMAS


def test_the_propensity_on_the_page_is_one() -> None:
    (shown,) = re.findall(r"^    (propensity: .*)$", TEXT, flags=re.M)
    (level,) = parse_problem(PROBLEM.format(propensity=shown)).levels
    assert (level.propensity.column, level.propensity.estimated, level.propensity.wrong_by) == ("p_dose", True, 1.5)
