"""Units of one to three columns within which an action never changes: what an episode is where no id says it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from aegis.logs.draft import vocabulary as words
from aegis.logs.draft.column_profile import (
    CodeArray,
    ColumnProfile,
    LogProfile,
    SampleGroups,
    describe_unclear_dates,
    repeats_needed,
    stack_numbers,
)
from aegis.logs.draft.guesses import ActionGuess, IdGuess
from aegis.logs.draft.vocabulary import has_word
from aegis.problem import Array

_MOST_COLUMNS = 3  # of a unit
_MOST_TRIED = 10  # columns without a telling name
_FIRST_ROWS = 10_000  # in which an action that changes within a unit is soon seen to
_CLEAR = 6.0  # standard errors, above which repeats are no coincidence
_MORE, _MUCH_MORE = 1.25, 1.5  # times as many repeats as probabilities, or shares, allow
_SMALLEST = 1e-6  # probability that counts


@dataclass(frozen=True, slots=True)
class _Unit:
    looks: tuple[ColumnProfile, ...]
    groups: SampleGroups
    action: ActionGuess


def shared_unit(
    ids: IdGuess, sheet: LogProfile, keys: list[ColumnProfile], dates: list[ColumnProfile], actions: Sequence[ActionGuess]
) -> IdGuess:
    """Return the unit of one to three columns within which an action stays the same, or the guess as it is.

    An action that was decided once for many rows would otherwise look like a decision of each.
    """
    finer = _finest(ids, sheet, keys, dates, actions)
    unit = _named_unit(finer, sheet, keys, dates, actions) or _drawn_unit(finer, sheet, [*keys, *dates], actions)
    if unit is None:
        return ids
    names, action = tuple(look.name for look in unit.looks), unit.action.look.name
    named = listed(names)
    instead = "" if ids.counted or ids.missing else f" rather than '{', '.join(ids.episode)}'"
    note = f"{named} {'together are' if len(names) > 1 else 'is'} the episode{instead}: '{action}' never changes within it"
    question = (
        f"Was '{action}' decided once for each {named} ({len(unit.groups)} of them)? It never changes in between, so that each "
        "is one unit. If it was decided anew for every row, name another 'episode'."
    )
    if len(ids.episode) == 1 and set(ids.episode) < set(names):
        whole = ids.episode[0]
        question += f" If it affects later units of one '{whole}', write 'episode: {whole}' and 'carry_over: within'."
    time = next((look.name for look in unit.looks if look.kind == "date"), None)
    questions = tuple(text for text in ids.questions if ids.refused and f"'{ids.refused}'" in text)
    return IdGuess(names, unit.groups, time=time, refused=ids.refused, notes=(note,), questions=(question, *questions))


def days(keys: list[ColumnProfile], dates: list[ColumnProfile], most: int = _MOST_COLUMNS) -> Iterator[tuple[ColumnProfile, ...]]:
    """Yield days, and days with what tells their units apart, up to `most` columns."""
    chosen = [*dates, *(look for look in keys if has_word(look.name, words.DAY) or describe_unclear_dates(look))]
    parts = [
        look for look in keys if look not in chosen and look.count > 1 and has_word(look.name, (*words.SHIFT, *words.ENTITY))
    ]
    for day in chosen:
        for size in range(most):
            for others in itertools.combinations(parts, size):
                yield (day, *others)


def within(finer: SampleGroups, coarser: SampleGroups) -> bool:
    """Say whether every group of the one lies in one group of the other."""
    return bool(np.array_equal(coarser.of, coarser.of[finer.first][finer.of]))


def split(looks: Sequence[ColumnProfile]) -> SampleGroups:
    """Return the groups of rows within which all columns have one value."""
    groups = SampleGroups.by(looks[0].codes)
    for look in looks[1:]:
        groups = groups.split_by(look)
    return groups


def listed(names: Sequence[str]) -> str:
    """Return names in quotes: 'date', 'line' and 'shift'."""
    quoted = [f"'{name}'" for name in names]
    return " and ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def repeats(action: ActionGuess, episodes: SampleGroups) -> str:
    """Ask whether rows share a draw, where an action follows itself more often than it can if each row was decided anew.

    A row that repeats the action of the one before counts as its inverse probability, any other row as 0. The mean is at most
    one if each row was decided anew, with these probabilities. Rows are taken in the order of the file, and within episodes.
    """
    if action.density or action.look.count < 2 or action.look.missing:
        return ""
    orders = [np.arange(action.look.codes.size)]
    orders += [] if episodes.single else [np.argsort(episodes.of, kind="stable")]
    if not any(_repeated(action, order) for order in orders):
        return ""
    often = "its probabilities allow" if action.paired else "its values come"
    return (
        f"Was '{action.look.name}' decided once for several rows? It stays the same from one row to the next more often than "
        f"{often}, but the draft takes each row for a decision of its own, because no columns tell such units apart. If rows "
        "share a decision, log an id of it, name it under 'episode', and draft again."
    )


def _finest(
    ids: IdGuess, sheet: LogProfile, keys: list[ColumnProfile], dates: list[ColumnProfile], actions: Sequence[ActionGuess]
) -> SampleGroups:
    """Return the groups that a unit must not cut: the episodes, unless they are loose and no action is decided once in them."""
    # A date that is the unit for want of an id gives way to a date and shift.
    if any(ids.episode == (day.name,) for (day,) in days(keys, dates, most=1)):
        return sheet.every_row
    if not ids.loose or any(_held(action, ids.groups, sheet) for action in actions):
        return ids.groups
    # Steps of a person or thing are its decisions, which the levels find.
    steps = [look for look in keys if look.name not in ids.episode and has_word(look.name, words.DECISION)]
    finer = [ids.groups.split_by(look) for look in steps]
    stepped = any(len(groups) < sheet.rows and _held(action, groups, sheet) for groups in finer for action in actions)
    return ids.groups if stepped else sheet.every_row


def _named_unit(
    finer: SampleGroups, sheet: LogProfile, keys: list[ColumnProfile], dates: list[ColumnProfile], actions: Sequence[ActionGuess]
) -> _Unit | None:
    """Return the coarsest unit among days, and days with shifts, people and things, by their names."""
    best: _Unit | None = None
    for chosen in days(keys, dates):
        if not any(_steady(action, chosen) for action in actions):
            continue
        groups = split(chosen)
        coarser = 3 <= len(groups) < len(finer) and within(finer, groups)
        action = next((one for one in actions if coarser and _held(one, groups, sheet)), None)
        if action is not None and (best is None or (len(groups), len(chosen)) < (len(best.groups), len(best.looks))):
            best = _Unit(chosen, groups, action)
    return best


def _drawn_unit(
    finer: SampleGroups, sheet: LogProfile, looks: list[ColumnProfile], actions: Sequence[ActionGuess]
) -> _Unit | None:
    """Return the coarsest unit of two or three columns of any name, for an action whose probabilities were known.

    Without probabilities a rule that looks at these columns would do the same. Rows of a unit are next to each other: columns
    that describe the action, such as its brand and size, are scattered with it.
    """
    outcomes = (*words.REWARD, *words.RESULT, *words.COST)
    usable = [look for look in looks if 1 < look.count <= sheet.rows / 2 and not has_word(look.name, outcomes)]
    for action in actions:
        if not action.paired or action.density or action.look.count < 2:
            continue
        tried = [look for look in usable if not action.constant(SampleGroups.by(look.codes))]
        tried = sorted(tried, key=lambda look: (look.runs, look.position))[:_MOST_TRIED]
        for size in range(2, _MOST_COLUMNS + 1):
            units = [
                _Unit(tuple(sorted(chosen, key=lambda look: look.position)), groups, action)
                for chosen in itertools.combinations(tried, size)
                if _steady(action, chosen) and _drawn(action, groups := split(chosen)) and within(finer, groups)
            ]
            units = [unit for unit in units if max(3, 2 * action.look.count) <= len(unit.groups) < len(finer)]
            if units:
                return min(units, key=lambda unit: len(unit.groups))
    return None


def _steady(action: ActionGuess, looks: Sequence[ColumnProfile]) -> bool:
    """Say whether an action stays the same within the units of the first rows: soon known, where it does not."""
    unit = np.zeros(min(_FIRST_ROWS, action.look.codes.size), dtype=np.int64)
    for look in looks:
        unit = SampleGroups.by(unit * (look.count + 1) + look.codes[:_FIRST_ROWS] + 1).of
    taken = action.look.codes[:_FIRST_ROWS]
    return bool(np.array_equal(taken, taken[SampleGroups.by(unit).first][unit]))


def _drawn(action: ActionGuess, groups: SampleGroups) -> bool:
    """Say whether an action and its probabilities stay the same within units whose rows are together, and by no coincidence."""
    runs = 1 + int(np.count_nonzero(groups.of[1:] != groups.of[:-1]))
    if runs > 2 * len(groups) or not action.constant(groups):
        return False
    again = np.ones(groups.of.size, dtype=np.bool_)
    again[groups.first] = False
    return float(-np.log(np.maximum(_chances(action)[again], _SMALLEST)).sum()) >= math.log(1e9)


def _chances(action: ActionGuess) -> Array:
    """Return the probability of the action taken, `f64[n]`; how often it was taken, where none is known."""
    if action.full:
        return stack_numbers(action.full)[np.arange(action.look.codes.size), action.index]
    if action.taken is not None and action.taken.numbers is not None:
        return action.taken.numbers
    return np.asarray((np.bincount(action.look.codes) / action.look.codes.size)[action.look.codes], dtype=np.float64)


def _repeated(action: ActionGuess, order: CodeArray) -> bool:
    taken, chances = action.look.codes[order], _chances(action)[order]
    same = np.where(taken[1:] == taken[:-1], 1 / np.maximum(chances[1:], _SMALLEST), 0.0)
    if same.size < 2:
        return False
    more = _MORE if action.paired else _MUCH_MORE
    return bool(same.mean() > max(more, 1 + _CLEAR * same.std() / math.sqrt(same.size)))


def _held(action: ActionGuess, groups: SampleGroups, sheet: LogProfile) -> bool:
    """Say whether an action stays the same within groups, and that is no coincidence."""
    return action.look.count > 1 and action.constant(groups) and sheet.rows - len(groups) >= repeats_needed(action.look)
