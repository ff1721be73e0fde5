"""What is wrong with the rows of a block: the first of each kind, and how many more of it, in one message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from aegis.errors import LogError
from aegis.problem import AnyArray
from aegis.problem.places import Places

MOST = 10  # kinds that a message lists


class Report(Protocol):
    """Takes note of wrong rows: indices (one or more), the column, and what to say about one of them."""

    def __call__(self, wrong: AnyArray, column: str, text: Callable[[int], str]) -> None:
        """Note the rows, or raise LogError for the first of them."""
        ...


@dataclass(slots=True)
class Findings:
    """Kinds of findings in rows whose origin is known; one call of `add` is one kind."""

    places: Places
    _found: list[tuple[tuple[int, int], str]] = field(default_factory=list)

    def add(self, wrong: AnyArray, column: str, text: Callable[[int], str], more: bool = False) -> None:
        """Note the row indices `wrong`, one or more; `text` says what is wrong with one. more: there may be others."""
        index = self.places.earliest(wrong)
        line = f"{self.places.at(index)}, column '{column}': {text(index)}"
        self._found.append((self.places.order(index), line + _further(wrong.size - 1, more)))

    def __bool__(self) -> bool:
        return bool(self._found)

    def settle(self) -> None:
        """Raise LogError with a line for each kind, in the order of the rows, unless nothing was found."""
        if not self._found:
            return
        lines = [line for _, line in sorted(self._found, key=lambda found: found[0])]
        left = len(lines) - MOST
        if left > 0:
            lines = [*lines[:MOST], f"and {left} more kind{'s' if left > 1 else ''} of findings in these rows"]
        raise LogError("\n".join(lines))


def _further(count: int, more: bool) -> str:
    if not count:
        return ""
    return f" (and {'at least ' if more else ''}{count:,} more row{'s' if count > 1 else ''} like it nearby)"
