"""Certificates where actions are an interval: weights by hand, coverage, columns and callables, what is refused."""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from aegis.agents import CandidateSettings, learn
from aegis.certificate import Candidate, certify, verify
from aegis.certificate.results import smoothing_slack
from aegis.evidence import Sketch, value_grid
from aegis.logs import Source, Split, to_table
from aegis.ope import CandidateView, RewardModels, plain_gains, plain_values, reward_measure
from aegis.ope.weights import reward_weights
from aegis.policies import Function, Hybrid, TargetColumns
from aegis.problem import Array, Batch, Level, Problem, Rows, Scope
from aegis.worlds import World, make_world, true_value

CLIP = make_world("dosing", ends="clip", natural_sd=3.0)
DOSE = Scope("dose")


def follow(level: Level, rows: Rows) -> Array:
    """Choose the dose that is best in the world."""
    return np.clip(5.0 + 1.5 * rows["marker"], 0.0, 10.0)


def candidate(problem: Problem) -> Function:
    return Function(problem, follow, ["dose"])


def log(world: World, count: int, seed: int) -> Batch:
    return world.episodes(0, count, world.legacy("natural"), seed)


def naive_weights(batch: Batch, bandwidth: float) -> list[float]:
    """Return w = 1{inside} / (length mu), decision by decision; 0 at the ends, where the legacy has a probability."""
    table, found = batch.levels["dose"], []
    assert table.value is not None
    for value, mu, marker in zip(table.value, table.mu_taken, table.context["marker"], strict=True):
        centre = min(max(5.0 + 1.5 * marker, 0.0), 10.0)
        low, high = max(0.0, centre - bandwidth), min(10.0, centre + bandwidth)
        inside = low <= value <= high and value not in (0.0, 10.0)
        found.append(1.0 / ((high - low) * mu) if inside else 0.0)
    return found


def test_weights_values_and_gains_are_those_of_a_naive_transcription() -> None:
    world = make_world("dosing", ends="clip", natural_sd=3.0, bandwidth=2.5)  # windows that reach the ends
    batch = log(world, 200, 3)
    expected = np.array(naive_weights(batch, 2.5))
    value = batch.levels["dose"].value
    assert value is not None and (expected[(value == 0) | (value == 10)] == 0).all() and (expected > 0).mean() > 0.2
    found = reward_weights(world.problem, candidate(world.problem), batch, DOSE, "dose")
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    view, measure = CandidateView(world.problem, batch, candidate(world.problem), RewardModels()), reward_measure(world.problem)
    scaled = (np.asarray(batch.reward) + 0.04) / 1.04
    np.testing.assert_allclose(plain_values(view, DOSE, measure), batch.episode_means(expected * scaled), rtol=1e-9)
    np.testing.assert_allclose(plain_gains(view, DOSE, measure), batch.episode_means((expected - 1) * scaled), atol=1e-12)


@pytest.mark.parametrize("bandwidth", [0.3, 2.5])
@pytest.mark.parametrize("ends", ["cut", "clip"])
def test_weights_average_one_also_where_windows_are_cut_and_the_legacy_clips(ends: str, bandwidth: float) -> None:
    world = make_world("dosing", ends=ends, natural_sd=3.0, bandwidth=bandwidth, marker_sd=1.5)
    found = reward_weights(world.problem, candidate(world.problem), log(world, 5000, 8), DOSE, "dose")
    assert abs(found.mean() - 1.0) < 4.5 * found.std() / math.sqrt(found.size)
    unnormalised = found * np.array(
        [min(1.0, (min(10, c + bandwidth) - max(0, c - bandwidth)) / (2 * bandwidth)) for c in centres(world, 5000)]
    )
    if bandwidth == 2.5:
        assert unnormalised.mean() < 0.97  # what dividing by 2 h would give


def centres(world: World, count: int) -> Array:
    return np.clip(5.0 + 1.5 * log(world, count, 8).levels["dose"].context["marker"], 0.0, 10.0)


def test_on_policy_every_weight_is_one() -> None:
    batch = log(CLIP, 100, 5)
    found = reward_weights(CLIP.problem, CLIP.legacy("natural"), batch, DOSE, "dose")
    np.testing.assert_array_equal(found, np.ones(400))  # at atoms too: probability over probability


# ---- from a log to a certificate, by a callable, by points and by columns


@pytest.fixture(scope="module")
def table() -> pa.Table:
    batch = log(CLIP, 500, 12)
    found = candidate(CLIP.problem).taken("dose", batch)[0]
    return to_table(batch, CLIP.problem).append_column("target", pa.array(found))


def certified(table: pa.Table, policy: Any, problem: Problem = CLIP.problem, **more: Any) -> Any:
    return certify(Source(table, problem), policy, scopes=[["dose"]], ledger=False, now="2024-01-01T00:00:00+00:00", **more)


def test_columns_and_a_callable_give_the_same_numbers(table: pa.Table) -> None:
    by_call = certified(table, candidate(CLIP.problem))
    by_column = certified(table, TargetColumns(CLIP.problem, {"dose": "target"}))
    one, other = by_call.level("dose"), by_column.level("dose")
    assert by_call.certified and by_call.verdict.verdict == by_column.verdict.verdict
    assert one.gain_lower == other.gain_lower and one.value_lower == other.value_lower and one.gain_lower > 0.1
    assert one.method == "plain" and one.units == other.units
    truth = true_value(CLIP, Hybrid(CLIP.problem, DOSE, candidate(CLIP.problem), CLIP.legacy("natural")))
    assert one.value_lower < truth and one.gain_lower < truth - true_value(CLIP, CLIP.legacy("natural"))


def test_a_learned_policy_is_smoothed_certified_and_verified(tmp_path: Path) -> None:
    world = make_world("dosing")
    source = Source(to_table(log(world, 500, 3), world.problem), world.problem)
    learned = learn(source, Split("hash", "k", 0.5), CandidateSettings("greedy"), ["dose"])
    certificate = certify(source, learned, scopes=[["dose"]], ledger=False)
    level = certificate.level("dose")
    assert certificate.certified and level.gain_lower is not None and level.gain_lower > 0
    content = json.loads(json.dumps(certificate.to_json()))
    assert verify(content, source, [Candidate.of(learned)]).holds
    codes = [item.code for item in certificate.assumptions]
    assert "smoothed" in codes and "lipschitz" in codes
    (exact,) = certificate.diagnostics["unsmoothed"]
    assert exact["slack"] == pytest.approx(world.problem.innermost.actions.lipschitz * 0.3)  # type: ignore[operator]
    assert exact["gain_lower"] == pytest.approx(level.gain_lower - exact["slack"])


def test_a_changed_number_is_found_when_a_certificate_is_verified(table: pa.Table) -> None:
    certificate = json.loads(json.dumps(certified(table, candidate(CLIP.problem)).to_json()))
    numbers = table["dose"].to_numpy().copy()
    numbers[17] += 1e-9  # the nearest point stays the same
    other = table.set_column(table.column_names.index("dose"), "dose", pa.array(numbers))
    found = verify(certificate, Source(other, CLIP.problem), [Candidate.of(candidate(CLIP.problem))])
    assert not found.holds


def test_the_exact_policy_is_never_better_than_its_slack_says() -> None:
    """The smoothed policy's value minus L h / 2 is below the value of acting exactly, by the oracle."""
    for bandwidth in (0.5, 2.0):
        world = make_world("dosing", doses=1, bandwidth=bandwidth)
        sharp = make_world("dosing", doses=1, bandwidth=1e-3)
        smooth = true_value(world, Hybrid(world.problem, DOSE, candidate(world.problem), world.legacy("natural")))
        exact = true_value(sharp, Hybrid(sharp.problem, DOSE, candidate(sharp.problem), sharp.legacy("natural")))
        less = smoothing_slack(world.problem, ["dose"])
        assert less is not None and smooth - less <= exact
    problem = make_world("dosing").problem
    inner = problem.innermost
    undeclared = replace(problem, levels=(problem.levels[0], replace(inner, actions=replace(inner.actions, lipschitz=None))))
    assert smoothing_slack(undeclared, ["dose"]) is None and smoothing_slack(problem, ["course"]) is None
    assert smoothing_slack(replace(problem, carry_over="within"), ["dose"]) is None


def test_the_mean_distance_in_a_window_is_at_most_half_the_bandwidth() -> None:
    for h, low_side, high_side in ((1.0, 1.0, 1.0), (1.0, 0.0, 1.0), (1.0, 0.3, 1.0), (2.0, 0.4, 1.1)):
        inside = -low_side + (np.arange(200_000) + 0.5) / 200_000 * (low_side + high_side)
        assert np.abs(inside).mean() <= h / 2 + 1e-6
        assert np.abs(inside).mean() == pytest.approx((low_side**2 + high_side**2) / (2 * (low_side + high_side)), abs=1e-4)


# ---- what is refused


def test_masses_and_densities_are_never_mixed(table: pa.Table) -> None:
    """A log that clips, read without its atoms, is refused; so is a candidate whose densities are not renormalised upwards."""
    problem, inner = CLIP.problem, CLIP.problem.innermost
    without = replace(problem, levels=(problem.levels[0], replace(inner, actions=replace(inner.actions, atoms=()))))
    found = certified(table, candidate(without), without)
    assert found.verdict.verdict == "refused" and "undeclared-atom" in [item["code"] for item in found.findings]
    raised = table.set_column(table.column_names.index("target"), "target", pa.array(1.5 * table["target"].to_numpy()))
    assert certified(raised, TargetColumns(problem, {"dose": "target"})).verdict.verdict == "refused"


def test_a_density_that_was_not_renormalised_is_refused() -> None:
    """A Gaussian cut to the interval, logged with the density of one that is not: the weights are too large."""
    world = make_world("dosing", natural_sd=6.0)
    batch = log(world, 800, 2)
    table = batch.levels["dose"]
    inside = table.mu_taken * 0.59  # about the share of that Gaussian which lies in [0, 10]
    wrong = to_table(batch.with_level("dose", replace(table, mu_taken=inside)), world.problem)
    found = certified(wrong, candidate(world.problem), world.problem)
    assert found.verdict.verdict == "refused" and "miscalibrated-propensities" in [item["code"] for item in found.findings]


def test_capped_candidates_and_the_gate_say_what_they_need(table: pa.Table) -> None:
    from aegis.errors import PolicyError, SettingError
    from aegis.handover import make_gate

    with pytest.raises(PolicyError, match="learn kind 'greedy'"):
        learn(Source(table, CLIP.problem), settings=CandidateSettings("capped"), scope=["dose"])
    with pytest.raises(SettingError, match="those of an interval are a density"):
        make_gate("challenger", CLIP, CLIP.legacy("natural"), None)  # type: ignore[arg-type]


def test_densities_may_be_declared_wrong_by_a_factor(table: pa.Table) -> None:
    problem, inner = CLIP.problem, CLIP.problem.innermost
    assert inner.propensity is not None
    doubted = replace(inner, propensity=replace(inner.propensity, estimated=True, wrong_by=1.2))
    found = certified(table, candidate(CLIP.problem), replace(problem, levels=(problem.levels[0], doubted)))
    exact = certified(table, candidate(CLIP.problem)).level("dose")
    assert exact.gain_lower is not None and exact.sensitivity.gamma is not None
    level = found.level("dose")
    assert level.value_lower is not None and exact.value_lower is not None
    assert level.value_lower < exact.value_lower and level.method.startswith("plain")


# ---- coverage


def test_the_bounds_cover_in_replications() -> None:
    """200 logs of a legacy that clips, a candidate with windows that are cut: value and gain, against the oracle."""
    world = make_world("dosing", doses=1, ends="clip", natural_sd=3.0, bandwidth=1.0)
    problem, policy, runs, delta = world.problem, candidate(world.problem), 200, 0.1
    value = true_value(world, Hybrid(problem, DOSE, policy, world.legacy("natural")))
    measure = reward_measure(problem)
    truth = float(measure.scaled(np.array([value]))[0])
    gain = (value - true_value(world, world.legacy("natural"))) / measure.width
    batch = log(world, 150 * runs, 77)
    view = CandidateView(problem, batch, policy, RewardModels())
    values, gains = (found.reshape(runs, 150) for found in (plain_values(view, DOSE, measure), plain_gains(view, DOSE, measure)))
    above = {"value": 0, "gain": 0}
    lower = []
    for run in range(runs):
        lower.append(Sketch.empty(value_grid(0)).add_values(values[run]).lower(delta, 0.0, 1.0))
        above["value"] += lower[-1] > truth
        above["gain"] += Sketch.empty(value_grid(0)).add_values(gains[run] + 1.0).lower(delta, 0.0, 2.0) - 1.0 > gain
    limit = binom.ppf(0.9999, runs, delta)
    assert above["value"] <= limit and above["gain"] <= limit
    assert np.median(lower) > 0.6 * truth  # and they say something


def test_pieces_and_blocks_give_the_same_certificate(table: pa.Table, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table, tmp_path / "log.parquet", row_group_size=100)
    one = certified(table, candidate(CLIP.problem)).level("dose")
    with contextlib.suppress(OSError):
        other = certify(
            Source(tmp_path / "log.parquet", CLIP.problem), candidate(CLIP.problem), scopes=[["dose"]], ledger=False
        ).level("dose")
        assert one.gain_lower == other.gain_lower


@pytest.mark.parametrize("method", ["water-filled", "robust"])
def test_a_method_that_needs_whole_distributions_is_said_not_to_apply(method: str) -> None:
    batch = log(CLIP, 60, 3)
    source = Source(to_table(batch, CLIP.problem), CLIP.problem)
    found = certify(source, candidate(CLIP.problem), scopes=[["dose"]], method=method, ledger=False)
    (said,) = [item for item in found.findings if item["code"] == "other-method"]
    assert said["severity"] == "warning" and said["message"] == (
        f"'{method}' was asked for, but of the interval at 'dose' the density at the number taken is logged and no whole "
        "distribution: the evidence of candidate 1 at 'dose' is plain"
    )
    for other in ("auto", "plain"):
        again = certify(source, candidate(CLIP.problem), scopes=[["dose"]], method=other, ledger=False)
        assert not any(item["code"] == "other-method" for item in again.findings)
        assert again.levels[0].gain_lower == found.levels[0].gain_lower


def test_a_policy_without_a_record_is_told_to_be_taken_as_fixed() -> None:
    batch = log(CLIP, 60, 3)
    found = certify(Source(to_table(batch, CLIP.problem), CLIP.problem), candidate(CLIP.problem), ledger=False, scopes=[["dose"]])
    (fixed,) = [item for item in found.assumptions if item.code == "fixed-policy"]
    assert "taken to be fixed before this log was seen" in fixed.checked
