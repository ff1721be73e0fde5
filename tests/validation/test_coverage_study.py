"""Studies of coverage in a few runs: bounds stay below the truth, and the harness finds a learner that peeks.

`make soak-short` repeats every study thirty times; here are one of each kind.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom
from validation_cases import (
    CLUSTER,
    ClaimOutcome,
    Study,
    all_kinds,
    coverage,
    gates,
    joint_violations,
    null,
    repeat_episodes,
    studies,
    violation_rates,
)

from aegis.certificate import Candidate, UnitSplit
from aegis.errors import SettingError
from aegis.ope import LOGGER_COMPARATOR, Comparator
from aegis.policies import Function
from aegis.problem import Array, Batch, Level, Problem, Rows
from aegis.rng import stream
from aegis.validation import excess_p_value
from aegis.worlds import make_world
from case_choice import few

BARELY = 1e-3  # a p-value below this in a handful of pinned runs is no accident
INNER_AND_BOTH = (("inner",), ("meta", "inner"))
REDUCED: dict[str, tuple[int, tuple[tuple[str, ...], ...]]] = {
    "additive, sign": (6, INNER_AND_BOTH),
    "three-level plant, natural": (2, (("dose",), ("batch", "recipe", "dose"))),
    "clinic in clusters, natural": (4, (("dose",), ("plan", "dose"))),
    "null, sign": (8, (("inner",), ("meta",))),
    "slightly worse, uniform": (8, (("inner",),)),
}
OVER_INCUMBENT: dict[str, tuple[int, tuple[tuple[str, ...], ...] | None]] = {  # None: the scopes of the study
    "incumbent: linear, constant": (3, None),
    "incumbent: clinic in clusters, totals": (3, (("dose",), ("plan", "dose"))),
    "incumbent: null, constant": (6, None),
    "incumbent: null with a guard, sign": (4, (("inner",),)),
    "incumbent: slightly worse, sign": (6, None),
    "incumbent: null, taken only, sign": (8, None),
    "incumbent: null, taken only, without a rate, constant": (8, None),
}


@pytest.mark.parametrize("name", few(REDUCED, ["additive, sign", "null, sign"]))
def test_bounds_stay_below_the_truth_in_a_few_runs(name: str) -> None:
    runs, scopes = REDUCED[name]
    study = replace(studies()[name], oracle_episodes=1000, scopes=scopes)
    outcomes = coverage(study, range(runs))
    for rate in violation_rates(outcomes, study.delta):
        assert rate.runs == runs
        assert rate.p_value > BARELY, rate
    for violations, count in joint_violations(outcomes).values():
        assert excess_p_value(violations, count, study.delta) > BARELY


@pytest.mark.parametrize("name", few(OVER_INCUMBENT, ["incumbent: null, constant", "incumbent: slightly worse, sign"]))
def test_bounds_of_gains_over_the_incumbent_stay_below_the_truth_in_a_few_runs(name: str) -> None:
    runs, scopes = OVER_INCUMBENT[name]
    study = studies()[name]
    study = replace(study, oracle_episodes=1000, scopes=scopes or study.scopes)
    outcomes = coverage(study, range(runs))
    most = int(binom.ppf(0.99, runs, study.delta))
    for rate in violation_rates(outcomes, study.delta):
        assert rate.violations <= most, rate
    for violations, count in joint_violations(outcomes).values():
        assert count == runs and violations <= most


def test_evidence_for_more_than_is_possible_counts_as_a_violation() -> None:
    """The value is close to the top of its range, and certify would refuse this log: the run is not left out."""
    study = replace(
        studies()["incumbent: linear, constant"], methods=("plain",), scopes=(("meta", "inner"),), oracle_episodes=500
    )
    value = next(outcome for outcome in coverage(study, [122]) if outcome.what == "value")
    assert value.bound == 1.0 and value.truth < 1.0 and value.alone


def test_gains_over_the_log_are_not_gains_over_the_incumbent() -> None:
    """Who does not explore earns more than the log: judged over the logger the same null is certified, and rightly so."""
    study = replace(studies()["incumbent: null, constant"], episodes=600, scopes=(("inner",),), methods=("auto",), what=("gain",))
    (over,) = coverage(study, [0])
    assert over.bound < 0 and over.truth == 0.0 and not over.alone
    (log,) = coverage(replace(study, comparator="logger", known_gain=None), [0])
    assert log.truth == pytest.approx(0.4 * 1.0 * 2.0 / 20.0, abs=0.01)
    assert over.bound < log.bound < log.truth


@pytest.mark.parametrize("name", few(gates(), list(gates())[:2]))
def test_nothing_is_handed_over_or_certified_without_a_gain_over_the_incumbent(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, run = 8, gates()[name].prepare()
    found = [item for number in range(runs) for item in run(number)]
    assert sum(item["wrong"] for item in found) <= (0 if "equal" in name else binom.ppf(0.99, runs, 0.05))
    if "beats" in name:  # exploration is all that a handover could save: compared with the log it is handed over soon
        monkeypatch.setattr(Comparator, "of", lambda *given, **named: LOGGER_COMPARATOR)
        assert sum(item["wrong"] for number in range(3) for item in run(number)) >= 2
    if "upgrade" in name or "equal" in name:  # the first handover was right; the reason of a refusal is the identity
        assert sum(item["other"] for item in found) >= (runs if "equal" in name else 6)


@pytest.mark.parametrize("name", ["null, sign", "null, constant"])
@pytest.mark.ci
def test_bounds_stay_below_the_truth_on_long_logs(name: str) -> None:
    """Where bounds come close to the truth, weights that are a fifth too large show at once."""
    study = replace(studies()[name], episodes=1500, scopes=(("inner",),), methods=("auto", "plain"))
    outcomes = coverage(study, range(2))
    assert not any(outcome.alone for outcome in outcomes)
    assert all(outcome.truth - outcome.bound < 0.25 for outcome in outcomes)


def test_learned_gains_are_certified_so_that_the_bounds_say_something() -> None:
    outcomes = coverage(replace(studies()["additive, uniform"], oracle_episodes=1000, methods=("auto", "plain")), range(3))
    found = {(rate.method, rate.scope, rate.what): rate for rate in violation_rates(outcomes, 0.05)}
    inner = found["auto", ("inner",), "gain"]
    assert 0 < inner.bound < inner.truth
    assert found["auto", ("inner",), "value"].bound > 0.5
    assert found["plain", ("meta", "inner"), "value"].bound > 0.1
    assert inner.moved >= 0.5


@pytest.mark.parametrize("name", [name for name in studies() if name.startswith(("null", "incumbent: null"))])
def test_nulls_move_far_from_the_legacy(name: str) -> None:
    assert min(outcome.moved for outcome in coverage(replace(studies()[name], methods=("plain",)), [0])) >= 0.5


class Peeking:
    """A learner that remembers the best certified decisions and repeats what was done there; it is uniform elsewhere."""

    def __call__(self, problem: Problem, log: Batch, run: int) -> tuple[Candidate, UnitSplit]:
        table, reward = log.levels["inner"], np.asarray(log.reward)
        best = np.flatnonzero(reward > np.quantile(reward, 0.97))
        repeats = {float(table.context["Q"][row]): int(table.action[row]) for row in best}

        def choose(level: Level, rows: Rows) -> Array:
            found = np.array([repeats.get(float(value), -1) for value in rows["Q"]])
            return np.where(found[:, None] < 0, 1 / 11, np.arange(11) == found[:, None])

        return Candidate(Function(problem, choose, ["inner"], WITHOUT_EFFECT.legacy("uniform"))), UnitSplit(())


WITHOUT_EFFECT = make_world("additive", f_a=0.0, inner_steps=5)  # no inner action matters: every gain is exactly 0


def test_the_harness_catches_a_candidate_that_has_seen_the_certified_units() -> None:
    study = Study(WITHOUT_EFFECT, "uniform", Peeking(), 200, scopes=(("inner",),), oracle_episodes=500, known_gain=0.0)
    outcomes = coverage(replace(study, methods=("auto", "plain")), range(4))
    for rate in violation_rates(outcomes, 0.05):
        if rate.what == "gain":
            assert rate.violations == 4, rate
            assert rate.p_value < BARELY


def test_a_run_depends_on_its_number_alone() -> None:
    study = replace(studies()["null, sign"], methods=("plain",))
    assert coverage(study, [4]) == [outcome for outcome in coverage(study, [3, 4]) if outcome.run == 4]
    seen: list[int] = []
    coverage(study, [1, 0], seen.append)
    assert seen == [1, 0]


def test_clusters_are_whole_copies() -> None:
    study = Study(make_world("clinic"), "uniform", all_kinds, 40, clustered=True)
    assert study.problem.cluster == CLUSTER
    legacy = study.world.legacy("uniform")
    plain, log = study.world.episodes(0, 40, legacy, 3), repeat_episodes(study.world.episodes(0, 40, legacy, 3), stream(1, "x"))
    assert log.cluster is not None
    assert set(log.cluster.tolist()) == set(range(40))
    assert 40 < len(log) <= 120 and len(np.unique(log.episode)) == len(log)
    means = plain.episode_means(plain.reward)  # type: ignore[arg-type]
    assert log.episode_means(log.reward) == pytest.approx(means[log.cluster.astype(int)])  # type: ignore[arg-type]


def test_rates_and_families() -> None:
    def one(run: int, what: str, alone: bool, shared: bool) -> ClaimOutcome:
        return ClaimOutcome(run, "auto", ("inner",), what, 0.5, 0.1 * run, alone, shared, 10, 0.7)

    outcomes = [
        one(0, "gain", True, False),
        one(0, "value", True, True),
        one(1, "gain", False, False),
        one(1, "value", True, True),
    ]
    gain, value = violation_rates(outcomes, 0.05)
    assert (gain.what, gain.violations, gain.share, gain.runs) == ("gain", 1, 0.5, 2)
    assert (value.violations, value.bound) == (2, 0.05)
    assert value.p_value == pytest.approx(0.05**2)
    assert gain.p_value == pytest.approx(1 - 0.95**2)
    assert joint_violations(outcomes) == {"auto": (2, 2)}
    assert value.plain()["violations"] == 2


def test_a_study_needs_episodes() -> None:
    with pytest.raises(SettingError, match="two episodes or more"):
        Study(WITHOUT_EFFECT, "uniform", null((0.0, 0.0)), 1)
