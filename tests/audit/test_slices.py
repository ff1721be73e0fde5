"""Slices of the context: cells cover each slice once, and cuts come from the first episodes only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from audit_cases import logged

from aegis.audit.slices import Cut, Cuts, group_cuts
from aegis.rng import stream


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
