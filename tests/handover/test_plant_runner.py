"""The gate on a plant: levels are handed over, runs are restored bit for bit, and nothing that is altered gets control."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aegis.errors import InputError, OutputError, PolicyError, RefusedError
from aegis.handover import (
    HOSTS,
    Event,
    Flipped,
    Frozen,
    GateSettings,
    Handover,
    History,
    OperatorAction,
    Paused,
    Proposal,
    Restarted,
    UnitCounted,
    event_from_plain,
    event_to_plain,
    read_events,
    replay_events,
    run_in_folder,
)
from aegis.ope import reward_measure
from aegis.policies import Capped, Floored, Legacy, Uniform, path_full
from aegis.problem import Array, Batch, Policy
from aegis.worlds import World, make_world, true_value

WORLD = make_world("additive", f_a=2.0, inner_steps=4)
EPISODES = 100
SETTINGS = GateSettings(stage=12, share=0.5, holdback=0.1)


def start(settings: GateSettings = SETTINGS, seed: int = 3, world: World = WORLD) -> Handover:
    return Handover(world, world.legacy("uniform"), HOSTS["greedy"](), settings, seed)


def lines(events: list[Event]) -> list[str]:
    return [json.dumps(event_to_plain(event), allow_nan=False) for event in events]


@pytest.fixture(scope="module")
def whole() -> Handover:
    run = start()
    run.advance(EPISODES)
    return run


def flips(run: Handover) -> list[Flipped]:
    return [event for event in run.events if isinstance(event, Flipped)]


def test_the_inner_level_is_handed_over_to_something_better(whole: Handover) -> None:
    first = flips(whole)[0]
    assert (first.level, first.action) == ("inner", "handover") and 14 < first.episode < 90
    assert whole.state.at("inner") is not None and whole.state.spent <= SETTINGS.delta
    assert true_value(WORLD, whole.acting) > true_value(WORLD, whole.legacy)
    measure = reward_measure(WORLD.problem)
    gain = true_value(WORLD, whole.acting) - true_value(WORLD, whole.legacy)
    assert 0 < measure.gain(first.gain_lower) < gain


def test_the_state_is_the_replay_of_the_events(whole: Handover) -> None:
    assert replay_events(whole.events) == whole.state
    assert replay_events([event_from_plain(json.loads(line)) for line in lines(whole.events)]) == whole.state


def test_units_are_numbered_and_carry_evidence_of_open_challenges(whole: Handover) -> None:
    units = [event for event in whole.events if isinstance(event, UnitCounted)]
    assert [unit.episode for unit in units] == list(range(1, EPISODES + 1))
    assert not units[0].evidence  # nothing was frozen yet
    assert all(not unit.evidence for unit in units if unit.arm != "agent")
    first = next(event for event in whole.events if isinstance(event, Frozen))
    counted = next(unit for unit in units if unit.evidence)
    assert counted.episode == first.since and set(counted.evidence) == {item.name for item in first.challenges}


def test_arms_follow_the_stage_and_the_holdback(whole: Handover) -> None:
    first = flips(whole)[0]
    arms = np.array(whole.arms)
    assert (arms[: first.since - 1] == "agent").all()
    stage = arms[first.since - 1 : first.since - 1 + SETTINGS.stage]
    assert "before" in stage and "before" not in arms[first.since - 1 + SETTINGS.stage :]
    assert "legacy" in arms[first.since - 1 :]


@pytest.mark.parametrize("cut", [20, 75, -1])
def test_a_restored_run_goes_on_bit_for_bit(whole: Handover, cut: int) -> None:
    kept = [event_from_plain(json.loads(line)) for line in lines(whole.events)[:cut]]
    run = start()
    run.restore(kept)
    run.advance(EPISODES)
    assert lines(run.events) == lines(whole.events)
    assert (run.state, run.arms, run.rewards) == (whole.state, whole.arms, whole.rewards)


def test_events_of_another_gate_are_not_taken_up(whole: Handover) -> None:
    with pytest.raises(InputError, match="other settings"):
        start(GateSettings(delta=0.1)).restore(whole.events)


def test_another_seed_gives_other_challengers(whole: Handover) -> None:
    with pytest.raises(PolicyError, match=r"'unit', reward: .* is recorded"):
        start(seed=4).restore(whole.events)


def test_an_altered_challenger_gets_no_control() -> None:
    run = start()
    run.advance(20)
    other = Floored(
        WORLD.problem, Legacy(WORLD.problem, {n: Uniform() for n in WORLD.problem.names}), run.legacy, 0.05, ["inner"]
    )
    for key in list(run.challengers):
        if run.challengers[key].level == "inner":
            run.challengers[key] = replace(run.challengers[key], policy=other)
    with pytest.raises(PolicyError, match="altered after it was frozen"):
        run.advance(EPISODES)
    assert not run.deployed


class Broken:
    """A plant that reports rewards outside their range in one episode."""

    problem = WORLD.problem

    def __init__(self, last: int) -> None:
        self.last = last

    def episodes(self, first: int, count: int, policy: Policy, seed: int) -> Batch:
        """Run the additive world and spoil it."""
        batch = WORLD.episodes(first, count, policy, seed)
        reward = np.array(batch.reward)
        reward[batch.episode[batch.episode_of("inner")] == self.last] = 99.0
        return replace(batch, reward=reward)


def test_rewards_out_of_range_stop_the_run_and_lose_nothing() -> None:
    run = Handover(Broken(30), WORLD.legacy("uniform"), HOSTS["greedy"](), GateSettings(), 3)
    with pytest.raises(RefusedError, match="outside the declared range"):
        run.advance(EPISODES)
    assert run.state.episode == len(run.arms) == 30 and not run.deployed
    assert replay_events(run.events) == run.state


class Wrong:
    """A host whose scores are not numbers."""

    name = "wrong"

    def propose(self, history: History, levels: Sequence[str], seed: int) -> Mapping[str, Proposal]:
        """Propose nonsense."""
        return {"inner": Proposal(self, self)}

    def predict(self, level: str, batch: Batch) -> Array:
        """Predict nothing."""
        return np.full((len(batch.levels[level]), WORLD.problem.level(level).actions.count), np.nan)


def test_a_host_without_finite_scores_is_refused() -> None:
    run = Handover(WORLD, WORLD.legacy("uniform"), Wrong(), GateSettings(), 3)
    with pytest.raises(PolicyError):
        run.advance(EPISODES)
    assert run.state.episode == 14 and not run.deployed


def test_operators_pause_resume_and_revert() -> None:
    run = start(GateSettings())
    run.advance(20)
    assert run.challengers
    run.say(OperatorAction("pause", "ann", "maintenance", 0))
    run.advance(24)
    assert run.state.paused and all(
        not event.evidence for event in run.events if isinstance(event, UnitCounted) and event.episode > 20
    )
    events = run.say(OperatorAction("resume", "ann", "done", 0))
    assert any(isinstance(event, Restarted) for event in events) and not run.challengers
    run.advance(120)
    assert run.state.at("inner") is not None
    run.say(OperatorAction("revert", "bob", "not convinced", 0, "inner"))
    assert run.state.at("inner") is None and not run.deployed
    batch = WORLD.episodes(0, 2, run.legacy, 1)
    np.testing.assert_array_equal(path_full(run.acting, "inner", batch), path_full(run.legacy, "inner", batch))


def test_a_pause_of_the_data_says_why() -> None:
    run = start(GateSettings())
    run.advance(5)
    run.say(Paused(5, "no data for an hour"))
    assert run.state.paused == "no data for an hour"


def test_deployed_policies_keep_the_floor(whole: Handover) -> None:
    batch = WORLD.episodes(0, 3, whole.legacy, 1)
    chances = path_full(whole.deployed["inner"], "inner", batch)
    legacy = path_full(whole.legacy, "inner", batch)
    assert (chances >= 0.05 * legacy - 1e-12).all()
    assert isinstance(whole.deployed["inner"], Floored) and isinstance(whole.deployed["inner"].new, Capped)


# ---- folders -----------------------------------------------------------------------------------------------------------------


def test_a_folder_keeps_everything_and_is_resumed(whole: Handover, tmp_path: Path) -> None:
    summary = run_in_folder(tmp_path / "a", start(), EPISODES)
    kept = (tmp_path / "a" / "events.jsonl").read_bytes()
    assert kept.decode().splitlines() == lines(whole.events)
    assert summary["levels"][0]["control"] == "agent" and summary["events"][0]["kind"] == "frozen"
    assert "Handed over: 'inner'" in summary["sentence"]
    (tmp_path / "b").mkdir()
    for name in ("settings.json", "problem.yaml"):
        (tmp_path / "b" / name).write_bytes((tmp_path / "a" / name).read_bytes())
    (tmp_path / "b" / "events.jsonl").write_bytes(kept[: int(len(kept) * 0.6)])  # killed in the middle of a line
    again = run_in_folder(tmp_path / "b", start(), EPISODES)
    assert again == summary and (tmp_path / "b" / "events.jsonl").read_bytes() == kept
    assert (tmp_path / "b" / "log.parquet").read_bytes() == (tmp_path / "a" / "log.parquet").read_bytes()
    assert (tmp_path / "a" / "policies" / "inner").is_dir()


def test_a_folder_of_another_run_is_not_taken(tmp_path: Path) -> None:
    run_in_folder(tmp_path, start(), 16)
    with pytest.raises(OutputError, match="other settings"):
        run_in_folder(tmp_path, start(GateSettings(delta=0.1)), 16)


def test_damaged_events_are_named(tmp_path: Path) -> None:
    run_in_folder(tmp_path, start(), 16)
    path = tmp_path / "events.jsonl"
    text = path.read_text().splitlines()
    path.write_text("\n".join([*text[:3], '{"kind": "unit", "episode": 3}', *text[4:]]) + "\n")
    with pytest.raises(InputError, match="line 4"):
        read_events(path)
    path.write_text("\n".join(text[1:]) + "\n")
    with pytest.raises(InputError, match="line 1"):
        read_events(path)
