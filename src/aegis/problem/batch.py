"""Batches, and the protocols of what acts on them.

A batch holds whole episodes as arrays, one table per level, with the file and row that each row came from. A Policy gives
probabilities of its decisions, a RewardModel predicts their rewards, a Plant produces batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from aegis.errors import PolicyError, ProblemError, did_you_mean
from aegis.problem.means import nested_means, plain_means
from aegis.problem.problem import Problem
from aegis.problem.variables import AnyArray, Array, Bools, Ints, nearest_points

Rows = dict[str, AnyArray]  # columns by name, all of one length


@dataclass(frozen=True, slots=True)
class RowOrigins:
    """The origin of each row of a table: `files[file[i]]`, data row `row[i]`.

    file `i32[n]`, row `i64[n]`, counted from 1 within its file, header and blank lines not counted.
    """

    files: tuple[str, ...]
    file: Ints
    row: npt.NDArray[np.int64]

    @classmethod
    def following(cls, files: tuple[str, ...], file: int, first: int, rows: int) -> RowOrigins:
        """Return the origins of rows that follow each other in one of the files."""
        return cls(files, np.full(rows, file, dtype=np.int32), np.arange(first, first + rows, dtype=np.int64))

    def at(self, index: int) -> str:
        """Return `log.csv, row 3`."""
        return f"{self.files[self.file[index]]}, row {self.row[index]}"

    def order(self, index: int) -> tuple[int, int]:
        """Return what sorts rows as they are in the files."""
        return int(self.file[index]), int(self.row[index])

    def take(self, indices: AnyArray) -> RowOrigins:
        """Return the origins of some of the rows."""
        return RowOrigins(self.files, self.file[indices], self.row[indices])

    def earliest(self, indices: AnyArray) -> int:
        """Return which of the row indices given comes first in the files."""
        order = np.lexsort((self.row[indices], self.file[indices]))
        return int(indices[order[0]])


@dataclass(frozen=True, slots=True)
class LevelTable:
    """All decisions of one level in a batch, children of one parent next to each other.

    parent `i32[n]`: row of the next outer table (row of `Batch.episode` at the outermost level), never decreasing.
    context: `f64[n]` (real), `f64[n, d]` (vector) or `i32[n]` (codes) by variable name. action `i32[n]`: index, -1 while
    undecided. mu_taken `f64[n]`: probability with which the behaviour policy chose the action. mu_full `f64[n, A]` or
    None. available `bool[n, A]` or None (everything is available). version: which behaviour policy acted. value `f64[n]`: the
    exact action where actions are an interval, nan while undecided, None elsewhere; mu_taken is then its density, at an atom
    its probability, and action the nearest point. base `i32[n]`: the action that the incumbent means to take, where a column of
    the log holds it. incumbent `f64[n, A]`: its probabilities of all actions, where columns of the log hold them.
    """

    parent: Ints
    context: Mapping[str, AnyArray]
    action: Ints
    mu_taken: Array
    mu_full: Array | None = None
    available: Bools | None = None
    version: str | None = None
    value: Array | None = None
    base: Ints | None = None
    incumbent: Array | None = None

    @classmethod
    def undecided(
        cls,
        parent: npt.ArrayLike,
        context: Mapping[str, AnyArray],
        available: Bools | None = None,
    ) -> LevelTable:
        """Return a table whose contexts are known and whose actions are still to be chosen."""
        rows = np.asarray(parent, dtype=np.int32)
        none = np.full(rows.size, -1, dtype=np.int32)
        return cls(parent=rows, context=dict(context), action=none, mu_taken=np.full(rows.size, np.nan), available=available)

    def decided(
        self, action: npt.ArrayLike, mu_taken: Array, mu_full: Array | None = None, value: Array | None = None
    ) -> LevelTable:
        """Return the table with actions and propensities filled in."""
        return replace(self, action=np.asarray(action, dtype=np.int32), mu_taken=mu_taken, mu_full=mu_full, value=value)

    def __len__(self) -> int:
        return int(self.parent.size)

    def take(self, index: AnyArray, parent: AnyArray) -> LevelTable:
        """Return the rows `index` under new parents."""
        own = ("action", "mu_taken", "mu_full", "available", "value", "base", "incumbent")
        context = {name: values[index] for name, values in self.context.items()}
        return replace(self, parent=np.asarray(parent, dtype=np.int32), context=context, **_pick_rows(self, own, index))

    def hidden(self) -> LevelTable:
        """Return the table with its contexts alone, as it was before the decisions."""
        # Broadcast: takes no memory, and cannot be written to.
        unknown = np.broadcast_to(np.float64(np.nan), len(self))
        value = None if self.value is None else unknown
        return replace(self, action=np.broadcast_to(np.int32(-1), len(self)), mu_taken=unknown, value=value)


def _pick_rows(table: LevelTable | Batch, names: Iterable[str], rows: AnyArray) -> dict[str, Any]:
    """Return some rows of the named arrays, None where a table does not have one."""
    return {name: None if (values := getattr(table, name)) is None else values[rows] for name in names}


@dataclass(frozen=True, slots=True)
class Batch:
    """Whole episodes: ids, one table per level (outermost first), and the results of the innermost decisions.

    A batch under construction lacks inner levels and reward. Arrays `[E]` have one entry per episode, arrays `[n]` one per
    innermost decision.

    Parameters
    ----------
    episode
        Ids `[E]` of any type.
    levels
        The decisions of each level by name.
    reward, observed
        Rewards `f64[n]`, and whether each was observed, `bool[n]`; None if all were.
    outcome
        `[n]` or `[n, d]`, or None.
    guards, extra
        Columns `[n]` by name: guards, and further columns that a policy or check reads.
    cluster, time
        `[E]`, or None.
    closed
        `bool[n]`: false where the reward is still awaited, so that the episode is open; None if nothing is awaited.
    places
        The file and row of each innermost decision, or None.
    """

    episode: AnyArray
    levels: Mapping[str, LevelTable]
    reward: Array | None = None
    observed: Bools | None = None
    outcome: AnyArray | None = None
    guards: Mapping[str, Array] = field(default_factory=dict)
    cluster: AnyArray | None = None
    time: AnyArray | None = None
    extra: Mapping[str, AnyArray] = field(default_factory=dict)
    closed: Bools | None = None
    places: RowOrigins | None = None

    def __len__(self) -> int:
        return int(self.episode.size)

    def before(self, level: str, taken: bool = False) -> Batch:
        """Return what is known when the decisions of a level are taken: no rewards, no outcomes, nothing below, no actions there.

        taken: the actions of the level itself stay, so that a policy can say how likely they were. Further columns stay; they
        belong to innermost decisions, so the rows of inner levels stay too, empty.
        """
        names = list(self.levels)
        place = names.index(level)
        own = self.levels[level]
        levels = {name: self.levels[name] for name in names[:place]}
        levels[level] = own if taken else own.hidden()
        if self.extra:
            levels |= {name: LevelTable.undecided(self.levels[name].parent, {}) for name in names[place + 1 :]}
        places = self.places if self.extra or place == len(names) - 1 else None
        return Batch(self.episode, levels, cluster=self.cluster, time=self.time, extra=self.extra, places=places)

    def with_level(self, name: str, table: LevelTable) -> Batch:
        """Return the batch with a level added or replaced."""
        return replace(self, levels={**self.levels, name: table})

    def ancestors(self, level: str) -> dict[str, AnyArray]:
        """Return for each level from `level` outwards the row `[n]` above each row of `level` (its own row at `level`)."""
        names = list(self.levels)
        if level not in self.levels:
            raise ProblemError(
                f"the batch has no level '{level}'{did_you_mean(level, names)}; it has {', '.join(names) or 'none'}"
            )
        position = names.index(level)
        rows: AnyArray = np.arange(len(self.levels[level]))
        above: dict[str, AnyArray] = {}
        for name in reversed(names[: position + 1]):
            above[name] = rows
            rows = self.levels[name].parent[rows]
        return above

    def episode_of(self, level: str) -> AnyArray:
        """Return the episode row `[n]` of each decision at `level`."""
        outermost = next(iter(self.levels))
        rows: AnyArray = self.levels[outermost].parent[self.ancestors(level)[outermost]]
        return rows

    def first_rows(self, level: str) -> AnyArray:
        """Return the first innermost row `[n]` below each decision at `level`; ProblemError if one has none."""
        self.ancestors(level)  # refuses an unknown level
        innermost = list(self.levels)[-1]
        rows = self.ancestors(innermost)[level]
        wanted = np.arange(len(self.levels[level]))
        first = np.searchsorted(rows, wanted, side="left")
        childless = np.flatnonzero(np.searchsorted(rows, wanted, side="right") == first)
        if childless.size:
            raise ProblemError(
                f"level '{level}': {childless.size} decisions have none at '{innermost}' below, first {childless[0]}"
            )
        return first

    def episode_means(self, values: Array) -> Array:
        """Return nested means `[E]` of values `[n]` at the innermost level: mean over children at each level in turn.

        Episodes without decisions, or with a decision that has none below it, are nan.
        """
        return nested_means(self, list(self.levels)[-1], values, plain_means)

    def episode_sums(self, values: Array) -> Array:
        """Return sums `[E]` of values `[n]` at the innermost level."""
        owner = self.episode_of(list(self.levels)[-1])
        return np.bincount(owner, weights=values, minlength=len(self)).astype(np.float64)

    def take_episodes(self, episodes: npt.ArrayLike) -> Batch:
        """Return the batch restricted to the episode rows given, in that order, or to those where a mask `[E]` is true."""
        wanted = np.asarray(episodes)
        if wanted.dtype == np.bool_ and wanted.shape != (len(self),):
            raise ProblemError(f"a mask of episodes has shape {(len(self),)}, found {wanted.shape}")
        chosen: AnyArray = np.flatnonzero(wanted) if wanted.dtype == np.bool_ else wanted.astype(np.int64)
        if chosen.size and not 0 <= chosen.min() <= chosen.max() < len(self):
            raise ProblemError(f"episode rows run from 0 to {len(self) - 1}, found {chosen.min()} to {chosen.max()}")
        levels: dict[str, LevelTable] = {}
        rows: AnyArray = chosen
        for name, table in self.levels.items():
            starts = np.searchsorted(table.parent, rows, side="left")
            counts = np.searchsorted(table.parent, rows, side="right") - starts
            parent = np.repeat(np.arange(rows.size), counts)
            offset = np.arange(parent.size) - np.repeat(np.cumsum(counts) - counts, counts)
            index = np.repeat(starts, counts) + offset
            levels[name] = table.take(index, parent)
            rows = index
        return replace(
            self,
            levels=levels,
            guards={name: values[rows] for name, values in self.guards.items()},
            extra={name: values[rows] for name, values in self.extra.items()},
            places=None if self.places is None else self.places.take(rows),
            **_pick_rows(self, ("episode", "cluster", "time"), chosen),
            **_pick_rows(self, ("reward", "observed", "outcome", "closed"), rows),
        )

    def where(self, row: int) -> str:
        """Return where an innermost decision came from: file and row of the log if they are known, else its episode."""
        if self.places is not None:
            return self.places.at(row)
        value = self.episode[self.episode_of(list(self.levels)[-1])[row]]
        name = ", ".join(map(str, value)) if self.episode.dtype.names else str(value)
        return f"row {row} of the batch (episode {name})"


def augmented_context(problem: Problem, batch: Batch, level: str, with_action: bool = False) -> Rows:
    """Return the augmented context of each decision at `level`: every context at and above it, every action above it.

    Numeric actions come as numbers, exact where they are known, labels as codes. `with_action` adds the level's own action.
    Shapes `[n]` or `[n, d]`.
    """
    context: Rows = {}
    above = batch.ancestors(level)
    for name in reversed(above):
        table, rows = batch.levels[name], above[name]
        spec = problem.level(name)
        for variable in spec.context:
            context[variable.name] = table.context[variable.name][rows]
        if name != level or with_action:
            exact = None if table.value is None else table.value[rows]
            context[spec.actions.column] = spec.actions.as_rows(table.action[rows]) if exact is None else exact
    return context


def hypothetical_batch(
    problem: Problem,
    level: str,
    count: int,
    rows: Mapping[str, AnyArray],
    action_index: Mapping[str, AnyArray],
    available: Mapping[str, Bools] | None = None,
) -> Batch:
    """Return a batch of `count` hypothetical decisions at `level`, each in an episode of its own, as a question to a policy.

    rows: contexts by variable name, `[n]` or `[n, d]`, for `level` and all levels above. action_index: `[n]` by level name
    for the levels above, of an interval also the exact numbers. The inverse of `augmented_context` up to the shape of the tree.
    """
    levels: dict[str, LevelTable] = {}
    for spec in (*problem.above(level), problem.level(level)):
        context = {variable.name: rows[variable.name] for variable in spec.context}
        table = LevelTable.undecided(np.arange(count), context, (available or {}).get(spec.name))
        if spec.name != level:
            action, value = np.asarray(action_index[spec.name]), None
            if spec.actions.continuous:
                value = action if action.dtype.kind == "f" else spec.actions.numbers[action]
                action = nearest_points(spec.actions, value)
            table = table.decided(action, np.ones(count), value=value)
        levels[spec.name] = table
    return Batch(np.arange(count), levels)


def concat(batches: Sequence[Batch]) -> Batch:
    """Join batches of the same problem, one after the other.

    A missing mask, `observed` or `closed` counts as all true. What only some of the parts know is given up: `mu_full`,
    and `version` unless all agree. Everything else must be present in all parts or in none; ProblemError otherwise.
    """
    if not batches:
        raise ProblemError("there are no batches to join; give at least one")
    if len(batches) == 1:
        return batches[0]
    if any(list(batch.levels) != list(batches[0].levels) for batch in batches):
        raise ProblemError(f"batches with different levels cannot be joined: {[list(batch.levels) for batch in batches]}")
    levels: dict[str, LevelTable] = {}
    above = [len(batch) for batch in batches]
    for name in batches[0].levels:
        tables = [batch.levels[name] for batch in batches]
        shifts = np.cumsum([0, *above[:-1]])
        versions = {table.version for table in tables}
        above = [len(table) for table in tables]
        levels[name] = LevelTable(
            parent=np.concatenate([table.parent + shift for table, shift in zip(tables, shifts, strict=True)]).astype(np.int32),
            context=_join_columns([table.context for table in tables], f"context of level '{name}'"),
            action=np.concatenate([table.action for table in tables]),
            mu_taken=np.concatenate([table.mu_taken for table in tables]),
            mu_full=None if any(table.mu_full is None for table in tables) else _join(tables, "mu_full"),
            available=_join_masks(tables, "available", above),
            version=versions.pop() if len(versions) == 1 else None,
            value=_join(tables, "value", f"exact actions of level '{name}'"),
            base=_join(tables, "base", f"base actions of level '{name}'"),
            incumbent=_join(tables, "incumbent", f"incumbent of level '{name}'"),
        )
    return Batch(
        episode=np.concatenate([batch.episode for batch in batches]),
        levels=levels,
        reward=_join(batches, "reward"),
        observed=_join_masks(batches, "observed", above),
        outcome=_join(batches, "outcome"),
        guards=_join_columns([batch.guards for batch in batches], "guards"),
        cluster=_join(batches, "cluster"),
        time=_join(batches, "time"),
        extra=_join_columns([batch.extra for batch in batches], "extra columns"),
        closed=_join_masks(batches, "closed", above),
        places=_join_places([batch.places for batch in batches]),
    )


def _join_places(parts: Sequence[RowOrigins | None]) -> RowOrigins | None:
    """Join the origins of rows; given up unless all parts know them, of the same files."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or len({part.files for part in known}) > 1:
        return None
    return RowOrigins(known[0].files, np.concatenate([part.file for part in known]), np.concatenate([part.row for part in known]))


def _join(parts: Sequence[LevelTable | Batch], name: str, what: str = "") -> AnyArray | None:
    """Join one array of all parts; ProblemError, naming `what`, if only some of them have it."""
    present = [values for part in parts if (values := getattr(part, name)) is not None]
    if present and len(present) < len(parts):
        raise ProblemError(f"cannot join batches: {len(present)} of {len(parts)} have '{what or name}'; all or none must have it")
    return np.concatenate(present) if present else None


def _join_columns(parts: Sequence[Mapping[str, AnyArray]], what: str) -> dict[str, AnyArray]:
    if any(set(part) != set(parts[0]) for part in parts):
        raise ProblemError(f"cannot join batches: the {what} differ: {[sorted(part) for part in parts]}")
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _join_masks(parts: Sequence[LevelTable | Batch], name: str, rows: Sequence[int]) -> Bools | None:
    """Join masks `[n]` or `[n, A]`; a part without one is all true."""
    masks: list[Bools | None] = [getattr(part, name) for part in parts]
    tail = next((mask.shape[1:] for mask in masks if mask is not None), None)
    if tail is None:
        return None
    whole = [np.ones((count, *tail), bool) if mask is None else mask for mask, count in zip(masks, rows, strict=True)]
    return np.concatenate(whole)


@runtime_checkable
class Policy(Protocol):
    """A policy with S frozen particles; an ordinary policy has S = 1.

    One particle index is drawn per episode with probabilities `weights[S]` and acts at all levels of that episode.
    """

    @property
    def weights(self) -> Array:
        """Return the particle weights `[S]`, summing to one."""
        ...

    def taken(self, level: str, batch: Batch) -> Array:
        """Return each particle's probability of the logged action, `[S, n]`."""
        ...

    def full(self, level: str, batch: Batch) -> Array:
        """Return each particle's distribution over the actions, `[S, n, A]`; unavailable actions get 0."""
        ...


@runtime_checkable
class RewardModel(Protocol):
    """A regression of the reward below a decision on what is known when it is taken."""

    def predict(self, level: str, batch: Batch) -> Array:
        """Return the predicted subtree-mean reward of every action, `[n, A]`."""
        ...


@runtime_checkable
class Plant(Protocol):
    """Something that can be run: simulated here, or the user's own."""

    @property
    def problem(self) -> Problem:
        """Return the problem the plant poses."""
        ...

    def episodes(self, first: int, count: int, policy: Policy, seed: int) -> Batch:
        """Run episodes `first .. first + count - 1` under `policy` and return what was logged.

        Randomness comes from streams named by `seed` and the episode number alone, so that splitting the range changes
        nothing and two policies meet the same noise.
        """
        ...


@runtime_checkable
class Storable(Protocol):
    """Anything a policy folder can hold: a policy, or a reward model that a policy needs."""

    def state(self) -> State:
        """Return what is needed to build an equal object."""
        ...

    @classmethod
    def restore(cls, state: State, problem: Problem) -> Self:
        """Build the object from its state."""
        ...


@dataclass(frozen=True, slots=True)
class State:
    """The content of a policy: kind (a key of the table of kinds), settings (plain data), arrays and member objects by name."""

    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, AnyArray] = field(default_factory=dict)
    members: Mapping[str, Storable] = field(default_factory=dict)

    def setting(self, name: str) -> Any:
        """Return a setting; raise PolicyError if the file lacks it."""
        if name not in self.settings:
            raise PolicyError(f"policy of kind '{self.kind}': the setting '{name}' is missing; found {sorted(self.settings)}")
        return self.settings[name]

    def policy(self, name: str) -> Policy:
        """Return a member that is a policy; raise PolicyError if the file lacks it."""
        member = self.members.get(name)
        if not isinstance(member, Policy):
            raise PolicyError(
                f"policy of kind '{self.kind}': the member policy '{name}' is missing; found {sorted(self.members)}"
            )
        return member
