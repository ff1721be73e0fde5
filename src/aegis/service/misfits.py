"""What does not have the right form, in plain words: which field, what was expected, what kind of thing was found.

A field that may be one of several things fails once for each of them; that is said as one. Values are never sent back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from aegis.service.wire import NAME

NUMBER, FLAG, TEXT = "a finite number", "true or false", "text"
KINDS = {
    **dict.fromkeys(("int_type", "float_type", "int_from_float"), NUMBER),
    **dict.fromkeys(("bool_type", "bool_parsing"), FLAG),
    **dict.fromkeys(("string_type", "string_unicode"), TEXT),
    "list_type": "a list",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "an object"),
    "int_parsing": "a whole number",
}
LIMITS = {
    "less_than_equal": ("le", "a number of at most {:g}"),
    "greater_than_equal": ("ge", "a number of at least {:g}"),
    **dict.fromkeys(("string_too_short", "too_short"), ("min_length", "a length of at least {}")),
    **dict.fromkeys(("string_too_long", "too_long"), ("max_length", "a length of at most {}")),
}


def misfits(errors: Sequence[Any], body: Any) -> list[dict[str, str]]:
    """Return where something is wrong, and why. errors: those of pydantic. body: what was sent."""
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for error in errors:
        groups.setdefault(_place(error, body), []).append(error)
    found = []
    for place, group in groups.items():
        inside = any(len(other) > len(place) and other[: len(place)] == place for other in groups)
        if not (inside and all(error["type"] in KINDS for error in group)):  # otherwise what is inside of it says more
            found.append({"where": ".".join(place), "why": _why(group)})
    return found


def _place(error: Mapping[str, Any], body: Any) -> tuple[str, ...]:
    """Return the field, without the steps that are no fields but names of types that were tried."""
    first, *more = error["loc"]
    if error["type"] == "json_invalid":
        return (str(first),)
    if first != "body":
        return tuple(map(str, error["loc"]))
    found = [str(first)]
    for place, step in enumerate(more):
        inside = step in body if isinstance(body, dict) else isinstance(body, list) and isinstance(step, int) and step < len(body)
        if inside:
            body = body[step]
        elif not (error["type"] == "missing" and place == len(more) - 1):
            continue
        found.append(str(step))
    return tuple(found)


def _why(group: Sequence[Mapping[str, Any]]) -> str:
    for error in group:
        kind, about = error["type"], error.get("ctx") or {}
        if kind == "finite_number":
            return f"expected {NUMBER}, found one that is not finite"
        if kind in LIMITS:
            name, words = LIMITS[kind]
            return f"expected {words.format(about[name])}"
        if kind == "missing":
            return "it is missing"
        if kind == "extra_forbidden":
            return "there is no such field; see /v1/openapi.json"
        if kind == "json_invalid":
            return f"it cannot be read as JSON, from character {error['loc'][-1]} on"
        if kind == "string_pattern_mismatch":
            named = about.get("pattern") == NAME
            return (
                f"expected {'letters, digits and ._:-, first a letter or a digit' if named else 'visible characters, no spaces'}"
            )
    expected = list(dict.fromkeys(KINDS.get(error["type"], "something else") for error in group))
    listed = " or ".join([", ".join(expected[:-1]), expected[-1]] if len(expected) > 1 else expected)
    return f"expected {listed}, found {_kind(group[0].get('input'))}"


def _kind(value: Any) -> str:
    """Return what kind of thing was found, and nothing of what is in it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return FLAG
    if isinstance(value, int | float):
        return "a number" if isinstance(value, int) or math.isfinite(value) else "a number that is not finite"
    if isinstance(value, str):
        return TEXT
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return "something that was not sent as application/json"
