"""A comparison as an Arrow table: one row for each number, and what it may be called beside it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from aegis.comparison.results import Comparison

SCHEMA = pa.schema(
    {
        "candidate": pa.string(),
        "scope": pa.string(),
        "method": pa.string(),
        "what": pa.string(),
        "kind": pa.string(),
        "certificate": pa.bool_(),
        "value": pa.float64(),
        "error": pa.float64(),
        "delta": pa.float64(),
        "units": pa.int64(),
        "holds": pa.string(),
        "label": pa.string(),
    }
)


def comparison_table(found: Comparison) -> pa.Table:
    """Return every estimate and bound; `kind` is 'estimate' or 'bound', `certificate` says which may be relied on, `label` why
    not.

    error: the standard error of an estimate. delta, holds: the risk of a bound, and whether it holds 'anytime', at a 'fixed
    time' or is 'approximate'. Methods without a number are not in the table.
    """
    place: dict[str, Any] = {"candidate": found.candidate, "scope": " + ".join(found.scope)}
    rows = [
        {
            **place,
            "method": bound.method,
            "what": bound.what,
            "kind": "bound",
            "certificate": bound.certificate,
            "value": bound.value,
            "delta": bound.delta,
            "units": bound.units,
            "holds": bound.validity,
            "label": bound.label,
        }
        for bound in (*found.certificates, *found.others)
    ]
    rows += [
        {
            **place,
            "method": estimate.method,
            "what": estimate.what,
            "kind": "estimate",
            "certificate": False,
            "value": estimate.value,
            "error": estimate.error,
            "units": estimate.units,
            "label": estimate.label,
        }
        for estimate in found.estimates
    ]
    return pa.Table.from_pylist(rows, SCHEMA)
