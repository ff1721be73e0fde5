"""A large log with string ids and ragged episodes, written block by block, and the bare scan it is compared with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from aegis.problem import Actions, Level, Problem, Propensity, Reward, Variable
from aegis.rng import stream

OUTER, INNER = 5, 11
EPISODES_AT_ONCE = 20_000
TARGETS = ("new_recipe", "new_dose")


def big_problem() -> Problem:
    """Return the problem of the log: two levels, the taken action's propensity only."""
    recipe = Level(
        "recipe",
        Actions.grid("setting", 1, OUTER, OUTER),
        (Variable("task"),),
        Propensity(column="p_setting"),
        decision="run",
    )
    dose = Level("dose", Actions.grid("dose", -2, 2, INNER), (Variable("temperature"),), Propensity(column="p_dose"))
    return Problem((recipe, dose), Reward("margin", (0.0, 1.0)), episode=("batch",))


def write_big_log(path: Path, episodes: int, seed: int = 1) -> int:
    """Write `episodes` episodes of about 20 rows (1 to 3 recipes with 1 to 19 doses) and return the number of rows."""
    rows = 0
    schema: pa.Schema | None = None
    writer: pq.ParquetWriter | None = None
    for first in range(0, episodes, EPISODES_AT_ONCE):
        table = _block(first, min(EPISODES_AT_ONCE, episodes - first), seed)
        if writer is None:
            schema = table.schema
            writer = pq.ParquetWriter(path, schema)
        writer.write_table(table)
        rows += table.num_rows
    if writer is not None:
        writer.close()
    return rows


def scan(path: Path, columns: list[str], rows: int = 131072) -> int:
    """Read the columns block by block and do nothing with them; return the number of rows."""
    count = 0
    for batch in pq.ParquetFile(path, pre_buffer=False).iter_batches(batch_size=rows, columns=columns):
        count += batch.num_rows
    return count


def _block(first: int, episodes: int, seed: int) -> pa.Table:
    rng = stream(seed, "big log", first)
    recipes = rng.integers(1, 4, episodes)
    episode = np.repeat(np.arange(first, first + episodes), recipes)
    run = np.arange(episode.size) - np.repeat(np.cumsum(recipes) - recipes, recipes)
    doses = rng.integers(1, 20, episode.size)
    task = rng.normal(size=episode.size)
    setting = rng.integers(0, OUTER, episode.size)
    rows = np.repeat(np.arange(episode.size), doses)
    temperature = rng.normal(size=rows.size) + task[rows]
    dose = rng.integers(0, INNER, rows.size)
    values = np.linspace(-2, 2, INNER)
    reward = np.clip(0.5 + 0.05 * values[dose] * np.sign(temperature) + 0.02 * (setting[rows] - 2) + 0.1 * rng.normal(size=rows.size), 0, 1)
    better = np.where(np.sign(temperature) > 0, dose >= INNER // 2, dose <= INNER // 2)
    new_dose = np.where(better, 1.0 / (INNER // 2 + 1), 0.0)
    new_recipe = np.where(setting >= 2, 1.0 / 3.0, 0.0)
    ids = np.char.add("batch-", np.char.zfill(episode.astype(str), 9))
    return pa.table(
        {
            "batch": pa.array(ids[rows]),
            "run": pa.array(run[rows]),
            "task": task[rows],
            "setting": np.linspace(1, OUTER, OUTER)[setting][rows],
            "p_setting": np.full(rows.size, 1.0 / OUTER),
            "temperature": temperature,
            "dose": values[dose],
            "p_dose": np.full(rows.size, 1.0 / INNER),
            "margin": reward,
            "new_recipe": new_recipe[rows],
            "new_dose": new_dose,
        }
    )
