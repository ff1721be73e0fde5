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
"""A text of so many words is a message to people where an error is raised, or a finding is described."""

MESSAGE_CALLS = ("Code", "Assumption", "Field", "make_finding")
"""What describes something to people; so does every call of an error. Texts anywhere else may decide numbers: they count."""


@cache
def code_version() -> str:
    """Return the digest of all code that decides numbers.

    Changes of layout, comments, docstrings and of messages in errors and findings leave it as it is.
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


def _outline(node: object, message: bool = False) -> str:
    """Return a syntax tree as text, with messages left out and fields that are empty in some versions of Python only.

    message: whether it is part of a message to people.
    """
    message = message or _holds_messages(node)
    if isinstance(node, ast.Constant):
        return "text" if message and _is_sentence(node.value) else repr(node.value)
    if isinstance(node, ast.JoinedStr):
        words = "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
        hidden = message and _is_sentence(words)
        parts = [part for part in node.values if not (hidden and isinstance(part, ast.Constant))]
        return f"JoinedStr[{' '.join(_outline(part, message) for part in parts)}]"
    if isinstance(node, ast.AST):
        fields = [(name, getattr(node, name, None)) for name in node._fields]
        outlined = [f"{name}={_outline(value, message)}" for name, value in fields if value not in (None, [])]
        return f"{type(node).__name__}({' '.join(outlined)})"
    if isinstance(node, list):
        return f"[{' '.join(_outline(part, message) for part in node if not _is_docstring(part))}]"
    return repr(node)


def _holds_messages(node: object) -> bool:
    """Say whether a node contains messages to people: a raised error, a call of one, or of what describes a finding."""
    if not isinstance(node, ast.Call):
        return isinstance(node, ast.Raise)
    name = getattr(node.func, "id", getattr(node.func, "attr", ""))
    return name.endswith("Error") or name in MESSAGE_CALLS


def _is_sentence(value: object) -> bool:
    return isinstance(value, str) and len(value.split()) >= SENTENCE_WORDS


def _is_docstring(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
