"""The words of the code: messages, docstrings and comments avoid the words that the style guide lists."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "aegis"
AVOIDED = (
    *("somebody", "nobody", "whoever", "told", "dice", "house", "houses", "room", "rooms", "is said to", "are said to"),
    *("what came of", "what stands", "none of", "all that is"),
)
WORDS = re.compile(rf"\b({'|'.join(AVOIDED)})\b", re.IGNORECASE)
TEXT = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def texts(path: Path) -> list[tuple[int, str]]:
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    return [(token.start[0], token.string) for token in tokens if token.type in TEXT]


def test_no_text_of_the_code_has_a_word_to_avoid() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}, line {line}: {word}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, text in texts(path)
        for word in WORDS.findall(text)
    ]
    assert not wrong, "\n".join(wrong)


def variables(tree: ast.Module) -> list[tuple[int, str]]:
    """The parameters and local variables of all functions."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)]
    nodes = [inner for function in functions for inner in ast.walk(function)]
    names = [(node.lineno, node.id) for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return names + [(node.lineno, node.arg) for node in nodes if isinstance(node, ast.arg)]


def test_no_variable_is_called_after_a_participle() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}, line {line}: {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, name in variables(ast.parse(path.read_text(encoding="utf-8")))
        if name in ("found", "said", "given", "told")
    ]
    assert not wrong, "\n".join(wrong)
