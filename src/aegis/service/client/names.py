"""Names of levels, and ids of episodes and decisions: text of any language that fits into paths, folders and one line."""

from __future__ import annotations

import re

LONGEST_NAME, LONGEST_DECISION = 100, 120  # characters; a client names a decision after its level, with a number
# No slash of either kind, which parts paths; nothing that ends a line, is not seen, or turns the direction of text. The joiners
# U+200C and U+200D are allowed: Persian, languages of India and emoji are written with them.
_NO = r"/\\\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff"
NAME = rf"^[^\s.{_NO}](?:[^{_NO}]*[^\s{_NO}])?$"  # no blank at either end; no dot in front: '..' leads elsewhere in a path
SIGNS = "letters of any language, digits, signs and blanks within; no slash or backslash, no line break, no dot in front"
ALLOWED = f"{SIGNS}, at most {LONGEST_NAME} characters"
_NAME = re.compile(NAME)


def is_name(text: str) -> bool:
    """Say whether a text can be the name of a level or the id of an episode."""
    return (
        len(text) <= LONGEST_NAME and _NAME.fullmatch(text) is not None and not any("\ud800" <= sign <= "\udfff" for sign in text)
    )
