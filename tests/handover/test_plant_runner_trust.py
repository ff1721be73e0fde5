"""What a gate does not take on trust: policies that look ahead or change, plants that send something else, silence."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from aegis.certificate import Candidate, certify
from aegis.errors import AegisError, PolicyError, RefusedError
from aegis.handover import (
    HOSTS,
    Flipped,
    GateSettings,
    Handover,
    OperatorAction,
    Paused,
    read_events,
    replay_events,
    run_in_folder,
)
from aegis.logs import Source
from aegis.planning import load_policy
from aegis.policies import load_record
from aegis.problem import Array, Batch, Policy, Problem, State
from aegis.worlds import make_world

WORLD = make_world("additive", inner_steps=4)
LEGACY = WORLD.legacy("uniform")
SETTINGS = GateSettings(caps=(2.0,), upgrades=False, levels=("inner",))
Spoil = Callable[[Batch, int], Batch]


@dataclass(frozen=True)
class Spoilt:
    """The additive world, what it sends back spoilt from some episode on."""

    spoil: Any
    since: int
    problem: Problem = WORLD.problem

    def episodes(self, first: int, count: int, policy: Policy, seed: int) -> Batch:
        batch = WORLD.episodes(first, count, policy, seed)
        return batch if first + count <= self.since else self.spoil(batch, self.since - first)


def run_on(plant: Any, episodes: int = 120, host: Any = None, settings: GateSettings = SETTINGS) -> Handover:
    run = Handover(plant, LEGACY, host or HOSTS["greedy"](), settings, 3)
    run.advance(episodes)
    return run


# ---- policies ----------------------------------------------------------------------------------------------------------------


@dataclass
class Own:
    """A policy of one's own; answer: the probabilities of a batch, `[n, 11]`."""

    answer: Any
    kind: ClassVar[str] = "own"
    problem: ClassVar[Problem] = WORLD.problem

    @property
    def weights(self) -> Array:
        return np.ones(1)

    def full(self, level: str, batch: Batch) -> Array:
        if level != "inner":
            return LEGACY.full(level, batch)
        return np.asarray(self.answer(batch))[None]

    def taken(self, level: str, batch: Batch) -> Array:
        return np.take_along_axis(self.full(level, batch), batch.levels[level].action[None, :, None].astype(int), axis=2)[..., 0]

    def state(self) -> State:
        return State(self.kind, {})

    @classmethod
    def restore(cls, state: State, problem: Problem) -> Own:
        return cls(uniform)


def uniform(batch: Batch) -> Array:
    return np.full((len(batch.levels["inner"]), 11), 1 / 11)


def telling(late: list[int]) -> Spoilt:
    """Return a plant that lets it be known when it has come to episode 20."""

    def tell(batch: Batch, start: int) -> Batch:
        late.append(start)
        return batch

    return Spoilt(tell, 20)


def test_nobody_sees_what_came_of_a_decision() -> None:
    shown: list[Batch] = []

    def looking(batch: Batch) -> Array:
        shown.append(batch)
        return uniform(batch)

    run_on(WORLD, 40, HOSTS["external"](Own(looking), ("inner",)))
    counted = [batch for batch in shown if (batch.levels["inner"].action < 0).all()]
    assert counted, "units are judged on batches without actions"
    for batch in counted:
        assert batch.reward is None and batch.outcome is None and not batch.guards
        assert np.isnan(batch.levels["inner"].mu_taken).all()


def test_a_policy_that_would_need_the_reward_gains_nothing() -> None:
    def peeking(batch: Batch) -> Array:
        found = uniform(batch)
        if batch.reward is not None:
            rows = np.flatnonzero(batch.reward > 0)
            found[rows] = np.eye(11)[batch.levels["inner"].action[rows]]
        return found

    run = run_on(WORLD, 120, HOSTS["external"](Own(peeking), ("inner",)), SETTINGS.model_copy(update={"caps": (100.0,)}))
    inner = [event for event in run.events if isinstance(event, Flipped) and event.cap is None]
    assert not inner


def test_probabilities_are_checked_on_the_units_that_judge() -> None:
    late: list[int] = []

    def growing(batch: Batch) -> Array:
        return uniform(batch) * (1.5 if late else 1.0)

    with pytest.raises(PolicyError, match=r"the challenger at level 'inner'.*sum to one"):
        run_on(telling(late), 40, HOSTS["external"](Own(growing), ("inner",)))


def test_whatever_a_policy_raises_names_the_challenger() -> None:
    late: list[int] = []

    def failing(batch: Batch) -> Array:
        if late:
            raise KeyError("temperature")
        return uniform(batch)

    with pytest.raises(PolicyError, match=r"the challenger at level 'inner' raised KeyError.*temperature"):
        run_on(telling(late), 40, HOSTS["external"](Own(failing), ("inner",)))


def test_a_policy_that_is_altered_in_control_is_noticed() -> None:
    run = run_on(WORLD)
    assert run.deployed
    run.deployed["inner"] = replace(run.deployed["inner"], share=0.5)  # type: ignore[type-var]
    with pytest.raises(PolicyError, match="'inner' was altered after it was certified"):
        run.advance(200)


# ---- plants ------------------------------------------------------------------------------------------------------------------


def chances(batch: Batch, change: Callable[[Array], Array]) -> Batch:
    table = batch.levels["inner"]
    assert table.mu_full is not None
    return batch.with_level("inner", replace(table, mu_full=change(table.mu_full.copy())))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda b, _: b.take_episodes(np.arange(len(b) - 1)), "sent"),
        (lambda b, _: replace(b, episode=b.episode[::-1].copy()), "in the order in which they start"),
        (
            lambda b, _: b.with_level("meta", replace(b.levels["meta"], mu_taken=0 * b.levels["meta"].mu_taken)),
            "'meta', row 0.*0.0",
        ),
        (lambda b, _: b.with_level("meta", replace(b.levels["meta"], mu_full=None)), "needs the probabilities of all actions"),
        (lambda b, _: chances(b, lambda full: 1.1 * full), "not a distribution"),
        (lambda b, _: chances(b, lambda full: np.where(np.arange(11) == 3, np.nan, full)), "not a distribution"),
    ],
)
def test_what_a_plant_sends_is_looked_at(spoil: Spoil, says: str) -> None:
    run = Handover(Spoilt(spoil, 20), LEGACY, HOSTS["greedy"](), SETTINGS, 3)
    with pytest.raises(AegisError, match=says):
        run.advance(60)
    assert not run.deployed and len(run.arms) == run.state.episode <= 20


def test_episodes_before_a_bad_one_are_counted() -> None:
    def out_of_range(batch: Batch, start: int) -> Batch:
        reward = np.array(batch.reward)
        reward[batch.episode_of("inner") == start] = 99.0
        return replace(batch, reward=reward)

    run = Handover(Spoilt(out_of_range, 37), LEGACY, HOSTS["greedy"](), SETTINGS, 3)
    for _ in range(2):  # and again, since it stays where it is
        with pytest.raises(RefusedError, match="99"):
            run.advance(60)
        assert run.state.episode == len(run.arms) == 37
    assert replay_events(run.events) == run.state


def test_without_rewards_the_gate_pauses_and_says_so() -> None:
    def silent(batch: Batch, start: int) -> Batch:
        seen = batch.episode_of("inner") < start
        reward = np.where(seen, batch.reward, np.nan)
        return replace(batch, reward=reward, observed=seen)

    run = run_on(Spoilt(silent, 20), 120)
    assert run.state.paused == "no reward has come for 32 episodes"
    assert [event.episode for event in run.events if isinstance(event, Paused)] == [52]
    assert not run.deployed
    units = [place for place, event in enumerate(run.events) if getattr(event, "episode", 0) == 45]
    again = Handover(Spoilt(silent, 20), LEGACY, HOSTS["greedy"](), SETTINGS, 3)
    again.restore(run.events[: units[0]])  # in the middle of the silence
    again.advance(120)
    assert again.events == run.events


def test_a_reward_that_is_nan_is_missing_also_if_the_plant_does_not_say_so(tmp_path: Path) -> None:
    def unsaid(batch: Batch, start: int) -> Batch:
        reward = np.array(batch.reward)
        reward[np.flatnonzero(batch.episode_of("inner") == start)[-1:]] = np.nan
        return replace(batch, reward=reward)

    def said(batch: Batch, start: int) -> Batch:
        batch = unsaid(batch, start)
        return replace(batch, observed=~np.isnan(np.array(batch.reward)))

    runs = [Handover(Spoilt(kind, 20), LEGACY, HOSTS["greedy"](), SETTINGS, 3) for kind in (unsaid, said)]
    for name, run in zip(("unsaid", "said"), runs, strict=True):
        run_in_folder(tmp_path / name, run, 60)
    assert runs[0].events == runs[1].events
    logs = [(tmp_path / name / "log.parquet").read_bytes() for name in ("unsaid", "said")]
    assert logs[0] == logs[1]


def test_another_version_of_the_policy_pauses_the_gate() -> None:
    other = WORLD.legacy("sign:epsilon=0.3")

    @dataclass(frozen=True)
    class Headstrong:
        problem: Problem = WORLD.problem

        def episodes(self, first: int, count: int, policy: Policy, seed: int) -> Batch:
            return WORLD.episodes(first, count, policy if first < 20 else other, seed)

    run = run_on(Headstrong(), 120)
    assert run.state.paused is not None and "another version of the policy acts" in run.state.paused
    assert not run.deployed


# ---- folders -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("trust") / "run"
    run_in_folder(place, Handover(WORLD, LEGACY, HOSTS["greedy"](), SETTINGS, 3), 120)
    return place


def test_policies_of_a_run_are_not_certified_on_its_own_log(finished: Path) -> None:
    place = finished / "policies" / "inner"
    record = load_record(place)
    assert record["scope"] == ["inner"] and record["fingerprints"]["episodes"] == 120
    candidate = Candidate(load_policy(place, WORLD.problem), "handed over", record=record)
    verdict = certify(Source(finished / "log.parquet", WORLD.problem), candidate, ledger=False).verdict
    assert verdict.verdict == "refused" and "learned from" in verdict.sentence


def test_an_edited_reward_is_noticed(finished: Path) -> None:
    events = read_events(finished / "events.jsonl")
    place = next(place for place, event in enumerate(events) if getattr(event, "episode", None) == 9 and hasattr(event, "reward"))
    events[place] = replace(events[place], reward=0.123)  # type: ignore[call-arg]
    with pytest.raises(PolicyError, match=r"'unit', reward: 0\.123 is recorded"):
        Handover(WORLD, LEGACY, HOSTS["greedy"](), SETTINGS, 3).restore(events)


def test_a_run_goes_on_with_more_episodes(finished: Path, tmp_path: Path) -> None:
    place = tmp_path / "run"
    run_in_folder(place, Handover(WORLD, LEGACY, HOSTS["greedy"](), SETTINGS, 3), 60)
    assert run_in_folder(place, Handover(WORLD, LEGACY, HOSTS["greedy"](), SETTINGS, 3), 120)["episodes"] == 120
    assert (place / "events.jsonl").read_bytes() == (finished / "events.jsonl").read_bytes()


def test_what_operators_say_is_kept(tmp_path: Path) -> None:
    waiting = SETTINGS.model_copy(update={"mode": "approve"})

    def start() -> Handover:
        return Handover(WORLD, LEGACY, HOSTS["greedy"](), waiting, 3)

    assert run_in_folder(tmp_path, start(), 80)["levels"][0]["control"] == "legacy"
    word = OperatorAction("approve", "ann", "the trend holds", 0, "inner")
    after = run_in_folder(tmp_path, start(), 100, actions=[word])
    assert after["levels"][0]["control"] == "agent"
    kept = read_events(tmp_path / "events.jsonl")
    assert any(isinstance(event, OperatorAction) and event.who == "ann" for event in kept)
    assert replay_events(kept).at("inner") is not None
    again = start()
    again.restore(kept)
    assert again.state == replay_events(kept)
    assert json.loads((tmp_path / "summary.json").read_text())["levels"][0]["control"] == "agent"


def test_a_gain_that_is_certified_and_waits_for_a_larger_cap_is_not_called_uncertified(tmp_path: Path) -> None:
    patient = SETTINGS.model_copy(update={"patience": 50.0})
    summary = run_in_folder(tmp_path, Handover(WORLD, LEGACY, HOSTS["greedy"](), patient, 3), 100)
    assert summary["levels"][0]["control"] == "legacy"
    assert "Certified at risk 0.05, not handed over yet: 'inner'." in summary["sentence"]
