"""What a plant sends is looked at by every gate alike: order, repeats, counts, probabilities, rewards, versions, silence."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from host_cases import leaning
from hypothesis import given, settings

from aegis.errors import AegisError, InputError, PolicyError
from aegis.handover import GATES, HOSTS, GateSettings, Handover, Paused, UnitCounted, make_gate, replay_events
from aegis.handover.stream_audit import ArrivalCheck, find_policy_mismatch, readable_prefix
from aegis.policies import Floored, Function, Hybrid, Mixture
from aegis.problem import Array, Batch, Policy, Problem
from aegis.worlds import make_world

WORLD = make_world("additive", inner_steps=2)
LEGACY = WORLD.legacy("uniform")
OWN: dict[str, Any] = {
    "challenger": GateSettings(caps=(2.0,), upgrades=False),
    "pac-bayes": {"stride": 20},
    "published": {"stride": 20, "positivity": 0.0},
}


@dataclass(frozen=True)
class Plant:
    """The additive world; what it sends is spoilt from episode 30 on."""

    how: str
    problem: Problem = WORLD.problem

    def episodes(self, first: int, count: int, policy: Policy, seed: int) -> Batch:
        batch = WORLD.episodes(first, count, policy, seed)
        if first + count <= 30:
            return batch
        return SPOILT[self.how](batch, np.flatnonzero(batch.episode_of("inner") >= 30 - first))


def logged(batch: Batch, rows: Any, full: Any = None, taken: Any = None) -> Batch:
    """Return a batch that logs other probabilities at rows of the inner level."""
    table = batch.levels["inner"]
    mu_full, mu_taken = np.array(table.mu_full), np.array(table.mu_taken)
    if full is not None:
        mu_full[rows] = full(mu_full[rows])
    if taken is not None:
        mu_taken[rows] = taken(mu_full[rows], table.action[rows])
    return batch.with_level("inner", replace(table, mu_full=mu_full, mu_taken=mu_taken))


def rewarded(batch: Batch, rows: Any, value: float) -> Batch:
    reward = np.array(batch.reward)
    reward[rows] = value
    return replace(batch, reward=reward)


def impossible(batch: Batch, rows: Any) -> Batch:
    """Say that every action but the one taken was possible."""
    table = batch.levels["inner"]
    mu_full = np.array(table.mu_full)
    mu_full[rows] = np.eye(11)[(table.action[rows] + 1) % 11]
    return batch.with_level("inner", replace(table, mu_full=mu_full))


LEANING = np.linspace(1, 3, 11) / np.linspace(1, 3, 11).sum()
SPOILT: dict[str, Any] = {
    "backwards": lambda b, _: replace(b, episode=b.episode[::-1].copy()),
    "again": lambda b, _: replace(b, episode=b.episode - 5),
    "too few": lambda b, _: b.take_episodes(np.arange(len(b) - 1)),
    "no probability": lambda b, rows: logged(b, rows, taken=lambda full, action: 0.0 * full[:, 0]),
    "impossible": impossible,
    "sum": lambda b, rows: logged(b, rows, lambda full: 0.9 * full),
    "not a number": lambda b, rows: logged(b, rows, lambda full: np.nan * full),
    "out of range": lambda b, rows: rewarded(b, rows[0], 1000.0),
    "infinite": lambda b, rows: rewarded(b, rows[0], np.inf),
    "minus infinity": lambda b, rows: rewarded(b, rows[0], -np.inf),
    "silent": lambda b, rows: rewarded(b, rows, np.nan),
    "version": lambda b, rows: logged(b, rows, lambda full: 0 * full + LEANING, lambda full, action: LEANING[action]),
}
WRONG = {  # what is said, and how many episodes are kept
    "backwards": ("asked for episode .. and sent", None),
    "again": ("asked for episode .. and sent", None),
    "too few": ("asked for .. episodes after the first .. and sent", None),
    "no probability": (r"level 'inner', row \d+ \(episode 30\).*logged propensity of the action is 0.0", 30),
    "impossible": (r"level 'inner', row \d+ \(episode 30\).*has 0.0 among those of all actions", 30),
    "sum": (r"level 'inner'.*row \d+ \(episode 30\).*not a distribution", 30),
    "not a number": (r"level 'inner'.*\(episode 30\).*not a distribution", 30),
    "out of range": ("episode 30.*'R': 1000 lies outside", 30),
    "infinite": ("episode 30, level 'inner', row .*'R' is inf; expected a finite number, or nan", 30),
    "minus infinity": ("episode 30, level 'inner', row .*'R' is -inf", 30),
}


@pytest.mark.parametrize("how", WRONG)
@pytest.mark.parametrize("name", GATES)
def test_what_cannot_be_is_an_error_and_the_good_episodes_before_it_are_kept(name: str, how: str) -> None:
    says, kept = WRONG[how]
    gate = make_gate(name, Plant(how), LEGACY, HOSTS["greedy"](), OWN[name], 1)
    for _ in range(2):  # and again, since it stays where it is
        with pytest.raises(AegisError, match=says):
            gate.advance(90)
        assert not gate.deployed
        assert len(gate.arms) == len(gate.rewards) == gate.state.episode
        assert gate.state.episode == kept if kept is not None else 20 <= gate.state.episode <= 30
    assert replay_events(gate.events) == gate.state


@pytest.mark.parametrize("name", GATES)
def test_another_version_of_the_policy_and_silence_pause_every_gate(name: str) -> None:
    for how, says in [
        ("version", "episode 30, decision 1.*another version of the policy acts"),
        ("silent", "no reward has come"),
    ]:
        gate = make_gate(name, Plant(how), LEGACY, HOSTS["greedy"](), OWN[name], 1)
        gate.advance(90)
        assert gate.state.episode == 90
        assert not gate.deployed
        (paused,) = [event for event in gate.events if isinstance(event, Paused)]
        assert paused.why == gate.state.paused
        assert re.search(says, paused.why)
        kept = [(np.isnan(batch.reward), batch.observed) for batch in gate.batches]
        assert any(lost.any() for lost, _ in kept) == (how == "silent")
        assert not any((lost & (True if seen is None else seen)).any() for lost, seen in kept)  # a log of them can be written


@pytest.mark.parametrize("how", ["version", "silent"])
@pytest.mark.parametrize("name", ["pac-bayes", "published"])
def test_a_gate_that_has_paused_looks_no_more_and_goes_on_so_from_anywhere(name: str, how: str) -> None:
    whole = make_gate(name, Plant(how), LEGACY, HOSTS["greedy"](), OWN[name], 1)
    whole.advance(90)
    paused = next(event.episode for event in whole.events if isinstance(event, Paused))
    assert max(look.episode for look in whole.looks) <= paused  # type: ignore[attr-defined]
    for cut in (paused - 1, paused, paused + 1, paused + 20):
        place = next(at for at, event in enumerate(whole.events) if isinstance(event, UnitCounted) and event.episode == cut)
        again = make_gate(name, Plant(how), LEGACY, HOSTS["greedy"](), OWN[name], 1)
        again.restore(whole.events[: place + 1])
        again.advance(90)
        assert again.events == whole.events


# ---- ids that are words ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Named:
    """A plant whose episodes have names, of which it knows so many, and begins again after the last."""

    names: int
    problem: Problem = WORLD.problem

    def episodes(self, first: int, count: int, policy: Policy, seed: int) -> Batch:
        batch = WORLD.episodes(first, count, policy, seed)
        return replace(batch, episode=np.array([f"batch-{number % self.names:03d}" for number in batch.episode]))


@pytest.mark.parametrize("name", GATES)
def test_an_episode_that_is_sent_again_under_its_name_is_an_error(name: str) -> None:
    gate = make_gate(name, Named(33), LEGACY, HOSTS["greedy"](), OWN[name], 1)
    with pytest.raises(PolicyError, match="after the first 33 and sent 'batch-000', which it has sent before"):
        gate.advance(90)
    assert gate.state.episode == 33


def test_names_are_remembered_by_a_run_that_is_taken_up() -> None:
    def gate() -> Handover:
        return Handover(Named(33), LEGACY, HOSTS["greedy"](), OWN["challenger"], 1)

    first, again = gate(), gate()
    first.advance(30)
    again.restore(first.events)
    with pytest.raises(PolicyError, match="sent 'batch-000', which it has sent before"):
        again.advance(60)
    assert again.state.episode == 33


def test_names_that_differ_are_welcome() -> None:
    numbered = Handover(WORLD, LEGACY, HOSTS["greedy"](), OWN["challenger"], 1)
    named = Handover(Named(1000), LEGACY, HOSTS["greedy"](), OWN["challenger"], 1)
    for run in (numbered, named):
        run.advance(60)
    assert named.events == numbered.events


def test_ids_of_several_columns_count_as_one() -> None:
    kind = [("site", "U4"), ("run", "i8")]
    batch = WORLD.episodes(0, 3, LEGACY, 1)
    arrivals = ArrivalCheck(WORLD.problem)
    arrivals.take(replace(batch, episode=np.array([("a", 1), ("a", 2), ("b", 1)], dtype=kind)))
    arrivals.check(replace(batch, episode=np.array([("b", 2), ("b", 3), ("a", 3)], dtype=kind)), 3)
    with pytest.raises(PolicyError, match=r"sent \('a', 2\)"):
        arrivals.check(replace(batch, episode=np.array([("b", 2), ("a", 2), ("a", 3)], dtype=kind)), 3)


# ---- mixtures ----------------------------------------------------------------------------------------------------------------


def mixture(weights: tuple[float, ...]) -> Mixture:
    problem = WORLD.problem
    signed = Floored(problem, WORLD.legacy("sign:epsilon=0.3"), LEGACY, 0.5)
    members = [LEGACY, Hybrid(problem, ["inner"], signed, LEGACY)]
    return Mixture(members, list(weights))


@given(st.floats(0.01, 0.99), st.floats(0.0, 1.0))
@settings(max_examples=30, deadline=None)
def test_a_mixture_may_log_its_particles_weighed_in_any_way(weight: float, other: float) -> None:
    policy = mixture((weight, 1 - weight))
    batch = WORLD.episodes(0, 3, policy, 1)
    assert find_policy_mismatch(policy, batch) is None
    each = policy.full("inner", batch)
    table = replace(batch.levels["inner"], mu_full=other * each[0] + (1 - other) * each[1])
    assert find_policy_mismatch(policy, batch.with_level("inner", table)) is None


def test_a_mixture_that_is_not_the_one_that_was_asked_is_noticed() -> None:
    policy = mixture((0.5, 0.5))
    batch = WORLD.episodes(0, 6, WORLD.legacy("sign:epsilon=0.1"), 1)
    found = find_policy_mismatch(policy, batch)
    assert found is not None and found[0] == 0 and "] to [" in found[1] and "another version" in found[1]
    elsewhere = Function(WORLD.problem, leaning, ["meta"], LEGACY)  # where all particles agree
    found = find_policy_mismatch(policy, WORLD.episodes(0, 6, elsewhere, 1))
    assert found is not None and found[1].startswith("level 'meta', episode 0, decision 1") and "] to [" not in found[1]


def test_an_infinite_guard_is_an_error_too() -> None:
    batch = WORLD.episodes(0, 3, LEGACY, 1)
    guarded = replace(batch, guards={"scrap": np.array([0.0, np.nan, 0.0, 0.0, np.inf, 0.0])})
    with pytest.raises(InputError, match="episode 2, level 'inner', row 4: 'scrap' is inf"):
        ArrivalCheck(WORLD.problem).check(guarded, 0)


# ---- the good ones at the head -----------------------------------------------------------------------------------------------


@given(st.integers(1, 12), st.sets(st.integers(0, 11)))
@settings(max_examples=60, deadline=None)
def test_what_is_readable_is_everything_before_the_first_that_is_not(count: int, bad: set[int]) -> None:
    batch = WORLD.episodes(0, count, LEGACY, 1)

    def judge(part: Batch) -> Array:
        for episode in part.episode:
            if int(episode) in bad:
                raise InputError(f"episode {episode}")
        return np.array(part.episode, dtype=np.float64)

    first = min((item for item in bad if item < count), default=count)
    if first == 0:
        with pytest.raises(InputError, match="episode 0"):
            readable_prefix(batch, judge)
        return
    part, judged, error = readable_prefix(batch, judge)
    assert len(part) == judged.size == first
    assert (error is None) == (first == count)
    assert error is None or str(error) == f"episode {first}"
