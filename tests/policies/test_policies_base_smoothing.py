"""Smoothed policies against naive transcriptions: densities, draws, numbers a* of one's own, target columns, mixtures."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.errors import PolicyError
from aegis.policies import (
    Constant,
    Epsilon,
    Function,
    Gaussian,
    Hybrid,
    Legacy,
    Mixture,
    Natural,
    TargetColumns,
    Uniform,
    contrast_policies,
    draw_numbers,
    path_taken,
    read_policy,
    save_policy,
    sequential_taken,
)
from aegis.policies.base import draw_from_points, smoothed_density
from aegis.policies.rules import rule_from_description
from aegis.problem import Actions, Array, Batch, Level, LevelTable, Problem, Rows, nearest_points
from aegis.worlds import make_world

PROBLEM = make_world("dosing", ends="clip").problem
ACTIONS = PROBLEM.innermost.actions


def decisions(value: list[float], problem: Problem = PROBLEM) -> Batch:
    count, numbers = len(value), np.array(value)
    rows = np.arange(count, dtype=np.int32)
    course = LevelTable(rows, {"severity": np.zeros(count)}, np.zeros(count, dtype=np.int32), np.full(count, 1 / 3))
    marker = np.linspace(-1, 1, count)
    index = nearest_points(problem.innermost.actions, numbers)
    dose = LevelTable(rows, {"marker": marker}, index, np.full(count, 0.1), value=numbers)
    return Batch(np.arange(count), {"course": course, "dose": dose}, reward=np.zeros(count))


def naive(actions: Actions, chances: list[float], value: float) -> float:
    """Return the density at one number: window by window."""
    low, high = actions.limits
    total = 0.0
    for point, chance in zip(actions.values, chances, strict=True):
        left, right = (
            max(low, float(point) - float(actions.bandwidth or 0)),
            min(high, float(point) + float(actions.bandwidth or 0)),
        )
        if any(abs(value - atom) <= 1e-6 * (high - low) for atom in actions.atoms):
            continue
        if left <= value < right or (value == right == high):
            total += chance / (right - left)
    return total


CHANCES = st.lists(st.floats(0, 1), min_size=21, max_size=21).filter(lambda chances: sum(chances) > 0.01)


@given(CHANCES, st.lists(st.floats(0.0, 10.0), min_size=1, max_size=6))
def test_densities_are_those_of_a_naive_transcription(chances: list[float], value: list[float]) -> None:
    full = np.array(chances) / sum(chances)
    found = smoothed_density(ACTIONS, np.tile(full, (1, len(value), 1)), np.array(value))[0]
    assert found == pytest.approx([naive(ACTIONS, full.tolist(), number) for number in value], abs=1e-12)


@given(CHANCES, st.floats(0.05, 5.0))
@settings(max_examples=40)
def test_densities_integrate_to_one_whatever_the_bandwidth(chances: list[float], bandwidth: float) -> None:
    actions = Actions.interval("dose", 0.0, 10.0, bandwidth, 21)
    full = np.array(chances) / sum(chances)
    # The density is constant between the ends of windows: exact by the middles of the pieces.
    ends = np.concatenate([actions.numbers - bandwidth, actions.numbers + bandwidth, [0.0, 10.0]])
    cuts = np.unique(np.clip(ends, 0.0, 10.0))
    middles = (cuts[1:] + cuts[:-1]) / 2
    heights = smoothed_density(actions, np.tile(full, (1, middles.size, 1)), middles)[0]
    assert float(heights @ np.diff(cuts)) == pytest.approx(1.0)


@given(CHANCES)
@settings(max_examples=20)
def test_draws_follow_the_density(chances: list[float]) -> None:
    """Equally spaced uniform numbers land in each tenth of the interval as often as the density says."""
    full = np.array(chances) / sum(chances)
    uniform = (np.arange(4000) + 0.5) / 4000
    value = draw_from_points(ACTIONS, np.tile(full, (1, 4000, 1)), uniform)[0]
    assert value.min() >= 0 and value.max() <= 10
    fine = (np.arange(20_000) + 0.5) / 2000
    mass = smoothed_density(ACTIONS, np.tile(full, (1, 20_000, 1)), fine)[0].reshape(10, -1).mean(axis=1)
    assert np.histogram(value, np.linspace(0, 10, 11))[0] / 4000 == pytest.approx(mass, abs=0.012)


def test_a_window_at_the_end_is_renormalised() -> None:
    """The theory's example: dividing by 2 h at the ends would lose weight."""
    full = np.zeros((1, 2, 21))
    full[:, :, 0] = 1.0
    found = smoothed_density(ACTIONS, full, np.array([0.3, 0.7]))[0]
    assert found.tolist() == pytest.approx([1 / 0.6, 0.0])


# ---- rules with densities of their own


def phi(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


@pytest.mark.parametrize(("mean", "sd"), [(4.0, 2.0), (-3.0, 1.0), (14.0, 1.5), (5.0, 0.3)])
def test_a_gaussian_cut_to_the_interval(mean: float, sd: float) -> None:
    level, value = PROBLEM.innermost, np.array([0.1, 3.3, 9.9])
    rule = Gaussian({}, sd, mean)
    found = rule.density(level, {}, 3, value)
    mass = cdf((10 - mean) / sd) - cdf(-mean / sd)
    assert found == pytest.approx([phi((v - mean) / sd) / sd / mass for v in value], rel=1e-6)
    uniform = (np.arange(2000) + 0.5) / 2000
    drawn_values = rule.quantile(level, {}, 2000, uniform)
    shares = [(cdf((v - mean) / sd) - cdf(-mean / sd)) / mass for v in drawn_values[::97]]
    assert shares == pytest.approx(uniform[::97].tolist(), abs=1e-6)


def test_a_gaussian_that_clips_has_atoms_at_both_ends() -> None:
    level, rule = PROBLEM.innermost, Gaussian({}, 3.0, 4.0, "clip")
    found = rule.density(level, {}, 3, np.array([0.0, 2.0, 10.0]))
    assert found == pytest.approx([cdf(-4 / 3), phi(-2 / 3) / 3, 1 - cdf(2.0)])
    fine = (np.arange(100_000) + 0.5) / 10_000
    inside = float(rule.density(level, {}, fine.size, fine).mean() * 10)
    assert inside + found[0] + found[2] == pytest.approx(1.0, abs=1e-6)
    value = rule.quantile(level, {}, 1000, (np.arange(1000) + 0.5) / 1000)
    assert (value == 0).mean() == pytest.approx(cdf(-4 / 3), abs=0.002) and (value == 10).mean() == pytest.approx(
        1 - cdf(2), abs=0.002
    )
    cut = make_world("dosing").problem
    with pytest.raises(PolicyError, match="name them as 'atoms'"):
        Legacy(cut, {"course": Uniform(), "dose": rule})
    with pytest.raises(PolicyError, match="needs an action on an interval"):
        Legacy(cut, {"course": Gaussian({}, 1.0), "dose": Uniform()})


def test_exploration_mixes_densities_and_draws() -> None:
    level, value = PROBLEM.innermost, np.array([0.0, 3.7, 4.3, 9.0])
    rule = Epsilon(Constant(4.0), 0.25)
    found = rule.density(level, {}, 4, value)
    assert found == pytest.approx([0.0, 0.75 / 1.2 + 0.025, 0.75 / 1.2 + 0.025, 0.025])  # no mass at the atom
    uniform = (np.arange(4000) + 0.5) / 4000
    drawn_values = rule.quantile(level, {}, 4000, uniform)
    assert ((drawn_values >= 3.4) & (drawn_values <= 4.6)).mean() == pytest.approx(0.75 + 0.25 * 0.12, abs=0.002)
    assert rule_from_description(Gaussian({"marker": 1.0}, 2.0, 1.0, "clip").describe()) == Gaussian(
        {"marker": 1.0}, 2.0, 1.0, "clip"
    )


def test_a_rule_without_a_density_is_smoothed() -> None:
    batch, rules = decisions([3.5, 4.2, 8.0]), {"course": Uniform(), "dose": Natural({"marker": 1.0}, 0.5, 4.0)}
    legacy = Legacy(PROBLEM, rules)
    full = legacy.full("dose", batch)[0]
    assert legacy.taken("dose", batch)[0] == pytest.approx(
        [naive(ACTIONS, row.tolist(), value) for row, value in zip(full, (3.5, 4.2, 8.0), strict=True)]
    )


# ---- a policy that chooses a number


def follow(level: Level, rows: Rows) -> Array:
    """Choose a dose that follows the marker."""
    return np.clip(5.0 + 1.5 * rows["marker"], 0.0, 10.0)


def test_a_chosen_number_has_a_window_of_its_own() -> None:
    batch = decisions([3.0, 3.65, 5.7, 6.5])
    policy = Function(PROBLEM, follow, ["dose"])
    centres = 5.0 + 1.5 * np.linspace(-1, 1, 4)
    expected = [
        1 / 1.2 if abs(value - centre) <= 0.6 else 0.0 for value, centre in zip((3.0, 3.65, 5.7, 6.5), centres, strict=True)
    ]
    assert policy.taken("dose", batch)[0] == pytest.approx(expected)
    assert sum(value > 0 for value in expected) == 3
    ends = Function(PROBLEM, lambda level, rows: np.array([0.1, 9.8, 0.0, 10.0]), ["dose"])
    assert ends.taken("dose", decisions([0.5, 9.9, 0.61, 9.5]))[0] == pytest.approx([1 / 0.7, 1 / 0.8, 0.0, 1 / 0.6])
    assert Function(PROBLEM, lambda level, rows: 4.0, ["dose"]).taken("dose", batch)[0, 1] == pytest.approx(1 / 1.2)
    value = draw_numbers(policy, PROBLEM.innermost, batch, np.array([0.0, 0.25, 0.5, 0.999999]))[0]
    assert value == pytest.approx(centres + 1.2 * (np.array([0.0, 0.25, 0.5, 1.0]) - 0.5), abs=1e-5)
    with pytest.raises(PolicyError, match="gives numbers of an interval, not probabilities"):
        policy.full("dose", batch)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda level, rows: np.array([1.0, 2.0]), r"returned shape \[2\], expected one number per row, \[3\]"),
        (lambda level, rows: np.array([1.0, 2.0, 10.5]), r"row 2: returned 10.5, which is not in the interval \[0, 10\]"),
        (lambda level, rows: np.array([1.0, np.nan, 2.0]), "row 1: returned nan"),
        (lambda level, rows: ["a", "b", "c"], "did not return numbers"),
    ],
)
def test_numbers_that_cannot_be_taken(answer: object, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        Function(PROBLEM, answer, ["dose"]).taken("dose", decisions([1.0, 2.0, 3.0]))  # type: ignore[arg-type]


def test_it_can_be_stored_by_name(tmp_path: Path) -> None:
    policy = Function(PROBLEM, follow, ["dose"], Legacy(PROBLEM, {"course": Uniform(), "dose": Uniform()}))
    save_policy(policy, tmp_path)
    batch = decisions([3.0, 3.65, 5.7, 6.5])
    assert np.array_equal(read_policy(tmp_path, PROBLEM).taken("dose", batch), policy.taken("dose", batch))


# ---- target columns


def test_target_columns_hold_densities() -> None:
    batch = replace(decisions([0.0, 2.0, 3.0]), extra={"t": np.array([0.0, 1.7, 0.4])})
    assert TargetColumns(PROBLEM, {"dose": "t"}).taken("dose", batch).tolist() == [[0.0, 1.7, 0.4]]
    for wrong, words in (
        ([0.5, 1.7, 0.4], "at an atom of the legacy, where a policy with a density takes nothing"),
        ([0.0, -0.1, 0.4], "is not a density"),
        ([0.0, np.inf, 0.4], "is not a density"),
        ([0.0, np.nan, 0.4], "is not a density"),
    ):
        with pytest.raises(PolicyError, match=words):
            TargetColumns(PROBLEM, {"dose": "t"}).taken("dose", replace(batch, extra={"t": np.array(wrong)}))
    own = replace(batch, extra={"density_dose": np.array([0.3, 1.0, 0.4])})  # the legacy's own column is the same at atoms
    assert TargetColumns(PROBLEM, {"dose": "density_dose"}).taken("dose", own)[0, 0] == 0.3


def test_densities_are_never_guessed_from_points() -> None:
    batch = decisions([1.0, 2.0])
    lost = batch.with_level("dose", replace(batch.levels["dose"], value=None))
    with pytest.raises(PolicyError, match="hold no exact ones"):
        Legacy(PROBLEM, {"course": Uniform(), "dose": Uniform()}).taken("dose", lost)
    with pytest.raises(PolicyError, match="no action has been taken yet"):
        Function(PROBLEM, follow, ["dose"]).taken("dose", batch.before("dose"))


# ---- mixtures, hybrids


def test_a_mixture_of_densities_is_not_cut_at_one() -> None:
    tight = make_world("dosing", bandwidth=0.1).problem
    members = [Function(tight, lambda level, rows, at=at: np.full(rows["marker"].size, at), ["dose"]) for at in (4.0, 4.05)]
    policy = Mixture(
        [Hybrid(tight, ["dose"], member, Legacy(tight, {"course": Uniform(), "dose": Uniform()})) for member in members]
    )
    batch = decisions([4.02, 4.12, 3.91], tight)
    assert policy.taken("dose", batch) == pytest.approx(np.array([[5.0, 0.0, 5.0], [5.0, 5.0, 0.0]]))
    assert path_taken(policy, "dose", batch) == pytest.approx([5.0, 2.5, 2.5])
    assert sequential_taken(policy, "dose", batch) == pytest.approx([5.0, 2.5, 2.5])
    assert draw_numbers(policy, tight.innermost, batch, np.full(3, 0.5)) == pytest.approx(np.array([[4.0] * 3, [4.05] * 3]))


def test_where_it_differs_is_told_by_densities() -> None:
    batch = decisions([3.8, 4.1, 8.0])
    uniform = Legacy(PROBLEM, {"course": Uniform(), "dose": Constant(4.0)})
    found = contrast_policies(PROBLEM, uniform, batch, ["dose"])[0]
    assert found.comparator is None
    assert found.overall.total_variation == pytest.approx(np.mean([0.0, 0.0, 1.0]))  # w = 1/1.2/0.1 twice, then 0
