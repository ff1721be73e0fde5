"""The digest of the code that decides the numbers of a bench: what it computes, without comments, docstrings and messages."""

from __future__ import annotations

import ast
from functools import cache
from hashlib import sha256
from pathlib import Path

NUMERIC_SOURCES = (
    *("agents", "audit", "certificate", "evidence", "handover", "logs", "mechanisms", "ope", "planning", "policies", "problem"),
    *("validation", "worlds", "rng.py"),
    *("paper/*measures.py", "paper/*gate*.py", "paper/published_*.py", "paper/counter_example.py"),
)

SENTENCE_WORDS = 4
"""A text of so many words is a message to people: no name of a level, a setting or a column of the package is as long."""


@cache
def code_version() -> str:
    """Return the digest of all code that decides numbers.

    Changes of layout, comments, docstrings and messages leave it as it is.
    """
    package = Path(__file__).parents[1]
    digest = sha256()
    for source in sorted(NUMERIC_SOURCES):
        for path in sorted(package.glob(source if source.endswith(".py") else f"{source}/**/*.py")):
            digest.update(path.relative_to(package).as_posix().encode() + b"\0" + source_digest(path.read_bytes()))
    return digest.hexdigest()[:16]


def source_digest(source: bytes) -> bytes:
    """Return the digest of what a module computes, the same for every version of Python."""
    return sha256(_outline(ast.parse(source)).encode()).digest()


def _outline(node: object) -> str:
    """Return a syntax tree as text, with messages left out and fields that are empty in some versions of Python only."""
    if isinstance(node, ast.Constant):
        return "text" if _is_message(node.value) else repr(node.value)
    if isinstance(node, ast.JoinedStr):
        words = " ".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
        return "text" if _is_message(words) else f"JoinedStr[{' '.join(map(_outline, node.values))}]"
    if isinstance(node, ast.AST):
        fields = ((name, getattr(node, name, None)) for name in node._fields)
        return (
            f"{type(node).__name__}({' '.join(f'{name}={_outline(value)}' for name, value in fields if value not in (None, []))})"
        )
    if isinstance(node, list):
        return f"[{' '.join(_outline(part) for part in node if not _is_docstring(part))}]"
    return repr(node)


def _is_message(value: object) -> bool:
    return isinstance(value, str) and len(value.split()) >= SENTENCE_WORDS


def _is_docstring(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
