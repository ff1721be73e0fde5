"""From actions to levels: an action that stays the same while others change belongs further out."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from aegis.logs.draft import vocabulary as words
from aegis.logs.draft.column_profile import ColumnProfile, LogProfile, SampleGroups, repeats_needed
from aegis.logs.draft.effects import affects_propensities
from aegis.logs.draft.episode_ids import repeats
from aegis.logs.draft.guesses import ActionGuess, IdGuess, LevelGuess, LevelsGuess
from aegis.logs.draft.vocabulary import has_word, name_words, without_words

_TAKEN = ("episode", "decision")  # names that a level cannot have


def find_levels(sheet: LogProfile, actions: list[ActionGuess], ids: IdGuess) -> LevelsGuess:
    """Return the levels of the actions, outermost first, with the column that tells the decisions of each apart."""
    stack = _Stack(sheet, ids, {*ids.columns, ids.refused, *(column for action in actions for column in action.columns)})
    left = list(actions)
    groups, finer = ids.groups, None
    while left:
        for action in _in_order([action for action in left if action.constant(groups)], groups, ids, stack.questions):
            stack.add(action, groups, finer)
            left.remove(action)
            finer = None
        if not left or groups.single:
            break
        step = _next_id(sheet, groups, left, stack.used)
        groups, finer = (sheet.every_row, None) if step is None else (groups.split_by(step), step.name)
    stack.settle()
    notes = [f"level '{level.name}': {len(level.groups)} decisions in {len(ids.groups)} episodes" for level in stack.placed]
    return LevelsGuess(tuple(stack.placed), notes=(*stack.notes, *notes), questions=tuple(stack.questions))


@dataclass(slots=True)
class _Stack:
    """Levels from the outside in. waiting: those whose decisions no column tells apart; one of them can be the innermost."""

    sheet: LogProfile
    ids: IdGuess
    used: set[str]
    placed: list[LevelGuess] = field(default_factory=list)
    waiting: list[LevelGuess] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)

    def add(self, action: ActionGuess, groups: SampleGroups, decision: str | None) -> None:
        """Add a level inside those placed so far: one decision per parent, or distinguished by an id."""
        parent = self.placed[-1].groups if self.placed else self.ids.groups
        step = decision or _matching_id(self.sheet, parent, groups, action, self.used)
        level = LevelGuess(self._name(action, step), action, groups, step)
        if step is not None:
            self.used.add(step)
            self.notes.append(f"'{step}' tells decisions apart: '{action.look.name}' is the same within each")
        (self.placed if step is not None or len(groups) == len(parent) else self.waiting).append(level)

    def settle(self) -> None:
        """Place the levels that wait, as far as there is a place, and ask about the others."""
        left_out: list[ActionGuess] = []
        if self.placed and self.placed[-1].groups.single:
            self.placed += self.waiting  # one decision per row, as above them
        elif self.waiting:
            innermost = max(self.waiting, key=lambda level: (level.action.paired, self.waiting.index(level)))
            self.placed.append(innermost)
            left_out = [level.action for level in self.waiting if level is not innermost]
        for action in left_out:
            self.questions.append(
                f"'{action.look.name}' changes as often as '{self.placed[-1].action.look.name}', and no column tells its "
                "decisions apart: it is taken for a context. If it is a decision of its own, log an id that stays the same as "
                "long as it does, and give it a level."
            )
        if self.placed and not self.placed[-1].groups.single:
            # A reader takes every row for an innermost decision, so that an id that comes twice cannot be its id.
            self.placed[-1] = replace(self.placed[-1], groups=self.sheet.every_row, decision=None)
            self.questions.append(
                f"'{self.placed[-1].action.look.name}' is repeated over several rows, and each row counts as a decision of "
                "its own. If they are one decision, keep one row of it, with the mean of the rewards."
            )
        elif self.placed:
            self.questions += [
                text for level in self.placed if level.groups.single and (text := repeats(level.action, self.ids.groups))
            ]

    def _name(self, action: ActionGuess, decision: str | None) -> str:
        """Return what a level is called: by its decision id without the ending (`recipe_run`), else by its action."""
        taken = {*_TAKEN, *(level.name for level in (*self.placed, *self.waiting))}
        stem = "_".join(without_words(name_words(decision or ""), words.DECISION))
        numbered = (f"level {number}" for number in itertools.count(1))
        return next(name for name in itertools.chain((stem, action.look.name), numbered) if name and name not in taken)


def _in_order(actions: list[ActionGuess], groups: SampleGroups, ids: IdGuess, questions: list[str]) -> list[ActionGuess]:
    """Return actions of equal pace in the order in which they are decided: one whose chances another one moves comes later."""
    ordered: list[ActionGuess] = []
    for action in actions:
        place = len(ordered)
        while place and affects_propensities(action, ordered[place - 1], groups, ids.groups):
            place -= 1
        ordered.insert(place, action)
    for before, after in itertools.pairwise(ordered):
        if not affects_propensities(before, after, groups, ids.groups):
            questions.append(
                f"'{before.look.name}' and '{after.look.name}' change together; is '{before.look.name}' decided first? The draft "
                "follows the order of the columns."
            )
    return ordered


def _next_id(sheet: LogProfile, groups: SampleGroups, left: list[ActionGuess], used: Collection[str]) -> ColumnProfile | None:
    """Return the column that cuts the groups into the fewest parts in which one of the actions left is constant."""
    steps: list[tuple[bool, int, int, ColumnProfile]] = []
    for look in sheet.but(used):
        if not look.key:
            continue
        finer = groups.split_by(look)
        # Parts of one row are innermost decisions, which need no id: nothing repeats there. The name of an id is enough.
        named, repeats = has_word(look.name, words.DECISION), sheet.rows - len(finer)
        if len(groups) < len(finer) and any(
            a.constant(finer) and repeats >= (1 if named else repeats_needed(a.look)) for a in left
        ):
            steps.append((not named, len(finer), look.position, look))
    return min(steps, key=lambda entry: entry[:3])[3] if steps else None


def _matching_id(
    sheet: LogProfile, parent: SampleGroups, groups: SampleGroups, action: ActionGuess, used: Collection[str]
) -> str | None:
    """Return a column named like a decision id that tells the groups apart below their parent; the nearest to the action."""
    if parent.single:
        return None  # a column called `run` tells nothing apart then, and may be an outcome
    steps = [(word,) for word in words.STEP]
    matching = [
        look
        for look in sheet.but(used)
        if look.key
        and name_words(look.name)[-1:] in steps
        and len(parent.split_by(look)) == len(groups)
        and groups.constant(look)
    ]

    def distance(look: ColumnProfile) -> tuple[bool, bool, int]:
        shared = set(name_words(look.name)) & set(name_words(action.look.name))
        return (not shared, look.position > action.look.position, abs(look.position - action.look.position))

    return min(matching, key=distance).name if matching else None
