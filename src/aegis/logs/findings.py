"""Wrong rows of a block in one message: the first row of each kind of finding, and how many more there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from aegis.errors import LogError
from aegis.problem import AnyArray, RowOrigins

MOST_KINDS = 10  # kinds that a message lists


class RowReport(Protocol):
    """Takes note of wrong rows: indices (one or more), the column, and a text about one of them."""

    def __call__(self, wrong: AnyArray, column: str, text: Callable[[int], str]) -> None:
        """Note the rows, or raise LogError for the first of them."""
        ...


@dataclass(slots=True)
class Findings:
    """Kinds of findings in rows whose origin is known; one call of `add` is one kind."""

    places: RowOrigins
    _lines: list[tuple[tuple[int, int], str]] = field(default_factory=list)

    def add(self, wrong: AnyArray, column: str, text: Callable[[int], str], more: bool = False) -> None:
        """Note the row indices `wrong`, one or more; `text` describes one. more: there may be others."""
        index, further = self.places.earliest(wrong), wrong.size - 1
        line = f"{self.places.at(index)}, column '{column}': {text(index)}"
        if further:
            line += f" (and {'at least ' if more else ''}{further:,} more row{'s' if further > 1 else ''} like it nearby)"
        self._lines.append((self.places.order(index), line))

    def __bool__(self) -> bool:
        return bool(self._lines)

    def settle(self) -> None:
        """Raise LogError with a line for each kind, in the order of the rows, if there are any."""
        if not self._lines:
            return
        lines = [line for _, line in sorted(self._lines, key=lambda entry: entry[0])]
        left = len(lines) - MOST_KINDS
        if left > 0:
            lines = [*lines[:MOST_KINDS], f"and {left} more kind{'s' if left > 1 else ''} of findings in these rows"]
        raise LogError("\n".join(lines))


def shorten(text: str, most: int = 80) -> str:
    """Return a text, cut if it is long."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def show_value(value: object) -> str:
    """Return a value as messages show it: text in quotes, numbers as they are, long text cut."""
    return shorten(repr(value))
