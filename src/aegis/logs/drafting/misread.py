"""Columns of text that look like numbers written for people: with marks between thousands, or with percent signs."""

from __future__ import annotations

import re

from aegis.logs.drafting.sheet import Look, Sheet

_PERCENT = re.compile(r"[+-]?\d+(?:[.,]\d+)?\s*%")
_POINTS = re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+(?:,\d+)?")  # 1.663,77
_COMMAS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")  # 1,663.77
_SPACES = re.compile(r"[+-]?\d{1,3}(?:[\s']\d{3})+(?:[.,]\d+)?")  # 1 663,77 and 1'663.77
_PLAIN = re.compile(r"[+-]?\d+(?:[.,]\d+)?")
_MARKS = (("thousands points", _POINTS, r"\."), ("thousands commas", _COMMAS, ","), ("gaps between thousands", _SPACES, r"[\s']"))


def misread(look: Look) -> str:
    """Say, with an example, which numbers a column of text seems to hold and how to write them; an empty text if none."""
    if look.kind != "text" or not look.count:
        return ""
    texts = [text.strip() for text in look.distinct.to_pylist() if text.strip()]
    if texts and all(_PERCENT.fullmatch(text) for text in texts):
        example = texts[0]
        share = float(example.rstrip("% \t").replace(",", ".")) / 100.0
        return f"looks like numbers with percent signs ({example}): write them without, as shares ({share:.10g})"
    for what, pattern, mark in _MARKS:
        marked = [text for text in texts if pattern.fullmatch(text)]
        if marked and all(_PLAIN.fullmatch(text) for text in texts if not pattern.fullmatch(text)):
            return f"looks like numbers with {what} ({marked[0]}): write them without ({re.sub(mark, '', marked[0])})"
    return ""


def all_misread(sheet: Sheet) -> dict[str, str]:
    """Return what is said of each such column, by its name."""
    return {name: said for name, look in sheet.looks.items() if (said := misread(look))}
