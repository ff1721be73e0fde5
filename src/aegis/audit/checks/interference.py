"""Interference: do decisions act on rewards of their siblings, or episodes on those of their neighbours or their cluster?

Siblings (theory section 8). The test of carry-over asks whether an action moves later decisions. Here the rewards of
all other decisions of the same parent, and of the same episode, are compared with each action, before it and after it: a
later decision may take what an earlier one earns, and rows without an order may hide which came first. If the legacy reacts
to other decisions, an action moves rewards through the legacy; then rewards are weighted by the inverse of their
propensities, for which a smallest propensity must be declared, or not used.

Windows and clusters (theory section 8). Episodes that share a capacity, or visits of one person, may act on each other's
rewards further off than the next one. A cluster repairs dependence between its episodes, never interference. Consecutive
episodes form blocks of 2, 5, 10 and 20, those of a cluster one group. Blocks do not overlap: products over overlapping
windows do not have mean one, because an action is in several of them.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aegis.audit.batch_view import BatchView, group_starts, in_reward_units
from aegis.audit.betting import DIRECTIONS, REACTS, GroupBets, InterferenceResult, RandomDraws, centre_rewards, find_interference
from aegis.audit.check import FIXED, AuditSetting, Check, Finding, Known, Sums, Thinning, make_finding, tolerate
from aegis.audit.slices import EPISODES, sum_rows
from aegis.problem import AnyArray, Array, Level, LevelTable, Problem

MOST_DECISIONS = 2**16  # of a level that are all read; then some batches only
TOGETHER = math.log(3.0)  # evidence from which choices may not be drawn one after the other
SMALLEST = (0.25, 0.1, 0.04)  # propensities by whose inverses rewards are weighted, where none is declared


def least_chance(level: Level) -> float | None:
    """Return the declared smallest propensity of an available action, None if there is none."""
    spec = level.propensity
    if spec is None or spec.least is not None:
        return None if spec is None else spec.least
    if spec.shares:
        return min(spec.shares) or None
    return None if spec.epsilon is None else spec.epsilon / level.actions.count


class _SiblingBets(Sums):
    """Bets on one kind of groups of one level: on rewards, on weighted rewards, and on the controller's reactions to each."""

    adds = ("reward", "weighted", "reacts", "held")
    lowest = ("smallest",)

    def __init__(self, sets: int, directions: tuple[str, ...]) -> None:
        self.reward = GroupBets(sets, directions)
        self.weighted = {least: GroupBets(sets, directions) for least in range(len(SMALLEST))}
        self.reacts = {name: GroupBets(sets) for name in ("taken", "chance")}
        self.held = {least: GroupBets(sets) for least in range(len(SMALLEST))}
        self.smallest = math.inf  # propensity of an available action, 0 where it is not known


class SiblingInterference(Check):
    """The test that decisions do not act on rewards of others below the same parent or in the same episode, at level alpha."""

    adds = ("kinds",)

    def __init__(self, setting: AuditSetting) -> None:
        super().__init__(setting)
        self.thinning = {level.name: Thinning(MOST_DECISIONS) for level in self.problem.levels if level.propensity is not None}
        self.kinds: dict[tuple[str, str], _SiblingBets] = {}
        # Under 'within' a decision may act on later ones, and its weight says so; none may act on earlier ones.
        self.directions = DIRECTIONS if self.problem.carry_over == "none" else DIRECTIONS[:1]

    def add(self, view: BatchView) -> None:
        """Add the decisions of a batch."""
        for name, thinning in self.thinning.items():
            part = thinning.part(view, name)
            if part is None or not in_reward_units(self.problem, name):
                continue
            table, level = part.batch.levels[name], self.problem.level(name)
            if not (np.isfinite(table.mu_taken).all() and (table.mu_taken > 0).all()):
                continue
            rows = np.flatnonzero(part.fresh_at(name))
            groups = {"episode": part.episodes[name][rows], "parent": table.parent[rows]}
            if name == self.problem.names[0]:
                del groups["parent"]
            for words, group in groups.items():
                first = np.zeros(group.size, dtype=np.bool_)
                first[group_starts(group)] = True
                ends = first | np.roll(first, -1)
                several = ~(first & np.roll(first, -1))
                self._bet(part, level, words, group[several], rows[several])
                if not ends[several].all():  # the first and the last of each group by themselves: effects that come late
                    self._bet(part, level, f"{words}, ends", group[several & ends], rows[several & ends])

    def _bet(self, view: BatchView, level: Level, words: str, group: AnyArray, rows: AnyArray) -> None:
        if not rows.size:
            return
        table = view.batch.levels[level.name].take(rows, rows)
        draws = RandomDraws.of(level, table, view.cuts.shares[level.name])
        kind = self.kinds.setdefault((level.name, words), _SiblingBets(draws.surprise.shape[1], self.directions))
        reward = view.mean_rewards(level.name)[rows]
        result = centre_rewards(reward, view.cuts, level.name)
        kind.reward.add(group, draws.surprise, result, draws.variance)
        for name, reaction in draws.reactions():
            kind.reacts[name].add(group, draws.surprise, reaction, draws.variance)
        if self.directions != DIRECTIONS:
            return
        declared = least_chance(level)
        kind.smallest = min(kind.smallest, _smallest(table)) if declared is None else declared
        for place, least in enumerate(SMALLEST if declared is None else (declared,)):
            if kind.smallest < least and declared is None:
                continue
            share = np.minimum(least / table.mu_taken, 1.0)
            kind.weighted[place].add(group, draws.surprise, result * share, draws.variance)
            # Sets that are drawn anew each time have the same mean weight, no matter which sets others drew.
            kind.held[place].add(group, draws.surprise, draws.taken * share[:, None], draws.variance)

    def findings(self, known: Known) -> list[Finding]:
        """Return the findings, unless decisions carry over, which explains them."""
        if any(item.severity == "refused" for item in known.of("carry-over")):
            return []
        return tolerate(self.problem, self._findings, known.wrong)

    def _findings(self, wrong: Collection[str]) -> list[Finding]:
        """Return the findings of levels whose propensities are not `wrong`."""
        valid = {key: self._valid_bets(key[0], kind) for key, kind in self.kinds.items() if key[0] not in wrong}
        bets = {key: own for key, (own, _) in valid.items() if own is not None}
        result = find_interference(list(bets.values()), self.alpha)
        unsure = {level for (level, _), (_, both) in valid.items() if not both}
        untested = [
            make_finding(
                "rewards-not-compared",
                "warning",
                f"level '{level}': the controller reacts to other decisions of the episode, and how seldom it takes an action is "
                "not known; whether an action acts on later rewards of its episode was not tested",
                level,
            )
            for level in self.problem.names
            if level in unsure
        ]
        if result is None:
            return untested
        level, group = list(bets)[result.place]
        where = "of the same episode" if group.startswith("episode") else "below the same parent"
        declared = self.problem.carry_over
        which, allowed = ("other decisions", "its own") if declared == "none" else ("earlier decisions", "later ones")
        message = (
            f"level '{level}': an action goes with the rewards of {which} {where}; under 'carry_over: {declared}' it acts on "
            f"{allowed} only{result.label}"
        )
        figures = dict(result.figures)
        weighted = any(bets[level, group] is part for part in self.kinds[level, group].weighted.values())
        if weighted and least_chance(self.problem.level(level)) is None:
            figures["test"] = FIXED  # the smallest propensity is observed, not declared: this test may not pause a gate
        return [make_finding("siblings-interfere", result.severity, message, level, figures=figures), *untested]

    def _valid_bets(self, level: str, kind: _SiblingBets) -> tuple[GroupBets | None, bool]:
        """Return the bets on rewards that hold for this controller, None if none do, and whether they look both ways."""
        if self.problem.carry_over != "none":
            return kind.reward, True  # a choice has mean zero given all that came before it, however the controller reacts
        if max(bets.overall() for bets in kind.reacts.values()) < REACTS:
            return kind.reward, True
        declared = least_chance(self.problem.level(level))
        for place, least in enumerate(SMALLEST if declared is None else (declared,)):
            if kind.smallest >= least and kind.held[place].overall() < REACTS:
                return kind.weighted[place], True
        return (kind.reward.only("earlier") if drawn_in_turn(kind.reacts["taken"]) else None), False


def drawn_in_turn(taken: GroupBets) -> bool:
    """Say whether choices look drawn with their probabilities given earlier ones, and not held or only right on average."""
    return taken.only("earlier").overall() < TOGETHER


def _smallest(table: LevelTable) -> float:
    """Return the smallest propensity of an available action, 0 where only that of the action taken is known."""
    if table.mu_full is None:
        return 0.0  # of two actions both are known, but an impossible one looks like a rare one
    known = table.mu_full if table.available is None else table.mu_full[table.available]
    return float(known.min(initial=math.inf))


WINDOW_SIZES = (2, 5, 10, 20)  # of blocks of neighbouring episodes


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """Episodes `[E]` as members of groups: the draws `[q]` of one level in them, how many each has, and the result of each."""

    draws: RandomDraws
    number: AnyArray
    result: Array

    @property
    def owner(self) -> AnyArray:
        """The episode of each draw."""
        return np.repeat(np.arange(self.number.size), self.number)

    def between(self, first: int, last: int) -> GroupMembers:
        """Return the episodes from one up to another."""
        ends = np.concatenate([[0], np.cumsum(self.number)])
        rows = self.draws.rows[:, ends[first] : ends[last]]
        return GroupMembers(RandomDraws(rows), self.number[first:last], self.result[first:last])

    def after(self, earlier: GroupMembers) -> GroupMembers:
        """Return these episodes with earlier ones before them."""
        known = min(len(earlier.draws.rows), len(self.draws.rows))
        rows = np.concatenate([earlier.draws.rows[:known], self.draws.rows[:known]], axis=1)
        number, result = np.concatenate([earlier.number, self.number]), np.concatenate([earlier.result, self.result])
        return GroupMembers(RandomDraws(rows), number, result)

    def mean(self, values: Array) -> Array:
        """Return the means `[E, B]` of values `[q, B]` over the draws of each episode, 0 where there are none."""
        return np.asarray(sum_rows(values, self.owner, self.number.size) / np.maximum(self.number, 1)[:, None])


def group_members(view: BatchView, episodes: AnyArray) -> dict[str, GroupMembers]:
    """Return the members by level, for levels whose propensities are all known in these episodes."""
    members: dict[str, GroupMembers] = {}
    result = centre_rewards(view.mean_rewards()[episodes], view.cuts, EPISODES)
    for level in view.problem.levels:
        rows, owner = view.rows_below(level.name, episodes)
        table = view.batch.levels[level.name].take(rows, rows)
        if level.propensity is None or not rows.size or not (np.isfinite(table.mu_taken) & (table.mu_taken > 0)).all():
            continue
        draws = RandomDraws.of(level, table, view.cuts.shares[level.name])
        members[level.name] = GroupMembers(draws, np.bincount(owner, minlength=episodes.size), result)
    return members


class GroupTest(Sums):
    """Bets on groups of episodes, by level and kind of group, and whether the controller reacts within them.

    All levels and kinds are tested together at level alpha.
    """

    adds: ClassVar[tuple[str, ...]] = ("reward", "mean", "together", "reacts")

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self.reward: dict[tuple[str, int], GroupBets] = {}  # each draw of an episode is a factor
        self.mean: dict[tuple[str, int], GroupBets] = {}  # their mean is, which holds also if they go together
        self.together: dict[str, GroupBets] = {}  # whether the draws of one episode go together
        self.reacts: dict[tuple[str, int, str], GroupBets] = {}

    def add_groups(self, level: str, kind: int, group: AnyArray, members: GroupMembers) -> None:
        """Add members of whole groups, one group after the other."""
        draws, owner, sets = members.draws, members.owner, members.draws.surprise.shape[1]
        self.reward.setdefault((level, kind), GroupBets(sets)).add(group, draws.surprise, members.result, draws.variance, owner)
        if int(members.number.max(initial=0)) > 1:
            bets = self.mean.setdefault((level, kind), GroupBets(sets))
            bets.add(group, members.mean(draws.surprise), members.result, None, bounded=draws.variance is not None)
        for name, reaction in draws.reactions():
            bets = self.reacts.setdefault((level, kind, name), GroupBets(sets))
            bets.add(group, draws.surprise, members.mean(reaction), draws.variance, owner)

    def add_draws(self, level: str, members: GroupMembers) -> None:
        """Add the draws of episodes, to see whether those of one episode go together."""
        draws = members.draws
        bets = self.together.setdefault(level, GroupBets(draws.surprise.shape[1]))
        bets.add(members.owner, draws.surprise, draws.taken, draws.variance)

    def joined(self) -> set[str]:
        """Return the levels whose draws in one episode may go together: only their mean is bet on."""
        return {level for level, bets in self.together.items() if bets.overall() >= TOGETHER}

    def reacting(self) -> set[str]:
        """Return the levels at which the controller reacts to other members: rewards prove nothing about actions there."""
        return {level for (level, _, _), bets in self.reacts.items() if bets.overall() >= REACTS}

    def result(self, wrong: Collection[str]) -> tuple[InterferenceResult, str, int] | None:
        """Return what bets on rewards show, the level and the kind of group; None for nothing.

        Levels `wrong` are left out. Where the controller reacts to other members, actions move later rewards through it: only
        earlier ones are bet on.
        """
        reacting, joined = self.reacting(), self.joined()
        valid: dict[tuple[str, int], GroupBets] = {}
        for key, bets in self.reward.items():
            if key[0] in wrong:
                continue
            mean = self.mean.get(key)
            own = bets if mean is None else mean.beside(bets, key[0] not in joined)
            if key[0] not in reacting:
                valid[key] = own
            elif drawn_in_turn(self.reacts[*key, "taken"]):
                valid[key] = own.only("earlier")
        result = find_interference(list(valid.values()), self.alpha)
        return None if result is None else (result, *list(valid)[result.place])


def not_compared(levels: Collection[str], whom: str) -> list[Finding]:
    """Return a warning for each level whose actions could not be compared with the rewards of later episodes."""
    return [
        make_finding(
            "episodes-not-compared",
            "warning",
            f"level '{level}': the controller reacts to {whom}; whether episodes act on the rewards of later ones was not tested",
            level,
        )
        for level in sorted(levels)
    ]


class WindowInterference(GroupTest):
    """The test of independence within blocks of neighbouring episodes."""

    def __init__(self, alpha: float) -> None:
        super().__init__(alpha)
        self.rest: dict[tuple[str, int], GroupMembers] = {}

    def add(self, view: BatchView, order: AnyArray) -> None:
        """Add episodes in their order; those that do not fill a block wait for the next batch."""
        order = order[view.fresh[order]]
        if not order.size:
            return
        for level, members in group_members(view, order).items():
            self.add_draws(level, members)
            for size in WINDOW_SIZES:
                waiting = self.rest.get((level, size))
                own = members if waiting is None else members.after(waiting)
                full = own.result.size // size * size
                self.add_groups(level, size, np.arange(full) // size, own.between(0, full))
                self.rest[level, size] = own.between(full, own.result.size)

    def merge(self, other: WindowInterference) -> None:
        """Add the bets on later episodes; a block with episodes here and there is left out."""
        super().merge(other)
        self.rest = {}

    def findings(self, order: str, wrong: Collection[str] = ()) -> list[Finding]:
        """Return the findings. order: of the episodes, in words. Levels whose propensities are `wrong` prove nothing."""
        decided = self.result(wrong)
        if decided is None:
            return []
        result, level, size = decided
        message = (
            f"actions of level '{level}' go with the rewards of other episodes among {size} neighbours ({order}): episodes act "
            f"on each other{result.label}"
        )
        figures = {**result.figures, "episodes": float(size)}
        return [make_finding("neighbours-interfere", result.severity, message, level, figures=figures)]


class ClusterInterference(GroupTest):
    """The test of interference between episodes of one cluster; of clusters within a batch."""

    adds = (*GroupTest.adds, "followed")

    def __init__(self, problem: Problem, alpha: float) -> None:
        super().__init__(alpha)
        self.problem = problem
        self.followed: dict[str, GroupBets] = {}

    def add(self, view: BatchView, order: AnyArray) -> None:
        """Add the episodes of a batch; order `[E]`: all of them, in the order of time or of the log."""
        if view.batch.cluster is None:
            return
        order = order[view.fresh[order]]
        _, cluster, sizes = np.unique(view.batch.cluster[order], return_inverse=True, return_counts=True)
        arranged = np.argsort(cluster, kind="stable")
        if sizes.size == cluster.size:  # every cluster has one episode
            return
        group = cluster[arranged]
        more = np.where(np.append(group[1:] == group[:-1], False), 1.0, -1.0)
        for level, members in group_members(view, order[arranged]).items():
            self.add_draws(level, members)
            self.add_groups(level, 0, group, members)
            bet_on_next(self.followed, level, members, more)

    def findings(self, order: str, wrong: Collection[str] = ()) -> list[Finding]:
        """Return the findings. order: of the episodes, in words. Levels whose propensities are `wrong` prove nothing."""
        decided = self.result(wrong)
        if decided is None:
            return []
        result, level, _ = decided
        # A declared size makes claims about totals, which may end after a success: then numbers alone may explain this.
        ends = self.problem.cluster_most is not None and self.followed[level].overall() >= REACTS
        why = "; whether a cluster goes on depends on actions too, which may explain it" if ends else ""
        message = (
            f"an action of level '{level}' goes with the rewards of other episodes of its cluster ({order}): episodes of a "
            f"cluster act on each other{result.label}{why}"
        )
        severity, column = "warning" if ends else result.severity, self.problem.cluster_name
        return [make_finding("cluster-interferes", severity, message, level, column, figures=result.figures)]


def bet_on_next(bets: dict[str, GroupBets], level: str, members: GroupMembers, result: Array) -> None:
    """Bet that the draws of a level act on something `[E]` in [-1, 1] that comes after each episode."""
    draws = members.draws
    own = bets.setdefault(level, GroupBets(draws.surprise.shape[1], ("next",)))
    own.add_single(draws.surprise, result, draws.variance is not None, members.owner)
