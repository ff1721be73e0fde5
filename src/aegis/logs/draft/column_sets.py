"""Sets of columns with one column per action, such as `p_dose_0, p_dose_1` or `can_low, can_high`: probabilities and masks.

Where some actions were never taken, the log tells which values counted columns stand for: with the true assignment the
actions taken are, on average, likelier than with any other (Gibbs' inequality).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from aegis.logs.column_values import all_numeric, match_values
from aegis.logs.draft import vocabulary as words
from aegis.logs.draft.column_profile import ColumnProfile, LogProfile, stack_numbers
from aegis.logs.draft.guesses import ActionGuess
from aegis.logs.draft.vocabulary import name_words, without_words
from aegis.problem import Array, Value

_LONGEST = 1000  # columns of one set
_CLEAR = (
    30.0  # how much larger the log-likelihood of the best assignment must be than that of the next; rows may repeat a decision
)
_FINER = (1, 2, 3)  # the grid may have so many points between two neighbours that were taken
_WRITTEN = re.compile(r"(?<![0-9.,])([-+−]?)([0-9]+(?:[.,_][0-9]+)?)(?![0-9.,])")


@dataclass(frozen=True, slots=True)
class ColumnSet:
    """columns: one per entry of `values`, in that order. head, tail: the text around the label. by: the label is the value
    itself or its place among the values, counted from 0 or from 1."""  # fmt: skip

    columns: tuple[str, ...]
    values: tuple[Value, ...]
    head: str
    tail: str
    by: Literal["value", "place"]

    @property
    def stem(self) -> tuple[str, ...]:
        """Return the words around the label."""
        return (*name_words(self.head), *name_words(self.tail))


def find_column_sets(values: Sequence[Value], names: Iterable[str]) -> Iterator[ColumnSet]:
    """Yield the sets of columns that name every one of `values` (ascending), by value first, then by place."""
    known = _by_lower_case(names)
    sets: dict[tuple[str, ...], ColumnSet] = {}
    for column_set in itertools.chain(_by_text(values, known), _by_number(values, known), _by_place(values, known)):
        sets.setdefault(column_set.columns, column_set)
    yield from sets.values()


def widen_column_set(narrow: ColumnSet, names: Iterable[str]) -> ColumnSet | None:
    """Return the set with further columns of the same pattern, for actions that were never taken; None if there are none.

    Columns that are merely counted do not say which values they stand for: `values` is then empty.
    """
    inside = {}
    for lower, name in _by_lower_case(names).items():
        if lower.startswith(narrow.head) and lower.endswith(narrow.tail) and len(lower) > len(narrow.head) + len(narrow.tail):
            inside[name[len(narrow.head) : len(name) - len(narrow.tail)]] = name
    if len(inside) <= len(narrow.columns) or len(inside) > _LONGEST:
        return None
    counted = sorted(int(label) for label in inside if label.isdecimal())
    if counted in (list(range(len(inside))), list(range(1, len(inside) + 1))):
        columns = tuple(inside[label] for label in sorted(inside, key=int))
        return ColumnSet(columns, (), narrow.head, narrow.tail, "place")
    if narrow.by == "place":
        return None
    numeric = all_numeric(narrow.values)
    known = dict(zip(narrow.columns, narrow.values, strict=True))
    values: dict[Value, str] = {}
    for label, name in inside.items():
        value = known.get(name, _number(label) if numeric else label)
        if value is None or value in values:
            return None
        values[value] = name
    ordered = sorted(values) if numeric else list(values)
    return ColumnSet(tuple(values[value] for value in ordered), tuple(ordered), narrow.head, narrow.tail, "value")


def _by_text(values: Sequence[Value], known: Mapping[str, str]) -> Iterator[ColumnSet]:
    """Yield the sets whose labels are the values as they are written, blanks perhaps as underscores, flags as 0 and 1."""
    texts = [str(value).lower() for value in values]
    variants = [texts, [text.replace(" ", "_") for text in texts]]
    if all(isinstance(value, bool) for value in values):
        variants.append([str(int(value)) for value in values])
    for labels in variants:
        if len(set(labels)) == len(labels) and all(labels):
            yield from _with_labels(values, labels, known, "value")


def _by_number(values: Sequence[Value], known: Mapping[str, str]) -> Iterator[ColumnSet]:
    """Yield the sets whose labels are the values, however these numbers are written: `p_0,5` and `p_0.50` are both of 0.5."""
    if not all_numeric(values):
        return
    sets: dict[tuple[str, str], dict[float, str]] = {}
    for lower, name in known.items():
        for match in _WRITTEN.finditer(lower):
            for sign in {"", match[1]}:  # the hyphen of `p-0,5` may be a minus, or only stand between
                number = _number(sign + match[2])
                head = lower[: match.start() if sign else match.start(2)]
                if number is not None:
                    sets.setdefault((head, lower[match.end() :]), {}).setdefault(float(number), name)
    for (head, tail), labels in sets.items():
        columns = tuple(labels.get(float(value), "") for value in values)
        if all(columns):
            yield ColumnSet(columns, tuple(values), head, tail, "value")


def _by_place(values: Sequence[Value], known: Mapping[str, str]) -> Iterator[ColumnSet]:
    """Yield the sets that are counted from 0 or from 1; labels have no order, so that it is not for us to say which is which."""
    if all_numeric(values):
        for first in (0, 1):
            yield from _with_labels(values, [str(first + place) for place in range(len(values))], known, "place")


def _with_labels(
    values: Sequence[Value], labels: Sequence[str], known: Mapping[str, str], by: Literal["value", "place"]
) -> Iterator[ColumnSet]:
    for name in known:
        for head, tail in _around(name, labels[0]):
            columns = tuple(known.get(f"{head}{label}{tail}", "") for label in labels)
            if all(columns):
                yield ColumnSet(columns, tuple(values), head, tail, by)


def _around(name: str, label: str) -> Iterator[tuple[str, str]]:
    """Yield the text before and after each occurrence of a label that is not part of a longer word or number."""
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
    lowered: dict[str, str] = {}
    for name in names:
        if len(name.lower()) == len(name):  # positions in the one are positions in the other
            lowered.setdefault(name.lower(), name)
    return lowered


def _number(label: str) -> Value | None:
    """Return the number that a label stands for, with a point, a comma or an underscore before its decimals."""
    try:
        number = float(re.sub("[_,]", ".", label.replace("\N{MINUS SIGN}", "-")))
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() else number


def align_values(look: ColumnProfile, chances: Array) -> tuple[Value, ...] | None:
    """Return the values of the actions, one per column of `chances` `[n, A]`; None if the log does not tell.

    The values are points of an even grid, perhaps a finer one, on which those of the column `look` lie.
    """
    if look.kind != "number" or look.count < 2:
        return None
    values, count = np.asarray(look.values, dtype=np.float64), chances.shape[1]
    codes = np.argsort(np.argsort(look.distinct.to_numpy(zero_copy_only=False)))[look.codes]
    scored: list[tuple[float, tuple[Value, ...]]] = []
    for finer in _FINER:
        step = float(np.diff(values).min()) / finer
        places = np.rint((values - values[0]) / step).astype(np.int64)
        uneven = np.any(np.abs(values[0] + places * step - values) > 1e-9 * (values[-1] - values[0]))
        if uneven or (look.whole and not step.is_integer()):
            continue
        for before in range(count - int(places[-1])):
            grid = values[0] + (np.arange(count) - before) * step
            with np.errstate(divide="ignore"):
                likelihood = float(np.log(chances[np.arange(codes.size), (places + before)[codes]]).sum())
            scored.append((likelihood, tuple(round(point) if look.whole else tidy_number(point, 12) for point in grid.tolist())))
    scored.sort(key=lambda entry: -entry[0])
    likelihoods = [entry[0] for entry in scored]
    if not scored or not np.isfinite(likelihoods[0]) or any(likelihoods[0] - other <= _CLEAR for other in likelihoods[1:]):
        return None
    return scored[0][1]


def tidy_number(number: float, digits: int) -> float:
    """Return the number without the digits that rounding left behind."""
    return float(f"{number:.{digits}g}") + 0.0


def add_mask(guess: ActionGuess, sheet: LogProfile, used: Collection[str]) -> ActionGuess:
    """Return the guess with its mask, if there are columns that are named and behave like one."""
    pool = [look.name for look in sheet.but(used) if _flags(look)]
    for column_set in find_column_sets(guess.values, pool):
        rest = without_words(column_set.stem, words.MASK)
        if len(rest) == len(column_set.stem) or rest not in ((), name_words(guess.look.name)):
            continue
        # A mask may know of actions that were never taken, unless the probabilities already say how many there are.
        more = None if guess.full else widen_column_set(column_set, pool)
        chosen = more if more is not None and more.values else column_set
        span = f"'{chosen.columns[0]}' to '{chosen.columns[-1]}'"
        wrong = _contradiction(guess, chosen, sheet)
        if wrong:
            guess = guess.saying(question=f"Are {span} a mask of '{guess.look.name}'? They are not used as one: {wrong}.")
            continue
        note = f"{span} say which actions of '{guess.look.name}' are available"
        return replace(guess, values=chosen.values, available=tuple(sheet.looks[name] for name in chosen.columns)).saying(note)
    return guess


def _flags(look: ColumnProfile) -> bool:
    if look.kind == "flag":
        return not look.missing
    return look.numbers is not None and look.within(0, 1) and look.whole


def _contradiction(guess: ActionGuess, mask_columns: ColumnSet, sheet: LogProfile) -> str:
    """Say how a mask contradicts what was done, or return an empty text."""
    mask = stack_numbers([sheet.looks[name] for name in mask_columns.columns]) > 0.5
    action = match_values(guess.look.distinct, mask_columns.values)[guess.look.codes]
    if np.any(action < 0) or not np.all(mask[np.arange(sheet.rows), action]):
        return "the action taken is not always available"
    if guess.full and np.any(stack_numbers(guess.full)[~mask] > 0):
        return "some of the actions it rules out have a probability above 0"
    return ""
