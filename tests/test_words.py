"""The words of the code: messages, docstrings and comments avoid the words that the style guide lists."""

from __future__ import annotations

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
