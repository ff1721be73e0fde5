"""Fixed shares that the problem declares: right ones certify what columns with the same numbers do, wrong ones are found."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from aegis.audit import audit_log
from aegis.certificate import certify
from aegis.logs import Source
from aegis.policies import FullColumns
from aegis.problem import Problem, parse_problem
from aegis.rng import stream

SHARES = (0.5, 0.3, 0.2)


def problem_of(propensity: str) -> Problem:
    level = f"{{name: recipe, action: {{column: x, values: [a, b, c]}}, propensity: {propensity}}}"
    return parse_problem(f"episode: order\nreward: {{column: r, range: [0, 1]}}\nlevels: [{level}]")


def orders(count: int = 1500) -> pa.Table:
    rng = stream(7, "shares")
    taken = rng.choice(3, count, p=SHARES)
    reward = (rng.random(count) < np.array([0.3, 0.4, 0.8])[taken]).astype(float)
    columns = {f"p_{place}": np.full(count, share) for place, share in enumerate(SHARES)}
    target = {f"q_{place}": np.full(count, share) for place, share in enumerate((0.1, 0.3, 0.6))}
    return pa.table({"order": np.arange(count), "x": np.array(["a", "b", "c"])[taken], "r": reward, **columns, **target})


def test_right_shares_pass_and_wrong_ones_are_refused() -> None:
    table = orders()
    assert audit_log(Source(table, problem_of("{shares: [0.5, 0.3, 0.2]}"))).verdict == "fit"
    wrong = audit_log(Source(table, problem_of("{shares: [0.2, 0.3, 0.5]}")))
    assert wrong.verdict == "refused"
    assert any("propensit" in item.message for item in wrong.findings)


def test_certificates_are_those_of_columns_with_the_same_numbers() -> None:
    table = orders()
    rows = []
    for form in ("{shares: [0.5, 0.3, 0.2]}", "{columns: [p_0, p_1, p_2]}"):
        problem = problem_of(form)
        target = FullColumns(problem, {"recipe": ("q_0", "q_1", "q_2")})
        rows.append(certify(Source(table, problem), target, ledger=False))
    assert rows[0].certified and rows[0].verdict == rows[1].verdict
    assert rows[0].levels == rows[1].levels
