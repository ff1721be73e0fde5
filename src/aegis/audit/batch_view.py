"""One batch as the checks see it: known rewards, the episodes that may be bet on, the slices, and rows by level and episode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from aegis.audit.slices import Cuts, Mask
from aegis.errors import LogError
from aegis.ope import CandidateView
from aegis.policies import path_taken
from aegis.problem import AnyArray, Array, Batch, Problem, Rows, augmented_context, group_means


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchView:
    """A batch with what several checks need.

    batch: with cells as the actions of intervals; logged: as it was read. reward `[n]`: nan where it is missing or awaited.
    closed `bool[n]`: false where it is awaited. fresh `bool[E]`: episodes that did not place the cuts, on which bets that use
    the cuts are valid. episodes `[m]`: the episode of each decision, by level. starts `[E + 1]`: where the decisions of each
    episode start, by level. above `[n]`: the row of each level above each innermost decision. skimmed: costly checks leave it
    out. candidate: acting on all of the logged batch, None without one.
    """

    problem: Problem
    batch: Batch
    logged: Batch
    cuts: Cuts
    reward: Array
    closed: Mask
    fresh: Mask
    episodes: Mapping[str, AnyArray]
    starts: Mapping[str, AnyArray]
    above: Mapping[str, AnyArray]
    skimmed: bool = False
    candidate: CandidateView | None = None
    _parts: dict[int, BatchView] = field(default_factory=dict, init=False, repr=False, compare=False)

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
        episodes = _episodes(batch)
        return cls(
            problem=problem,
            batch=batch,
            logged=batch if logged is None else logged,
            cuts=placed,
            reward=reward,
            closed=closed,
            fresh=np.arange(len(batch)) >= (placed.used if cuts is None else placing),
            episodes=episodes,
            starts={name: np.searchsorted(rows, np.arange(len(batch) + 1, dtype=rows.dtype)) for name, rows in episodes.items()},
            above=_above(batch),
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
            self._parts[count] = BatchView(
                problem=self.problem,
                batch=self.batch.take_episodes(np.arange(count)),
                logged=self.logged,
                cuts=self.cuts,
                reward=self.reward[:rows],
                closed=self.closed[:rows],
                fresh=self.fresh[:count],
                episodes={name: owner[: self.starts[name][count]] for name, owner in self.episodes.items()},
                starts={name: places[: count + 1] for name, places in self.starts.items()},
                above={name: outer[:rows] for name, outer in self.above.items()},
                candidate=self.candidate,
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


def _episodes(batch: Batch) -> dict[str, AnyArray]:
    """Return the episode `[m]` of each decision, by level; each level asks the one above it."""
    owners: dict[str, AnyArray] = {}
    rows: AnyArray | None = None
    for name, table in batch.levels.items():
        rows = table.parent if rows is None else rows[table.parent]
        owners[name] = rows
    return owners


def _above(batch: Batch) -> dict[str, AnyArray]:
    """Return the row `[n]` of each level above each innermost decision."""
    names = list(batch.levels)
    above: dict[str, AnyArray] = {names[-1]: np.arange(len(batch.levels[names[-1]]))}
    rows: AnyArray | None = None
    for name, outer in zip(names[:0:-1], names[-2::-1], strict=True):
        rows = batch.levels[name].parent if rows is None else batch.levels[name].parent[rows]
        above[outer] = rows
    return above


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
