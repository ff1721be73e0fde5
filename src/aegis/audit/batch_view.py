"""One batch as the checks see it: known rewards, the episodes that may be bet on, the slices, and rows by level and episode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from aegis.audit.slices import Cuts
from aegis.errors import LogError
from aegis.problem import AnyArray, Array, Batch, Problem, Rows, augmented_context, group_means

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class BatchView:
    """A batch with what several checks need.

    reward `[n]`: nan where it is missing or awaited. closed `bool[n]`: false where it is awaited. fresh `bool[E]`: episodes
    that did not place the cuts, on which bets that use the cuts are valid. episodes `[m]`: the episode of each decision, by
    level. starts `[E + 1]`: where the decisions of each episode start, by level. above `[n]`: the row of each level above each
    innermost decision. skimmed: costly checks leave it out.
    """

    problem: Problem
    batch: Batch
    cuts: Cuts
    reward: Array
    closed: Mask
    fresh: Mask
    episodes: Mapping[str, AnyArray]
    starts: Mapping[str, AnyArray]
    above: Mapping[str, AnyArray]
    skimmed: bool = False
    _parts: dict[int, BatchView] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, problem: Problem, batch: Batch, cuts: Cuts | None, placing: int = 0, skimmed: bool = False) -> BatchView:
        """Return the view of a batch; the first one, without cuts, places them. Raises LogError if it does not fit.

        placing: the first so many episodes placed the cuts that are given.
        """
        if tuple(batch.levels) != problem.names:
            raise LogError(
                f"the batch has the levels {list(batch.levels)}, the problem {list(problem.names)}; give whole batches"
            )
        if batch.reward is None:
            raise LogError("the batch has no rewards; an audit looks at finished decisions")
        reward = np.asarray(batch.reward, dtype=np.float64)
        if batch.observed is not None and not batch.observed.all():
            reward = np.where(batch.observed, reward, np.nan)
        closed = np.ones(reward.size, dtype=np.bool_) if batch.closed is None else batch.closed
        if not closed.all():
            reward = np.where(closed, reward, np.nan)
        placed = Cuts.of(problem, batch, reward) if cuts is None else cuts
        fresh = np.ones(len(batch), dtype=np.bool_)
        fresh[: placed.used if cuts is None else placing] = False
        episodes = _episodes(batch)
        starts = {name: np.searchsorted(rows, np.arange(len(batch) + 1, dtype=rows.dtype)) for name, rows in episodes.items()}
        return cls(problem, batch, placed, reward, closed, fresh, episodes, starts, _above(batch), skimmed)

    def first(self, level: str, most: int) -> BatchView:
        """Return the view of the first episodes, with at most so many decisions of a level, or of the first one alone."""
        starts = self.starts[level]
        if starts[-1] <= most:
            return self
        count = max(1, int(np.searchsorted(starts, most, side="right")) - 1)
        if count not in self._parts:
            rows = int(self.starts[self.problem.innermost.name][count])
            self._parts[count] = BatchView(
                self.problem,
                self.batch.take_episodes(np.arange(count)),
                self.cuts,
                self.reward[:rows],
                self.closed[:rows],
                self.fresh[:count],
                {name: found[: self.starts[name][count]] for name, found in self.episodes.items()},
                {name: found[: count + 1] for name, found in self.starts.items()},
                {name: found[:rows] for name, found in self.above.items()},
            )
        return self._parts[count]

    def fresh_at(self, level: str) -> Mask:
        """Return which decisions `[m]` of a level may be bet on with the cuts."""
        if self.fresh.all():
            return np.ones(len(self.batch.levels[level]), dtype=np.bool_)
        found: Mask = self.fresh[self.episodes[level]]
        return found

    def looks(self, level: str) -> Rows:
        """Return what the decisions of a level look at: contexts at and above it, actions above it."""
        return augmented_context(self.problem, self.batch, level)

    def rewards_below(self, level: str) -> Array:
        """Return the mean known reward `[m]` below each decision of a level, nan if there is none."""
        if level == self.problem.innermost.name:
            return self.reward
        return group_means(self.above[level], self.reward, len(self.batch.levels[level]))

    def scaled_below(self, level: str) -> Array:
        """Return `rewards_below` of rewards scaled to [0, 1]."""
        reward = scale_to_unit_range(self.reward, self.problem.reward.range)
        if level == self.problem.innermost.name:
            return reward
        return group_means(self.above[level], reward, len(self.batch.levels[level]))

    def scaled_episodes(self) -> Array:
        """Return `episode_rewards` of rewards scaled to [0, 1]."""
        reward = scale_to_unit_range(self.reward, self.problem.reward.range)
        return group_means(self.episodes[self.problem.innermost.name], reward, len(self.batch))

    def episode_rewards(self) -> Array:
        """Return the mean known reward `[E]` of each episode, nan if there is none."""
        return group_means(self.episodes[self.problem.innermost.name], self.reward, len(self.batch))

    def first_decisions(self, level: str) -> tuple[AnyArray, Mask]:
        """Return the first decision `[E]` of a level in each episode, and in which `bool[E]` there is one; any row elsewhere."""
        starts = self.starts[level]
        return np.minimum(starts[:-1], max(int(starts[-1]) - 1, 0)), starts[1:] > starts[:-1]

    def last_decisions(self, level: str) -> AnyArray:
        """Return the last decision `[E]` of a level in each episode; any row where there is none."""
        return np.maximum(self.starts[level][1:] - 1, 0)

    def even(self, level: str) -> bool:
        """Say whether all episodes have equally many decisions of a level."""
        counts = np.diff(self.starts[level])
        return bool((counts == counts[0]).all())

    def rows_below(self, level: str, chosen: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Return the decisions `[r]` of a level in the chosen episodes `[k]`, and which of these each belongs to."""
        starts = self.starts[level][chosen]
        counts = self.starts[level][chosen + 1] - starts
        owner = np.repeat(np.arange(chosen.size), counts)
        return np.arange(owner.size) + np.repeat(starts - np.cumsum(counts) + counts, counts), owner

    def open_episodes(self) -> Mask:
        """Return which episodes `[E]` still wait for a reward."""
        found = np.zeros(len(self.batch), dtype=np.bool_)
        if not self.closed.all():
            found[self.episodes[self.problem.innermost.name][~self.closed]] = True
        return found


def in_reward_units(problem: Problem, level: str) -> bool:
    """Say whether each decision of a level has rewards of its own: the level that rewards belong to, or one above it.

    All decisions below that are in the weight of one reward: neither their number nor what they do to each other matters.
    """
    per = problem.reward.per
    return per != "episode" and (per == "decision" or problem.index(level) >= problem.index(per))


def _episodes(batch: Batch) -> dict[str, AnyArray]:
    """Return the episode `[m]` of each decision, by level; each level asks the one above it."""
    found: dict[str, AnyArray] = {}
    rows: AnyArray | None = None
    for name, table in batch.levels.items():
        rows = table.parent if rows is None else rows[table.parent]
        found[name] = rows
    return found


def _above(batch: Batch) -> dict[str, AnyArray]:
    """Return the row `[n]` of each level above each innermost decision."""
    names = list(batch.levels)
    found: dict[str, AnyArray] = {names[-1]: np.arange(len(batch.levels[names[-1]]))}
    rows: AnyArray | None = None
    for name, outer in zip(names[:0:-1], names[-2::-1], strict=True):
        rows = batch.levels[name].parent if rows is None else batch.levels[name].parent[rows]
        found[outer] = rows
    return found


def id_words(ids: AnyArray, row: int) -> str:
    """Return the id of an episode in words; an id of several columns as its parts."""
    value = ids[row]
    return ", ".join(map(str, value)) if ids.dtype.names else str(value)


def scale_to_unit_range(values: Array, limits: tuple[float, float] | None) -> Array:
    """Return values `[n]` on a scale from 0 to 1, so that their squares can be added up; nan stays.

    Values outside the declared limits void a certificate and are reported as such; here they count as the limit. Without limits,
    which is reported too, all numbers are drawn together into (-1, 1).
    """
    if limits is None:
        return np.copysign(1.0 - 1.0 / (1.0 + np.abs(values)), values)  # the order stays, whatever rounding does
    low, high = limits
    half = high / 2.0 - low / 2.0  # of a range that may be wider than the largest number
    return np.clip((np.clip(values, low, high) / 2.0 - low / 2.0) / half, 0.0, 1.0)
