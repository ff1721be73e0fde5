"""Validation errors of requests in plain words: the field and what was expected, without the values that were sent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from aegis.service.schemas import NAME

NUMBER, FLAG, TEXT = "a finite number", "true or false", "text"

# What was expected, by the type of pydantic's error. An error about a type is left out if one about what is inside says more.
EXPECTED = {
    **dict.fromkeys(("int_type", "float_type", "int_from_float"), NUMBER),
    **dict.fromkeys(("bool_type", "bool_parsing"), FLAG),
    **dict.fromkeys(("string_type", "string_unicode"), TEXT),
    "list_type": "a list",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "an object"),
    "int_parsing": "a whole number",
}

# The whole reason, by the type of the error; {ctx} and {loc} are those of the error.
REASONS = {
    "finite_number": f"expected {NUMBER}, found one that is not finite",
    "less_than_equal": "expected a number of at most {ctx[le]:g}",
    "greater_than_equal": "expected a number of at least {ctx[ge]:g}",
    **dict.fromkeys(("string_too_short", "too_short"), "expected a length of at least {ctx[min_length]}"),
    **dict.fromkeys(("string_too_long", "too_long"), "expected a length of at most {ctx[max_length]}"),
    "missing": "it is missing",
    "extra_forbidden": "there is no such field; see /v1/openapi.json",
    "json_invalid": "it cannot be read as JSON, from character {loc} on",
}

PATTERNS = {NAME: "letters, digits and ._:-, first a letter or a digit"}  # others: keys, see `routes.base`


def describe_validation_errors(errors: Sequence[Any], body: Any) -> list[dict[str, str]]:
    """Return where something is wrong, and why. errors: those of pydantic. body: what was sent."""
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for error in errors:
        groups.setdefault(_field_path(error, body), []).append(error)
    described = []
    for place, group in groups.items():
        inside = any(len(other) > len(place) and other[: len(place)] == place for other in groups)
        if not (inside and all(error["type"] in EXPECTED for error in group)):
            described.append({"where": ".".join(place), "why": _reason(group)})
    return described


def _field_path(error: Mapping[str, Any], body: Any) -> tuple[str, ...]:
    """Return the field, without the steps that are no fields but names of types that were tried."""
    first, *more = error["loc"]
    if error["type"] == "json_invalid":
        return (str(first),)
    if first != "body":
        return tuple(map(str, error["loc"]))
    path = [str(first)]
    for place, step in enumerate(more):
        inside = step in body if isinstance(body, dict) else isinstance(body, list) and isinstance(step, int) and step < len(body)
        if inside:
            body = body[step]
        elif not (error["type"] == "missing" and place == len(more) - 1):
            continue
        path.append(str(step))
    return tuple(path)


def _reason(group: Sequence[Mapping[str, Any]]) -> str:
    for error in group:
        kind, about = error["type"], error.get("ctx") or {}
        if kind in REASONS:
            return REASONS[kind].format(ctx=about, loc=error["loc"][-1])
        if kind == "string_pattern_mismatch":
            return f"expected {PATTERNS.get(about['pattern'], 'visible characters, no spaces')}"
    expected = list(dict.fromkeys(EXPECTED.get(error["type"], "something else") for error in group))
    listed = " or ".join([", ".join(expected[:-1]), expected[-1]] if len(expected) > 1 else expected)
    return f"expected {listed}, found {_describe_kind(group[0].get('input'))}"


def _describe_kind(value: Any) -> str:
    """Return what kind of thing was sent, and nothing of its content."""
    if value is None:
        return "null"
    if isinstance(value, float) and not math.isfinite(value):
        return "a number that is not finite"
    kinds = {bool: FLAG, int: "a number", float: "a number", str: TEXT, list: "a list", dict: "an object"}
    return kinds.get(type(value), "something that was not sent as application/json")
