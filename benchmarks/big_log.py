"""A large log with text ids and ragged episodes, written block by block, and the bare scan it is compared with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from aegis.problem import Actions, Array, Level, Problem, Propensity, Reward, Variable
from aegis.rng import stream

OUTER, INNER = 5, 11
EPISODES_AT_ONCE = 20_000
TARGETS = ("new_recipe", "new_dose")
ROWS_PER_EPISODE = 20


def big_problem() -> Problem:
    """Return the problem of the log: two levels, the taken action's propensity only."""
    recipe = Level(
        "recipe",
        Actions.grid("setting", 1, OUTER, OUTER),
        (Variable("task"),),
        Propensity(column="p_setting"),
        decision="run",
    )
    dose = Level(
        "dose",
        Actions.grid("dose", -2, 2, INNER),
        (Variable("temperature"), Variable("pressure")),
        Propensity(column="p_dose"),
    )
    return Problem((recipe, dose), Reward("margin", (0.0, 1.0)), episode=("batch",))


def write_big_log(path: Path, episodes: int, seed: int = 1) -> int:
    """Write `episodes` episodes of about 20 rows (1 to 3 recipes with 1 to 19 doses) and return the number of rows.

    Twelve columns. Legacy and target are soft choices by context, so that no column of probabilities is one number
    over and over: such a column takes no room in Parquet and no time to read.
    """
    rows = 0
    writer: pq.ParquetWriter | None = None
    for first in range(0, episodes, EPISODES_AT_ONCE):
        table = _block(first, min(EPISODES_AT_ONCE, episodes - first), seed)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
        rows += table.num_rows
    if writer is not None:
        writer.close()
    return rows


def scan(path: Path, columns: list[str], rows: int = 131072) -> int:
    """Read the columns block by block and do nothing with them; return the number of rows."""
    count = 0
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches(batch_size=rows, columns=columns):
            count += batch.num_rows
    return count


def _block(first: int, episodes: int, seed: int) -> pa.Table:
    rng = stream(seed, "big log", first)
    recipes = rng.integers(1, 4, episodes)
    episode = np.repeat(np.arange(first, first + episodes), recipes)
    run = np.arange(episode.size) - np.repeat(np.cumsum(recipes) - recipes, recipes)
    rows = np.repeat(np.arange(episode.size), rng.integers(1, 20, episode.size))
    task = rng.normal(size=episode.size)
    temperature = rng.normal(size=rows.size) + task[rows]
    pressure = rng.normal(size=rows.size)
    settings, doses = np.linspace(1, OUTER, OUTER), np.linspace(-2, 2, INNER)
    legacy_recipe, legacy_dose = _soft(0.3 * task, settings), _soft(0.1 * pressure, doses)
    setting, dose = _drawn(legacy_recipe, rng), _drawn(legacy_dose, rng)
    mean = 0.5 + 0.03 * doses[dose] * np.tanh(temperature) + 0.02 * (setting[rows] - 2)
    target_recipe = _soft(0.4 + 0.3 * task, settings)
    target_dose = _soft(0.1 * pressure + 0.5 * np.tanh(temperature), doses)
    ids = np.char.add("batch-", np.char.zfill(episode.astype(str), 9))
    return pa.table(
        {
            "batch": pa.array(ids[rows]),
            "run": pa.array(run[rows]),
            "task": task[rows],
            "setting": settings[setting][rows],
            "p_setting": _of(legacy_recipe, setting)[rows],
            "temperature": temperature,
            "pressure": pressure,
            "dose": doses[dose],
            "p_dose": _of(legacy_dose, dose),
            "margin": np.clip(mean + 0.1 * rng.normal(size=rows.size), 0, 1),
            "new_recipe": _of(target_recipe, setting)[rows],
            "new_dose": _of(target_dose, dose),
        }
    )


def _soft(slope: Array, values: Array) -> Array:
    """Return a distribution `[n, A]` that is tilted by a slope `[n]`."""
    tilted = np.exp(slope[:, None] * values)
    return tilted / tilted.sum(axis=1, keepdims=True)


def _drawn(chances: Array, rng: np.random.Generator) -> Array:
    below = np.cumsum(chances, axis=1)[:, :-1] < rng.random(len(chances))[:, None]
    return below.sum(axis=1)


def _of(chances: Array, action: Array) -> Array:
    return chances[np.arange(len(chances)), action]
