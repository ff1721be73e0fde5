"""The events of a gate as an Arrow table: one row each, in their order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from aegis.handover.events import Event, Unit, plain

_KINDS: dict[str, pa.DataType] = {
    "kind": pa.string(),
    "episode": pa.int64(),
    "level": pa.string(),
    "challenge": pa.string(),
    "since": pa.int64(),
    "units": pa.int64(),
    "gain_lower": pa.float64(),
    "value_lower": pa.float64(),
    "cap": pa.float64(),
    "policy": pa.string(),
    "arm": pa.string(),
    "reward": pa.float64(),
    "evidence": pa.float64(),
    "floor": pa.float64(),
    "freeze": pa.int64(),
    "mode": pa.string(),
    "action": pa.string(),
    "who": pa.string(),
    "why": pa.string(),
    "code": pa.string(),
    "fix": pa.string(),
}
SCHEMA = pa.schema(_KINDS)


def events_table(events: Iterable[Event], units: bool = False) -> pa.Table:
    """Return events with the fields they have, others null; bounds are scaled to [0, 1], as in the events themselves.

    units: one row for each closed episode too, with arm and scaled reward; `evidence` is that of an alarm. Settings and the
    sums of single challenges stay in `events.jsonl`.
    """
    return pa.Table.from_pylist([_row(event) for event in events if units or not isinstance(event, Unit)], SCHEMA)


def _row(event: Event) -> dict[str, Any]:
    row = {name: value for name, value in plain(event).items() if name in _KINDS}
    return {name: value for name, value in row.items() if not isinstance(value, dict | list | tuple)}
