"""Bets on random choices: single choices and repeats, against plain loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from audit_cases import logged
from hostile_logs import FORMS

from aegis.audit.betting import Choices, EpisodeBets
from aegis.audit.checks.propensities import LevelHistory
from aegis.rng import stream


@FORMS
def test_single_choices_give_the_same_bets(taken: bool) -> None:
    problem, batch = logged("clinic", "natural", 120, 2)
    level = problem.level("dose")
    table = batch.levels["dose"]
    rows = np.searchsorted(batch.episode_of("dose"), np.arange(120))
    table = table.take(rows, rows)
    choices = Choices.of(level, replace(table, mu_full=None) if taken else table)
    sign = stream(1, "sign").integers(-1, 2, 120).astype(float)
    one, other = EpisodeBets(choices.sets), EpisodeBets(choices.sets)
    one.add(choices, sign, np.arange(120), 120)
    other.add_single(choices, sign)
    np.testing.assert_allclose(one.logs, other.logs, atol=1e-9)


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
