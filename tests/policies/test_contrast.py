"""Where a policy differs: figures against their definitions, bins that cover everything, lookup tables that add up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import policy_examples as ex
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.errors import SettingError
from aegis.policies import Legacy, Logged, Uniform, contrast_policies, lookup_table
from aegis.policies.contrast import bin_variables, level_probabilities

PROBLEM = ex.problem(3)


def case(seed: int, episodes: int = 12):
    batch = ex.batch(PROBLEM, seed, episodes, childless=False)
    return batch, ex.scripted(PROBLEM, batch, 3, seed + 1)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), bins=st.integers(1, 6))
def test_differences_follow_their_definitions_and_bins_add_up(seed: int, bins: int) -> None:
    batch, policy = case(seed)
    for found in contrast_policies(PROBLEM, policy, batch, PROBLEM.names, bins):
        table = batch.levels[found.level]
        chances = sum(w * part for w, part in zip(policy.weights, policy.full(found.level, batch), strict=True))
        each = [0.5 * sum(abs(p - m) for p, m in zip(*rows, strict=True)) for rows in zip(chances, table.mu_full, strict=True)]
        assert found.overall.total_variation == pytest.approx(np.mean(each))
        assert found.overall.favourite_differs == pytest.approx(np.mean(chances.argmax(1) != table.mu_full.argmax(1)))
        for name in {part.variable for part in found.bins}:
            parts = [part.difference for part in found.bins if part.variable == name]
            assert sum(part.decisions for part in parts) == found.overall.decisions == len(table)
            mean = sum(part.decisions * part.total_variation for part in parts) / len(table)
            assert mean == pytest.approx(found.overall.total_variation)
        sizes = [part.difference.total_variation for part in found.bins]
        assert sizes == sorted(sizes, reverse=True)
        np.testing.assert_allclose(found.policy, chances.mean(axis=0))


def test_the_logged_policy_does_not_differ_from_itself() -> None:
    batch, _ = case(4)
    for found in contrast_policies(PROBLEM, Logged(PROBLEM), batch, PROBLEM.names):
        assert (found.overall.total_variation, found.overall.favourite_differs) == (0, 0)


def test_any_favourite_will_do_where_the_legacy_has_several() -> None:
    batch, policy = case(5)
    table = batch.levels["dose"]
    even = np.full_like(table.mu_full, 1 / table.mu_full.shape[1])
    batch = batch.with_level("dose", replace(table, mu_full=even))
    assert contrast_policies(PROBLEM, policy, batch, ["dose"])[0].overall.favourite_differs == 0


def test_with_the_taken_propensity_only_the_distance_is_estimated() -> None:
    rng = np.random.default_rng(0)
    batch, _ = case(6, 4000)
    uniform = Legacy(PROBLEM, {name: Uniform() for name in PROBLEM.names})
    truth = contrast_policies(PROBLEM, uniform, batch, ["dose"])[0].overall.total_variation
    table = batch.levels["dose"]
    action = (table.mu_full.cumsum(axis=1) < rng.random((len(table), 1))).sum(axis=1).clip(0, 4)
    taken = replace(table, action=action.astype(np.int32), mu_taken=table.mu_full[np.arange(len(table)), action], mu_full=None)
    found = contrast_policies(PROBLEM, uniform, batch.with_level("dose", taken), ["dose"])[0]
    assert found.overall.favourite_differs is None
    assert found.comparator is None
    assert abs(found.overall.total_variation - truth) < 5 * 0.5 / np.sqrt(len(table))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), by=st.sampled_from([(), ("task",), ("shift", "setting"), ("load", "temperature")]))
def test_lookup_tables_add_up(seed: int, by: tuple[str, ...]) -> None:
    batch, policy = case(seed)
    levels = ["dose"] if by else PROBLEM.names
    cells = lookup_table(PROBLEM, policy, batch, levels, by)
    for level in levels:
        mine = [cell for cell in cells if cell.level == level]
        assert sum(cell.decisions for cell in mine) == len(batch.levels[level])
        mean = sum(cell.decisions * cell.policy for cell in mine) / len(batch.levels[level])
        np.testing.assert_allclose(mean, level_probabilities(policy, level, batch).mean(axis=0))
        assert len({tuple(cell.where.items()) for cell in mine}) == len(mine)
        for cell in mine:
            assert cell.policy.sum() == pytest.approx(1)


def test_a_level_is_looked_up_by_what_it_knows() -> None:
    batch, policy = case(8)
    cells = lookup_table(PROBLEM, policy, batch, ["recipe", "dose"], ("task", "setting"))
    assert {tuple(cell.where) for cell in cells if cell.level == "recipe"} == {("task",)}
    assert {tuple(cell.where) for cell in cells if cell.level == "dose"} == {("task", "setting")}
    with pytest.raises(SettingError, match="did you mean 'task'"):
        lookup_table(PROBLEM, policy, batch, ["dose"], ("tsk",))


def test_bins_of_numbers_are_cut_at_quantiles() -> None:
    batch, policy = case(9, 200)
    found = contrast_policies(PROBLEM, policy, batch, ["dose"], 4)[0]
    counts = [part.difference.decisions for part in found.bins if part.variable == "temperature"]
    assert len(counts) == 4
    assert max(counts) - min(counts) <= 2


def test_a_number_on_an_edge_belongs_to_the_bin_that_starts_there() -> None:
    batch, _ = case(10, 60)
    table = batch.levels["dose"]
    batch = batch.with_level("dose", replace(table, context={"temperature": np.arange(float(len(table))) // 3}))
    for axis in bin_variables(PROBLEM, batch, "dose", None, 4):
        values = batch.levels["dose"].context["temperature"]
        for code, label in enumerate(axis.labels):
            words = label.split()
            low = float(words[1] if words[0] == "from" else words[0]) if words[0] != "below" else -np.inf
            assert (values[axis.codes == code] >= low).all()
            high = float(words[-1]) if words[0] != "from" else np.inf
            assert (values[axis.codes == code] < high).all()
