"""Learning from a log: only the prior side counts, and with no option set it beats the legacy in every world."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aegis.agents import CandidateSettings, learn
from aegis.logs import Source, Split, write_log
from aegis.mechanisms import MODELS, TUNED
from aegis.policies import Hybrid, policy_digest, with_incumbent
from aegis.problem import Array, Batch
from aegis.worlds import make_world

learn_untuned = functools.partial(learn, models=MODELS)  # without the search for length-scales, which is slow

# world, legacy, episodes in the log, episodes simulated, least share of the gap to the oracle that is closed, oracle's value
WORLDS = [
    ("additive", "uniform", 600, 100, 0.9, 5.725),
    pytest.param("additive", "natural", 600, 100, 0.9, 5.725, marks=pytest.mark.ci),
    pytest.param("unified", "uniform", 600, 100, 0.9, 6.120, marks=pytest.mark.ci),
    pytest.param("unified", "natural", 600, 100, 0.9, 6.120, marks=pytest.mark.ci),
    pytest.param("linear", "uniform", 600, 100, 0.0, 1.0, marks=pytest.mark.ci),
    ("linear", "natural", 600, 100, 0.0, 1.0),
    ("plant", "uniform", 300, 40, 0.85, 5.676),
    pytest.param("plant", "uniform", 600, 40, 0.85, 5.676, marks=pytest.mark.ci),
    pytest.param("plant", "natural", 600, 40, 0.85, 5.676, marks=pytest.mark.ci),
    pytest.param("clinic", "uniform", 800, 100, 0.8, 0.742, marks=pytest.mark.ci),
    pytest.param("clinic", "natural", 800, 100, 0.8, 0.742, marks=pytest.mark.ci),
]


@pytest.mark.parametrize(("name", "legacy", "episodes", "judged", "share", "best"), WORLDS)
def test_the_default_beats_the_legacy(
    name: str, legacy: str, episodes: int, judged: int, share: float, best: float, tmp_path: Path
) -> None:
    world = make_world(name)
    behaviour = world.legacy(legacy)
    write_log(world.episodes(0, episodes, behaviour, 5), world.problem, tmp_path / "log.parquet")
    found = learn(Source(tmp_path / "log.parquet", world.problem))
    # fresh episodes, the same noise for both: a paired z-test
    old, new = (world.episodes(10_000, judged, policy, 77) for policy in (behaviour, found.policy))
    before, after = (batch.episode_means(batch.reward) for batch in (old, new))
    gain = after - before
    assert gain.mean() > 4 * gain.std() / np.sqrt(judged)
    noise = 4 * (after - before).std() / np.sqrt(judged)
    assert gain.mean() > share * (best - before.mean()) - noise


def test_only_the_prior_side_is_learned_from(tmp_path: Path) -> None:
    world = make_world("clinic")
    batch = world.episodes(0, 80, world.legacy("uniform"), 5)
    split = Split()
    prior = split.prior(world.problem, batch)
    inside = prior[batch.episode_of("dose")]

    def spoil(where: np.ndarray) -> Batch:
        return replace(
            batch, reward=np.where(where, 1.0 - batch.reward, batch.reward), outcome=np.where(where, 0.0, batch.outcome)
        )

    def learned(content: Batch) -> tuple[dict, Array]:
        write_log(content, world.problem, tmp_path / "log.parquet")
        found = learn(Source(tmp_path / "log.parquet", world.problem), split)
        return found.fitted.belief.arrays(), found.fitted.rewards.predict("dose", batch)

    belief, rewards = learned(batch)
    for content in (spoil(~inside), batch.take_episodes(prior)):
        same, predicted = learned(content)
        for name, values in belief.items():
            np.testing.assert_allclose(same[name], values, rtol=1e-9, atol=1e-9)  # sums in another order round differently
        np.testing.assert_allclose(predicted, rewards, rtol=1e-7)
    assert np.abs(learned(spoil(inside))[1] - rewards).max() > 0.1


def test_blocks_do_not_change_what_is_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world("additive")
    write_log(world.episodes(0, 60, world.legacy("uniform"), 5), world.problem, tmp_path / "log.parquet")
    whole = learn(Source(tmp_path / "log.parquet", world.problem))
    plain = Source.batches

    def small(self, columns=(), rows=100, side=None, split=None):
        return plain(self, columns, 100, side, split)

    monkeypatch.setattr(Source, "batches", small)
    parts = learn(Source(tmp_path / "log.parquet", world.problem))
    assert parts.record["models"] == whole.record["models"]
    batch = world.episodes(100, 10, world.legacy("uniform"), 6)
    for level in world.problem.names:
        np.testing.assert_allclose(
            parts.fitted.rewards.predict(level, batch), whole.fitted.rewards.predict(level, batch), rtol=1e-6, atol=1e-6
        )


def test_the_record_says_what_was_done(tmp_path: Path) -> None:
    world = make_world("additive")
    write_log(world.episodes(0, 60, world.legacy("uniform"), 5), world.problem, tmp_path / "log.parquet")
    source = Source(tmp_path / "log.parquet", world.problem)
    split = Split("hash", "mine", 0.3)
    found = learn_untuned(source, split, scope=["inner"])
    record = found.record
    assert Split.of(record["split"]) == split
    kept = source.read(side="prior", split=split)
    assert record["episodes"] == len(kept)
    assert record["decisions"] == len(kept.levels["inner"])
    assert record["legacy_value"] == pytest.approx(kept.episode_means(kept.reward).mean())
    assert record["scope"] == ["inner"]
    assert "not a certificate" in record["plug_in_note"]
    assert set(record["models"].values()) | set(record["reward_models"].values()) <= {*MODELS, TUNED}
    assert len(record["problem"]) == len(record["log"]["digest"]) == 64


def test_missing_rewards_are_left_out(tmp_path: Path) -> None:
    world = make_world("additive")
    batch = world.episodes(0, 200, world.legacy("uniform"), 5)
    observed = np.random.default_rng(1).random(batch.reward.size) < 0.5
    write_log(replace(batch, observed=observed), world.problem, tmp_path / "log.parquet")
    found = learn_untuned(Source(tmp_path / "log.parquet", world.problem))
    assert 0.4 < found.record["rewards_missing"] / found.record["decisions"] < 0.6
    judged = world.episodes(1000, 30, found.policy, 9)
    assert judged.episode_means(judged.reward).mean() > 5


def test_the_plug_in_value_is_near_the_truth_where_the_model_is_right(tmp_path: Path) -> None:
    world = make_world("additive")
    write_log(world.episodes(0, 400, world.legacy("uniform"), 5), world.problem, tmp_path / "log.parquet")
    source = Source(tmp_path / "log.parquet", world.problem)
    both = learn_untuned(source)
    assert both.plug_in == pytest.approx(5.725, abs=0.3)
    inner = learn_untuned(source, scope=["inner"])
    fresh = world.episodes(1000, 300, Hybrid(world.problem, {"inner"}, inner.policy, world.legacy("uniform")), 9)
    assert inner.plug_in == pytest.approx(fresh.episode_means(fresh.reward).mean(), abs=0.4)


def test_a_split_in_time_learns_from_the_past(tmp_path: Path) -> None:
    world = make_world("additive")
    problem = replace(world.problem, time="when")
    batch = world.episodes(0, 60, world.legacy("uniform"), 5)
    order = np.random.default_rng(2).permutation(60)
    write_log(replace(batch, time=order), problem, tmp_path / "log.parquet")
    found = learn_untuned(Source(tmp_path / "log.parquet", problem), Split("time", fraction=0.25))
    assert found.record["split"] == {"kind": "time", "key": "aegis", "fraction": 0.25, "cut": 15}
    past = batch.take_episodes(order < 15)
    assert found.record["episodes"] == 15
    assert found.record["legacy_value"] == pytest.approx(past.episode_means(past.reward).mean())


@pytest.mark.parametrize("kind", ["greedy", "planned", "capped", "stepped"])
def test_a_share_of_nothing_gives_the_policy_of_the_hyper_prior(kind: str, tmp_path: Path) -> None:
    """The paper's alpha = 0: p0 is NIG(0, 0.1 I, 2, 1) in raw units, and no row of the log changes the policy."""
    world = make_world("additive", inner_steps=2)
    found = []
    for seed in (5, 6):  # two logs with nothing in common
        problem = with_incumbent(world.problem, world.legacy("uniform"))
        write_log(world.episodes(0, 30, world.legacy("uniform"), seed), problem, tmp_path / f"{seed}.parquet")
        found.append(learn(Source(tmp_path / f"{seed}.parquet", problem), 0.0, CandidateSettings(kind, particles=3)))
    first, second = found
    assert policy_digest(first.policy) == policy_digest(second.policy)
    for state in first.fitted.belief.states.values():
        np.testing.assert_array_equal(state.moments().mean, 0.0)
        np.testing.assert_allclose(state.moments().factor @ state.moments().factor.T, 0.1 * np.eye(len(state.moments().factor)))
        assert (state.moments().shape, state.moments().rate.tolist()) == (2.0, [1.0])
    assert first.fitted.belief.kl() == pytest.approx(0.0, abs=1e-12)
    record = first.record
    assert (record["episodes"], record["plug_in_value"], record["legacy_value"]) == (0, None, None)
    assert "has learned nothing from the log" in record["warnings"][0] and record["split"]["fraction"] == 0.0
    assert record["fingerprints"]["episodes"] == 0 and np.isnan(first.plug_in)
