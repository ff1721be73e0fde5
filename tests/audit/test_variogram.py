"""The nugget of a variogram: one function of the context, or several."""

from __future__ import annotations

import numpy as np
import pytest
from logger_cases import SLOPES, greedy, softmax

from aegis.audit.variogram import Variogram, fit_nugget, nugget_of_repeats
from aegis.rng import stream


def test_a_function_is_explained_by_the_coordinates_it_uses() -> None:
    rng = stream(3, "coordinates")
    x = rng.normal(size=(400, 4))
    nothing = np.zeros((400, 0))
    quantity = greedy((x[:, 2] > 0.3).astype(np.int64))
    assert fit_nugget(x, nothing, Variogram(quantity, 1e-3)) is None
    turns = rng.random(400) < 0.3
    left = fit_nugget(x, nothing, Variogram(np.where(turns[:, None], np.roll(quantity, 1, axis=1), quantity), 1e-3))
    assert left is not None and left.random > left.near > 0.2
    one, other = left.rows
    assert np.linalg.norm(x[one] - x[other]) < 1.0 and turns[one] != turns[other]


def test_sparse_contexts_have_no_answer() -> None:
    rng = stream(4, "sparse")
    quantity = greedy(rng.integers(0, 3, 300))
    assert fit_nugget(rng.normal(size=(300, 12)), np.zeros((300, 0)), Variogram(quantity, 1e-3)) is None
    assert fit_nugget(rng.normal(size=(300, 2)), np.zeros((300, 0)), Variogram(quantity, 1e-3)) is not None


def test_rounded_contexts_and_huge_numbers_are_one_function() -> None:
    rng = stream(5, "rounded")
    x = rng.normal(size=(600, 1))
    quantity = softmax(x @ SLOPES[:1])
    for numbers in (np.round(x, 1), x * 1e300, x * 1e-300, np.column_stack([x, np.full(600, 7.0)])):
        assert fit_nugget(numbers, np.zeros((600, 0)), Variogram(quantity, 1e-3)) is None


def test_groups_are_compared_within() -> None:
    measure = Variogram(2.0 * np.array([[0.1], [0.2], [0.1], [0.4]]), 1e-3, groups=np.array([0, 1, 0, 1]))
    assert measure.gaps(np.array([0, 1, 0]), np.array([1, 3, 2])) == pytest.approx([0.1, 0.2, 0.0])
    assert measure.random == pytest.approx(0.1)  # pairs (0, 2) and (1, 3) only
    assert nugget_of_repeats(np.arange(4), measure) is None
