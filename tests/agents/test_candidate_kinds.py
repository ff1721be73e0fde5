"""Candidates: which levels are planned, who acts elsewhere, masks, and what is refused."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aegis.agents import CANDIDATES, CandidateSettings, Learned
from aegis.agents import learn as learn_tuned
from aegis.agents.candidate_kinds import plannable_levels
from aegis.errors import LogError, PolicyError, ProblemError, SettingError
from aegis.logs import Source, Split, write_log
from aegis.mechanisms import MODELS
from aegis.planning import Integration, load_policy
from aegis.policies import path_full, policy_digest, save_policy
from aegis.problem import Propensity, Scope
from aegis.worlds import make_world

learn = functools.partial(learn_tuned, models=MODELS)  # without the search for length-scales, which is slow

CLINIC, PLANT, ADDITIVE = make_world("clinic"), make_world("plant"), make_world("additive")
QUICK = Integration(nodes=4, samples=8)
UNIFORM = Propensity(policy="uniform")


def with_propensity(problem, **forms: Propensity):
    levels = tuple(replace(level, propensity=forms.get(level.name, level.propensity)) for level in problem.levels)
    return replace(problem, levels=levels)


def source(world, folder: Path, legacy: str = "uniform", episodes: int = 60, problem=None) -> Source:
    problem = problem or world.problem
    write_log(world.episodes(0, episodes, world.legacy(legacy), 3), problem, folder / "log.parquet")
    return Source(folder / "log.parquet", problem)


def quick(kind: str, **more) -> CandidateSettings:
    return CandidateSettings(kind, particles=3, integration=QUICK, **more)


def test_plannable_levels_have_nothing_unknown_below() -> None:
    problem = PLANT.problem
    assert plannable_levels(problem, Scope(problem.names)) == Scope(problem.names)
    assert plannable_levels(problem, Scope({"dose"})) == Scope({"dose"})
    assert plannable_levels(problem, Scope({"batch"})) == Scope()
    assert plannable_levels(problem, Scope({"batch", "dose"})) == Scope({"dose"})
    known = with_propensity(problem, recipe=UNIFORM)
    assert plannable_levels(known, Scope({"batch", "dose"})) == Scope({"batch", "dose"})
    known = with_propensity(problem, dose=UNIFORM)
    assert plannable_levels(known, Scope({"batch"})) == Scope()
    assert plannable_levels(known, Scope({"recipe"})) == Scope({"recipe"})


@pytest.mark.parametrize("kind", CANDIDATES)
@pytest.mark.parametrize("scope", [None, ["plan"], ["dose"]])
def test_candidates_respect_masks_leave_other_levels_alone_and_come_back(kind: str, scope, tmp_path: Path) -> None:
    log = source(CLINIC, tmp_path, "natural")
    found = learn(log, Split(), quick(kind), scope)
    batch = log.read()
    for level in CLINIC.problem.names:
        chances = path_full(found.policy, level, batch)
        table = batch.levels[level]
        reached = chances.sum(axis=1) > 0  # a mixture has no answer below actions that it would never take
        np.testing.assert_allclose(chances[reached].sum(axis=1), 1)
        assert (chances[~table.available] == 0).all()
        if scope is not None and level not in scope:
            np.testing.assert_array_equal(chances, table.mu_full)
        elif kind == "capped":
            assert (chances <= 2 * table.mu_full + 1e-12).all()
    save_policy(found.policy, tmp_path / "policy", found.record)
    again = load_policy(tmp_path / "policy", CLINIC.problem)
    assert policy_digest(again) == policy_digest(found.policy)
    for level in CLINIC.problem.names:
        np.testing.assert_array_equal(again.full(level, batch), found.policy.full(level, batch))


def test_below_an_unknown_legacy_the_reward_model_decides(tmp_path: Path) -> None:
    log = source(ADDITIVE, tmp_path, "natural:epsilon=0.5", 200)
    found = learn(log, Split(), quick("greedy"), ["meta"])
    batch = log.read()
    scores = found.fitted.rewards.predict("meta", batch)
    np.testing.assert_array_equal(found.policy.full("meta", batch)[0].argmax(axis=1), scores.argmax(axis=1))


def test_through_a_known_legacy_the_recursion_plans(tmp_path: Path) -> None:
    # Under a uniform inner level the best lever is the top one: R = 2 A + 0.5 Q, Q rises with M.
    problem = with_propensity(ADDITIVE.problem, inner=UNIFORM)
    log = source(ADDITIVE, tmp_path, "uniform", 200, problem)
    found = learn(log, Split(), quick("greedy"), ["meta"])
    assert type(found.policy.new).__name__ == "Planned"  # type: ignore[attr-defined]
    assert (found.policy.full("meta", log.read())[0].argmax(axis=1) == 6).all()


def test_minimising_turns_everything_round(tmp_path: Path) -> None:
    problem = replace(ADDITIVE.problem, reward=replace(ADDITIVE.problem.reward, goal="minimise"))
    log = source(ADDITIVE, tmp_path, "uniform", 200, problem)
    for kind in ("greedy", "capped"):
        found = learn(log, Split(), quick(kind))
        batch = log.read()
        assert (found.policy.full("inner", batch)[0].argmax(axis=1) == 0).all()
        assert (found.policy.full("meta", batch)[0].argmax(axis=1) == 0).all()
        assert found.plug_in < found.fitted.legacy_value


def test_a_seed_is_a_policy_and_another_seed_another_one(tmp_path: Path) -> None:
    log = source(CLINIC, tmp_path)
    one, two, three = (policy_digest(learn(log, Split(), quick("planned", seed=seed)).policy) for seed in (1, 1, 2))
    assert one == two != three


def refused(log: Source, error: type[Exception], message: str, *arguments, **settings) -> None:
    with pytest.raises(error, match=message):
        learn(log, *arguments, **settings)


def test_bad_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="did you mean 'greedy'"):
        CandidateSettings("greed")
    with pytest.raises(SettingError, match="from 1"):
        CandidateSettings("capped", cap=0.5)
    with pytest.raises(SettingError, match="the number of particles of a candidate is a whole number from 1"):
        CandidateSettings(particles=0)
    log = source(CLINIC, tmp_path)
    refused(log, ProblemError, "did you mean 'dose'", scope=["does"])
    refused(log, SettingError, "name at least one level", scope=[])
    refused(log, LogError, "prior side of the split", split=Split(fraction=1e-9))


@pytest.mark.parametrize("kind", ["greedy", "planned"])
def test_what_carries_over_is_not_planned(kind: str, tmp_path: Path) -> None:
    problem = replace(ADDITIVE.problem, carry_over="within")
    log = source(ADDITIVE, tmp_path, problem=problem)
    for scope in (None, ["inner"]):
        refused(log, SettingError, "'carry_over: within'. Learn kind 'capped'", settings=quick(kind), scope=scope)
    outer = learn(log, settings=quick(kind), scope=["meta"])  # decided by its reward model: nothing is planned
    assert "short-sighted" in outer.record["warnings"][0]
    capped = learn(log, settings=quick("capped"))
    assert len(capped.record["warnings"]) == 1 and "short-sighted" in capped.record["warnings"][0]
    assert learn(source(ADDITIVE, tmp_path), settings=quick("capped")).record["warnings"] == []


def test_few_episodes_are_warned_of(tmp_path: Path) -> None:
    log = source(ADDITIVE, tmp_path, episodes=60)
    found = learn(log, Split(fraction=0.15), quick("greedy"))
    assert found.fitted.episodes < 20
    (warning,) = found.record["warnings"]
    assert f"has {found.fitted.episodes} episodes only" in warning


def test_capped_needs_the_whole_distribution(tmp_path: Path) -> None:
    taken = with_propensity(CLINIC.problem, dose=Propensity(column="p"))
    log = source(CLINIC, tmp_path, problem=taken)
    refused(log, PolicyError, "level 'dose': a capped candidate needs", settings=quick("capped"))
    refused(log, PolicyError, r"learn kind 'greedy' \(--kind greedy\)", settings=quick("capped"))
    refused(log, PolicyError, "or declare 'shares', 'policy: uniform' or 'base'", settings=quick("capped"))
    assert isinstance(learn(log, settings=quick("capped"), scope=["plan"]), Learned)
    assert isinstance(learn(log, settings=quick("greedy")), Learned)


def test_a_log_without_rewards_or_outcomes_is_refused(tmp_path: Path) -> None:
    batch = CLINIC.episodes(0, 40, CLINIC.legacy("uniform"), 3)
    nothing = np.full(batch.reward.size, np.nan)
    bare = replace(batch, reward=nothing, observed=np.zeros(nothing.size, dtype=bool))
    write_log(bare, CLINIC.problem, tmp_path / "bare.parquet")
    refused(Source(tmp_path / "bare.parquet", CLINIC.problem), LogError, "no reward was observed in the")
    write_log(replace(batch, outcome=nothing), CLINIC.problem, tmp_path / "blind.parquet")
    refused(
        Source(tmp_path / "blind.parquet", CLINIC.problem), LogError, "'recovery' cannot be learned from .*out of the problem"
    )


def test_an_interval_has_no_capped_candidate_and_is_told_what_to_do(tmp_path: Path) -> None:
    log = source(make_world("dosing"), tmp_path, "natural", 30)
    with pytest.raises(PolicyError, match=r"an interval has a density instead; learn kind 'greedy' .* give the action a 'grid'"):
        learn(log, settings=quick("capped"))
