"""Vowpal Wabbit DSJSON logs: decisions of a contextual bandit as a tidy log and a problem.

Two passes: the first finds contexts, actions and what the file leaves open, the second writes rows. Costs become rewards,
`-cost`. What a DSJSON file cannot tell by itself, and what a certificate depends on, has to be declared (`Declared`).
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from aegis.adapters.converted import Converted, write_converted
from aegis.adapters.dsjson_events import Event, Outcome, events, outcomes
from aegis.adapters.dsjson_survey import ABSENT, ACTION, CLUSTER, EPISODE, REWARD, TIME, Declared, Survey, action_labels
from aegis.errors import LogError, SettingError
from aegis.problem import Problem

ROWS = 65536

__all__ = ["Declared", "convert_dsjson", "read_dsjson"]


def read_dsjson(paths: str | Path | Sequence[str | Path], declared: Declared | None = None) -> Converted:
    """Return DSJSON files (`.gz` too) as one log in memory; LogError names file, line and key of what cannot be used."""
    given = _listed(paths)
    apart = outcomes(given)
    found = _survey(given, declared or Declared(), apart)
    return Converted(pa.concat_tables(list(_tables(given, found, apart))), found.problem(), found.notes())


def convert_dsjson(
    paths: str | Path | Sequence[str | Path], folder: str | Path, declared: Declared | None = None
) -> tuple[int, Problem, tuple[str, ...]]:
    """Write DSJSON files as `log.parquet` and `problem.yaml` into a folder, block by block; return rows, problem and notes."""
    given = _listed(paths)
    apart = outcomes(given)
    found = _survey(given, declared or Declared(), apart)
    problem = found.problem()
    return write_converted(_tables(given, found, apart), problem, folder), problem, found.notes()


def _listed(paths: str | Path | Sequence[str | Path]) -> list[str | Path]:
    found = [paths] if isinstance(paths, str | Path) else list(paths)
    if not found:
        raise SettingError("there is no file to convert; name at least one")
    return found


def _by_id(apart: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    found: dict[str, list[Outcome]] = {}
    for outcome in apart:
        if outcome.event_id is not None:
            found.setdefault(outcome.event_id, []).append(outcome)
    return found


def _survey(paths: Sequence[str | Path], declared: Declared, apart: Sequence[Outcome]) -> Survey:
    found = Survey(declared)
    for event in events(paths, _by_id(apart)):
        found.add(event)
    lost = [line for line in apart if line.event_id not in found.ids]
    found.apart, found.dangling = len(apart), len(lost)
    found.check(lost[0] if lost else None)
    return found


def _tables(paths: Sequence[str | Path], found: Survey, apart: Sequence[Outcome]) -> Iterator[pa.Table]:
    """Yield the rows of the log, some at a time."""
    problem = found.problem()
    rows: list[dict[str, Any]] = []
    number = 0
    for event in events(paths, _by_id(apart)):
        if event.unused and found.declared.skipped == "left out":
            continue
        number += 1
        rows.append(_row(event, found, problem, number))
        if len(rows) == ROWS:
            yield pa.Table.from_pylist(rows, _schema(found, problem))
            rows = []
    if rows:
        yield pa.Table.from_pylist(rows, _schema(found, problem))


def _schema(found: Survey, problem: Problem) -> pa.Schema:
    level = problem.innermost
    numbers = [name for name in found.contexts if found.kinds[name] is None]
    texts = [name for name in found.contexts if found.kinds[name] is not None]
    kinds: dict[str, pa.DataType] = {EPISODE: pa.string() if found.named else pa.int64()}
    if problem.time is not None:
        kinds[TIME] = pa.timestamp("us")
    if problem.cluster is not None:
        kinds[CLUSTER] = pa.string()
    kinds |= {name: pa.float64() for name in numbers} | {name: pa.string() for name in texts} | {ACTION: pa.string()}
    kinds |= dict.fromkeys(level.available, pa.bool_())
    kinds |= dict.fromkeys(level.propensity.log_columns if level.propensity else (), pa.float64())
    return pa.schema({**kinds, REWARD: pa.float64()})


def _row(event: Event, found: Survey, problem: Problem, number: int) -> dict[str, Any]:
    """Return one decision as a row of the log."""
    labels = action_labels(event, found.declared.action_key)
    row: dict[str, Any] = {EPISODE: event.event_id if found.named else number, ACTION: labels[event.taken]}
    if problem.time is not None:
        row[TIME] = _time(event)
    if found.declared.cluster is not None:
        value = event.shared.get(found.declared.cluster)
        if value is None:
            raise LogError(f"{event.where}, key 'c.{found.declared.cluster}': is missing; every event belongs to a cluster")
        row[CLUSTER] = _id(value)
    for key in found.contexts:
        value = event.shared.get(key)
        if found.kinds[key] is None:
            row[key] = 0.0 if value is None else float(value)
        else:
            row[key] = ABSENT if value is None else str(value)
    row |= {f"can:{label}": label in labels for label in found.actions if problem.innermost.available}
    if event.chances is None:
        row["p"] = event.chance
    else:
        row |= dict.fromkeys((f"p:{label}" for label in found.actions), 0.0)
        row |= {f"p:{label}": chance for label, chance in zip(labels, event.chances, strict=True)}
    lost = (event.unused and found.declared.skipped == "missing") or (
        not event.observed and found.declared.unobserved == "missing"
    )
    return {**row, REWARD: None if lost else -event.cost}


def _id(value: Any) -> str:
    """Return an id as text; a number counts by its size, 1.0 like 1. That it is not a text elsewhere was seen to before."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _time(event: Event) -> datetime.datetime:
    """Return when an event happened, in UTC without saying so, as logs have it."""
    try:
        found = datetime.datetime.fromisoformat(str(event.time))
    except ValueError as error:
        raise LogError(
            f"{event.where}, key 'Timestamp': found '{event.time}'; expected a time such as 2021-07-29T10:00:00.999Z"
        ) from error
    return found if found.tzinfo is None else found.astimezone(datetime.UTC).replace(tzinfo=None)
