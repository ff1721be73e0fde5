"""Do episodes act on each other within a window of neighbours, or within a cluster? (theory section 16)

Episodes that share a capacity, or visits of one person, may act on each other's rewards further off than the next one. A
cluster repairs dependence between its episodes, never interference. Consecutive episodes form blocks of 2, 5, 10 and 20, those
of a cluster one group, and each action is compared with the mean rewards of the other episodes of its group. Blocks do not
overlap: products over overlapping windows do not have mean one, because an action is in several of them.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from aegis.audit.cells import summed
from aegis.audit.cuts import EPISODES
from aegis.audit.finding import Finding, finding
from aegis.audit.group_bets import GroupBets, figures, interfering
from aegis.audit.siblings import REACTS, TOGETHER, Draws, centred, drawn_in_turn
from aegis.audit.view import View
from aegis.problem import AnyArray, Array, Problem

SIZES = (2, 5, 10, 20)  # of blocks of neighbouring episodes


@dataclass(frozen=True, slots=True)
class Members:
    """Episodes `[E]` as members of groups: the draws `[q]` of one level in them, whose they are, and the result of each."""

    draws: Draws
    number: AnyArray
    result: Array

    @property
    def owner(self) -> AnyArray:
        """The episode of each draw."""
        return np.repeat(np.arange(self.number.size), self.number)

    def between(self, first: int, last: int) -> Members:
        """Return the episodes from one up to another."""
        ends = np.concatenate([[0], np.cumsum(self.number)])
        rows = slice(int(ends[first]), int(ends[last]))
        draws = self.draws
        known = [None if part is None else part[rows] for part in (draws.chance, draws.variance)]
        return Members(Draws(draws.surprise[rows], draws.taken[rows], *known), self.number[first:last], self.result[first:last])

    def after(self, earlier: Members) -> Members:
        """Return these episodes with earlier ones before them."""
        own, other = self.draws, earlier.draws
        surprise, taken = np.concatenate([other.surprise, own.surprise]), np.concatenate([other.taken, own.taken])
        parts = ((other.chance, own.chance), (other.variance, own.variance))
        known = [None if one is None or two is None else np.concatenate([one, two]) for one, two in parts]
        number, result = np.concatenate([earlier.number, self.number]), np.concatenate([earlier.result, self.result])
        return Members(Draws(surprise, taken, *known), number, result)

    def mean(self, values: Array) -> Array:
        """Return the means `[E, B]` of values `[q, B]` over the draws of each episode, 0 where there are none."""
        return np.asarray(summed(values, self.owner, self.number.size) / np.maximum(self.number, 1)[:, None])


def members_of(view: View, episodes: AnyArray) -> dict[str, Members]:
    """Return the members by level, for levels whose propensities are all known in these episodes."""
    found: dict[str, Members] = {}
    result = centred(view.episode_rewards()[episodes], view.cuts, EPISODES)
    for level in view.problem.levels:
        rows, owner = view.rows_below(level.name, episodes)
        table = view.batch.levels[level.name].take(rows, rows)
        if level.propensity is None or not rows.size or not (np.isfinite(table.mu_taken) & (table.mu_taken > 0)).all():
            continue
        draws = Draws.of(level, table, view.cuts.shares[level.name])
        found[level.name] = Members(draws, np.bincount(owner, minlength=episodes.size), result)
    return found


class GroupTest:
    """Bets on groups of episodes, by level and kind of group, and whether the controller reacts within them."""

    def __init__(self) -> None:
        self.reward: dict[tuple[str, Hashable], GroupBets] = {}  # each draw of an episode is a factor
        self.mean: dict[tuple[str, Hashable], GroupBets] = {}  # their mean is, which holds also if they go together
        self.together: dict[str, GroupBets] = {}
        self.reacts: dict[tuple[str, Hashable, str], GroupBets] = {}

    def add(self, level: str, kind: Hashable, group: AnyArray, members: Members) -> None:
        """Add members of whole groups, one group after the other."""
        draws, owner, sets = members.draws, members.owner, members.draws.surprise.shape[1]
        self.reward.setdefault((level, kind), GroupBets(sets)).add(group, draws.surprise, members.result, draws.variance, owner)
        if int(members.number.max(initial=0)) > 1:
            bets = self.mean.setdefault((level, kind), GroupBets(sets))
            bets.add(group, members.mean(draws.surprise), members.result, None, bounded=draws.variance is not None)
        for name, reaction in draws.reactions():
            bets = self.reacts.setdefault((level, kind, name), GroupBets(sets))
            bets.add(group, draws.surprise, members.mean(reaction), draws.variance, owner)

    def add_draws(self, level: str, members: Members) -> None:
        """Add the draws of episodes, to see whether those of one episode go together."""
        draws = members.draws
        bets = self.together.setdefault(level, GroupBets(draws.surprise.shape[1]))
        bets.add(members.owner, draws.surprise, draws.taken, draws.variance)

    def merge(self, other: GroupTest) -> None:
        """Add the bets on other groups."""
        _merge(self.reward, other.reward)
        _merge(self.mean, other.mean)
        _merge(self.together, other.together)
        _merge(self.reacts, other.reacts)

    def joined(self) -> set[str]:
        """Return the levels whose draws in one episode may go together: only their mean is bet on."""
        return {level for level, bets in self.together.items() if bets.overall() >= TOGETHER}

    def reacting(self) -> set[str]:
        """Return the levels at which the controller reacts to other members: their rewards say nothing about actions."""
        return {level for (level, _, _), bets in self.reacts.items() if bets.overall() >= REACTS}

    def bets(self, wrong: Collection[str]) -> dict[tuple[str, Hashable], GroupBets]:
        """Return the bets on rewards by level and kind of group, but for levels `wrong`.

        Where the controller reacts to other members, actions move later rewards through it: only earlier ones are bet on.
        """
        reacting, joined = self.reacting(), self.joined()
        found: dict[tuple[str, Hashable], GroupBets] = {}
        for key, bets in self.reward.items():
            if key[0] in wrong:
                continue
            mean = self.mean.get(key)
            own = bets if mean is None else mean.beside(bets, key[0] not in joined)
            if key[0] not in reacting:
                found[key] = own
            elif drawn_in_turn(self.reacts[*key, "taken"]):
                found[key] = own.only("earlier")
        return found


def not_compared(levels: Collection[str], whom: str) -> list[Finding]:
    """Return a warning for each level whose actions could not be compared with the rewards of later episodes."""
    return [
        finding(
            "episodes-not-compared",
            "warning",
            f"level '{level}': the controller reacts to {whom}; whether episodes act on the rewards of later ones was not tested",
            level,
        )
        for level in sorted(levels)
    ]


def _merge(bets: dict, others: Mapping) -> None:  # type: ignore[type-arg]
    for key, other in others.items():
        if key in bets:
            bets[key].merge(other)
        else:
            bets[key] = other


class Windows:
    """The test of independence within blocks of neighbouring episodes, all levels and sizes together at level alpha."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self.test = GroupTest()
        self.rest: dict[tuple[str, int], Members] = {}

    def add(self, view: View, order: AnyArray) -> None:
        """Add episodes in their order; those that do not fill a block are kept for the next batch."""
        order = order[view.fresh[order]]
        if not order.size:
            return
        for level, members in members_of(view, order).items():
            self.test.add_draws(level, members)
            for size in SIZES:
                kept = self.rest.get((level, size))
                own = members if kept is None else members.after(kept)
                full = own.result.size // size * size
                self.test.add(level, size, np.arange(full) // size, own.between(0, full))
                self.rest[level, size] = own.between(full, own.result.size)

    def merge(self, other: Windows) -> None:
        """Add what was found in later episodes; a block of which a part is here and a part there is left out."""
        self.test.merge(other.test)
        self.rest = {}

    def findings(self, order: str, wrong: Collection[str] = ()) -> list[Finding]:
        """Return what was found. order: of the episodes, in words. Levels whose propensities are `wrong` say nothing."""
        bets = self.test.bets(wrong)
        found = interfering(list(bets.values()), self.alpha)
        if found is None:
            return []
        level, size = list(bets)[found.place]
        message = (
            f"actions of level '{level}' go with the rewards of other episodes among {size} neighbours ({order}): episodes act "
            f"on each other{found.label}"
        )
        own = figures(bets[level, size], found)
        return [finding("neighbours-interfere", found.severity, message, level, figures=own, episodes=float(str(size)))]


class ClusterMates:
    """The test of interference between episodes of one cluster, at level alpha; of clusters within a batch."""

    def __init__(self, problem: Problem, alpha: float) -> None:
        self.problem, self.alpha = problem, alpha
        self.test = GroupTest()
        self.followed: dict[str, GroupBets] = {}

    def add(self, view: View, order: AnyArray) -> None:
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
        for level, members in members_of(view, order[arranged]).items():
            self.test.add_draws(level, members)
            self.test.add(level, "cluster", group, members)
            followed = self.followed.setdefault(level, GroupBets(members.draws.surprise.shape[1], ("next",)))
            followed.add_single(members.draws.surprise, more, members.draws.variance is not None, members.owner)

    def merge(self, other: ClusterMates) -> None:
        """Add what was found in other episodes."""
        self.test.merge(other.test)
        _merge(self.followed, other.followed)

    def findings(self, order: str, wrong: Collection[str] = ()) -> list[Finding]:
        """Return what was found. order: of the episodes, in words. Levels whose propensities are `wrong` say nothing."""
        bets = self.test.bets(wrong)
        found = interfering(list(bets.values()), self.alpha)
        if found is None:
            return []
        level, kind = list(bets)[found.place]
        # A declared size makes claims about totals, which may end after a success: then numbers alone may explain this.
        ends = self.problem.cluster_most is not None and self.followed[level].overall() >= REACTS
        why = "; whether a cluster goes on depends on actions too, which may explain it" if ends else ""
        message = (
            f"an action of level '{level}' goes with the rewards of other episodes of its cluster ({order}): episodes of a "
            f"cluster act on each other{found.label}{why}"
        )
        own, severity = figures(bets[level, kind], found), "warning" if ends else found.severity
        return [finding("cluster-interferes", severity, message, level, self.problem.cluster_name, figures=own)]
