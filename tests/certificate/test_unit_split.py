"""Which units are certified: the other side of the candidate's split, nothing that placed a grid, nothing after an open unit."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from small_logs import better_policy, make_table, problem_of, replaced, source_of

from aegis.certificate import REFUSED, Candidate, DataDigest, UnitSplit, certify, first_open_unit, learned_splits
from aegis.certificate.unit_split import LEAST_PLACING, placing_split
from aegis.errors import RefusedError
from aegis.logs import Source, Split, log_digest
from aegis.problem import Problem

TIMED = "time: started"
CLOSED = ", closed: closed"


def learned(problem: Problem, source: Source, split: Split | None, name: str = "learned", same: bool = True) -> Candidate:
    digest = log_digest(source.files) if same else "another log"
    record = {"split": None if split is None else split.describe(), "log": {"digest": digest}}
    return Candidate(better_policy(problem), name, record=record)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return make_table(120)


def test_only_the_other_side_of_the_split_is_certified(table: pa.Table) -> None:
    problem = problem_of()
    source = source_of(table, problem)
    split = Split("hash", "mine", 0.4)
    certificate = certify(source, learned(problem, source, split), ledger=False)
    kept = len(source.read(side="certify", split=split))
    assert certificate.counts["certified_episodes"] == kept
    assert certificate.counts["prior_episodes"] == 120 - kept
    assert certificate.splits == (split.describe(),)
    assert all(level.units == kept for level in certificate.levels)


def test_two_splits_leave_what_neither_candidate_has_seen(table: pa.Table) -> None:
    problem = problem_of()
    source = source_of(table, problem)
    splits = (Split("hash", "one", 0.3), Split("hash", "two", 0.3))
    candidates = [learned(problem, source, split, f"c{k}") for k, split in enumerate(splits)]
    certificate = certify(source, candidates, ledger=False)
    batch = source.read()
    kept = ~splits[0].prior(problem, batch) & ~splits[1].prior(problem, batch)
    assert certificate.counts["certified_episodes"] == int(kept.sum())
    sides = UnitSplit(splits)
    assert not (sides.prior(problem, batch) & sides.certified(problem, batch)).any()


def test_rewards_of_the_prior_side_do_not_count(table: pa.Table) -> None:
    """The sums are those of the certified units alone: what the others earned places grids, no more."""
    problem = problem_of()
    source = source_of(table, problem)
    split = Split("hash", "mine", 0.5)
    prior = split.prior(problem, source.read())
    ids = np.array(source.read().episode)[prior]
    rewards = table["margin"].to_numpy().copy()
    rewards[np.isin(table["batch"].to_numpy(zero_copy_only=False), ids)] = 0.0
    changed = source_of(replaced(table, "margin", rewards), problem)
    found = [certify(s, learned(problem, s, split), method="plain", ledger=False).level("dose") for s in (source, changed)]
    assert found[0].estimate == found[1].estimate and found[0].legacy_value == found[1].legacy_value


def test_a_policy_fitted_on_all_rows_of_this_log_is_refused(table: pa.Table) -> None:
    problem = problem_of()
    source = source_of(table, problem)
    certificate = certify(source, learned(problem, source, None), ledger=False)
    assert certificate.verdict.verdict == REFUSED
    assert "fitted on all rows of this log" in certificate.verdict.sentence
    assert all(level.gain_lower is None for level in certificate.levels)
    elsewhere = certify(source, learned(problem, source, None, same=False), ledger=False)
    assert elsewhere.verdict.verdict != REFUSED


def test_fresh_is_believed_of_other_logs_only(table: pa.Table) -> None:
    problem = problem_of()
    source = source_of(table, problem)
    split = Split("hash", "mine", 0.5)
    assert learned_splits(source, [learned(problem, source, split, same=False)], True, DataDigest.of(source)) == ()
    with pytest.raises(RefusedError, match="learned from this very log"):
        learned_splits(source, [learned(problem, source, split)], True, DataDigest.of(source))
    assert certify(source, learned(problem, source, split), fresh=True, ledger=False).verdict.verdict == REFUSED


@pytest.mark.parametrize("units", [1, 5, 30, 100, 399, 400, 5000, None])
def test_enough_units_are_set_apart_to_place_grids(units: int | None) -> None:
    split = placing_split(units)
    if units is None:
        assert split.fraction == 0.05
    else:
        assert split.fraction * units >= min(LEAST_PLACING, units / 2, LEAST_PLACING) * (1 - 1e-12)
        assert split.fraction <= 0.5
    assert (split.kind, split.key) == ("hash", "grid")


def test_units_after_the_first_open_one_wait(table: pa.Table) -> None:
    """Two episodes start at each time; one that is open at time 40 holds back all from 40 on, closed ones too."""
    problem = problem_of(head=TIMED, reward=CLOSED)
    started, rewards = table["started"].to_numpy(), table["margin"].to_numpy().copy()
    awaiting = (table["batch"].to_numpy(zero_copy_only=False) == "b00081") & (table["step"].to_numpy() == 1)
    rewards[awaiting] = np.nan
    late = replaced(replaced(table, "closed", ~awaiting), "margin", pa.array(rewards, from_pandas=True))
    assert started[awaiting].tolist() == [40]
    shuffled = late.take(np.random.default_rng(1).permutation(late.num_rows))
    for rows in (late, shuffled):
        source = source_of(rows, problem)
        opening = first_open_unit(source)
        assert opening is not None and opening.first == 40
        certificate = certify(source, better_policy(problem), ledger=False)
        assert certificate.counts["waiting_episodes"] == 40
        assert certificate.counts["certified_episodes"] + certificate.counts["prior_episodes"] == 80
    assert first_open_unit(source_of(table, problem)) is None


def test_quick_failures_and_slow_successes_do_not_enter_at_different_times() -> None:
    """Good episodes of late units are still open: counting what is closed would see failures of the legacy only."""
    table = make_table(400, target="worse")
    problem = problem_of(head=TIMED, reward=CLOSED)
    rewards, started = table["margin"].to_numpy().copy(), table["started"].to_numpy()
    open_ones = (started >= 60) & (rewards > 0.5)
    rewards[open_ones] = np.nan
    late = replaced(replaced(table, "closed", ~open_ones), "margin", pa.array(rewards, from_pandas=True))
    certificate = certify(source_of(late, problem), better_policy(problem), ledger=False)
    first = started[open_ones].min()
    assert certificate.counts["waiting_episodes"] == 400 - 2 * first
    assert certificate.counts["certified_episodes"] <= 2 * first


def test_a_cluster_waits_as_a_whole_and_counts_from_its_first_episode(table: pa.Table) -> None:
    """Lines have four episodes, two at each of two times: an open one holds back its line and all lines that started later."""
    problem = problem_of(head=f"{TIMED}\ncluster: line", reward=CLOSED)
    ids = table["batch"].to_numpy(zero_copy_only=False)
    awaiting = ids == "b00043"  # the last episode of line 10, which started at 20 and goes on at 21
    rewards = np.where(awaiting, np.nan, table["margin"].to_numpy())
    late = replaced(replaced(table, "closed", ~awaiting), "margin", pa.array(rewards, from_pandas=True))
    source = source_of(late, problem)
    opening = first_open_unit(source)
    assert opening is not None and opening.first == 20
    batch = source.read()
    kept = UnitSplit((), opening).certified(problem, batch)
    assert sorted(set(np.array(batch.cluster)[kept])) == [f"l{k:04d}" for k in range(10)]
    assert certify(source, better_policy(problem), ledger=False).counts["waiting_episodes"] == 120 - 40


def test_open_units_need_a_time(table: pa.Table) -> None:
    problem = problem_of(reward=CLOSED)
    certificate = certify(source_of(table, problem), better_policy(problem), ledger=False)
    assert certificate.verdict.verdict == REFUSED
    assert "'time'" in certificate.verdict.sentence


def test_the_order_of_text_is_not_that_of_time(table: pa.Table) -> None:
    """As text 100 comes before 99: every unit that started later would count as earlier."""
    problem = problem_of(head=TIMED, reward=CLOSED)
    words = pa.array([f"day {time}" for time in table["started"].to_pylist()])
    certificate = certify(source_of(replaced(table, "started", words), problem), better_policy(problem), ledger=False)
    assert certificate.verdict.verdict == REFUSED
    assert "column 'started'" in certificate.verdict.sentence and "text" in certificate.verdict.sentence
