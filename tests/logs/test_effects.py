"""What moves with a drawn action, and what does not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from aegis.logs.draft.actions import find_actions
from aegis.logs.draft.column_profile import LogProfile
from aegis.logs.draft.effects import CLEAR_EFFECT, LIKELY_EFFECT, ActionDraws, action_draws


def drawn(rows: int, full: bool, seed: int = 0) -> LogProfile:
    """Return decisions whose chances depend on a context, what it was, and their outcomes; one row per episode."""
    rng = np.random.default_rng(seed)
    before = rng.normal(size=rows)
    chance = 1 / (1 + np.exp(-2 * before))
    action = (rng.random(rows) < chance).astype(int)
    columns = {
        "id": np.arange(rows),
        "before": before,
        "copy": np.exp(before),
        "action": action,
        "after": before + action + rng.normal(size=rows),
        "kind": np.where(action + rng.normal(size=rows) > 0.5, "yes", "no"),
        "reward": rng.normal(size=rows),
    }
    if full:
        columns |= {"p_0": 1 - chance, "p_1": chance}
    else:
        columns["pscore"] = np.where(action == 1, chance, 1 - chance)
    return LogProfile.of(pa.table(columns))


@pytest.mark.parametrize("full", [True, False])
def test_what_came_before_is_told_from_what_came_after(full: bool) -> None:
    sheet = drawn(2000, full)
    (action,) = find_actions(sheet)
    told = action_draws(action, sheet.every_row, sheet.every_row)
    assert told is not None
    found = {name: told.strength(sheet.looks[name]) for name in ("before", "copy", "after", "kind")}
    assert found["before"] < CLEAR_EFFECT and found["copy"] < CLEAR_EFFECT
    assert found["after"] > CLEAR_EFFECT and found["kind"] > CLEAR_EFFECT


def test_contexts_are_rarely_taken_for_results() -> None:
    largest = []
    for seed in range(30):
        sheet = drawn(200, full=True, seed=seed)
        (action,) = find_actions(sheet)
        told = action_draws(action, sheet.every_row, sheet.every_row)
        assert told is not None
        largest.append(told.strength(sheet.looks["before"]))
    assert max(largest) < CLEAR_EFFECT
    assert np.mean(np.asarray(largest) > LIKELY_EFFECT) <= 0.05


def test_what_might_have_varied_counts_although_it_did_not() -> None:
    # An action with a chance of one in a hundred that never came: its surprises are small and all alike, and prove nothing.
    sheet = LogProfile.of(pa.table({"x": np.arange(100)}))
    rows, place = np.arange(100), np.linspace(-1, 1, 100)[:, None]
    never = ActionDraws(rows, 0.01 * place, np.full((100, 1), 0.01), rows)
    assert never.strength(sheet.looks["x"]) < 1
    assert ActionDraws(rows, 0.01 * place, np.zeros((100, 1)), rows).strength(sheet.looks["x"]) > CLEAR_EFFECT


def test_nothing_is_said_about_few_episodes_or_chances_that_do_not_add_up() -> None:
    few = drawn(20, full=True)
    assert action_draws(find_actions(few)[0], few.every_row, few.every_row) is None
    columns = {"id": np.arange(500), "action": np.arange(500) % 2, "pscore": np.full(500, 0.9), "reward": np.arange(500) % 3}
    wrong = LogProfile.of(pa.table(columns))
    assert action_draws(find_actions(wrong)[0], wrong.every_row, wrong.every_row) is None
