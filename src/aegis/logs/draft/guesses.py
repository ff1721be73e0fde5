"""The guesses of a draft about actions, ids and levels, with the reasons for them and the questions that remain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from aegis.logs.column_values import match_values
from aegis.logs.draft.column_profile import ColumnProfile, SampleGroups
from aegis.problem import AnyArray, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """A guess with its reasons (notes) and the questions that only the user can answer."""

    notes: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()

    def saying(self, note: str = "", question: str = "") -> Self:
        """Return the guess with a note or a question added."""
        notes = (*self.notes, note) if note else self.notes
        return replace(self, notes=notes, questions=(*self.questions, question) if question else self.questions)


@dataclass(frozen=True, slots=True)
class ActionGuess(Guess):
    """An action column. taken: the probability of the action taken. full, available: a column per value, in that order.

    density: any number may be taken; the values are the ends of an interval, and `taken` is a density. suspects: columns that
    may hold the chances, where none were found. meant: the action that the controller meant to take.
    """

    look: ColumnProfile
    values: tuple[Value, ...]
    taken: ColumnProfile | None = None
    full: tuple[ColumnProfile, ...] = ()
    available: tuple[ColumnProfile, ...] = ()
    density: bool = False
    suspects: tuple[ColumnProfile, ...] = ()
    meant: ColumnProfile | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Return every column of the log that the guess accounts for."""
        return tuple(look.name for look in (self.look, *self.chances, *self.available))

    @property
    def chances(self) -> tuple[ColumnProfile, ...]:
        """Return the columns with probabilities."""
        return self.full if self.taken is None else (self.taken,)

    @property
    def index(self) -> AnyArray:
        """Return the place of each row's action among the values, `[n]`."""
        return match_values(self.look.distinct, self.values)[self.look.codes]

    def constant(self, groups: SampleGroups) -> bool:
        """Say whether the action, its probabilities and its mask have one value in each group."""
        return all(groups.constant(look) for look in (self.look, *self.chances, *self.available))

    @property
    def paired(self) -> bool:
        """Whether probabilities were found."""
        return bool(self.chances)


@dataclass(frozen=True, slots=True)
class IdGuess(Guess):
    """What tells units apart. groups: the episodes. counted: no column tells episodes apart, each row is one.

    loose: the unit is a person, a thing or blocks of rows, for want of a column that is called a unit. refused: a column that
    is called a unit, but looks like an outcome.
    """

    episode: tuple[str, ...]
    groups: SampleGroups
    cluster: str | None = None
    time: str | None = None
    counted: bool = False
    loose: bool = False
    refused: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Return every column of the log that the guess accounts for."""
        further = tuple(name for name in (self.cluster, self.time) if name is not None)
        return further if self.counted else (*self.episode, *further)


@dataclass(frozen=True, slots=True)
class LevelGuess:
    """A level: its action, the groups of rows that are its decisions, and the id of a decision below its parent."""

    name: str
    action: ActionGuess
    groups: SampleGroups
    decision: str | None = None


@dataclass(frozen=True, slots=True)
class LevelsGuess(Guess):
    """All levels, outermost first."""

    levels: tuple[LevelGuess, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Return every column of the log that the guess accounts for."""
        ids = tuple(level.decision for level in self.levels if level.decision is not None)
        return (*ids, *(column for level in self.levels for column in level.action.columns))
