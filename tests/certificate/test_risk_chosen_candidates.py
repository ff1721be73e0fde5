"""The attack that the ledger is for: look at many candidates at a null, and ask for the combination that looks best."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from aegis.certificate import COMPARE, Certificate, LookTerms, Request, certify, issue_certificate, register
from aegis.logs import Source
from aegis.policies import TargetColumns
from aegis.problem import parse_problem
from aegis.rng import stream

LOOKS, EPISODES = 27, 800
ALLOWED = 5  # of 40 logs; more come with a probability of 1.4 % where each has one of 5 %
LUCKY = 0  # a log on which the attack succeeds where no ledger is kept
PROBLEM = parse_problem(
    f"""
episode: unit
reward: {{column: reward, range: [0, 1]}}
levels:
  - name: level
    context: [{{column: slice, values: [{", ".join(f"s{number}" for number in range(LOOKS))}]}}]
    action: {{column: action, values: [a, b]}}
    propensity: {{policy: uniform}}
"""
)


def null_log(seed: int) -> pa.Table:
    """Return a log whose rewards do not depend on actions, with a column for each candidate, which takes b in one slice."""
    rng = stream(seed, "null log")
    where, action = rng.integers(0, LOOKS, EPISODES), rng.integers(0, 2, EPISODES)
    candidates = {f"new{number}": np.where(where == number, 1.0 * (action == 1), 0.5) for number in range(LOOKS)}
    return pa.table(
        {
            "unit": np.arange(EPISODES),
            "slice": [f"s{number}" for number in where],
            "action": np.array(["a", "b"])[action],
            "reward": (rng.random(EPISODES) < 0.5).astype(float),
            **candidates,
        }
    )


def policy(column: str) -> TargetColumns:
    return TargetColumns(PROBLEM, {"level": column})


def best_combination(table: pa.Table, signs: list[float]) -> pa.Table:
    """Return the log with a column of the candidate that takes in each slice the action that looked better there."""
    where = np.array([int(name[1:]) for name in table["slice"].to_pylist()])
    better = np.where(np.array(signs)[where] > 0, "b", "a")
    return table.append_column("best", [1.0 * (np.array(table["action"].to_pylist()) == better)])


def attacked(seed: int, folder: Path) -> tuple[Certificate, Certificate]:
    """Look at 27 candidates, and return the certificate of their best combination with the ledger, and without one."""
    table = null_log(seed)
    source = Source(table, PROBLEM)
    looks = [
        issue_certificate(source, Request.of(PROBLEM, policy(f"new{number}"), what=("gain",)), LookTerms(folder, COMPARE))
        for number in range(LOOKS)
    ]
    chosen = Source(best_combination(table, [look.levels[0].estimate or 0.0 for look in looks]), PROBLEM)
    first, second = (certify(chosen, policy("best"), what=("gain",), ledger=ledger) for ledger in (folder, False))
    return first, second


def all_registered(seed: int, folder: Path) -> list[Certificate]:
    """Return the certificates of 27 registered requests."""
    source = Source(null_log(seed), PROBLEM)
    for number in range(LOOKS):
        register(source, policy(f"new{number}"), what=("gain",), ledger=folder)
    return [certify(source, policy(f"new{number}"), what=("gain",), ledger=folder) for number in range(LOOKS)]


def test_the_best_combination_after_27_looks_is_no_certificate(tmp_path: Path) -> None:
    """Its column is new, so that the file is another one: the rows are known again."""
    with_ledger, without = attacked(LUCKY, tmp_path)
    assert without.certified and without.exit_code == 0
    assert with_ledger.exit_code == 4 and with_ledger.findings[0]["code"] == "chosen-after-results"


@pytest.mark.ci
def test_27_registered_requests_share_the_risk(tmp_path: Path) -> None:
    found = all_registered(LUCKY, tmp_path)
    assert {round(certificate.settings["delta"] * LOOKS, 12) for certificate in found} == {0.05}
    assert not any(certificate.certified for certificate in found)


@pytest.mark.soak
def test_at_a_null_the_best_combination_is_certified_in_few_logs(tmp_path: Path) -> None:
    chosen = [attacked(seed, tmp_path / f"best {seed}") for seed in range(40)]
    assert sum(without.certified for _, without in chosen) > ALLOWED  # the attack works where no ledger is kept
    assert sum(with_ledger.certified for with_ledger, _ in chosen) == 0  # refused, whatever the numbers
    wrong = [any(one.certified for one in all_registered(seed, tmp_path / f"all {seed}")) for seed in range(40)]
    assert sum(wrong) <= ALLOWED
