"""The mean weight that a refusal prints is the one that is tested: nested, over units."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
from small_logs import make_table, problem_of, source_of

from aegis.certificate import Candidate, certify
from aegis.certificate.weight_checks import effective_units, mean_weight, start_balance
from aegis.ope import reward_measure
from aegis.policies import TargetColumns
from aegis.problem import Scope
from aegis.rng import stream


def test_the_mean_weight_is_that_of_the_units() -> None:
    problem = problem_of()
    evidence = start_balance(problem, 0, Scope("dose"), reward_measure(problem))
    assert np.isnan(mean_weight(evidence)) and np.isnan(effective_units(evidence))
    weights = np.exp(stream(1, "balance").normal(size=500))
    weights[:50] = 0.0
    for part in np.split(weights, 5):
        evidence.add([part], None)
    assert mean_weight(evidence) == pytest.approx(weights.mean(), rel=1e-6)
    assert effective_units(evidence) == pytest.approx(weights.sum() ** 2 / (weights**2).sum(), rel=1e-3)


def test_a_refusal_prints_the_nested_mean() -> None:
    problem = problem_of(full=False)
    table = make_table(400, steps=4)
    owner = np.arange(1600) // 4
    step = np.arange(1600) % 4
    kept = np.flatnonzero((owner % 2 == 0) | (step == 0))  # one step in every second batch
    target = np.where(owner % 2 == 0, 0.5, 1.0) * np.asarray(table["p_dose"]) * 1.6
    place = table.column_names.index("new_dose")
    table = table.set_column(place, "new_dose", pa.array(np.minimum(target, 1.0))).take(pa.array(kept))
    candidate = Candidate(TargetColumns(problem, {"dose": "new_dose"}), "columns", columns=("new_dose",))
    found = certify(source_of(table, problem), candidate, scopes=[["dose"]], ledger=False, what=("gain",))
    assert found.verdict.verdict == "refused"
    printed = re.search(r"average ([\d.]+) beyond chance", found.verdict.sentence)
    weights = np.asarray(table["new_dose"]) / np.asarray(table["p_dose"])
    rows = owner[kept]
    nested = (np.bincount(rows, weights=weights) / np.bincount(rows)).mean()
    assert printed is not None and float(printed[1]) == pytest.approx(nested, abs=0.03)
    assert abs(weights.mean() - nested) > 0.1
