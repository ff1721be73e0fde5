"""Single values as YAML text, safe inside brackets, and text that is safe in a comment."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from aegis.problem import Value
from aegis.problem.strict_yaml import read_yaml

_PLAIN = re.compile(r"^[A-Za-z_][A-Za-z0-9_.-]*( [A-Za-z0-9_.-]+)*$")


def scalar(value: Value) -> str:
    """Return a value such that a problem file reads it back as the same one, inside or outside of brackets."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if _PLAIN.match(value) and read_yaml(value, "draft") == value:
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(character if character.isprintable() else _escaped(character) for character in quoted)


def flow(values: Iterable[Value], indent: int, width: int = 118) -> str:
    """Return a list in brackets, broken over several lines if it is long."""
    lines = [""]
    texts = [scalar(value) for value in values]
    for position, text in enumerate(texts):
        piece = text + (", " if position < len(texts) - 1 else "")
        if lines[-1] and indent + len(lines[-1]) + len(piece) > width:
            lines.append("")
        lines[-1] += piece
    return "[" + ("\n" + " " * (indent + 1)).join(line.rstrip() for line in lines) + "]"


def remark(text: str) -> str:
    """Return text on one line without characters that would end a comment."""
    return "".join(character if character.isprintable() else "?" for character in " ".join(text.split()))


def _number(value: float) -> str:
    text = repr(value)
    # YAML wants a point before an exponent to be sure of a number in every reader.
    return re.sub(r"^(-?\d+)e", r"\1.0e", text)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
