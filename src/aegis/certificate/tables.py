"""A certificate as Arrow tables, for those who collect many: pandas, polars and databases read them without a word of ours.

A number that is not there because a scope was refused is null, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from aegis.certificate.certificate import Certificate, check_sealed
from aegis.errors import choose

_TEXT, _REAL, _WHOLE, _FLAG, _TIME = pa.string(), pa.float64(), pa.int64(), pa.bool_(), pa.string()
_PLACE = {"candidate": _TEXT, "scope": _TEXT}
SCHEMAS: dict[str, pa.Schema] = {
    "levels": pa.schema(
        {
            **_PLACE,
            "verdict": _TEXT,
            "gain_lower": _REAL,
            "margin": _REAL,
            "value_lower": _REAL,
            "estimate": _REAL,
            "estimate_error": _REAL,
            "value_estimate": _REAL,
            "legacy_value": _REAL,
            "incumbent_value": _REAL,
            "exploration": _REAL,
            "comparator": _TEXT,
            "others": _TEXT,
            "against": _TEXT,
            "units": _WHOLE,
            "further_units": _WHOLE,
            "delta": _REAL,
            "method": _TEXT,
            "gamma": _REAL,
            "reason": _TEXT,
            "created": _TIME,
            "data": _TEXT,
        }
    ),
    "claims": pa.schema(
        {
            **_PLACE,
            "what": _TEXT,
            "column": _TEXT,
            "method": _TEXT,
            "delta": _REAL,
            "margin_scaled": _REAL,
            "lower_scaled": _REAL,
            "certified": _FLAG,
            "units": _WHOLE,
            "units_needed": _WHOLE,
        }
    ),
    "guards": pa.schema({**_PLACE, "column": _TEXT, "verdict": _TEXT, "change_lower": _REAL, "max_worsening": _REAL}),
    "paths": pa.schema({**_PLACE, "units": _WHOLE, "gain_lower": _REAL}),
    "findings": pa.schema({"severity": _TEXT, "code": _TEXT, "message": _TEXT, "fix": _TEXT}),
}


def certificate_table(certificate: Certificate | Mapping[str, Any], name: str = "levels") -> pa.Table:
    """Return one table of a certificate, or of one that was loaded: levels, claims, guards, paths or findings.

    levels: a row for each candidate and scope, numbers in the reward's units. claims: every test, scaled to [0, 1]. guards:
    what must not get worse. paths: the bound on its way through the log. scope: level names joined by ' + '. Raises
    SettingError for another name, InputError for a certificate that was changed.
    """
    choose(name, SCHEMAS, "table of a certificate")
    return pa.Table.from_pylist(_ROWS[name](_content(certificate)), SCHEMAS[name])


def _content(certificate: Certificate | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(certificate, Certificate):
        return certificate.to_json()
    check_sealed(dict(certificate))
    return certificate


def _place(level: Mapping[str, Any]) -> dict[str, Any]:
    return {"candidate": level["candidate"], "scope": " + ".join(level["scope"])}


def _levels(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    data = str(content["digests"].get("data") or "")
    return [
        {**level, **_place(level), "gamma": level["sensitivity"]["gamma"], "created": content["created"], "data": data}
        for level in content["levels"]
    ]


def _claims(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {**test, **_place(level), "method": " + ".join(test["method"])} for level in content["levels"] for test in level["tests"]
    ]


def _parts(name: str, content: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{**_place(level), **part} for level in content["levels"] for part in level[name]]


def _findings(content: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    return [dict(found) for found in content["findings"]]


_ROWS = {
    "levels": _levels,
    "claims": _claims,
    "guards": lambda content: _parts("guards", content),
    "paths": lambda content: _parts("path", content),
    "findings": _findings,
}
