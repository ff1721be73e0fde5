"""The order of episodes by their ids, and logs that are sorted by a result."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from audit_cases import audited, taken_only
from hostile_logs import always_high, even, one_level
from scipy import stats

from aegis.audit.checks.independence import id_order
from aegis.certificate import certify
from aegis.logs import Source
from aegis.problem import AnyArray, Batch, parse_problem
from aegis.rng import stream

WEEKEND = """
episode: day
reward: {column: r, range: [0, 1]}
levels:
  - name: dose
    context: [x]
    action: {column: a, values: [0, 1]}
    propensity: {shares: [0.7142857, 0.2857143]}
"""


def log(rng: np.random.Generator, action: AnyArray, ids: AnyArray | None = None) -> Batch:
    """Return one-row episodes in the order of their ids."""
    count = action.size
    found = Batch(np.arange(count), {"dose": even(np.arange(count), action, x=rng.normal(size=count))}, rng.random(count))
    return found if ids is None else replace(found, episode=ids)


def shuffled(rng: np.random.Generator, batch: Batch) -> Batch:
    return batch.take_episodes(rng.permutation(len(batch)))


def test_which_ids_tell_an_order() -> None:
    for ids in (
        np.array([30, 4, 100]),
        np.array([3.5, -1.0, 20.0]),
        np.array(["2024-03-01", "2023-12-31", "2024-03-02"], dtype="datetime64[D]"),
        np.array(["2024-03-01", "2023-12-31", "2024-03-02 07:00"], dtype=object),
        np.array(["day-30", "day-4", "day-100"], dtype=object),
        np.array([(1, 9), (1, 8), (2, 1)], dtype=[("site", int), ("day", int)]),
    ):
        found = id_order(ids)
        assert found is not None and found.tolist() == [1, 0, 2]
        assert id_order(ids[found]) is None
    for texts in (
        ["b", "a", "c"],
        ["A-3", "B-1", "A-2"],
        ["x1y", "x0y", "x2y"],
        ["day-3", "day-1", "?"],
        ["2024-03-01", "7", "3"],
    ):
        assert id_order(np.array(texts, dtype=object)) is None
    assert id_order(np.array([], dtype=object)) is None


@pytest.mark.parametrize("taken", [False, True])
@pytest.mark.parametrize("words", [False, True])
def test_held_actions_in_shuffled_rows_are_found_by_their_ids(taken: bool, words: bool) -> None:
    rng = stream(1, "shuffled", int(words))
    action = rng.permutation(np.arange(60) % 2).repeat(8)
    ids = np.array([f"run {number}" for number in range(480)], dtype=object) if words else None
    batch = shuffled(rng, log(rng, action, ids))
    form = taken_only(one_level(), batch) if taken else (one_level(), batch)
    found = audited(*form).refused
    assert [item.code for item in found] == ["actions-held"] and "in the order of the ids" in found[0].message
    silent = replace(form[1], episode=np.array([f"{number} x" for number in form[1].episode], dtype=object))
    assert audited(form[0], silent).verdict == "fit"


def test_an_action_of_weekends_is_refused_in_any_order_of_rows() -> None:
    rng = stream(2, "weekend")
    day = rng.permutation(1050)
    action = (day % 7 >= 5).astype(np.int64)
    reward = 0.5 + 0.2 * action + 0.2 * rng.random(1050)
    table = pa.table({"day": day, "x": rng.normal(size=1050), "a": action, "r": reward})
    problem = parse_problem(WEEKEND)
    found = certify(Source(table, problem), always_high(problem), what=("gain",), delta=0.05, ledger=False)
    assert found.verdict.verdict == "refused" and "actions-held" in {str(item["code"]) for item in found.findings}


def test_ids_that_were_given_by_action_tell_no_order_of_time() -> None:
    rng = stream(3, "ranges")
    action = np.sort(rng.integers(0, 2, 400))
    for arranged in (action, action[::-1]):
        parts = np.array_split(rng.permutation(400), 3)
        batch = log(rng, arranged)
        assert audited(one_level(), batch.take_episodes(parts[0])).verdict == "fit"
        assert audited(one_level(), *[batch.take_episodes(part) for part in parts]).verdict == "fit"


def test_rows_that_are_sorted_by_action_leave_the_order_of_ids() -> None:
    rng = stream(4, "sorted rows")
    held = log(rng, rng.integers(0, 2, 60).repeat(8))
    fresh = log(rng, rng.integers(0, 2, 480))
    for batch, codes in ((held, {"order-unknown", "actions-held"}), (fresh, {"order-unknown"})):
        rows = np.argsort(batch.levels["dose"].action, kind="stable")
        assert set(audited(one_level(), batch.take_episodes(rows)).codes()) == codes


@pytest.mark.parametrize("runs", [50, pytest.param(300, marks=pytest.mark.ci)])
def test_shuffled_logs_in_order_keep_the_level_of_the_test(runs: int) -> None:
    alarms, alpha = 0, 0.1
    for run in range(runs):
        rng = stream(run, "honest ids")
        batch = shuffled(rng, log(rng, rng.integers(0, 2, 60)))
        form = taken_only(one_level(), batch) if run % 2 else (one_level(), batch)
        alarms += "actions-held" in audited(*form, alpha=alpha).codes("refused")
    assert stats.binomtest(alarms, runs, alpha, alternative="greater").pvalue > 0.001
