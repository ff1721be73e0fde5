"""Duplicates: rows that repeat the row before them, and episodes that are in the log twice under other ids.

Rows. Only neighbours are compared, which is cheap.

Episodes are compared by hashes of their content, ids and times left out. Chance makes equal episodes too. Two things count:
- Of two episodes with the same first context, the second takes the first one's action with that action's propensity. Episodes
  that are equal in everything are so more often only if they were copied: a test by betting, for values of any kind. Episodes
  that take the same action more often, but may earn something else, were done once more: one that failed was repeated.
- Rewards that are equal only in episodes that are equal in everything are as good as continuous. Equal episodes may still come
  from few contexts and rewards without noise. Then, as draws at random, pairs of them would bring triples: numbers of
  groups by their size are log-convex. Copies bring pairs without triples.
"""

from __future__ import annotations

import math

import numpy as np

from aegis.audit.batch_view import BatchView, group_starts
from aegis.audit.check import AuditSetting, Check, Finding, Known, Sums, make_finding
from aegis.audit.slices import Mask
from aegis.evidence import log_mean_wealth, weight_logs
from aegis.problem import AnyArray, Array, Hashes, has_next_sibling, mix_bits

RARE = 0.01  # share of equal rewards in neighbours of different parents, up to which equal rewards mean something
FEWEST_ROWS = 3
SHARE = 0.001


class DuplicateRows(Check):
    """Counts neighbours that are equal in reward, action and contexts, within a parent and across parents."""

    adds = ("pairs", "equal", "across", "across_equal")

    def __init__(self, setting: AuditSetting) -> None:
        super().__init__(setting)
        self.pairs = self.equal = self.across = self.across_equal = 0

    def add(self, view: BatchView) -> None:
        """Add the innermost decisions of a batch."""
        level = self.problem.innermost
        if level.decision is not None:
            return  # reading refuses an id that comes twice
        table = view.batch.levels[level.name]
        if len(table) < 2:
            return
        same_parent = has_next_sibling(table.parent)[:-1]
        same_reward = view.reward[1:] == view.reward[:-1]  # nan is unlike itself
        self.pairs += int(same_parent.sum())
        self.across += int((~same_parent).sum())
        self.across_equal += int((same_reward & ~same_parent).sum())
        rows = np.flatnonzero(same_reward & same_parent)
        compared: list[AnyArray] = [table.action, table.mu_taken, *table.context.values()]
        for values in compared:
            equal = values[rows] == values[rows + 1]
            rows = rows[equal if equal.ndim == 1 else equal.all(axis=1)]
        self.equal += rows.size

    def findings(self, known: Known) -> list[Finding]:
        """Return the finding, unless the reward is repeated anyway."""
        repeated = known.of("repeated-reward")
        if repeated or self.across < FEWEST_ROWS or self.across_equal > RARE * self.across:
            return []  # rewards have few values: equal neighbours are no surprise
        if self.equal < max(FEWEST_ROWS, SHARE * self.pairs):
            return []
        message = f"{self.equal} of {self.pairs} rows are equal to the row before them, although rewards are hardly ever equal"
        figures: dict[str, float | str] = {"share": self.equal / self.pairs, "by_chance": self.across_equal / self.across}
        level = self.problem.innermost.name
        return [make_finding("duplicated-rows", "warning", message, level, equal=self.equal, figures=figures)]


MOST = 2**14  # episodes kept in each of two samples
FEWEST_COPIES = 3  # copies that are worth a finding
ALIKE = 0.9  # of the pairs with equal rewards that are equal in everything, from which rewards are as good as continuous
LARGEST = 8  # copies of one episode; larger groups are counted together
SPREADS = 4.0  # standard deviations by which there are too many
KEY = "key"
LAST_MASK = np.uint64(2**48 - 1)
_ODD = np.uint64(0x9E3779B97F4A7C15)


class DuplicateEpisodes(Check):
    """Hashes of episodes, in two samples by hash value, so that equal episodes are in both or in neither."""

    adds = ("by_context", "by_reward", "episodes")

    def __init__(self, setting: AuditSetting) -> None:
        super().__init__(setting)
        self.by_context = _Sample()
        self.by_reward = _Sample()
        self.episodes = 0

    def begin_part(self, first: int, episodes: int) -> None:
        """Keep the samples of a part about as small as those of the whole log will be."""
        self.by_context.expect(episodes)
        self.by_reward.expect(episodes)

    def add(self, view: BatchView) -> None:
        """Add the episodes of a batch."""
        self.episodes += len(view.batch)
        context, action, chance = self._first(view)
        reward = _rewards(view)
        chosen = np.flatnonzero(self.by_context.wanted(context) | self.by_reward.wanted(reward))
        if not chosen.size:
            return
        context, action, chance, reward = context[chosen], action[chosen], chance[chosen], reward[chosen]
        whole = self._whole(view, chosen, context, reward)
        self.by_context.add({KEY: context, "whole": whole, "action": action, "chance": chance})
        self.by_reward.add({KEY: reward, "whole": whole})

    def findings(self, known: Known) -> list[Finding]:
        """Return the finding about copies; else that about repeated actions, unless these follow from other findings."""
        drawn, log = self._repeated_draws("whole")
        figures: dict[str, float | str] = {}
        if log >= math.log(1.0 / self.alpha) and drawn >= FEWEST_COPIES:
            copies, sample = drawn, self.by_context.size
            figures["log10_evidence"] = log / math.log(10)
        elif self._surplus():
            whole = self.by_reward.values("whole")
            copies, sample = whole.size - np.unique(whole).size, whole.size
        else:
            return self._redone(known.wrong | known.levels("actions-held"))
        message = (
            f"{self._of_all(copies, sample)} are equal to another one in all "
            "contexts, actions and rewards, beyond chance; was a file copied, or exported twice under other ids?"
        )
        figures |= {"copies": float(copies), "share": copies / sample, "sample": float(sample)}
        return [make_finding("duplicated-episodes", "refused", message, figures=figures)]

    def _of_all(self, number: int, sample: int) -> str:
        return f"{number} of {'' if sample == self.episodes else 'a sample of '}{sample} episodes"

    def _redone(self, explained: set[str]) -> list[Finding]:
        """Return that episodes with the first context of an earlier one repeat its action, unless they depend on each other."""
        level, sample = self.problem.levels[0].name, self.by_context.size
        again, log = self._repeated_draws("action")
        if log < math.log(1.0 / self.alpha) or again < FEWEST_COPIES:
            return []
        if self.problem.cluster is not None or level in explained:
            return []
        message = (
            f"{self._of_all(again, sample)} begin with exactly the context of "
            "an earlier one and take its action, more often than their propensities say; were episodes that failed done again?"
        )
        figures: dict[str, float | str] = {"log10_evidence": log / math.log(10), "again": float(again), "sample": float(sample)}
        return [make_finding("episodes-redone", "refused", message, level, figures=figures)]

    def _repeated_draws(self, what: str) -> tuple[int, float]:
        """Return how many episodes are equal in something to the one before them with their first context, and log evidence.

        what: a column of the sample by which equal episodes have equal first actions.
        """
        context, whole, chance = (self.by_context.values(name) for name in (KEY, what, "chance"))
        order = np.argsort(context, kind="stable")
        again = np.flatnonzero(context[order][1:] == context[order][:-1])
        before, now = order[again], order[again + 1]
        same = whole[now] == whole[before]
        if not same.any():
            return 0, -math.inf
        # The first action is the same with this chance at most; 1.0 where it is not known, which proves nothing.
        weights = np.where(same, 1.0 / chance[now], 0.0)
        return int(same.sum()), float(log_mean_wealth(weight_logs(weights).sum(axis=1)))

    def _surplus(self) -> bool:
        """Say whether there are more groups of equal episodes of some size than numbers of other sizes allow."""
        reward, whole = self.by_reward.values(KEY), self.by_reward.values("whole")
        if not whole.size:
            return False
        _, equal = np.unique(whole, return_counts=True)
        _, alike = np.unique(reward, return_counts=True)
        if _pairs(equal) < FEWEST_COPIES or _pairs(equal) < ALIKE * _pairs(alike):
            return False
        number = np.bincount(np.minimum(equal, LARGEST + 2), minlength=LARGEST + 3).astype(np.float64)
        number[LARGEST + 2] += number[LARGEST + 1]
        most = number + SPREADS * np.sqrt(number + 1.0) + SPREADS
        size = np.arange(2, LARGEST + 1)
        expected = np.sqrt(most[size - 1] * most[size + 1] * (size + 1) / size)
        return bool((number[size] > expected + SPREADS * np.sqrt(expected)).any())

    def _first(self, view: BatchView) -> tuple[Hashes, Hashes, Array]:
        """Return a hash of the first outermost context `[E]`, the first outermost action, and its propensity."""
        level = self.problem.levels[0].name
        table = view.batch.levels[level]
        if not len(table):
            nothing = np.zeros(len(view.batch), dtype=np.uint64)
            return nothing, nothing, np.ones(len(view.batch))
        rows, some = view.first_decisions(level)
        hashes = np.full(len(view.batch), _ODD)
        for values in table.context.values():
            for column in values.reshape(len(values), -1).T:
                hashes = _mixed(hashes, _bits(column[rows]))
        # Where propensities may be wrong by a factor, the largest chance that is possible.
        chance = self.problem.wrong_by().get(level, 1.0) * table.mu_taken[rows]
        chance = chance if level in self.setting.atoms else np.minimum(1.0, chance)
        return hashes, table.action[rows].astype(np.uint64), np.where(some & np.isfinite(chance) & (chance > 0), chance, 1.0)

    def _whole(self, view: BatchView, chosen: AnyArray, context: Hashes, reward: Hashes) -> Hashes:
        """Return a hash of all contexts, actions and rewards of the chosen episodes `[k]`."""
        hashes = _mixed(context, reward)
        first, _ = view.first_decisions(self.problem.names[0])
        for name, table in view.batch.levels.items():
            if not len(table):
                continue
            if name == self.problem.names[0]:  # alone, so that equal episodes have equal first actions
                hashes = _mixed(hashes, table.action[first[chosen]].astype(np.uint64))
            rows, owner = view.rows_below(name, chosen)
            columns = [column for values in table.context.values() for column in values.reshape(len(values), -1).T]
            if name == self.problem.innermost.name:
                columns.append(view.reward)
            for bits in (table.action[rows].astype(np.uint64), *[_bits(column[rows]) for column in columns]):
                hashes = _mixed(hashes, _added(bits, owner, chosen.size))
        return hashes


class _Sample(Sums):
    """Episodes by a key; once there are too many, only those whose key is divisible by a growing power of two.

    Keys are hashes, of which every bit is as good as any other.
    """

    def __init__(self) -> None:
        self.columns: dict[str, AnyArray] = {KEY: np.zeros(0, dtype=np.uint64)}
        self.mask = np.uint64(0)

    @property
    def size(self) -> int:
        """How many episodes there are in the sample."""
        return self.columns[KEY].size

    def wanted(self, keys: Hashes) -> Mask:
        """Say which keys belong to the sample."""
        return (keys & self.mask) == 0

    def expect(self, episodes: int) -> None:
        """Begin with a mask that leaves enough of this number of episodes."""
        while episodes > 2 * MOST and self.mask < LAST_MASK:
            self.mask, episodes = self.mask * np.uint64(2) + np.uint64(1), episodes // 2

    def merge(self, other: _Sample) -> None:
        """Add the episodes of another sample."""
        self.mask = max(self.mask, other.mask)
        self.add(other.columns)

    def add(self, values: dict[str, AnyArray]) -> None:
        """Add episodes: their keys, and what goes with them."""
        if self.size and values[KEY].size:
            values = {name: np.concatenate([self.columns[name], column]) for name, column in values.items()}
        self._thin(values if values[KEY].size else self.columns)
        # A key that most episodes share goes with all of them: then there is little to learn from it.
        while self.size > MOST and self.mask < LAST_MASK:
            self.mask = self.mask * np.uint64(2) + np.uint64(1)
            self._thin(self.columns)

    def values(self, name: str) -> AnyArray:
        """Return one of the columns of the sample."""
        return self.columns[name] if self.size else np.zeros(0, dtype=np.uint64)

    def _thin(self, values: dict[str, AnyArray]) -> None:
        chosen = np.flatnonzero(self.wanted(values[KEY]))
        self.columns = {name: column[chosen] for name, column in values.items()}


def _rewards(view: BatchView) -> Hashes:
    """Return a hash of the number of innermost decisions, and of the first and the last reward, of each episode `[E]`."""
    level = view.problem.innermost.name
    if not view.reward.size:
        return np.zeros(len(view.batch), dtype=np.uint64)
    first, some = view.first_decisions(level)
    last = view.last_decisions(level)
    size = np.where(some, last - first + 1, 0).astype(np.uint64)
    return _mixed(_bits(view.reward[first]) + size, _bits(view.reward[last]))


def _added(bits: Hashes, owner: AnyArray, count: int) -> Hashes:
    """Return the sums `[count]`, modulo 2^64, over the rows of each owner."""
    sums, starts = np.zeros(count, dtype=np.uint64), group_starts(owner)
    if starts.size:
        sums[owner[starts]] = np.add.reduceat(bits, starts)
    return sums


def _bits(values: AnyArray) -> Hashes:
    """Return numbers as the bits that they are made of."""
    return np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)


def _mixed(one: Hashes, other: Hashes) -> Hashes:
    """Return a hash of two hashes."""
    return mix_bits(one * _ODD + other)


def _pairs(counts: AnyArray) -> float:
    return float((counts * (counts - 1.0) / 2.0).sum())
