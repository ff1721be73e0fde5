"""YAML with one reading of every plain word and no key given twice, and pydantic's errors as plain sentences."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from aegis.errors import ProblemError, did_you_mean

_TAG = "tag:yaml.org,2002:"
_FLOAT = re.compile(r"^(?:[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$")
_EXPONENT = re.compile(r"^[-+]?[0-9]+[eE][-+]?[0-9]+$")
_LONGEST_INPUT = 80


class _Loader(yaml.SafeLoader):
    """Reads `true`, `false`, `null`, decimal numbers and text; refuses a key given twice.

    YAML 1.1 would read `on` as true, `010` as 8, `12:30` as 750 and `1e-3` as text: silent changes of action labels and rates.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own class attribute

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Build a mapping, refusing duplicates."""
        keys: set[Hashable] = set()
        for key_node, _ in node.value:
            if key_node.tag == f"{_TAG}merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise yaml.constructor.ConstructorError(None, None, "a key is a plain word", key_node.start_mark)
            if key in keys:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} is given twice", key_node.start_mark)
            keys.add(key)
        return super().construct_mapping(node, deep)

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        """Read a sign that JSON writes as two escapes, as one; half of one is no text."""
        value = super().construct_scalar(node)
        if isinstance(value, str) and any("\ud800" <= sign <= "\udfff" for sign in value):
            return value.encode("utf-16", "surrogatepass").decode("utf-16")
        return value


class _Dumper(yaml.SafeDumper):
    """Quotes every text that this loader or a YAML 1.1 reader would take for something else."""


_Loader.add_implicit_resolver(f"{_TAG}null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(f"{_TAG}bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_Loader.add_implicit_resolver(f"{_TAG}int", re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$"), list("-+0123456789"))
_Loader.add_implicit_resolver(f"{_TAG}float", _FLOAT, list("-+.0123456789"))
_Loader.add_implicit_resolver(f"{_TAG}float", _EXPONENT, list("-+0123456789"))
_Loader.add_implicit_resolver(f"{_TAG}merge", re.compile(r"^<<$"), ["<"])
_Dumper.add_implicit_resolver(f"{_TAG}float", _FLOAT, list("-+.0123456789"))
_Dumper.add_implicit_resolver(f"{_TAG}float", _EXPONENT, list("-+0123456789"))


def read_yaml(text: str, source: str) -> Any:
    """Return the content of YAML text; raise ProblemError, naming `source`, if it is not valid YAML."""
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError) as error:
        raise ProblemError(f"{source}: not valid YAML: {error}") from error
    except RecursionError:
        raise ProblemError(f"{source}: not a problem file: nested too deeply") from None


def write_yaml(content: Mapping[str, Any]) -> str:
    """Return YAML text that `read_yaml` reads back as `content`, keys in the order given."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


_EXPECTED = {
    "string_type": "be a text",
    "int_type": "be a whole number",
    "float_type": "be a number",
    "bool_type": "be true or false",
    "list_type": "be a list",
    "tuple_type": "be a list",
    "dict_type": "be a mapping",
    "model_type": "be a mapping",
    "too_short": "have {min_length} or more items",
    "too_long": "have {max_length} items at most",
    "literal_error": "be {expected}",
}


def explain_validation_error(
    error: ValidationError, content: object, root: type[BaseModel], sections: Mapping[str, type[BaseModel]]
) -> list[str]:
    """Turn pydantic's findings into one line per place: what was found and what is allowed.

    sections: the model that is found under each key, wherever the key stands; root: the model of the whole file. Places
    count list items from 1.
    """
    findings = [(_place(finding["loc"], content, finding["type"]), finding) for finding in error.errors()]
    places = [place for place, _ in findings]
    lines: list[str] = []
    for place in dict.fromkeys(places):
        # Where several forms are allowed pydantic reports each of them; the one that got furthest is what was meant.
        if any(len(other) > len(place) and other[: len(place)] == place for other in places):
            continue
        here = [finding for other, finding in findings if other == place]
        shown, first = ".".join(place), here[0]
        if first["type"] == "extra_forbidden":
            section = next((sections[part] for part in reversed(place[:-1]) if part in sections), root)
            allowed = list(section.model_fields)
            lines.append(f"unknown key '{shown}'{did_you_mean(place[-1], allowed)}; allowed here: {', '.join(allowed)}")
        elif first["type"] == "missing":
            lines.append(f"'{shown}' is missing")
        elif first["type"] == "invalid_key" or first["loc"][-1] == "[key]":
            lines.append(f"'{shown}': a key is a text; put it in quotes if it is meant")
        else:
            expected = " or ".join(dict.fromkeys(_expected(finding) for finding in here))
            lines.append(f"'{shown}' should {expected.replace(' or be ', ' or ')}, found {_short(first['input'])}")
    return lines


def _expected(finding: ErrorDetails) -> str:
    known = _EXPECTED.get(finding["type"], finding["msg"].removeprefix("Input should "))
    return known.format(**finding.get("ctx", {}))


def _place(location: tuple[int | str, ...], content: object, kind: str) -> tuple[str, ...]:
    """Keep the parts of pydantic's location that exist in the file; the others say which form of a union was tried."""
    place: list[str] = []
    here: Any = content
    for part in location:
        if isinstance(here, dict) and part in here:
            here = here[part]
            place.append(str(part))
        elif isinstance(here, list) and isinstance(part, int):
            here = here[part]
            place.append(str(part + 1))
    return (*place, str(location[-1])) if kind == "missing" else tuple(place)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_INPUT else f"{text[:_LONGEST_INPUT]}..."
