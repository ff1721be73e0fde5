"""Which columns tell episodes apart, group dependent ones, and say when they began."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from aegis.logs.draft import vocabulary as words
from aegis.logs.draft.column_profile import ColumnProfile, LogProfile, SampleGroups, describe_unclear_dates
from aegis.logs.draft.guesses import ActionGuess, IdGuess
from aegis.logs.draft.unit_columns import days, shared_unit, split, within
from aegis.logs.draft.vocabulary import has_word, id_word_rank, name_words, without_words, word_rank
from aegis.logs.log_files import ROW_COLUMN


def find_ids(sheet: LogProfile, actions: Sequence[ActionGuess]) -> IdGuess:
    """Return the episode id, cluster and time among the columns that actions and their probabilities do not use."""
    used = {column for action in actions for column in action.columns}
    used |= {action.meant.name for action in actions if action.meant is not None}
    keys = [look for look in sheet.but(used) if look.key and not look.binary]
    dates = [look for look in sheet.but(used) if look.kind == "date" and not look.missing]
    ids = _episode(sheet, keys, dates)
    ids = shared_unit(ids, sheet, keys, dates, actions)
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
    if ROW_COLUMN not in sheet.looks:
        note = "no column is an episode id: each row is an episode of its own"
        question = (
            "No column tells independent units apart, so that each row is taken for one ('episode: row'). Is it? If rows belong "
            "together (one person, order or shift), log an id that they share and name it under 'episode'; remove rows that "
            "were exported twice."
        )
        return IdGuess((ROW_COLUMN,), sheet.every_row, counted=True, notes=(note,), questions=(question,))
    row = next(name for number in itertools.count(1) if (name := f"{ROW_COLUMN}_{number}") not in sheet.looks)
    question = (
        f"No column tells independent units apart: add a column '{row}' (1, 2, 3, ... if each row stands for itself), or name "
        "the one that does under 'episode'."
    )
    note = f"no column is an episode id; the draft names a column '{row}', which has to be added to the log"
    return IdGuess((row,), sheet.every_row, missing=True, notes=(note,), questions=(question,))


def _ask_about_days(ids: IdGuess, keys: list[ColumnProfile], dates: list[ColumnProfile]) -> IdGuess:
    """Ask whether episodes of one date and shift depend on each other, where nothing else says that some do."""
    if ids.cluster is not None:
        return ids
    for chosen in days(keys, dates, most=2):
        groups = split(chosen)
        apart = {look.name for look in chosen}.isdisjoint(ids.episode)
        if len(chosen) == 2 and apart and 3 <= len(groups) <= len(ids.groups) / 2 and within(ids.groups, groups):
            names = ", ".join(look.name for look in chosen)
            question = (
                f"Do episodes of one {' and '.join(repr(look.name) for look in chosen)} depend on each other (the same crew, the "
                f"same material)? Then write 'cluster: [{names}]'."
            )
            return ids.saying(question=question)
    return ids


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
