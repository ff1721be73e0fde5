"""Sets of columns with one column per action, recognised by their names: `p_dose_0, p_dose_1` or `can_low, can_high`."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from aegis.logs.drafting.words import words
from aegis.problem import Value

_LONGEST = 1000  # columns of one set
_WRITTEN = re.compile(r"(?<![0-9.,])([-+−]?)([0-9]+(?:[.,_][0-9]+)?)(?![0-9.,])")


@dataclass(frozen=True, slots=True)
class Labelled:
    """columns: one per entry of `values`, in that order. head, tail: what stands around the label. by: the label is the value
    itself or its place among the values, counted from 0 or from 1."""  # fmt: skip

    columns: tuple[str, ...]
    values: tuple[Value, ...]
    head: str
    tail: str
    by: Literal["value", "place"]

    @property
    def stem(self) -> tuple[str, ...]:
        """Return the words around the label."""
        return (*words(self.head), *words(self.tail))


def labelled(values: Sequence[Value], names: Iterable[str], places: bool = True) -> Iterator[Labelled]:
    """Yield the sets of columns that name every one of `values` (ascending), by value first, then by place if `places`."""
    known = _by_lower_case(names)
    seen: set[tuple[str, ...]] = set()
    for found in itertools.chain(_by_text(values, known), _by_number(values, known), _by_place(values, known) if places else ()):
        if found.columns not in seen:
            seen.add(found.columns)
            yield found


def wider(found: Labelled, names: Iterable[str]) -> Labelled | None:
    """Return the set with further columns of the same pattern, for actions that were never taken; None if there are none.

    Columns that are merely counted do not say which values they stand for: `values` is then empty, and `alignment` may find them.
    """
    inside = {}
    for lower, name in _by_lower_case(names).items():
        if lower.startswith(found.head) and lower.endswith(found.tail) and len(lower) > len(found.head) + len(found.tail):
            inside[name[len(found.head) : len(name) - len(found.tail)]] = name
    if len(inside) <= len(found.columns) or len(inside) > _LONGEST:
        return None
    counted = sorted(int(label) for label in inside if label.isdecimal())
    if counted in (list(range(len(inside))), list(range(1, len(inside) + 1))):
        columns = tuple(inside[label] for label in sorted(inside, key=int))
        return Labelled(columns, (), found.head, found.tail, "place")
    if found.by == "place":
        return None
    numeric = all(not isinstance(value, str | bool) for value in found.values)
    known = dict(zip(found.columns, found.values, strict=True))
    values: dict[Value, str] = {}
    for label, name in inside.items():
        value = known.get(name, _number(label) if numeric else label)
        if value is None or value in values:
            return None
        values[value] = name
    ordered = sorted(values) if numeric else list(values)
    return Labelled(tuple(values[value] for value in ordered), tuple(ordered), found.head, found.tail, "value")


def _by_text(values: Sequence[Value], known: Mapping[str, str]) -> Iterator[Labelled]:
    """Yield the sets whose labels are the values as they are written, blanks and points perhaps as underscores."""
    texts = [str(value).lower() for value in values]
    short = [f"{value:g}" if isinstance(value, float) else text for value, text in zip(values, texts, strict=True)]
    variants = [texts, short]
    for variant in (texts, short):
        variants.append([text.replace(".", "_") for text in variant])
        variants.append([text.replace(" ", "_") for text in variant])
    if all(isinstance(value, bool) for value in values):
        variants.append([str(int(value)) for value in values])
    for labels in variants:
        if len(set(labels)) == len(labels) and all(labels):
            yield from _with_labels(values, labels, known, "value")


def _by_number(values: Sequence[Value], known: Mapping[str, str]) -> Iterator[Labelled]:
    """Yield the sets whose labels are the values, however these numbers are written: `p_0,5` and `p_0.50` are both of 0.5."""
    if any(isinstance(value, str | bool) for value in values):
        return
    sets: dict[tuple[str, str], dict[float, str]] = {}
    for lower, name in known.items():
        for found in _WRITTEN.finditer(lower):
            for sign in {"", found[1]}:  # the hyphen of `p-0,5` may be a minus, or only stand between
                number = _number(sign + found[2])
                head = lower[: found.start() if sign else found.start(2)]
                if number is not None:
                    sets.setdefault((head, lower[found.end() :]), {}).setdefault(float(number), name)
    for (head, tail), labels in sets.items():
        columns = tuple(labels.get(float(value), "") for value in values)
        if all(columns):
            yield Labelled(columns, tuple(values), head, tail, "value")


def _by_place(values: Sequence[Value], known: Mapping[str, str]) -> Iterator[Labelled]:
    """Yield the sets that are counted from 0 or from 1; labels have no order, so that it is not for us to say which is which."""
    if all(not isinstance(value, str | bool) for value in values):
        for first in (0, 1):
            yield from _with_labels(values, [str(first + place) for place in range(len(values))], known, "place")


def _with_labels(
    values: Sequence[Value], labels: Sequence[str], known: Mapping[str, str], by: Literal["value", "place"]
) -> Iterator[Labelled]:
    for name in known:
        for head, tail in _around(name, labels[0]):
            columns = tuple(known.get(f"{head}{label}{tail}", "") for label in labels)
            if all(columns):
                yield Labelled(columns, tuple(values), head, tail, by)


def _around(name: str, label: str) -> Iterator[tuple[str, str]]:
    """Yield what stands before and after each occurrence of a label that is not part of a longer word or number."""
    start = name.find(label)
    while start >= 0:
        head, tail = name[:start], name[start + len(label) :]
        if not (_joined(head[-1:], label[0]) or _joined(label[-1], tail[:1])):
            yield head, tail
        start = name.find(label, start + 1)


def _joined(left: str, right: str) -> bool:
    return (left.isdigit() and right.isdigit()) or (left.isalpha() and right.isalpha())


def _by_lower_case(names: Iterable[str]) -> dict[str, str]:
    """Return names by their lower case; of two that differ in case only, the first."""
    found: dict[str, str] = {}
    for name in names:
        if len(name.lower()) == len(name):  # positions in the one are positions in the other
            found.setdefault(name.lower(), name)
    return found


def _number(label: str) -> Value | None:
    """Return the number that a label stands for, with a point, a comma or an underscore before its decimals."""
    try:
        number = float(re.sub("[_,]", ".", label.replace("\N{MINUS SIGN}", "-")))
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() else number
