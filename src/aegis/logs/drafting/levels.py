"""From actions to levels: an action that stays the same while others change belongs further out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection

import numpy as np

from aegis.logs.drafting.effects import moves_chances
from aegis.logs.drafting.guesses import ActionGuess, IdGuess, LevelGuess, LevelsGuess
from aegis.logs.drafting.sheet import Groups, Look, Sheet
from aegis.logs.drafting.words import DECISION, STEP, is_named, without, words

_TAKEN = ("episode", "decision")  # names that a level cannot have


def find_levels(sheet: Sheet, actions: list[ActionGuess], ids: IdGuess) -> LevelsGuess:
    """Return the levels of the actions, outermost first, with the column that tells the decisions of each apart."""
    notes: list[str] = []
    questions: list[str] = []
    levels: list[LevelGuess] = []
    left = list(actions)
    groups, decision = ids.groups, None
    names: set[str] = set()
    used = {*ids.columns, *(column for action in actions for column in action.columns)}
    while left:
        here = _in_order([action for action in left if groups.constant(action.look)], groups, ids, questions)
        for action in here:
            step = decision or _matching_id(sheet, levels[-1].groups if levels else ids.groups, groups, action, used)
            used |= {step} if step else set()
            levels.append(LevelGuess(_name(action, step, names), action, groups, step))
            left.remove(action)
            decision = None
        if not left or groups.single:
            break
        finer = _next_id(sheet, groups, left, used)
        if finer is not None:
            groups, decision = groups.split_by(finer), finer.name
            used.add(finer.name)
            notes.append(
                f"'{finer.name}' tells decisions apart: '{_first_constant(left, groups)}' is the same within each of them"
            )
        else:
            groups, decision = sheet.every_row, None
    kept, left_out = _with_place(levels, ids.groups)
    for action in left_out:
        questions.append(
            f"'{action.look.name}' changes as often as '{kept[-1].action.look.name}', and no column tells its decisions apart: "
            "it is taken for a context. If it is a decision of its own, log an id that stays the same as long as it does, and "
            "give it a level."
        )
    for level in kept:
        notes.append(f"level '{level.name}': {len(level.groups)} decisions in {len(ids.groups)} episodes")
    return LevelsGuess(kept, left_out, tuple(notes), tuple(questions))


def _in_order(actions: list[ActionGuess], groups: Groups, ids: IdGuess, questions: list[str]) -> list[ActionGuess]:
    """Return actions of equal pace in the order in which they are decided: one whose chances another one moves comes later."""
    ordered: list[ActionGuess] = []
    for action in actions:
        place = len(ordered)
        while place and moves_chances(action, ordered[place - 1], groups, ids.groups):
            place -= 1
        ordered.insert(place, action)
    for before, after in itertools.pairwise(ordered):
        if not moves_chances(before, after, groups, ids.groups):
            questions.append(
                f"'{before.look.name}' and '{after.look.name}' change together; is '{before.look.name}' decided first? The draft "
                "follows the order of the columns."
            )
    return ordered


def _next_id(sheet: Sheet, groups: Groups, left: list[ActionGuess], used: Collection[str]) -> Look | None:
    """Return the column that cuts the groups into the fewest pieces in which one of the actions left is constant."""
    found: list[tuple[bool, int, int, Look]] = []
    for look in sheet.but(used):
        if not look.key:
            continue
        finer = groups.split_by(look)
        # Pieces of one row are innermost decisions, which need no id: nothing repeats there.
        named, repeats = is_named(look.name, DECISION), sheet.rows - len(finer)
        if len(groups) < len(finer) and any(finer.constant(a.look) and repeats >= _repeats(a.look, named) for a in left):
            found.append((not named, len(finer), look.position, look))
    return min(found, key=lambda entry: entry[:3])[3] if found else None


def _repeats(look: Look, named: bool) -> float:
    """Return how many rows must repeat an earlier one's action before that is no coincidence (one in a million).

    The name of an id is evidence enough to believe it with fewer.
    """
    shares = np.bincount(look.codes) / look.codes.size
    alike = float(np.sum(shares**2))
    return 1 if named else math.log(1e6) / -math.log(min(alike, 1 - 1e-9))


def _matching_id(sheet: Sheet, parent: Groups, groups: Groups, action: ActionGuess, used: Collection[str]) -> str | None:
    """Return a column named like a decision id that tells the groups apart below their parent; the nearest to the action."""
    found = [
        look
        for look in sheet.but(used)
        if look.key and _step_name(look) and len(parent.split_by(look)) == len(groups) and groups.constant(look)
    ]

    def distance(look: Look) -> tuple[bool, bool, int]:
        shared = set(words(look.name)) & set(words(action.look.name))
        return (not shared, look.position > action.look.position, abs(look.position - action.look.position))

    return min(found, key=distance).name if found else None


def _step_name(look: Look) -> bool:
    return bool(words(look.name)) and words(look.name)[-1] in STEP


def _with_place(levels: list[LevelGuess], episodes: Groups) -> tuple[tuple[LevelGuess, ...], tuple[ActionGuess, ...]]:
    """Return the levels whose decisions a reader can tell apart, and the actions of those for which there is no place.

    A level that is not the innermost has one decision per parent, or an id. Of several without, one can be the innermost: one
    with probabilities, else the last.
    """
    kept: list[LevelGuess] = []
    waiting: list[LevelGuess] = []
    for level in levels:
        parent = kept[-1].groups if kept else episodes
        told_apart = level.decision is not None or len(level.groups) == len(parent)
        (kept if told_apart else waiting).append(level)
    if kept and kept[-1].groups.single:
        return (*kept, *waiting), ()
    if not waiting:
        return tuple(kept), ()
    innermost = max(waiting, key=lambda level: (level.action.paired, waiting.index(level)))
    return (*kept, innermost), tuple(level.action for level in waiting if level is not innermost)


def _name(action: ActionGuess, decision: str | None, names: set[str]) -> str:
    """Return what the level is called: by its decision id without the ending (`recipe_run`), else by its action."""
    stem = "_".join(without(words(decision or ""), DECISION))
    for name in (stem, action.look.name, f"{action.look.name} level"):
        if name and name not in names and name not in _TAKEN:
            names.add(name)
            return name
    number = 2
    while f"level {number}" in names:
        number += 1
    names.add(f"level {number}")
    return f"level {number}"


def _first_constant(left: list[ActionGuess], groups: Groups) -> str:
    return next((action.look.name for action in left if groups.constant(action.look)), "")
