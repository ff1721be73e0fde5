"""Dates that are not read as such, because nothing tells the day from the month, or the year is cut short."""

from __future__ import annotations

import re

from aegis.logs.drafting.sheet import Look

_DATE = re.compile(r"\s*(\d{1,2})([/.-])(\d{1,2})\2(\d{4}|\d{2})(?:[ T].*)?\s*")


def undated(look: Look) -> str:
    """Say, with an example, what is not clear about the dates in a column of text; an empty text if it holds none."""
    if look.kind != "text" or not look.count:
        return ""
    texts = look.distinct.to_pylist()
    found = [match for text in texts if (match := _DATE.fullmatch(text)) is not None]
    if len(found) < len(texts):
        return ""
    first, second = (max(int(match[place]) for match in found) for place in (1, 3))
    telling = next((match for match in found if int(match[1]) != int(match[3])), found[0])
    example, mark, year = telling[0].strip(), telling[2], telling[4]
    if first > 12 or second > 12:
        order = "the day comes first" if second <= 12 else "the month comes first" if first <= 12 else "no order fits all of them"
        return f"dates such as {example} ({order})"
    if mark == "." and len(year) == 2:
        return f"dates such as {example} (the year is cut short)"
    one, other = int(telling[1]), int(telling[3])
    return f"dates such as {example} (day {one} of month {other}, or day {other} of month {one}?)"
