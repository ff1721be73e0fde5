"""Challengers that are code are held to what they answered when they were frozen."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest
from host_cases import history_of, leaning_policy, world_of

from aegis.errors import AegisError, PolicyError, SettingError
from aegis.handover import (
    HOSTS,
    Challenge,
    ChallengeCertified,
    Flipped,
    Frozen,
    GateSettings,
    Handover,
    OperatorAction,
    Proposal,
    event_from_plain,
    event_to_plain,
    pack_challenger,
    replay_events,
    unpack_challenger,
)
from aegis.handover.challenger import LOOKED_AT, seal_answers
from aegis.handover.hosts.external import ExternalHost
from aegis.policies import Floored, Function, path_full
from aegis.problem import Array, Batch, Problem, State
from aegis.service.http_errors import StoreDamaged
from aegis.service.integrity import check_stored_policy, piece_digest
from aegis.service.live_state import ChallengerSeal
from aegis.worlds import make_world

WORLD = make_world("additive", inner_steps=3)
LEGACY = WORLD.legacy("uniform")
SETTINGS = GateSettings(caps=(2.0,), upgrades=False, levels=("inner",))
MODULE = "an_operator_s_own_policy"
CODE = """
import numpy as np

SIGN = 1.0

def act(level, rows):
    count, actions = len(next(iter(rows.values()))), level.actions.count
    chances = np.exp(0.8 * SIGN * np.arange(actions))
    return np.tile(chances / chances.sum(), (count, 1))
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Return a module of a user's own, with a policy that is good as long as nobody touches it."""
    (tmp_path / f"{MODULE}.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module(MODULE)
    sys.modules.pop(MODULE, None)


def gate(own: ModuleType) -> Handover:
    policy = Function(WORLD.problem, own.act, ["inner"], LEGACY)
    return Handover(WORLD, LEGACY, ExternalHost(policy, ("inner",)), SETTINGS, 1)


def until(run: Handover, kind: type[Any]) -> None:
    """Go on until the first event of a kind."""
    while not any(isinstance(event, kind) for event in run.events):
        run.advance(run.state.episode + 1)
        assert run.state.episode < 200


def test_code_that_does_something_else_in_control_is_noticed_and_can_be_given_back(own: ModuleType) -> None:
    run = gate(own)
    until(run, Flipped)
    own.SIGN = -1.0
    with pytest.raises(
        PolicyError, match=r"in control of level 'inner' was altered after it was certified: on \d+ of \d+ logged"
    ):
        run.advance(run.state.episode + 20)
    run.say(OperatorAction("revert", "ann", "the recipe changed", 0, "inner"))
    run.advance(run.state.episode + 5)
    assert not run.deployed and replay_events(run.events) == run.state


def test_code_that_does_something_else_is_not_certified(own: ModuleType) -> None:
    run = gate(own)
    until(run, Frozen)
    own.SIGN = 0.9
    last = run.state.episode
    with pytest.raises(PolicyError, match=r"level 'inner' was altered after it was frozen: on \d+ of \d+ logged contexts"):
        run.advance(200)
    assert run.state.episode == last  # before anything more counts for it
    assert not run.deployed and not any(isinstance(event, ChallengeCertified | Flipped) for event in run.events)
    assert replay_events(run.events) == run.state


def test_a_file_that_was_edited_is_noticed_even_if_it_answers_the_same(own: ModuleType) -> None:
    run = gate(own)
    until(run, Frozen)
    Path(str(own.__file__)).write_text(CODE + "\n# nothing to see here\n")
    with pytest.raises(PolicyError, match="altered after it was frozen: the file that it is defined in has changed"):
        run.advance(200)


def test_a_run_is_not_taken_up_with_other_code(own: ModuleType) -> None:
    run = gate(own)
    until(run, Frozen)
    run.advance(run.state.episode + 3)
    events = [event_from_plain(event_to_plain(event)) for event in run.events]
    gate(own).restore(events)  # the same: welcome
    own.SIGN = -1.0
    with pytest.raises(AegisError):
        gate(own).restore(events)


def test_a_kept_challenger_whose_file_was_edited_is_refused(own: ModuleType) -> None:
    run = gate(own)
    until(run, Frozen)
    kept = {name: pack_challenger(item) for name, item in run.challengers.items()}
    name = next(iter(kept))
    sealed = ChallengerSeal(piece_digest(kept[name]), run.state.challenge(name).seal)
    unpack_challenger(kept[name], WORLD.problem, run.state.challenge(name))
    check_stored_policy("plant", name, sealed, kept[name], WORLD.problem)
    Path(str(own.__file__)).write_text(CODE.replace("0.8", "0.7"))
    says = f"challenge '{name}': the code of its policy was altered after it was frozen"
    with pytest.raises(PolicyError, match=says):
        unpack_challenger(kept[name], WORLD.problem, run.state.challenge(name))
    with pytest.raises(StoreDamaged, match=f"gate 'plant', {says}"):
        check_stored_policy("plant", name, sealed, kept[name], WORLD.problem)


def test_seals_are_kept_with_the_freeze_and_only_code_has_one(own: ModuleType) -> None:
    run = gate(own)
    until(run, Frozen)
    (event,) = [event for event in run.events if isinstance(event, Frozen)]
    assert all(item.seal for item in event.challenges)
    assert [item["seal"] for item in event_to_plain(event)["challenges"]] == [item.seal for item in event.challenges]
    assert event_from_plain(event_to_plain(event)) == event
    usual = Handover(WORLD, LEGACY, HOSTS["greedy"](), SETTINGS, 1)
    until(usual, Frozen)
    (event,) = [event for event in usual.events if isinstance(event, Frozen)]
    assert all(item.seal is None for item in event.challenges)
    assert all("seal" not in item for item in event_to_plain(event)["challenges"])


def test_a_seal_looks_at_the_latest_episodes_and_at_no_more_decisions_than_it_must() -> None:
    history = history_of(world_of(inner_steps=50), 40)
    policy = Floored(history.problem, leaning_policy(history.problem), history.legacy, 0.05)
    for level, expected in (("inner", LOOKED_AT // 50 * 50), ("meta", 40)):
        seal = seal_answers(policy, level, history.everything())
        assert seal is not None and len(seal.chances) == len(seal.batch.levels[level]) == expected
        assert seal.batch.episode[-1] == 39
        assert seal.batch.reward is None and (seal.batch.levels[level].action < 0).all()
        np.testing.assert_array_equal(seal.chances, path_full(policy, level, seal.batch))
        assert seal.broken(policy) is None
    one = seal_answers(policy, "inner", history_of(world_of(inner_steps=300), 2).everything())
    assert one is not None and len(one.chances) == 300  # a single episode with more than that
    assert seal_answers(history.legacy, "inner", history.everything()) is None


# ---- by the number of an episode ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Own:
    """A policy, and a model, of one's own. answer: to a batch, `[n, 11]`."""

    answer: Callable[[Batch], Array]
    kind: ClassVar[str] = "own"
    problem: ClassVar[Problem] = WORLD.problem

    @property
    def weights(self) -> Array:
        return np.ones(1)

    def full(self, level: str, batch: Batch) -> Array:
        return self.answer(batch)[None]

    def taken(self, level: str, batch: Batch) -> Array:
        return np.take_along_axis(self.full(level, batch), batch.levels[level].action[None, :, None].astype(int), axis=2)[..., 0]

    def predict(self, level: str, batch: Batch) -> Array:
        return self.answer(batch)

    def state(self) -> State:
        return State(self.kind, {})

    @classmethod
    def restore(cls, state: State, problem: Problem) -> Own:
        return cls(level_headed)


def level_headed(batch: Batch) -> Array:
    return np.full((len(batch.levels["inner"]), 11), 1 / 11)


def leaning(up: Array) -> Array:
    chances = np.exp(0.8 * np.arange(11) * np.where(up, 1, -1)[:, None])
    return chances / chances.sum(axis=1, keepdims=True)


def by_number(batch: Batch) -> Array:
    numbers = [int(str(item).split("-")[-1].split()[-1]) for item in batch.episode]
    return leaning(np.array(numbers)[batch.episode_of("inner")] < 60)


def by_place(batch: Batch) -> Array:
    return leaning(np.arange(len(batch.levels["inner"])) % 6 < 3)


def by_known_number(batch: Batch) -> Array:
    known = dict.fromkeys(range(1000), 1.0)
    return level_headed(batch) * np.array([known[int(item)] for item in batch.episode])[batch.episode_of("inner"), None]


@dataclass(frozen=True)
class Learner:
    proposal: Any

    def propose(self, history: Any, levels: Any, seed: int) -> Any:
        return {"inner": self.proposal}


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (by_number, "in episodes of other numbers, it answers.*declare that as a context"),
        (by_place, "in another order.*declare that as a context"),
        (by_known_number, "in episodes of other numbers, it raised KeyError"),
    ],
)
def test_code_that_answers_by_number_or_place_is_not_frozen(answer: Callable[[Batch], Array], says: str) -> None:
    for host in (ExternalHost(Own(answer), ("inner",)), ExternalHost(Learner(Proposal(Own(answer), None)))):
        run = Handover(WORLD, LEGACY, host, SETTINGS, 1)
        with pytest.raises(PolicyError, match=rf"host 'external', level 'inner': .*{says}"):
            run.advance(60)
        assert run.state.episode == 14 and not run.state.challenges


def test_code_that_answers_by_contexts_is_frozen_whatever_ids_look_like() -> None:
    @dataclass(frozen=True)
    class Named:
        problem: Problem = WORLD.problem

        def episodes(self, first: int, count: int, policy: Any, seed: int) -> Batch:
            batch = WORLD.episodes(first, count, policy, seed)
            return replace(batch, episode=np.array([f"batch-{item}" for item in batch.episode]))

    for plant in (WORLD, Named()):
        run = Handover(plant, LEGACY, ExternalHost(Own(level_headed), ("inner",)), SETTINGS, 1)
        until(run, Frozen)
        assert len(run.challengers) == 2


# ---- words -------------------------------------------------------------------------------------------------------------------


def test_evidence_of_another_challenger_is_named() -> None:
    run = Handover(WORLD, LEGACY, HOSTS["greedy"](), SETTINGS, 1)
    until(run, Frozen)
    (event,) = [event for event in run.events if isinstance(event, Frozen)]
    challenge: Challenge = event.challenges[0]
    wrong = {claim.what: tuple((0,) * (len(part.sums) + 3) for part in claim.parts) for claim in challenge.claims}
    with pytest.raises(SettingError, match=rf"challenge '{challenge.name}': .*of tests with bets .*'gain': .*start anew"):
        challenge.add(wrong)
