"""From actions to levels: order, decision ids, and actions without a place."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from aegis.logs.draft.actions import find_actions
from aegis.logs.draft.column_profile import LogProfile
from aegis.logs.draft.episode_ids import find_ids
from aegis.logs.draft.guesses import LevelsGuess
from aegis.logs.draft.levels import find_levels


def levels_of(columns: dict[str, object]) -> LevelsGuess:
    sheet = LogProfile.of(pa.table(columns))
    actions = find_actions(sheet)
    return find_levels(sheet, actions, find_ids(sheet, actions))


def nested(seed: int = 1, **more: object) -> dict[str, object]:
    """Return 40 batches of 3 runs of 4 rows: a setting for each run, a dose for each row."""
    rng = np.random.default_rng(seed)
    columns = {"batch": np.repeat(np.arange(40), 12), "recipe_run": np.tile(np.repeat([1, 2, 3], 4), 40)}
    setting, dose = np.repeat(rng.integers(0, 3, 120), 4), rng.integers(0, 2, 480)
    chances = {"p_setting": np.full(480, 1 / 3), "p_dose": np.full(480, 0.5)}
    return {**columns, "setting": setting, "dose": dose, **chances, "profit": rng.normal(size=480), **more}


def test_what_stays_the_same_while_others_change_is_further_out() -> None:
    guess = levels_of(nested())
    assert [(level.name, level.action.look.name, level.decision) for level in guess.levels] == [
        ("recipe", "setting", "recipe_run"),
        ("dose", "dose", None),
    ]
    assert [len(level.groups) for level in guess.levels] == [120, 480]


def test_an_action_that_is_repeated_over_rows_is_asked_about() -> None:
    columns = {name: values for name, values in nested().items() if name not in ("dose", "p_dose")}
    guess = levels_of(columns)
    assert guess.levels[-1].groups.single and guess.levels[-1].decision is None
    assert any("is repeated over several rows" in question for question in guess.questions)


def test_an_action_that_changes_as_often_without_an_id_has_no_place() -> None:
    columns = {name: values for name, values in nested().items() if name != "recipe_run"}
    columns["setting"] = np.tile(np.random.default_rng(2).integers(0, 3, 240), 2)
    guess = levels_of(columns)
    assert [level.action.look.name for level in guess.levels] == ["dose"]
    assert any(question.startswith("'setting' changes as often as 'dose'") for question in guess.questions)
