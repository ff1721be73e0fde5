"""Which columns a draft takes for episode, cluster and time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from aegis.logs.draft.actions import find_actions
from aegis.logs.draft.column_profile import LogProfile
from aegis.logs.draft.episode_ids import find_ids
from aegis.logs.draft.guesses import IdGuess


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


@pytest.mark.parametrize(("name", "episode", "missing"), [("x", "row", False), ("row", "row_1", True)])
def test_without_an_id_each_row_is_one(name: str, episode: str, missing: bool) -> None:
    guess = ids_of(**{name: np.tile([0.5, 1.5], 30)})
    assert guess.episode == (episode,) and guess.missing == missing and guess.counted != missing


def test_dates_are_times_and_ends_are_asked_about() -> None:
    days = pa.array(np.datetime64("2025-01-01") + np.arange(60))
    assert ids_of(batch=np.arange(60), started=days).time == "started"
    ended = ids_of(batch=np.arange(60), finished=days)
    assert ended.time is None and any("its name is that of an end" in question for question in ended.questions)
