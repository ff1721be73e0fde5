"""The JSON Schema of a certificate, made from the types that hold it, so that the two cannot come apart."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

from aegis.certificate.certificate import CERTIFIED, FORMAT, KIND, NOT_YET, REFUSED, Certificate

VERDICTS = [CERTIFIED, NOT_YET, REFUSED]
_PLAIN: dict[type, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
}


def certificate_schema() -> dict[str, Any]:
    """Return the schema (JSON Schema, draft 2020-12) of what `Certificate.to_json` writes."""
    definitions: dict[str, Any] = {}
    schema = _object(Certificate, definitions)
    schema["properties"] = {"verdict": {"enum": VERDICTS}, "summary": schema["properties"].pop("verdict"), **schema["properties"]}
    schema["properties"] |= {"format": {"const": FORMAT}, "kind": {"const": KIND}, "seal": {"type": "string"}}
    schema["required"] = ["summary", "format", "kind", *schema["required"], "seal"]
    definitions["LevelResult"]["properties"]["verdict"] = {"enum": VERDICTS}
    definitions["Verdict"]["properties"]["verdict"] = {"enum": VERDICTS}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "AEGIS certificate",
        "description": " ".join((Certificate.__doc__ or "").split()),
        **schema,
        "$defs": definitions,
    }


def _object(cls: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    return {
        "type": "object",
        "properties": {name: _schema(hints[name], definitions) for name in names},
        "required": names,
        "additionalProperties": False,
    }


def _schema(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        name = getattr(hint, "__name__", "part")
        if name not in definitions:
            definitions[name] = {}  # stands in while its own fields are looked at
            definitions[name] = {**_object(hint, definitions), "description": " ".join((hint.__doc__ or "").split())}
        return {"$ref": f"#/$defs/{name}"}
    if origin is tuple:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [{"type": "null"} if part is type(None) else _schema(part, definitions) for part in arguments]}
    if origin is Mapping or (isinstance(origin, type) and issubclass(origin, Mapping)):
        values = _schema(arguments[1], definitions)
        return {"type": "object", "additionalProperties": values or True}
    return dict(_PLAIN.get(hint, {}))
