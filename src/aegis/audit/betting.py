"""Bets on random choices: does what comes later depend on an action that was drawn at random, and do actions repeat?

One factor per episode. The weight w of a policy that chooses from a set B of actions has mean one given everything before
the draw, so that (w - 1) s has mean zero for every s in [0, 1] that the action cannot influence. So has its mean over the
decisions of an episode, also where propensities are given the actions above only. It is at least -1, which is all that
betting upwards needs; betting on s and on 1 - s finds a dependence of either direction. Without overlap the mean is below
zero, and nothing is found by mistake.

Repeats. Given everything before it, a decision takes the action of an earlier one with that action's own propensity. With
the whole distribution known, the surprise has mean zero; with the propensity of the action taken only, the weight of "the
same again" has mean one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from aegis.audit.batch_view import Mask
from aegis.audit.slices import sum_rows
from aegis.evidence import WEIGHT_STAKES, log_mean_wealth, moment_evidence, power_sums, weight_logs
from aegis.problem import AnyArray, Array, Level, LevelTable

Key = TypeVar("Key")

MOST_SETS = 8  # of actions; more actions are taken together with their neighbours


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
        """Return the choices of the decisions of a table, from at most so many sets.

        With the whole distribution the policy of a set is the behaviour policy within it; else a uniform choice from it. Of
        two actions the probability of one says that of the other.
        """
        actions, sets, rows = level.actions.count, set_count(level, most), np.arange(len(table))
        member = set_of(level, np.arange(actions), most)
        chosen = member[table.action]
        inside = np.zeros((actions, sets))
        inside[np.arange(actions), member] = 1.0
        if table.mu_full is not None:
            chance = table.mu_full @ inside
            return cls(chosen, 1.0 / chance[rows, chosen], sets, chance > 0, chance)
        if knows_chances(level, table):
            chance = np.where(np.arange(2) == table.action[:, None], table.mu_taken[:, None], 1.0 - table.mu_taken[:, None])
            return cls(chosen, 1.0 / table.mu_taken, sets, chance > 0, chance)
        if table.available is None:
            return cls(chosen, 1.0 / (np.bincount(member, minlength=sets)[chosen] * table.mu_taken), sets)
        number = table.available @ inside
        return cls(chosen, 1.0 / (number[rows, chosen] * table.mu_taken), sets, number > 0)

    @classmethod
    def weighted(cls, weight: Array) -> Choices:
        """Return the choices of a policy with these weights, as one set."""
        return cls(np.zeros(weight.size, dtype=np.int64), weight, 1)

    def excess(self) -> Array:
        """Return weights minus one, `[p, B]`; 0 where a set is not possible."""
        found = np.where(np.arange(self.sets) == self.chosen[:, None], self.weight[:, None], 0.0) - 1.0
        return found if self.possible is None else np.where(self.possible, found, 0.0)

    def excesses(self, share: Array, owner: AnyArray, count: int) -> Array:
        """Return the sums `[count, B]` over the choices of each owner of the excess times a share, `[p]` or `[p, B]`."""
        if share.ndim > 1:
            return sum_rows(self.excess() * share, owner, count)
        # All sets but the one chosen have an excess of minus one: that needs no table of choices and sets.
        place = owner * np.int64(self.sets) + self.chosen
        above = np.bincount(place, weights=self.weight * share, minlength=count * self.sets)
        found = above.astype(np.float64, copy=False).reshape(count, self.sets)
        if self.possible is None:
            found -= np.bincount(owner, weights=share, minlength=count)[:, None]
        else:
            found -= sum_rows(self.possible * share[:, None], owner, count)
        return found

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
        return Choices(
            self.chosen[rows], self.weight[rows], self.sets, possible, None if self.chance is None else self.chance[rows]
        )


def knows_chances(level: Level, table: LevelTable) -> bool:
    """Say whether the probabilities of all actions are known: logged, or of two actions that of one."""
    return table.mu_full is not None or (level.actions.count == 2 and (table.available is None or bool(table.available.all())))


def set_count(level: Level, most: int = MOST_SETS) -> int:
    """Return how many sets the actions of a level are put into."""
    return min(level.actions.count, most)


def set_of(level: Level, action: AnyArray, most: int = MOST_SETS) -> AnyArray:
    """Return the set `[p]` that each action `[p]` of a level is in."""
    member: AnyArray = np.arange(level.actions.count) * set_count(level, most) // level.actions.count
    return member[action]


class EpisodeBets:
    """Evidence about one sign, for each set of actions; sums add up over batches in any order."""

    def __init__(self, sets: int) -> None:
        self.logs = np.zeros((WEIGHT_STAKES.size, 2, sets))
        self.pairs = 0

    def add(self, choices: Choices, sign: Array, owner: AnyArray, count: int) -> None:
        """Add choices `[p]` of `count` episodes with the sign `[p]` of what came later.

        owner `[p]`: the episode of each choice. A sign of 0 says nothing, for example because a reward is missing.
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
        for side, found in enumerate(sums):
            self.logs[:, side] += weight_logs(1.0 + found[some] / number[some][:, None]).sum(axis=1)

    def add_single(self, choices: Choices, sign: Array) -> None:
        """Add choices `[p]`, each the only one of its episode, with the sign `[p]` of what came later, 0 if unknown.

        The same as `add`, without a table of choices and sets: a choice of another set has a weight of zero.
        """
        self.pairs += sign.size
        for side, chosen in enumerate((sign > 0, sign < 0)):
            rows = np.flatnonzero(chosen)
            self._add_counts(side, choices, rows, np.bincount(choices.chosen[rows], minlength=choices.sets))

    def _add_counts(self, side: int, choices: Choices, rows: AnyArray, taken: AnyArray) -> None:
        possible = rows.size if choices.possible is None else np.count_nonzero(choices.possible[rows], axis=0)
        for place, log in enumerate(weight_logs(choices.weight[rows])):
            self.logs[place, side] += np.bincount(choices.chosen[rows], weights=log, minlength=choices.sets)
        self.logs[:, side] += weight_logs(np.zeros(1)) * (possible - taken)

    def merge(self, other: EpisodeBets) -> None:
        """Add the bets of another on the same sign."""
        self.logs = self.logs + other.logs
        self.pairs += other.pairs

    def evidence(self) -> Array:
        """Return log evidence of dependence, `[2 B]`: for each set of actions, on either sign."""
        return log_mean_wealth(self.logs).ravel()


def merge_bets(bets: dict[Key, EpisodeBets], others: Mapping[Key, EpisodeBets]) -> None:
    """Add other bets to those of the same key; new keys come after those that are there."""
    for key, other in others.items():
        if key in bets:
            bets[key].merge(other)
        else:
            bets[key] = other


def log_mean_evidence(evidence: Array) -> float:
    """Return the logarithm of the mean of evidences, whose logarithms are given; minus infinity of none."""
    return float(log_mean_wealth(evidence)) if evidence.size else -np.inf


class ActionRepeats:
    """Evidence of one kind of pairs; sums add up over batches in any order."""

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
            found = power_sums(same - table.mu_full[now, previous])
            self.surprises = found if self.surprises is None else self.surprises + found
            return
        again = np.ones(now.size, dtype=np.bool_) if table.available is None else table.available[now, previous]
        # All that is not the same has a weight of zero: counting it is enough.
        logs = weight_logs(1.0 / table.mu_taken[now[same]]).sum(axis=1)
        logs = logs + weight_logs(np.zeros(1))[:, 0] * np.count_nonzero(again & ~same)
        self.logs = logs if self.logs is None else self.logs + logs

    def merge(self, other: ActionRepeats) -> None:
        """Add the pairs of another of the same kind."""
        self.surprises = plus(self.surprises, other.surprises)
        self.logs = plus(self.logs, other.logs)
        self.pairs += other.pairs
        self.same += other.same

    def evidence(self) -> float:
        """Return the logarithm of the evidence that the propensities do not say how often actions come again."""
        full = -np.inf if self.surprises is None else float(moment_evidence(self.surprises))
        return max(full, -np.inf if self.logs is None else float(log_mean_wealth(self.logs)))


def plus(one: Array | None, other: Array | None) -> Array | None:
    """Return the sum of what is there."""
    return other if one is None else one if other is None else one + other
