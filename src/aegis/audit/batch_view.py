"""One batch as the checks see it: known rewards, the episodes that may be bet on, slices, and fewer actions.

Interval. A density can be wrong about two kinds of policies. The one that acts uniformly in a cell has the importance
weight `1{A in cell} / (length mu(A))`; the one that always takes an atom has one over its probability. Both have mean one
where the legacy reaches all of the cell, and never more. So cells and atoms become the actions, and length times density
the propensity, which may exceed 1.

Halves. A context that was measured after the decision leans a little to the side of the action. Every single action then
moves by less than a bet on that action can show. The policy that chooses evenly from a half has the weight `1 / (number of
its actions times mu)`, with a mean of at most one, and shows the lean as a whole. Atoms stay by themselves.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from aegis.audit.slices import Cuts, Mask
from aegis.errors import LogError
from aegis.logs import hash_ids, id_parts
from aegis.ope import CandidateView
from aegis.policies import path_taken
from aegis.problem import (
    Actions,
    AnyArray,
    Array,
    Batch,
    Level,
    LevelTable,
    Problem,
    Propensity,
    Rows,
    Value,
    augmented_context,
    group_means,
    is_atom,
)


@dataclass(frozen=True, kw_only=True)
class BatchView:
    """A batch with what several checks need.

    batch: with cells as the actions of intervals; logged: as it was read. reward `[n]`: nan where it is missing or awaited.
    closed `bool[n]`: false where it is awaited. fresh `bool[E]`: episodes that did not place the cuts, on which bets that use
    the cuts are valid. skimmed: costly checks leave it out. candidate: acting on all of the logged batch, None without one.
    """

    problem: Problem
    batch: Batch
    logged: Batch
    cuts: Cuts
    reward: Array
    closed: Mask
    fresh: Mask
    skimmed: bool = False
    candidate: CandidateView | None = None
    _parts: dict[int, BatchView] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def episodes(self) -> dict[str, AnyArray]:
        """The episode `[m]` of each decision, by level."""
        return {name: self.batch.episode_of(name) for name in self.batch.levels}

    @cached_property
    def starts(self) -> dict[str, AnyArray]:
        """Where the decisions of each episode start `[E + 1]`, by level."""
        places = np.arange(len(self.batch) + 1)
        return {name: np.searchsorted(rows, places.astype(rows.dtype)) for name, rows in self.episodes.items()}

    @cached_property
    def above(self) -> dict[str, AnyArray]:
        """The row `[n]` of each level above each innermost decision."""
        return self.batch.ancestors(self.problem.innermost.name)

    @classmethod
    def of(
        cls,
        problem: Problem,
        batch: Batch,
        cuts: Cuts | None,
        placing: int = 0,
        skimmed: bool = False,
        logged: Batch | None = None,
        candidate: CandidateView | None = None,
    ) -> BatchView:
        """Return the view of a batch; the first one, without cuts, places them. Raises LogError if it does not fit.

        placing: the number of first episodes that placed the cuts. logged: the batch as it was read, if that differs.
        """
        if tuple(batch.levels) != problem.names:
            raise LogError(
                f"the batch has the levels {list(batch.levels)}, the problem {list(problem.names)}; give whole batches"
            )
        if batch.reward is None:
            raise LogError("the batch has no rewards; an audit looks at finished decisions")
        reward = np.asarray(batch.reward, dtype=np.float64)
        closed = np.ones(reward.size, dtype=np.bool_) if batch.closed is None else batch.closed
        known = closed if batch.observed is None else closed & batch.observed
        reward = reward if known.all() else np.where(known, reward, np.nan)
        placed = Cuts.of(problem, batch, reward) if cuts is None else cuts
        return cls(
            problem=problem,
            batch=batch,
            logged=batch if logged is None else logged,
            cuts=placed,
            reward=reward,
            closed=closed,
            fresh=np.arange(len(batch)) >= (placed.used if cuts is None else placing),
            skimmed=skimmed,
            candidate=candidate,
        )

    def first(self, level: str, most: int) -> BatchView:
        """Return the view of the first episodes, with at most `most` decisions of a level, or of the first one alone."""
        starts = self.starts[level]
        if starts[-1] <= most:
            return self
        count = max(1, int(np.searchsorted(starts, most, side="right")) - 1)
        if count not in self._parts:
            rows = int(self.starts[self.problem.innermost.name][count])
            self._parts[count] = replace(
                self,
                batch=self.batch.take_episodes(np.arange(count)),
                reward=self.reward[:rows],
                closed=self.closed[:rows],
                fresh=self.fresh[:count],
            )
        return self._parts[count]

    def fresh_at(self, level: str) -> Mask:
        """Return which decisions `[m]` of a level may be bet on with the cuts."""
        if self.fresh.all():
            return np.ones(len(self.batch.levels[level]), dtype=np.bool_)
        fresh: Mask = self.fresh[self.episodes[level]]
        return fresh

    def looks(self, level: str) -> Rows:
        """Return what the decisions of a level look at: contexts at and above it, actions above it."""
        return augmented_context(self.problem, self.batch, level)

    def candidate_weights(self, level: str) -> Array | None:
        """Return the candidate's weights `[m]` at a level of the logged batch, given actions above; None if one is unknown."""
        if self.candidate is None:
            return None
        # A single particle may have no probabilities at the levels above, and needs none.
        single = self.candidate.weights.size == 1
        candidate, batch = self.candidate, self.logged
        chances = candidate.taken(level, batch)[0] if single else path_taken(candidate, level, batch)
        weights = chances / batch.levels[level].mu_taken
        return weights if np.isfinite(weights).all() else None

    def mean_rewards(self, level: str | None = None, scaled: bool = False) -> Array:
        """Return the mean known reward below each decision `[m]` of a level, or of each episode `[E]`; nan if there is none.

        scaled: of rewards scaled to [0, 1].
        """
        reward = scale_to_unit_range(self.reward, self.problem.reward.range) if scaled else self.reward
        innermost = self.problem.innermost.name
        if level is None:
            return group_means(self.episodes[innermost], reward, len(self.batch))
        return reward if level == innermost else group_means(self.above[level], reward, len(self.batch.levels[level]))

    def first_decisions(self, level: str) -> tuple[AnyArray, Mask]:
        """Return the first decision `[E]` of a level in each episode, and in which `bool[E]` there is one; any row elsewhere."""
        starts = self.starts[level]
        return np.minimum(starts[:-1], max(int(starts[-1]) - 1, 0)), starts[1:] > starts[:-1]

    def last_decisions(self, level: str) -> AnyArray:
        """Return the last decision `[E]` of a level in each episode; any row where there is none."""
        return np.maximum(self.starts[level][1:] - 1, 0)

    def rows_below(self, level: str, chosen: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Return the decisions `[r]` of a level in the chosen episodes `[k]`, and which of these each belongs to."""
        starts = self.starts[level][chosen]
        counts = self.starts[level][chosen + 1] - starts
        owner = np.repeat(np.arange(chosen.size), counts)
        return np.arange(owner.size) + np.repeat(starts - np.cumsum(counts) + counts, counts), owner

    def open_episodes(self) -> Mask:
        """Return which episodes `[E]` still wait for a reward."""
        waiting = np.zeros(len(self.batch), dtype=np.bool_)
        waiting[self.episodes[self.problem.innermost.name][~self.closed]] = True
        return waiting


def in_reward_units(problem: Problem, level: str) -> bool:
    """Say whether each decision of a level has rewards of its own: the level that rewards belong to, or one above it.

    All decisions below that are in the weight of one reward: neither their number nor what they do to each other matters.
    """
    per = problem.reward.per
    return per != "episode" and (per == "decision" or problem.index(level) >= problem.index(per))


def units_above_reward(problem: Problem) -> tuple[str, ...]:
    """Return the units that are larger than the one a reward is declared for, the largest first: 'episode', then levels."""
    per = problem.innermost.name if problem.reward.per == "decision" else problem.reward.per
    return () if per == "episode" else ("episode", *problem.names[: problem.names.index(per)])


def group_starts(owner: AnyArray) -> AnyArray:
    """Return where each run of equal owners `[n]` starts."""
    return np.flatnonzero(np.append(np.ones(min(owner.size, 1), dtype=np.bool_), owner[1:] != owner[:-1]))


def comparable_times(batch: Batch) -> AnyArray | None:
    """Return the times `[E]` of episodes if they are numbers or dates, None if there are none or they are text."""
    return batch.time if batch.time is not None and batch.time.dtype.kind in "iufM" else None


def cluster_hashes(cluster: AnyArray) -> AnyArray:
    """Return a hash `[E]` of the cluster of each episode."""
    return np.asarray(hash_ids([pa.array(part) for part in id_parts(cluster)]))


def id_words(ids: AnyArray, row: int) -> str:
    """Return the id of an episode in words; an id of several columns as its parts."""
    value = ids[row]
    return ", ".join(map(str, value)) if ids.dtype.names else str(value)


def scale_to_unit_range(values: Array, limits: tuple[float, float] | None) -> Array:
    """Return values `[n]` on a scale from 0 to 1, so that their squares can be added up; nan stays.

    Values outside the declared limits void a certificate and are reported as such; here they count as the limit. Without
    limits, which is reported too, all numbers are mapped into (-1, 1).
    """
    if limits is None:
        return np.copysign(1.0 - 1.0 / (1.0 + np.abs(values)), values)  # rounding keeps the order
    low, high = limits
    half = high / 2.0 - low / 2.0  # of a range that may be wider than the largest number
    return np.clip((np.clip(values, low, high) / 2.0 - low / 2.0) / half, 0.0, 1.0)


CELLS = 10  # few enough that a density which is wrong by a factor shows in a small log, also in slices of the context


def bin_problem(problem: Problem) -> Problem:
    """Return the problem with the cells and atoms of every interval as its actions; itself if it has none."""
    if not any(level.actions.continuous for level in problem.levels):
        return problem
    return replace(problem, levels=tuple(_celled(level) for level in problem.levels))


def bin_batch(problem: Problem, batch: Batch) -> Batch:
    """Return the batch with cells and atoms as the actions of every interval; itself if there is none.

    problem: the one with the intervals.
    """
    for level in problem.levels:
        if level.actions.continuous and level.name in batch.levels:
            batch = batch.with_level(level.name, _table(level.actions, batch.levels[level.name]))
    return batch


def _celled(level: Level) -> Level:
    if not level.actions.continuous:
        return level
    edges = [f"{edge:.6g}" for edge in np.linspace(*level.actions.limits, CELLS + 1)]
    cells = [f"{low} to {high}" for low, high in itertools.pairwise(edges)]
    atoms = [f"exactly {atom:.9g}" for atom in level.actions.atoms]
    spec = level.propensity
    plain = None if spec is None else replace(spec, density=False)
    return replace(level, actions=Actions(level.actions.column, (*cells, *atoms), "labels"), propensity=plain, incumbent=None)


def _table(actions: Actions, table: LevelTable) -> LevelTable:
    if table.value is None:
        return table
    low, high = actions.limits
    index = np.clip((table.value - low) / (high - low) * CELLS, 0, CELLS - 1).astype(np.int32)
    mu = table.mu_taken * (high - low) / CELLS
    for place, atom in enumerate(actions.atoms):
        taken = is_atom(replace(actions, atoms=(atom,)), table.value)
        index = np.where(taken, CELLS + place, index)
        mu = np.where(taken, table.mu_taken, mu)
    return replace(table, action=index.astype(np.int32), mu_taken=mu, value=None)


SEVERAL = 4  # actions: halves of fewer are single actions, or nearly


@dataclass(frozen=True, slots=True)
class ActionHalves:
    """The half `[A]` that each action of a level is in, and the level with halves (and atoms) as its actions."""

    level: Level
    member: AnyArray

    @classmethod
    def of(cls, level: Level, atoms: int | None = None) -> ActionHalves | None:
        """Return the halves; None if actions have no order (two need none), or there is one only.

        atoms: of the cells of an interval, which are in order, how many of the last actions are atoms.
        """
        count = level.actions.count - (atoms or 0)
        numeric = atoms is None and level.actions.numeric
        if count < 2 or (atoms is None and not numeric and count > 2):
            return None
        order = np.argsort(level.actions.numbers, kind="stable") if numeric else np.arange(count)
        member = np.arange(level.actions.count, dtype=np.int32) - count + 2
        member[order] = (np.arange(count) >= count // 2).astype(np.int32)
        values = level.actions.values
        ends = [(0, count // 2 - 1), (count // 2, count - 1)]
        names = [_between(values[order[first]], values[order[last]]) for first, last in ends]
        actions = Actions(level.actions.column, (*names, *[str(value) for value in values[count:]]), "labels")
        least = None if level.propensity is None else level.propensity.least
        # A half is at least as likely as one of its actions, so that what is promised of these holds of it too.
        return cls(
            replace(level, actions=actions, propensity=Propensity("half", least=least), available=(), incumbent=None), member
        )

    @property
    def several(self) -> bool:
        """Say whether halves are more than single actions."""
        return int((self.member < 2).sum()) >= SEVERAL

    def table(self, table: LevelTable) -> LevelTable:
        """Return the decisions `[n]` of a table, among the halves."""
        return merge_actions(table, self.member, self.level.actions.count)


def merge_actions(table: LevelTable, member: AnyArray, sets: int) -> LevelTable:
    """Return decisions `[n]` among actions as decisions among sets of actions; member `[A]`: the set of each action.

    Without the whole distribution, the propensity is that of a uniform choice from the available actions of the set taken.
    """
    rows, chosen = np.arange(len(table)), member[table.action]
    inside = np.zeros((member.size, sets))
    inside[np.arange(member.size), member] = 1.0
    if table.mu_full is not None:
        full: Array = table.mu_full @ inside
        return replace(table, action=chosen, mu_taken=full[rows, chosen], mu_full=full, available=None)
    if table.available is None:
        return replace(table, action=chosen, mu_taken=table.mu_taken * inside.sum(axis=0)[chosen])
    number: Array = table.available @ inside
    return replace(table, action=chosen, mu_taken=table.mu_taken * number[rows, chosen], available=number > 0)


def _between(first: Value, last: Value) -> str:
    return str(first) if first == last else f"{first} ... {last}"
