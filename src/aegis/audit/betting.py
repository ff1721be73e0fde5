"""Bets on random choices: do later events depend on a randomly drawn action, and do actions repeat?

One factor per episode. The weight w of a policy that chooses from a set B of actions has mean one given everything before
the draw, so that (w - 1) s has mean zero for every s in [0, 1] that the action cannot influence. So has its mean over the
decisions of an episode, also where propensities are given the actions above only. It is at least -1, as betting upwards
requires; betting on s and on 1 - s shows a dependence in either direction. Without overlap the mean is below zero, which
makes no false finding.

Repeats. Given everything before it, a decision takes the action of an earlier one with that action's own propensity. With
the whole distribution known, the surprise has mean zero; with the propensity of the action taken only, the weight of "the
same again" has mean one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from aegis.audit.action_bins import merge_actions
from aegis.audit.slices import Mask, sum_rows
from aegis.audit.sums import Sums, merged
from aegis.evidence import WEIGHT_STAKES, log_mean_wealth, moment_evidence, power_sums, weight_logs
from aegis.problem import AnyArray, Array, Level, LevelTable

MOST_SETS = 8  # of actions; more actions are taken together with their neighbours
REACTS = math.log(20.0)  # evidence from which the controller counts as reacting to other decisions or episodes


@dataclass(frozen=True, slots=True)
class Choices:
    """Random choices `[p]` among sets of actions.

    chosen `[p]`: the set; weight `[p]`: of a policy that chooses from it; possible `bool[p, B]`: the sets that have such a
    policy, None for all; chance `[p, B]`: probabilities of the sets, or None if only that of the action taken is known.
    """

    chosen: AnyArray
    weight: Array
    sets: int
    possible: Mask | None = None
    chance: Array | None = None

    @classmethod
    def of(cls, level: Level, table: LevelTable, most: int = MOST_SETS) -> Choices:
        """Return the choices of the decisions of a table, from at most `most` sets.

        With the whole distribution the policy of a set is the behaviour policy within it; else a uniform choice from it. Of
        two actions the probability of one says that of the other.
        """
        sets = set_count(level, most)
        among = merge_actions(table, set_members(level, most), sets)
        if among.mu_full is None and knows_chances(level, table):
            taken = among.mu_taken[:, None]
            among = replace(among, mu_full=np.where(np.arange(2) == among.action[:, None], taken, 1.0 - taken))
        possible = among.available if among.mu_full is None else among.mu_full > 0
        return cls(among.action, 1.0 / among.mu_taken, sets, possible, among.mu_full)

    @classmethod
    def weighted(cls, weight: Array) -> Choices:
        """Return the choices of a policy with these weights, as one set."""
        return cls(np.zeros(weight.size, dtype=np.int64), weight, 1)

    def excess(self) -> Array:
        """Return weights minus one, `[p, B]`; 0 where a set is not possible."""
        excess = np.where(np.arange(self.sets) == self.chosen[:, None], self.weight[:, None], 0.0) - 1.0
        return excess if self.possible is None else np.where(self.possible, excess, 0.0)

    def excesses(self, share: Array, owner: AnyArray, count: int) -> Array:
        """Return the sums `[count, B]` over the choices of each owner of the excess times a share, `[p]` or `[p, B]`."""
        if share.ndim > 1:
            return sum_rows(self.excess() * share, owner, count)
        # All sets but the one chosen have an excess of minus one: that needs no table of choices and sets.
        place = owner * np.int64(self.sets) + self.chosen
        above = np.bincount(place, weights=self.weight * share, minlength=count * self.sets)
        sums = above.astype(np.float64, copy=False).reshape(count, self.sets)
        if self.possible is None:
            sums -= np.bincount(owner, weights=share, minlength=count)[:, None]
        else:
            sums -= sum_rows(self.possible * share[:, None], owner, count)
        return sums

    def repeats(self, after: AnyArray, owner: AnyArray, count: int) -> tuple[Array, Array]:
        """Return the sums `[count, B]` of the excess of each set over the choices that it comes after, and over all others.

        after `[p]`: the set that was chosen next.
        """
        if self.possible is not None:
            comes = (np.arange(self.sets) == after[:, None]).astype(np.float64)
            return self.excesses(comes, owner, count), self.excesses(1.0 - comes, owner, count)
        place = owner * np.int64(self.sets) + after
        gained = np.where(self.chosen == after, self.weight, 0.0) - 1.0
        counted = np.bincount(place, weights=gained, minlength=count * self.sets)
        comes = counted.astype(np.float64, copy=False).reshape(count, self.sets)
        return comes, self.excesses(np.ones(self.chosen.size), owner, count) - comes

    def surprises(self, owner: AnyArray, count: int) -> Array:
        """Return the sums `[count, B]` of what was chosen minus its chance, or of the excess where chances are not known."""
        if self.chance is None:
            return self.excesses(np.ones(self.chosen.size), owner, count)
        return sum_rows((np.arange(self.sets) == self.chosen[:, None]) - self.chance, owner, count)

    def take(self, rows: AnyArray) -> Choices:
        """Return some of the choices."""
        possible = None if self.possible is None else self.possible[rows]
        chance = None if self.chance is None else self.chance[rows]
        return replace(self, chosen=self.chosen[rows], weight=self.weight[rows], possible=possible, chance=chance)


def knows_chances(level: Level, table: LevelTable) -> bool:
    """Say whether the probabilities of all actions are known: logged, or of two actions that of one."""
    return table.mu_full is not None or (level.actions.count == 2 and (table.available is None or bool(table.available.all())))


def set_count(level: Level, most: int = MOST_SETS) -> int:
    """Return how many sets the actions of a level are put into."""
    return min(level.actions.count, most)


def set_members(level: Level, most: int = MOST_SETS) -> AnyArray:
    """Return the set `[A]` that each action of a level is in."""
    return np.arange(level.actions.count) * set_count(level, most) // level.actions.count


class EpisodeBets(Sums):
    """Evidence about one sign, for each set of actions; sums add up over batches in any order."""

    adds = ("logs", "pairs")

    def __init__(self, sets: int) -> None:
        self.logs = np.zeros((WEIGHT_STAKES.size, 2, sets))
        self.pairs = 0

    def add(self, choices: Choices, sign: Array, owner: AnyArray, count: int) -> None:
        """Add choices `[p]` of `count` episodes with the sign `[p]` of a later event.

        owner `[p]`: the episode of each choice. A sign of 0 counts for neither side, for example where a reward is missing.
        """
        above = choices.excesses(np.maximum(sign, 0.0), owner, count)
        below = choices.excesses(np.maximum(-sign, 0.0), owner, count)
        self._add((above, below), np.bincount(owner, minlength=count))

    def add_repeats(self, choices: Choices, after: AnyArray, owner: AnyArray, count: int) -> None:
        """Add choices `[p]` of `count` episodes with the set `[p]` that was chosen next: the sign is whether it is the same."""
        self._add(choices.repeats(after, owner, count), np.bincount(owner, minlength=count))

    def add_shares(self, choices: Choices, shares: tuple[Array, Array], owner: AnyArray, number: AnyArray) -> None:
        """Add choices `[p]` with shares from 0, `[p]` or `[p, B]`, of either sign, which add up to `number` `[E]` at most."""
        self._add((choices.excesses(shares[0], owner, number.size), choices.excesses(shares[1], owner, number.size)), number)

    def _add(self, sums: tuple[Array, Array], number: AnyArray) -> None:
        some = number > 0
        if not some.any():
            return
        self.pairs += int(number.sum())
        for side, own in enumerate(sums):
            self.logs[:, side] += weight_logs(1.0 + own[some] / number[some][:, None]).sum(axis=1)

    def add_single(self, choices: Choices, sign: Array) -> None:
        """Add choices `[p]`, each the only one of its episode, with the sign `[p]` of a later event, 0 if unknown.

        The same as `add`, without a table of choices and sets: a choice of another set has a weight of zero.
        """
        self.pairs += sign.size
        for side, rows in enumerate((np.flatnonzero(sign > 0), np.flatnonzero(sign < 0))):
            chosen = choices.chosen[rows]
            possible = rows.size if choices.possible is None else np.count_nonzero(choices.possible[rows], axis=0)
            for place, log in enumerate(weight_logs(choices.weight[rows])):
                self.logs[place, side] += np.bincount(chosen, weights=log, minlength=choices.sets)
            others = possible - np.bincount(chosen, minlength=choices.sets)
            self.logs[:, side] += weight_logs(np.zeros(1)) * others

    def evidence(self) -> Array:
        """Return log evidence of dependence, `[2 B]`: for each set of actions, on either sign."""
        return log_mean_wealth(self.logs).ravel()


def log_mean_evidence(evidence: Array | Iterable[Array]) -> float:
    """Return the logarithm of the mean of evidences, from their logarithms; minus infinity if there are none."""
    logs = evidence if isinstance(evidence, np.ndarray) else np.concatenate([np.zeros(0), *evidence])
    return float(log_mean_wealth(logs)) if logs.size else -np.inf


def silenced(logs: Array, silent: bool) -> Array:
    """Return log evidences, all of them lost where they are silent: they still count in a mean."""
    return np.full_like(logs, -np.inf) if silent else logs


class ActionRepeats(Sums):
    """Evidence of one kind of pairs; sums add up over batches in any order."""

    adds = ("surprises", "logs", "pairs", "same")

    def __init__(self) -> None:
        self.surprises: Array | None = None
        self.logs: Array | None = None
        self.pairs = 0
        self.same = 0

    def add(self, table: LevelTable, before: AnyArray, now: AnyArray) -> None:
        """Add pairs of decisions `[p]` of a table, the earlier and the later; propensities of the later ones are known."""
        self.pairs += now.size
        previous = table.action[before]
        same = table.action[now] == previous
        self.same += int(same.sum())
        if table.mu_full is not None:
            self.surprises = merged(self.surprises, power_sums(same - table.mu_full[now, previous]))
            return
        again = np.ones(now.size, dtype=np.bool_) if table.available is None else table.available[now, previous]
        # Another action has a weight of zero: counting it is enough.
        logs = weight_logs(1.0 / table.mu_taken[now[same]]).sum(axis=1)
        self.logs = merged(self.logs, logs + weight_logs(np.zeros(1))[:, 0] * np.count_nonzero(again & ~same))

    def evidence(self) -> float:
        """Return the log evidence that actions repeat more or less often than their propensities say."""
        full = -np.inf if self.surprises is None else float(moment_evidence(self.surprises))
        return max(full, -np.inf if self.logs is None else float(log_mean_wealth(self.logs)))
