"""Actions that the user names: drafted as such whatever they are called, and refused where they cannot be actions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import draft_logs as logs
import numpy as np
import pyarrow as pa
import pytest

from aegis.errors import InputError
from aegis.logs import draft_problem

RENAMED = {"setting": "program", "dose": "spray", "p_setting": "p_program", "dose_prob": "spray_prob"}


def renamed(*without: str) -> dict[str, Any]:
    """Return a nested log whose actions have names that nothing is guessed from."""
    return {RENAMED.get(name, name): values for name, values in logs.nested_log().items() if name not in without}


def test_nothing_is_guessed_from_such_names_without_probabilities(tmp_path: Path) -> None:
    draft = draft_problem(logs.parquet(pa.table(renamed("p_setting", "dose_prob")), tmp_path))
    assert draft.problem is None
    assert any("--action COLUMN" in question for question in draft.questions)


def test_named_columns_are_actions_without_probabilities(tmp_path: Path) -> None:
    path = logs.parquet(pa.table(renamed("p_setting", "dose_prob")), tmp_path)
    draft = draft_problem(path, actions=("spray", "program"))
    problem = logs.checked(draft, path)
    assert [level.actions.column for level in problem.levels] == ["program", "spray"]
    assert all(level.propensity is None for level in problem.levels)
    assert sum("you named it" in note for note in draft.notes) == 2


def test_probabilities_of_named_columns_are_found(tmp_path: Path) -> None:
    path = logs.parquet(pa.table(renamed()), tmp_path)
    problem = logs.checked(draft_problem(path, actions=("spray", "program")), path)
    assert [level.propensity and level.propensity.column for level in problem.levels] == ["p_program", "spray_prob"]


def test_no_other_column_is_an_action(tmp_path: Path) -> None:
    path = logs.parquet(pa.table(logs.nested_log()), tmp_path)
    problem = logs.checked(draft_problem(path, actions=("dose",)), path)
    assert [level.actions.column for level in problem.levels] == ["dose"]


def test_a_general_probability_goes_with_the_named_column(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    columns = {
        "visit": np.arange(60),
        "kind": rng.integers(0, 3, 60),
        "ward": rng.integers(0, 2, 60),
        "pscore": np.full(60, 1 / 3),
    }
    path = logs.parquet(pa.table({**columns, "reward": rng.random(60)}), tmp_path)
    problem = logs.checked(draft_problem(path, actions=("ward",)), path)
    assert problem.levels[0].actions.column == "ward"
    assert problem.levels[0].propensity is not None and problem.levels[0].propensity.column == "pscore"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("sprey", r"no column 'sprey'.*'spray'"),
        ("started_at", "'started_at' cannot be an action: found 80 dates; an action has 2 to 200 values or is any number of an"),
        ("note", "'note' cannot be an action: found 480 texts"),
        ("grams", "'grams' cannot be an action: found 480 numbers; .* whole numbers into classes"),
    ],
)
def test_what_cannot_be_an_action_is_refused(name: str, says: str, tmp_path: Path) -> None:
    further = {"note": [f"note {number}" for number in range(480)], "grams": np.arange(480)}
    path = logs.parquet(pa.table({**renamed(), **further}), tmp_path)
    with pytest.raises(InputError, match=says):
        draft_problem(path, actions=(name,))
