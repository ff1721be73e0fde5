"""Tables: each cell is a scalar posterior of its own."""

from __future__ import annotations

import itertools
from dataclasses import asdict

import mechanism_cases as cases
import numpy as np
import pytest
import scipy.stats as st

from aegis.errors import ModelError, SettingError
from aegis.mechanisms import NIG, Cells
from aegis.problem import Actions, Variable
from aegis.rng import stream

LABELS = Actions.of("setting", ("low", "high"))
UNSORTED = Actions.of("amount", (2.0, -1.0, 0.5))
PRIOR = {"precision": 0.4, "shape": 1.5, "rate": 0.8}
TABLE = Cells(Variable("r"), (UNSORTED, cases.GRADE, LABELS), temper=0.7, **PRIOR)


def rows_of(seed, count=100):
    rng = stream(seed, "cells")
    codes = {"setting": rng.integers(0, 2, count), "amount": rng.integers(0, 3, count), "grade": rng.integers(0, 3, count)}
    rows = {**codes, "amount": np.array([2.0, -1.0, 0.5])[codes["amount"]]}
    return codes, rows, rng.normal(3.0, 2.0, count), rng


def cell_rows(codes, cell):
    return np.flatnonzero((codes["setting"] == cell[0]) & (codes["amount"] == cell[1]) & (codes["grade"] == cell[2]))


def asked(cell):
    return {"setting": np.array([cell[0]]), "amount": np.array([UNSORTED.values[cell[1]]]), "grade": np.array([cell[2]])}


def test_every_cell_is_a_scalar_posterior():
    codes, rows, values, _ = rows_of(1)
    state = TABLE.update(TABLE.update(TABLE.prior(), {n: v[:40] for n, v in rows.items()}, values[:40]),
                         {n: v[40:] for n, v in rows.items()}, values[40:])  # fmt: skip
    total = 0.0
    for cell in itertools.product(range(2), range(3), range(3)):
        mine = values[cell_rows(codes, cell)][:, None]
        alone = NIG.prior(1, 1, **PRIOR).update(np.ones_like(mine), mine, 0.7)
        for found, wanted in zip(TABLE.predict(state, asked(cell), 1), alone.predict(np.ones((1, 1))), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9)
        total += alone.kl(NIG.prior(1, 1, **PRIOR))
        point = TABLE.point(state).mean({name: part[None] for name, part in asked(cell).items()}, 1)
        assert point[0, 0, 0] == pytest.approx(alone.moments().mean[0, 0])
    assert TABLE.kl(state, TABLE.prior()) == pytest.approx(total)
    assert TABLE.kl(state, state) == pytest.approx(0.0, abs=1e-10)
    assert TABLE.kl(TABLE.prior(), state) != pytest.approx(total, rel=0.01)


def test_a_sum_over_naive_loops():
    """The mean of one cell by hand: precision-weighted average of the prior mean 0 and the tempered values."""
    codes, rows, values, _ = rows_of(2)
    state = TABLE.update(TABLE.prior(), rows, values)
    cell = (1, 0, 2)
    mine = values[cell_rows(codes, cell)]
    assert TABLE.predict(state, asked(cell), 1)[0][0, 0] == pytest.approx(0.7 * mine.sum() / (0.4 + 0.7 * mine.size))


def test_draws_have_the_law_of_the_posterior():
    _, rows, values, rng = rows_of(3)
    table = Cells(Variable("r"), (LABELS,), **PRIOR)
    state = table.update(table.prior(), rows, values)
    drawn = table.draw(state, rng, 20_000)
    at = drawn.mean({"setting": np.array([[0, 1, 1]])}, 3)
    assert at.shape == (20_000, 3, 1)
    np.testing.assert_array_equal(at[:, 1], at[:, 2])
    scale = np.sqrt(state.rate / state.shape / state.precision)
    for cell in range(2):
        law = st.t(2 * state.shape[cell], loc=state.mean[cell], scale=scale[cell])
        assert st.kstest(at[:, cell, 0], law.cdf).pvalue > 1e-3
    assert abs(np.corrcoef(at[:, 0, 0], at[:, 1, 0])[0, 1]) < 4 / np.sqrt(20_000)
    assert drawn.sd.shape == (20_000, 1)


@pytest.mark.parametrize("count", [2, 3])
def test_particles_and_rows_are_not_confused(count):
    table = Cells(Variable("r"), (LABELS, UNSORTED))
    _, rows, values, rng = rows_of(4)
    drawn = table.draw(table.update(table.prior(), rows, values), rng, 3)
    setting = rng.integers(0, 2, (3, count))
    amount = rng.integers(0, 3, (1, count))
    found = drawn.mean({"setting": setting, "amount": np.array(UNSORTED.values)[amount]}, count)
    for s, i in np.ndindex(3, count):
        assert found[s, i, 0] == drawn.means[s, 3 * setting[s, i] + amount[0, i]]


def test_missing_values_and_categories_are_left_out():
    _, rows, values, _ = rows_of(5)
    wanted = TABLE.update(TABLE.prior(), {n: v[4:] for n, v in rows.items()}, values[4:])
    rows["grade"][:2] = -1
    values[2:4] = np.nan
    found = TABLE.update(TABLE.prior(), rows, values)
    for name, part in asdict(wanted).items():
        np.testing.assert_array_equal(asdict(found)[name], part)


def test_a_table_without_axes_is_one_cell():
    table = Cells(Variable("r"), ())
    state = table.update(table.prior(), {}, np.array([1.0, 3.0]))
    assert table.size == 1
    assert table.predict(state, {}, 2)[0][:, 0] == pytest.approx([4.0 / 2.1] * 2)


def test_what_a_table_cannot_hold_is_refused():
    with pytest.raises(SettingError, match="'x' is real"):
        Cells(Variable("r"), (LABELS, Variable("x")))
    with pytest.raises(SettingError, match="'load' is vector"):
        Cells(Variable("r"), (cases.LOAD,))
    with pytest.raises(SettingError, match="must be real, found categorical"):
        Cells(cases.GRADE, (LABELS,))


@pytest.mark.parametrize("amount", [0.4, 7.0, -5.0, np.nan])
def test_a_value_that_is_no_action_is_refused(amount):
    with pytest.raises(SettingError, match="'amount' has the value"):
        TABLE.predict(TABLE.prior(), {**asked((0, 0, 0)), "amount": np.array([amount])}, 1)


def test_a_code_outside_the_categories_is_refused():
    with pytest.raises(SettingError, match="'grade' has the value 3"):
        TABLE.predict(TABLE.prior(), {**asked((0, 0, 0)), "grade": np.array([3])}, 1)


def test_values_that_are_infinite_or_huge_are_refused():
    table = Cells(Variable("r"), (LABELS,), precision=1e-15, rate=1e-6)
    rows = {"setting": np.zeros(10, dtype=int)}
    with pytest.raises(ModelError, match="infinite"):
        table.update(table.prior(), rows, np.full(10, np.inf))
    state = table.update(table.prior(), rows, np.full(10, 1e9))
    with pytest.raises(ModelError, match="round-off"):
        table.draw(state, stream(7, "huge"), 1)
