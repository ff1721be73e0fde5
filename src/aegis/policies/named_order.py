"""Columns that are named after actions, such as `q_none`, `q_a`, `q_b`: do they stand in the order of the actions?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aegis.problem import Actions


def order_by_name(actions: Actions, columns: Sequence[str]) -> tuple[str, ...] | None:
    """Return columns in the order of the actions, if every name ends with another action's name, or begins so; else None.

    Columns that are numbered from 0 or 1, as they stand, may be so by their places: they are left as they are.
    """
    labels = [f"{value:g}" if isinstance(value, float) else str(value) for value in actions.values]
    places = {label.casefold(): place for place, label in enumerate(labels)}
    for parts in (_ends, _beginnings):
        # The longest part counts: of two actions `b` and `a b` a column `q a b` means the second.
        meant = [next((places[part] for part in parts(column.casefold()) if part in places), -1) for column in columns]
        if sorted(meant) == list(range(len(labels))):
            numbered = [[str(first + place) for place in range(len(labels))] for first in (0, 1)]
            if [labels[place] for place in meant] in numbered:
                return None
            return tuple(columns[meant.index(place)] for place in range(len(labels)))
    return None


def _ends(name: str) -> Iterator[str]:
    """Yield the ends of a name that begin where a word does, the longest first."""
    for place in range(len(name)):
        if place == 0 or not name[place - 1].isalnum():
            yield name[place:]


def _beginnings(name: str) -> Iterator[str]:
    """Yield the beginnings of a name that end where a word does, the longest first."""
    for place in range(len(name), 0, -1):
        if place == len(name) or not name[place].isalnum():
            yield name[:place]
