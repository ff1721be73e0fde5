"""Which columns tell episodes apart, group dependent ones, and say when they began.

Where no id says what an episode is, days, shifts, people and things within which an action never changes are its unit.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from aegis.errors import InputError
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
from aegis.logs.draft.vocabulary import has_word, id_word_rank, name_words, without_words, word_rank
from aegis.logs.log_files import ROW_COLUMN
from aegis.problem import Array


def find_ids(sheet: LogProfile, actions: Sequence[ActionGuess]) -> IdGuess:
    """Return the episode id, cluster and time among the columns that actions and their probabilities do not use."""
    used = {column for action in actions for column in action.columns}
    used |= {action.meant.name for action in actions if action.meant is not None}
    keys = [look for look in sheet.but(used) if look.key and not look.binary]
    dates = [look for look in sheet.but(used) if look.kind == "date" and not look.missing]
    ids = _episode(sheet, keys, dates)
    ids = _shared_unit(ids, sheet, keys, dates, actions)
    ids = _ask_about_days(_with_cluster(ids, keys), keys, dates)
    return _with_time(ids, sheet, used)


def _episode(sheet: LogProfile, keys: list[ColumnProfile], dates: list[ColumnProfile]) -> IdGuess:
    entities = [look for look in keys if id_word_rank(look.name, words.ENTITY) is not None]
    called = [look for look in keys if id_word_rank(look.name, words.EPISODE) is not None]
    tallies = [look for look in called if look.few and look.runs > look.count and _owner(look, entities) is None]
    named = _best([look for look in called if look not in tallies], words.EPISODE)
    if named is not None:
        return _by_name(named, _owner(named, entities))
    refused = _best(tallies, words.EPISODE)
    keys = [look for look in keys if look not in tallies]
    entity = _best([look for look in entities if look not in tallies], words.ENTITY)
    # An id that is different in every row tells that each row is its own episode.
    every_row = any(look.count == sheet.rows > 1 and set(name_words(look.name)) & {"id", "uuid"} for look in keys)
    if entity is not None and not every_row:
        note = f"'{entity.name}' is the episode: its name is that of a person or thing, and there is nothing finer"
        question = (
            f"Are all decisions of one '{entity.name}' one unit? If it has several independent visits or runs, log their id."
        )
        unit = IdGuess((entity.name,), SampleGroups.by(entity.codes), loose=True, notes=(note,), questions=(question,))
    else:
        unit = _by_structure(sheet, keys, dates)
    if refused is None:
        return unit
    question = (
        f"Is '{refused.name}' an outcome, a count or the number of a step? Its name may be that of a unit, but it holds "
        f"{refused.count} values in {sheet.rows} rows, and equal ones are not next to each other. If it tells independent units "
        f"apart, write 'episode: {refused.name}'."
    )
    return replace(unit, refused=refused.name).saying(question=question)


def _by_name(named: ColumnProfile, owner: ColumnProfile | None) -> IdGuess:
    """Return a column that is called a unit as the episode; ask where its values are few, or not together."""
    note = f"'{named.name}' is the episode by its name"
    if owner is not None:
        return IdGuess(
            (owner.name, named.name),
            SampleGroups.by(owner.codes).split_by(named),
            notes=(f"{note}, but it starts again for each '{owner.name}': the two together are the id",),
            questions=(f"Is each pair of '{owner.name}' and '{named.name}' one independent unit?",),
        )
    doubts = [f"it holds only {named.count} values in {named.codes.size} rows"] if named.few else []
    doubts += ["rows with the same value are not next to each other"] if named.runs > named.count else []
    questions = (
        (f"Does '{named.name}' tell independent units apart? Its name says so, but {' and '.join(doubts)}.",) if doubts else ()
    )
    return IdGuess((named.name,), SampleGroups.by(named.codes), notes=(note,), questions=questions)


def _best(looks: list[ColumnProfile], among: tuple[str, ...]) -> ColumnProfile | None:
    """Return the column whose name comes first in the list; of equals the one with the most values."""
    return min(looks, key=lambda look: (id_word_rank(look.name, among) or 0, -look.count, look.position), default=None)


def _owner(named: ColumnProfile, entities: list[ColumnProfile]) -> ColumnProfile | None:
    """Return the person or thing for each of which an episode number starts again, so that the number alone is no id."""
    if named.kind != "number" or named.numbers is None or named.numbers.min(initial=0) not in (0, 1):
        return None
    for entity in entities:
        if entity.name == named.name or entity.count < 2 or SampleGroups.by(named.codes).constant(entity):
            continue
        first = np.full(entity.count, np.inf)
        np.minimum.at(first, entity.codes, named.numbers)
        if np.all(first == named.numbers.min()):
            return entity
    return None


def _by_structure(sheet: LogProfile, keys: list[ColumnProfile], dates: list[ColumnProfile]) -> IdGuess:
    """Without a telling name: a column whose equal values follow each other, one that is different in every row, or dates."""
    keys = [look for look in keys if _plain_id(look) or not has_word(look.name, (*words.REWARD, *words.RESULT, *words.COST))]
    # 'Charge-Nr.' is a number of something; that it does not start again tells that it is not that of a step.
    steps = [look for look in keys if has_word(look.name, without_words(words.DECISION, words.ID_ENDING)) and not _plain_id(look)]
    blocks = [look for look in keys if look not in steps and 1 < look.count < sheet.rows and look.runs == look.count]
    several = [look for look in blocks if look.count * 1.5 <= sheet.rows and look.count >= 3]
    if several:
        look = max(several, key=lambda entry: (_plain_id(entry), entry.count, -entry.position))
        note = f"'{look.name}' is the episode: its {look.count} values come in blocks of rows"
        question = f"Does '{look.name}' tell independent units apart?"
        return IdGuess((look.name,), SampleGroups.by(look.codes), loose=True, notes=(note,), questions=(question,))
    single = [look for look in keys if look.count == sheet.rows]
    if single:
        look = max(single, key=lambda entry: (_plain_id(entry), entry.integral, -entry.position))
        note = f"'{look.name}' is the episode: it is different in every row, so each row is a decision on its own"
        return IdGuess((look.name,), sheet.every_row, notes=(note,), questions=("Is each row a unit independent of the others?",))
    for look in dates:
        if look.count >= 3 and look.runs == look.count:
            what = (
                "each row has a date of its own" if look.count == sheet.rows else f"its {look.count} dates come in blocks of rows"
            )
            note = f"'{look.name}' is the episode, and its time: {what}, and there is no other id"
            question = f"Is each date in '{look.name}' one unit, independent of the others?"
            return IdGuess((look.name,), SampleGroups.by(look.codes), time=look.name, notes=(note,), questions=(question,))
    if ROW_COLUMN in sheet.looks:
        raise InputError(
            f"no column tells independent units apart, and '{ROW_COLUMN}' does not number the rows; rename it, so that each row "
            "can be an episode ('episode: row'), or add an id"
        )
    note = "no column is an episode id: each row is an episode of its own"
    question = (
        "No column tells independent units apart, so that each row is taken for one ('episode: row'). Is it? If rows belong "
        "together (one person, order or shift), log an id that they share and name it under 'episode'; remove rows that "
        "were exported twice."
    )
    return IdGuess((ROW_COLUMN,), sheet.every_row, counted=True, notes=(note,), questions=(question,))


def _ask_about_days(ids: IdGuess, keys: list[ColumnProfile], dates: list[ColumnProfile]) -> IdGuess:
    """Ask whether episodes of one date and shift depend on each other, where nothing else says that some do."""
    for looks in _days(keys, dates) if ids.cluster is None else ():
        groups, names = _groups_of(looks), [look.name for look in looks]
        apart = len(looks) == 2 and set(names).isdisjoint(ids.episode)
        if apart and 3 <= len(groups) <= len(ids.groups) / 2 and groups.holds(ids.groups):
            return ids.saying(
                question=f"Do episodes of one '{names[0]}' and '{names[1]}' depend on each other (the same crew, the same "
                f"material)? Then write 'cluster: [{', '.join(names)}]'."
            )
    return ids


def _groups_of(looks: Sequence[ColumnProfile]) -> SampleGroups:
    return functools.reduce(SampleGroups.split_by, looks[1:], SampleGroups.by(looks[0].codes))


def _plain_id(look: ColumnProfile) -> bool:
    parts = name_words(look.name)
    return not parts or all(part in words.PLAIN_ID or part.isdecimal() for part in parts) or parts[-1] in ("id", "uuid")


def _with_cluster(ids: IdGuess, keys: list[ColumnProfile]) -> IdGuess:
    """Add the coarsest column that is named after a person or thing and has one value in each episode."""
    episodes = len(ids.groups)
    named = [look for look in keys if id_word_rank(look.name, words.ENTITY) is not None and 1 < look.count < episodes]
    looks = [look for look in named if ids.groups.constant(look)]
    cluster = min(looks, key=lambda look: (id_word_rank(look.name, words.ENTITY) != 0, look.count), default=None)
    if cluster is None:
        return ids
    note = f"'{cluster.name}' is the cluster: {cluster.count} values, one for each of {episodes} episodes"
    question = f"Do episodes of one '{cluster.name}' depend on each other? If not, delete 'cluster', and less data will do."
    return replace(ids, cluster=cluster.name).saying(note, question)


def _with_time(ids: IdGuess, sheet: LogProfile, used: Collection[str]) -> IdGuess:
    if ids.time is not None:
        return ids
    taken = {*used, *ids.columns}
    for look in sheet.but(used):
        if dates := describe_unclear_dates(look):
            taken.add(look.name)
            question = f"'{look.name}' holds {dates}, which are not read as times. Write them as 2025-12-31, and draft again."
            ids = ids.saying(question=question)
    for look in sheet.but(taken):
        if look.kind == "date" and look.count > 1 and has_word(look.name, words.END):
            taken.add(look.name)
            ids = ids.saying(
                question=f"'{look.name}' is not taken for the time of an episode: its name is that of an end, and when something "
                f"ends may depend on what was decided. If it is when the episode began, write 'time: {look.name}'."
            )
    looks = [look for look in sheet.but(taken) if not look.missing and look.count > 1]
    starts = [look for look in looks if ids.groups.constant(look)]
    # Where a date changes within an episode its earliest one counts; one that does not change is meant to be the start.
    dated = [look for look in starts if look.kind == "date"] or [look for look in looks if look.kind == "date"]
    named = [look for look in starts if look.kind in ("number", "text") and _called_time(look)]
    dated.sort(key=lambda look: (word_rank(look.name, words.TIME) is None, look.position))
    time = next(iter([*dated, *named]), None)
    if time is None:
        return ids
    note = f"'{time.name}' is the time at which an episode starts"
    behind = any(time.position > sheet.looks[name].position for name in used)
    question = f"Is '{time.name}' when the episode began? It stands behind an action in the log." if behind else ""
    return replace(ids, time=time.name).saying(note, question)


def _called_time(look: ColumnProfile) -> bool:
    return bool(name_words(look.name)) and all(word in (*words.TIME, "at", "utc", "unix") for word in name_words(look.name))


_CLEAR = 6.0  # standard errors, above which repeats are no coincidence
_MORE, _MUCH_MORE = 1.25, 1.5  # times as many repeats as probabilities, or shares, allow
_SMALLEST = 1e-6  # probability that counts


def _days(keys: list[ColumnProfile], dates: list[ColumnProfile]) -> Iterator[tuple[ColumnProfile, ...]]:
    """Yield days, and days with what tells their units apart, up to three columns."""
    chosen = [*dates, *(look for look in keys if has_word(look.name, words.DAY) or describe_unclear_dates(look))]
    parts = [
        look for look in keys if look not in chosen and look.count > 1 and has_word(look.name, (*words.SHIFT, *words.ENTITY))
    ]
    for day in chosen:
        for size in range(3):
            yield from ((day, *others) for others in itertools.combinations(parts, size))


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


def _shared_unit(
    ids: IdGuess, sheet: LogProfile, keys: list[ColumnProfile], dates: list[ColumnProfile], actions: Sequence[ActionGuess]
) -> IdGuess:
    """Return the coarsest unit of days, shifts, people and things within which an action stays the same, else the guess itself.

    An action that was decided once for many rows would otherwise look like a decision of each.
    """
    finer = _finest(ids, sheet, keys, dates, actions)
    units: list[tuple[SampleGroups, tuple[ColumnProfile, ...], ActionGuess]] = []
    for looks in _days(keys, dates):
        groups = _groups_of(looks)
        if 3 <= len(groups) < len(finer) and groups.holds(finer):
            units += [(groups, looks, action) for action in actions if _held(action, groups, sheet)][:1]
    if not units:
        return ids
    groups, looks, decided = min(units, key=lambda unit: (len(unit[0]), len(unit[1])))
    names, action = tuple(look.name for look in looks), decided.look.name
    named = " and ".join(", ".join(f"'{name}'" for name in part) for part in (names[:-1], names[-1:]) if part)
    instead = "" if ids.counted else f" rather than '{', '.join(ids.episode)}'"
    note = f"{named} {'together are' if len(names) > 1 else 'is'} the episode{instead}: '{action}' never changes within it"
    question = (
        f"Was '{action}' decided once for each {named} ({len(groups)} of them)? It never changes in between, so that each "
        "is one unit. If it was decided anew for every row, name another 'episode'."
    )
    if len(ids.episode) == 1 and set(ids.episode) < set(names):
        whole = ids.episode[0]
        question += f" If it affects later units of one '{whole}', write 'episode: {whole}' and 'carry_over: within'."
    time = next((look.name for look in looks if look.kind == "date"), None)
    questions = tuple(text for text in ids.questions if ids.refused and f"'{ids.refused}'" in text)
    return IdGuess(names, groups, time=time, refused=ids.refused, notes=(note,), questions=(question, *questions))


def _finest(
    ids: IdGuess, sheet: LogProfile, keys: list[ColumnProfile], dates: list[ColumnProfile], actions: Sequence[ActionGuess]
) -> SampleGroups:
    """Return the groups that a unit must not cut: the episodes, unless they are loose and no action is decided once in them."""
    # A date that is the unit for want of an id gives way to a date and shift.
    if any(ids.episode == (looks[0].name,) for looks in _days(keys, dates) if len(looks) == 1):
        return sheet.every_row
    if not ids.loose or any(_held(action, ids.groups, sheet) for action in actions):
        return ids.groups
    # Steps of a person or thing are its decisions, which the levels find.
    steps = [look for look in keys if look.name not in ids.episode and has_word(look.name, words.DECISION)]
    finer = [ids.groups.split_by(look) for look in steps]
    stepped = any(len(groups) < sheet.rows and _held(action, groups, sheet) for groups in finer for action in actions)
    return ids.groups if stepped else sheet.every_row
