"""One pass in pieces: the same findings, whatever the pieces after the first; asking changes nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from audit_cases import audited, logged, taken_only
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.audit import Audit, Auditor
from aegis.audit.batch_view import BatchView
from aegis.audit.checks.base import Thinning
from aegis.audit.checks.calibration import LevelCalibration
from aegis.audit.checks.overlap import WeightHistogram
from aegis.audit.checks.propensities import LevelHistory
from aegis.audit.checks.sizes import Contrast
from aegis.audit.slices import Cut, Cuts, group_cuts
from aegis.ope import CandidateView, RewardModels, level_weights
from aegis.policies import Legacy, Uniform
from aegis.problem import Scope, augmented_context, has_next_sibling, sibling_positions
from aegis.rng import stream


def alike(one: Audit, other: Audit) -> None:
    assert (one.verdict, one.codes()) == (other.verdict, other.codes())
    assert one.figures.keys() == other.figures.keys()
    for name, value in one.figures.items():
        assert value == (other.figures[name] if isinstance(value, str) else pytest.approx(other.figures[name], abs=1e-9))


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(1, 119), min_size=1, max_size=4), st.booleans())
def test_pieces_do_not_matter(cuts: list[int], taken: bool) -> None:
    problem, batch = logged("clinic", "natural", 160, 3)
    if taken:
        problem, batch = taken_only(problem, batch)
    policy = Legacy(problem, {name: Uniform() for name in problem.names})
    first, rest = batch.take_episodes(np.arange(40)), np.arange(40, 160)
    pieces = np.split(rest, sorted(set(cuts)))
    whole = audited(problem, first, batch.take_episodes(rest), policy=policy)
    alike(audited(problem, first, *[batch.take_episodes(piece) for piece in pieces], policy=policy), whole)


def test_asking_changes_nothing() -> None:
    problem, batch = logged("additive", "uniform", 50, 4)
    auditor = Auditor(problem)
    auditor.add(batch)
    once = auditor.result()
    alike(auditor.result(), once)


def test_taken_sums_equal_the_product_over_decisions() -> None:
    problem, batch = taken_only(*logged("clinic", "natural", 80, 5))
    level, table = problem.level("dose"), batch.levels["dose"]
    calibration = LevelCalibration(level, ())
    calibration.add(table, augmented_context(problem, batch, "dose"), np.ones(len(table), dtype=bool))
    mask = table.available
    assert mask is not None
    for action, found in enumerate(calibration.slices()):
        weights = np.where(table.action == action, 1.0 / table.mu_taken, 0.0)[mask[:, action]]
        factors = [np.log1p(stake * (weights - 1)).sum() for stake in (0.5, 0.125, 2.0**-5, 2.0**-8)]
        assert found.log_evidence == pytest.approx(np.logaddexp.reduce(factors) - np.log(4))
        assert found.mean_weight == pytest.approx(weights.mean())


def test_repeats_are_counted_against_their_own_propensity() -> None:
    problem, batch = logged("clinic", "natural", 80, 13)
    table = batch.levels["dose"]
    history = LevelHistory(problem.level("dose"), ())
    history.add(table, {}, np.ones(len(table), dtype=bool), batch.episode_of("dose"), len(batch))
    assert table.mu_full is not None and history.again.surprises is not None
    expected = 0.0
    for row in range(1, len(table)):
        if table.parent[row] == table.parent[row - 1]:
            before = table.action[row - 1]
            expected += float(table.action[row] == before) - table.mu_full[row, before]
    assert history.again.surprises[0] == pytest.approx(expected)


def test_full_sums_count_what_was_expected() -> None:
    problem, batch = logged("clinic", "natural", 80, 6)
    table = batch.levels["dose"]
    cut = Cut("level", "level", edge=0.1)
    calibration = LevelCalibration(problem.level("dose"), (cut,))
    fresh = np.arange(len(table)) >= 10
    calibration.add(table, augmented_context(problem, batch, "dose"), fresh)
    slices = {(part.action, part.where): part for part in calibration.slices()}
    assert len(slices) == 4 * 3 and table.mu_full is not None
    above = fresh & (table.context["level"] > 0.1)
    values = problem.level("dose").actions.values
    for place, value in enumerate(values):
        part = slices[f"dose = {value}", cut.labels[1]]
        assert part.taken == (table.action[above] == place).sum()
        assert part.expected == pytest.approx(table.mu_full[above, place].sum())
        assert slices[f"dose = {value}", ""].expected == pytest.approx(table.mu_full[:, place].sum())


def test_cells_cover_each_slice_once() -> None:
    cuts = (Cut("a", "a", edge=0.0), Cut("b", "b", values=(1, 2, 3)), *[Cut(n, n, edge=0.5) for n in "cdefgh"])
    rng = stream(1, "cells")
    rows = {name: rng.normal(size=500) for name in "acdefgh"} | {"b": rng.integers(0, 3, 500)}
    fresh = np.arange(500) > 20
    groups = group_cuts(cuts)
    assert [group.whole for group in groups] == [True, False] and all(group.count <= 257 for group in groups)
    found = {label: cells[group.codes(rows, fresh)] for group in groups for label, cells in group.slices()}
    assert found[""].all()
    for cut in cuts:
        for place, label in enumerate(cut.labels):
            assert np.array_equal(found[label], fresh & (cut.codes(rows) == place))
    both = "a above 0 and b = 3"
    assert np.array_equal(found[both], fresh & (rows["a"] > 0) & (rows["b"] == 2))


@pytest.mark.parametrize("numbers", [2, 3, 5, 8])
def test_quarters_and_pairs_of_halves_are_slices(numbers: int) -> None:
    names = "abcdefgh"[:numbers]
    cuts = tuple(Cut(name, name, edge=0.0, quarters=(-0.5, 0.7)) for name in names)
    rows = {name: stream(1, "quarters", place).normal(size=400) for place, name in enumerate(names)}
    fresh = np.arange(400) > 20
    groups = group_cuts(cuts)
    listed = [(label, cells[group.codes(rows, fresh)]) for group in groups for label, cells in group.slices()]
    found = dict(listed)
    assert len(found) == len(listed) == 1 + 6 * numbers + 2 * numbers * (numbers - 1)
    first, second = rows["a"], rows[names[-1]]
    assert np.array_equal(found["a above 0 up to 0.7"], fresh & (first > 0) & (first <= 0.7))
    assert np.array_equal(found["a up to -0.5"], fresh & (first <= -0.5))
    assert np.array_equal(found[f"a up to 0 and {names[-1]} above 0"], fresh & (first <= 0) & (second > 0))
    many = group_cuts(cuts, 1000)
    assert sum(len(group.slices()) for group in many) < len(listed) or numbers == 2


def test_cuts_come_from_the_first_episodes_only() -> None:
    problem, batch = logged("clinic", "uniform", 200, 7)
    reward = np.asarray(batch.reward)
    cuts = Cuts.of(problem, batch, reward)
    assert cuts.used == 20
    later = batch.episode_of("dose") >= 20
    table = batch.levels["dose"]
    changed = batch.with_level("dose", replace(table, context={**table.context, "level": table.context["level"] + 9 * later}))
    assert Cuts.of(problem, changed, reward + 9 * later) == cuts
    named = [cut.variable for cut in cuts.context["dose"]]
    assert named[:2] == ["response", "level"] and "plan" in named and "ward" in named


def test_places_and_followers() -> None:
    parent = np.array([0, 0, 0, 2, 3, 3])
    assert sibling_positions(parent).tolist() == [0, 1, 2, 0, 0, 1]
    assert has_next_sibling(parent).tolist() == [True, True, False, False, True, False]


def test_thinning_looks_at_all_and_then_at_some() -> None:
    thinning = Thinning(100)
    wanted = [thinning.wants(60) for _ in range(66)]
    assert wanted[:2] == [True, True] and [place for place, want in enumerate(wanted) if want][2:] == [31, 63]


def test_thinning_looks_at_the_first_episodes_of_a_large_batch() -> None:
    problem, batch = logged("clinic", "natural", 60, 3)
    view, level = BatchView.of(problem, batch, None), problem.innermost.name
    rows = len(batch.levels[level])
    assert Thinning(rows).part(view, level) is view
    thinning = Thinning(rows // 3)
    part = thinning.part(view, level)
    assert part is not None and part is view.first(level, rows // 3)
    count = len(part.batch)
    assert len(part.batch.levels[level]) <= rows // 3 < len(batch.take_episodes(np.arange(count + 1)).levels[level])
    alone = BatchView.of(problem, batch.take_episodes(np.arange(count)), view.cuts)
    for name in problem.names:
        np.testing.assert_array_equal(part.episodes[name], alone.episodes[name])
        np.testing.assert_array_equal(part.starts[name], alone.starts[name])
        np.testing.assert_array_equal(part.above[name], alone.above[name])
        np.testing.assert_array_equal(part.mean_rewards(name), alone.mean_rewards(name))
    np.testing.assert_array_equal(part.reward, alone.reward)
    assert not part.fresh[: view.cuts.used].any() and part.fresh[view.cuts.used :].all()
    assert len(view.first(level, 0).batch) == 1
    assert [thinning.part(view, level) is None for _ in range(3)] == [True, True, True]


def test_contrast_is_the_plain_difference() -> None:
    rng = stream(2, "contrast")
    parent = np.repeat(np.arange(400), rng.integers(1, 4, 400))
    value = rng.normal(size=parent.size) + 0.5 * rng.normal(size=400)[parent]
    contrast = Contrast()
    contrast.add(value, parent, np.ones(parent.size, dtype=bool))
    last = [value[parent == p][1] - value[parent == p][0] for p in range(400) if (parent == p).sum() == 2]
    goes_on = [value[parent == p][1] - value[parent == p][0] for p in range(400) if (parent == p).sum() == 3]
    gap = np.mean(last) - np.mean(goes_on)
    error = np.sqrt(np.var(last, ddof=1) / len(last) + np.var(goes_on, ddof=1) / len(goes_on))
    assert contrast.score()[0] == pytest.approx(gap / error)


def test_histogram_figures() -> None:
    weights = np.exp(stream(3, "weights").normal(size=5000))
    weights[:500] = 0.0
    histogram = WeightHistogram()
    for part in np.split(weights, 5):
        histogram.add(part)
    assert histogram.effective == pytest.approx(weights.sum() ** 2 / (5000 * (weights**2).sum()))
    assert histogram.heaviest(0.01) == pytest.approx(np.sort(weights)[-50:].sum() / weights.sum(), rel=0.05)
    assert histogram.quantile(0.5) == pytest.approx(np.quantile(weights, 0.5), rel=0.2)
    assert histogram.quantile(0.05) == 0.0 and histogram.mean == pytest.approx(weights.mean())


@pytest.mark.parametrize("per", ["decision", "recipe", "episode"])
@pytest.mark.parametrize("carry_over", ["none", "within"])
def test_unit_weights_by_hand(per: str, carry_over: str) -> None:
    problem, batch = logged("plant", "natural", 4, 8)
    problem = replace(problem, carry_over=carry_over, reward=replace(problem.reward, per=per))  # type: ignore[arg-type]
    policy = Legacy(problem, {name: Uniform() for name in problem.names})
    scope = Scope(("recipe", "dose"))
    found = CandidateView(problem, batch, policy, RewardModels()).unit_weights(scope)
    names = list(problem.names)
    for episode in range(4):
        one = batch.take_episodes([episode])
        w = {name: (level_weights(policy, one, name) if name in scope else np.ones(len(one.levels[name]))) for name in names}
        above = one.ancestors(names[-1])
        rows = []
        for row in range(len(one.levels[names[-1]])):
            mine = {name: int(above[name][row]) for name in names}
            if per == "episode":
                value = np.prod([w[name].prod() for name in names])
            elif per == "recipe":
                inside = above["recipe"] == mine["recipe"]
                earlier = above["recipe"] < mine["recipe"]
                value = w["recipe"][: mine["recipe"] + 1].prod() if carry_over == "within" else w["recipe"][mine["recipe"]]
                value *= w["dose"][inside].prod() * (w["dose"][earlier].prod() if carry_over == "within" else 1.0)
            elif carry_over == "within":
                value = w["recipe"][: mine["recipe"] + 1].prod() * w["dose"][: row + 1].prod()
            else:
                value = w["recipe"][mine["recipe"]] * w["dose"][row]
            rows.append(value)
        assert found[episode] == pytest.approx(one.episode_means(np.array(rows))[0])
