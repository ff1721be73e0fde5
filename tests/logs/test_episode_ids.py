"""Which columns a draft takes for episode, cluster and time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from aegis.errors import InputError
from aegis.logs.draft.actions import find_actions
from aegis.logs.draft.column_profile import LogProfile
from aegis.logs.draft.episode_ids import find_ids, repeats
from aegis.logs.draft.guesses import ActionGuess, IdGuess


def ids_of(**columns: object) -> IdGuess:
    rows = len(next(iter(columns.values())))  # type: ignore[arg-type]
    chances = {"arm": np.arange(rows) % 2, "pscore": np.full(rows, 0.5), "profit": np.linspace(0, 1, rows)}
    sheet = LogProfile.of(pa.table({**columns, **chances}))
    return find_ids(sheet, find_actions(sheet))


def test_names_of_units_and_of_things() -> None:
    batch, machine = np.repeat(np.arange(30), 4), np.repeat(np.arange(5), 24)
    guess = ids_of(batch=batch, machine=machine)
    assert (guess.episode, guess.cluster) == (("batch",), "machine") and len(guess.groups) == 30
    alone = ids_of(patient=machine)
    assert alone.episode == ("patient",) and alone.loose


def test_a_number_that_starts_again_needs_its_owner() -> None:
    guess = ids_of(patient=np.repeat(np.arange(10), 6), visit=np.tile(np.repeat([1, 2, 3], 2), 10))
    assert guess.episode == ("patient", "visit") and len(guess.groups) == 30


def test_without_an_id_each_row_is_one() -> None:
    guess = ids_of(x=np.tile([0.5, 1.5], 30))
    assert guess.episode == ("row",) and guess.counted
    with pytest.raises(InputError, match="'row' does not number the rows; rename it"):
        ids_of(row=np.tile([0.5, 1.5], 30))


def test_dates_are_times_and_ends_are_asked_about() -> None:
    days = pa.array(np.datetime64("2025-01-01") + np.arange(60))
    assert ids_of(batch=np.arange(60), started=days).time == "started"
    ended = ids_of(batch=np.arange(60), finished=days)
    assert ended.time is None and any("its name is that of an end" in question for question in ended.questions)


def test_an_action_that_follows_itself_too_often_is_asked_about() -> None:
    rng = np.random.default_rng(3)
    each, shared = rng.integers(0, 2, 400), np.repeat(rng.integers(0, 2, 50), 8)
    sheet = LogProfile.of(pa.table({"each": each, "shared": shared, "p": np.full(400, 0.5)}))
    rows = sheet.every_row
    assert repeats(ActionGuess(sheet.looks["each"], (0, 1), taken=sheet.looks["p"]), rows) == ""
    question = repeats(ActionGuess(sheet.looks["shared"], (0, 1), taken=sheet.looks["p"]), rows)
    assert question.startswith("Was 'shared' decided once for several rows?") and "its probabilities allow" in question
