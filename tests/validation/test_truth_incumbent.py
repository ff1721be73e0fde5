"""The truth of gains over the incumbent: from simulation alone, the same as by integration, and null where a study claims so."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from validation_cases import Study, studies

from aegis.errors import SettingError
from aegis.ope import Comparator
from aegis.policies import Capped, Floored, Function, Hybrid, Logged, StatedIncumbent, with_incumbent, without_exploration
from aegis.problem import Array, Batch, Incumbent, Level, Policy, Problem, Propensity, Rows
from aegis.validation import (
    LearnerSetting,
    LongRuns,
    Oracle,
    acting_incumbent,
    judge_for,
    make_trial,
    named_learner,
    problem_with_comparator,
    runnable_policy,
    validate,
)
from aegis.validation.truth import comparator_phrase, short_world
from aegis.worlds import World, make_world, true_value

WORLD = make_world("additive", inner_steps=3)
CONSTANT = "constant:value=1.6,epsilon=0.2"
QUICK: dict[str, Any] = {"episodes": 40, "prior": 30, "judged": 1000}


class ByAction:
    """A reward model that prefers large actions."""

    def predict(self, level: str, batch: Batch) -> Array:
        return np.tile(np.arange(11.0 if level == "inner" else 7.0), (len(batch.levels[level]), 1))


@functools.cache
def known(spec: str, others: bool = False) -> tuple[Oracle, Problem]:
    legacy = WORLD.legacy(spec)
    problem = problem_with_comparator(WORLD.problem, legacy)
    return Oracle(WORLD, legacy, 2000, incumbent=acting_incumbent(problem, legacy), others=others), problem


@pytest.mark.parametrize(
    ("spec", "scope", "others"),
    [
        pytest.param(CONSTANT, ("inner",), False, marks=pytest.mark.ci),
        (CONSTANT, ("inner",), True),
        pytest.param(CONSTANT, ("meta",), True, marks=pytest.mark.ci),
        (CONSTANT, ("meta", "inner"), False),
        ("natural:epsilon=0.3", ("inner",), True),
        pytest.param("natural:epsilon=0.3", ("meta",), False, marks=pytest.mark.ci),
    ],
)
def test_simulated_gains_over_the_incumbent_agree_with_integration(spec: str, scope: tuple[str, ...], others: bool) -> None:
    oracle, problem = known(spec, others)
    legacy, world = oracle.legacy, short_world(WORLD)
    candidate = Capped(problem, ByAction(), Logged(problem), 2.0, scope)
    truth = oracle.truth(candidate, scope)
    bare = without_exploration(legacy)
    elsewhere = bare if others else legacy
    there = runnable_policy(candidate, legacy)
    gain = true_value(world, Hybrid(problem, scope, there, elsewhere)) - true_value(
        world, Hybrid(problem, scope, bare, elsewhere)
    )
    assert abs(truth.gain - gain) < 4 * truth.gain_error + 2e-3
    assert truth.gain_error < 0.1
    assert abs(truth.value - true_value(world, Hybrid(problem, scope, there, legacy))) < 4 * truth.error + 1e-3


def test_the_incumbent_gains_nothing_over_itself_and_the_log_is_worse() -> None:
    oracle, problem = known(CONSTANT)
    same = oracle.truth(StatedIncumbent(problem), ("inner",))
    assert same.gain == same.gain_error == 0.0
    assert same.value == pytest.approx(oracle.compared_value(("inner",)), abs=1e-6)
    logged = oracle.truth(Logged(problem), ("inner",))
    assert logged.gain == pytest.approx(-0.2 * 2.0 * 1.6, abs=0.05)  # exploring is uniform around 0, and A counts twice
    assert logged.value == oracle.legacy_value
    assert Oracle(WORLD, oracle.legacy, 200).compared_value(("inner",)) == pytest.approx(oracle.legacy_value, abs=1e-9)


@dataclass(frozen=True)
class Own:
    """The world as a plant of a user's own: long runs tell the truth."""

    world: World = WORLD
    stated: Problem | None = None

    @property
    def problem(self) -> Problem:
        return self.world.problem if self.stated is None else self.stated

    def episodes(self, first: int, count: int, policy: Policy, seed: int) -> Batch:
        return self.world.episodes(first, count, policy, seed)


def test_long_runs_agree_with_the_equations() -> None:
    legacy = WORLD.legacy(CONSTANT)
    problem = problem_with_comparator(WORLD.problem, legacy)
    incumbent = acting_incumbent(problem, legacy)
    exact, long = judge_for(WORLD, legacy, 2000, incumbent), judge_for(Own(), legacy, 2000, incumbent)
    assert isinstance(long, LongRuns)
    for scope in (("inner",), ("meta", "inner")):
        candidate = Capped(problem, ByAction(), Logged(problem), 2.0)
        first, second = exact.truth(candidate, scope), long.truth(candidate, scope)
        assert abs(first.gain - second.gain) < 4 * np.hypot(first.gain_error, second.gain_error)
        assert abs(first.value - second.value) < 4 * np.hypot(first.error, second.error)
    same = long.truth(StatedIncumbent(problem), ("inner",))
    assert same.gain == same.gain_error == 0.0
    assert len(long._compared) == 2


def test_who_is_compared_with_whom() -> None:
    legacy = WORLD.legacy(CONSTANT)
    stated = problem_with_comparator(WORLD.problem, legacy)
    assert stated == with_incumbent(WORLD.problem, legacy)
    assert Comparator.of(stated).levels == {"inner"} and Comparator.of(stated).ratio(stated.scope(["inner"])) == 1 / 0.8
    assert comparator_phrase(stated, ("inner",)).startswith("the incumbent (the rule 'constant')")
    logger = problem_with_comparator(stated, legacy, "logger")
    assert not Comparator.of(logger).levels and acting_incumbent(logger, legacy) is None
    assert "the policy that wrote the log, exploration included" in comparator_phrase(logger, ("inner",))
    assert problem_with_comparator(WORLD.problem, legacy, "logger") == WORLD.problem
    own = Function(WORLD.problem, uniform)  # a legacy that is code: who acts without its exploration is not known
    assert problem_with_comparator(WORLD.problem, own) == WORLD.problem
    with pytest.raises(SettingError, match=r"unknown comparator 'loger' .did you mean 'logger'"):
        problem_with_comparator(WORLD.problem, legacy, "loger")


def uniform(level: Level, rows: Rows) -> Array:
    count = level.actions.count
    return np.full((len(rows["T"]), count), 1.0 / count)


def test_an_incumbent_known_by_columns_cannot_act() -> None:
    problem = WORLD.problem
    inner = replace(problem.level("inner"), propensity=Propensity(base="intended", epsilon=0.2))
    based = replace(problem, levels=(problem.levels[0], inner))
    with pytest.raises(SettingError, match="the incumbent at 'inner' is known by columns of the log, which cannot act"):
        acting_incumbent(based, Function(problem, uniform))
    legacy = WORLD.legacy(CONSTANT)
    assert acting_incumbent(based, legacy) == without_exploration(legacy)
    stated = replace(problem, levels=(problem.levels[0], replace(problem.levels[1], incumbent=Incumbent(action=0.0))))
    found = acting_incumbent(stated, Function(problem, uniform))
    assert isinstance(found, Hybrid) and found.scope == {"inner"}


def test_candidates_that_rest_on_the_log_or_the_incumbent_can_act() -> None:
    legacy = WORLD.legacy(CONSTANT)
    problem = problem_with_comparator(WORLD.problem, legacy)
    floored = runnable_policy(Floored(problem, StatedIncumbent(problem), Logged(problem), 0.25, ["inner"]), legacy)
    assert isinstance(floored, Floored) and floored.legacy is legacy and floored.share == 0.25 and floored.levels == {"inner"}
    assert isinstance(floored.new, Hybrid) and floored.new.legacy is legacy
    truth = known(CONSTANT)[0].truth(Floored(problem, StatedIncumbent(problem), Logged(problem), 0.5, ["inner"]), ("inner",))
    assert truth.gain == pytest.approx(-0.32, abs=0.03)


@pytest.mark.parametrize("spec", [CONSTANT, "sign:epsilon=0.3", "natural:epsilon=0.4"])
def test_a_null_candidate_is_null_against_the_incumbent(spec: str) -> None:
    trial = make_trial(WORLD, spec, "null", **QUICK)
    judge = judge_for(WORLD, trial.legacy, 4000, acting_incumbent(trial.problem, trial.legacy))
    setting = LearnerSetting(WORLD, trial.legacy, ("inner",), judge, 1, trial.problem)
    candidate = named_learner("null").prepare(setting)(WORLD.episodes(0, 30, trial.legacy, 1), 0)
    truth = judge.truth(candidate.policy, ("inner",))
    assert -0.3 < truth.gain + 3 * truth.gain_error <= 0  # of a reward that spans 20
    if spec == CONSTANT:
        over_log = judge_for(WORLD, trial.legacy, 4000).truth(candidate.policy, ("inner",))
        assert over_log.gain > 0.3  # better than the log, which explores


@pytest.mark.parametrize("comparator", ["incumbent", "logger"])
def test_a_validation_says_over_whom_gains_are_and_certifies_logs_so(comparator: str) -> None:
    shared: dict[str, Any] = {"comparator": comparator, "bounds": ("plain", "Hoeffding"), **QUICK}
    result = validate(WORLD, CONSTANT, "null", runs=2, **shared)
    words = {
        "incumbent": "the incumbent (the rule 'constant'), while the other levels act",
        "logger": "the policy that wrote the log",
    }
    assert result.to_json()["comparator"].startswith(words[comparator])
    assert result.row("plain").nulls == 2 and result.row("plain").false == 0
    half_way = WORLD.legacy("constant:value=1.6,epsilon=0.1")  # explores half as much as the log
    truth = validate(WORLD, CONSTANT, half_way, runs=1, **shared).row("plain").truth
    assert truth == pytest.approx((1 if comparator == "logger" else -1) * 0.1 * 1.6 * 2.0 / 20.0, abs=2e-3)


@pytest.mark.parametrize("name", [name for name in studies() if name.startswith("incumbent: ")])
@pytest.mark.ci
def test_studies_over_the_incumbent_are_what_their_names_say(name: str) -> None:
    study = studies()[name]
    legacy = study.world.legacy(study.legacy)
    stated = Comparator.of(study.problem)
    assert study.comparator == "incumbent" and stated.levels
    unknown = "without a rate" in name or study.taken_only  # of single actions a promise cannot be checked, and is not used
    assert (stated.ratio(study.problem.scope(stated.levels)) is None) == unknown
    if "null" not in name and "worse" not in name and "stake" not in name:
        return
    candidate, _ = study.learner(study.problem, study.log(legacy, 0), 0)
    world, incumbent = short_world(study.world), without_exploration(legacy)
    for scope in study.scopes or ():
        there = true_value(world, Hybrid(study.problem, scope, candidate.policy, legacy))
        gain = there - true_value(world, Hybrid(study.problem, scope, incumbent, legacy))
        if "worse" in name:
            assert -0.3 < gain < -0.05
        else:
            assert gain == pytest.approx(0.0, abs=1e-6)
        if "constant" in name:
            assert there > true_value(world, legacy) + 0.2  # better than the log all the same


def test_totals_are_of_clusters_and_gains() -> None:
    with pytest.raises(SettingError, match="totals are of clusters"):
        Study(WORLD, CONSTANT, studies()["incumbent: null, constant"].learner, 20, totals=True)
    study = studies()["incumbent: clinic in clusters, totals"]
    assert study.problem.cluster_most == 3 and study.share == pytest.approx(2 / 3)
    assert studies()["incumbent: clinic in clusters, natural"].share == 1.0
