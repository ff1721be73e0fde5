"""Do decisions of one episode act on each other's rewards, in any order? (theory section 16)

The test of carry-over asks whether an action moves what comes after it. Here the rewards of all other decisions of the same
parent, and of the same episode, are compared with each action, before it and after it: a later decision may take what an earlier
one earns, and rows without an order may hide which came first. If the controller reacts to other decisions, an action moves
rewards through the controller. Then rewards are weighted by the inverse of their propensities, of which the smallest is declared
or, with whole distributions, seen. Where neither is known, each action is compared with the rewards before it alone, and the
audit says what was not compared.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from aegis.audit.bets import Choices, knows_chances, set_of
from aegis.audit.cuts import Cuts
from aegis.audit.finding import FIXED, Finding, finding
from aegis.audit.group_bets import DIRECTIONS, GroupBets, figures, interfering
from aegis.audit.thinning import Thinning
from aegis.audit.view import View, in_reward_units
from aegis.problem import AnyArray, Array, Level, LevelTable, Problem

MOST_DECISIONS = 2**16  # of a level that are all looked at; then some batches only
REACTS = math.log(20.0)  # evidence from which the controller counts as reacting to other members
TOGETHER = math.log(3.0)  # evidence from which choices may not be drawn one after the other
SMALLEST = (0.25, 0.1, 0.04)  # propensities by whose inverses rewards are weighted, where none is declared


@dataclass(frozen=True, slots=True)
class Draws:
    """The random choices `[p, B]` of decisions among sets of actions, halves first.

    surprise: what was chosen minus its probability, whose `variance` is then known; else the excess of its weight, from -1, and
    no variance. taken: what was chosen minus its usual share; chance: its probability minus that share, None if it is not known.
    """

    surprise: Array
    taken: Array
    chance: Array | None
    variance: Array | None

    @classmethod
    def of(cls, level: Level, table: LevelTable, shares: Sequence[float]) -> Draws:
        """Return the draws of a table; shares `[A]`: how often each action is usually taken."""
        parts = [_columns(level, table, most, shares) for most in ((2, 8) if level.actions.count > 2 else (2,))]
        surprise, taken, chance, variance = (np.concatenate(columns, axis=1) for columns in zip(*parts, strict=True))
        return cls(surprise, taken, chance, variance) if knows_chances(level, table) else cls(surprise, taken, None, None)

    def reactions(self) -> Iterator[tuple[str, Array]]:
        """Yield results `[p, B]` that only a controller which reacts to other members makes depend on their actions."""
        yield "taken", self.taken
        if self.chance is not None:
            yield "chance", self.chance


def _columns(level: Level, table: LevelTable, most: int, shares: Sequence[float]) -> tuple[Array, ...]:
    choices = Choices.of(level, table, most)
    usual = np.bincount(set_of(level, np.arange(len(shares)), most), weights=np.asarray(shares), minlength=choices.sets)
    taken = (np.arange(choices.sets) == choices.chosen[:, None]).astype(np.float64)
    first = int(choices.chance is not None and choices.sets == 2)  # of two sets with known probabilities one says it all
    if choices.chance is None:
        surprise, chance = choices.excess(), taken
    else:
        surprise, chance = taken - choices.chance, choices.chance
    return tuple(part[:, first:] for part in (surprise, taken - usual, chance - usual, chance * (1.0 - chance)))


def centred(values: Array, cuts: Cuts, level: str) -> Array:
    """Return mean rewards on a scale on which the usual one is 0 and two spreads are 1, clipped there; 0 where not known."""
    centre, spread = cuts.centre[level], cuts.spread[level]
    scaled = np.clip((values / 4.0 - centre / 4.0) / (spread / 2.0), -1.0, 1.0)  # differences of large numbers do not overflow
    return np.nan_to_num(scaled, nan=0.0)


def least_chance(level: Level) -> float | None:
    """Return the declared smallest propensity of an available action, None if there is none."""
    given = level.propensity
    if given is None or given.least is not None:
        return None if given is None else given.least
    if given.shares:
        return min(given.shares) or None
    return None if given.epsilon is None else given.epsilon / level.actions.count


class _Kind:
    """Bets on one kind of groups of one level: on rewards, on weighted rewards, and on the controller's reactions to each."""

    def __init__(self, sets: int, directions: tuple[str, ...]) -> None:
        self.reward = GroupBets(sets, directions)
        self.weighted = [GroupBets(sets, directions) for _ in SMALLEST]
        self.reacts = {name: GroupBets(sets) for name in ("taken", "chance")}
        self.held = [GroupBets(sets) for _ in SMALLEST]
        self.seen = math.inf  # the smallest propensity of an available action, 0 where it is not known

    def merge(self, other: _Kind) -> None:
        """Add the bets on other groups."""
        self.reward.merge(other.reward)
        for own, more in zip([*self.weighted, *self.held], [*other.weighted, *other.held], strict=True):
            own.merge(more)
        for name, bets in self.reacts.items():
            bets.merge(other.reacts[name])
        self.seen = min(self.seen, other.seen)


class Siblings:
    """The test that decisions do not act on rewards of others below the same parent or in the same episode, at level alpha."""

    def __init__(self, problem: Problem, alpha: float) -> None:
        self.problem, self.alpha = problem, alpha
        self.thinning = {level.name: Thinning(MOST_DECISIONS) for level in problem.levels if level.propensity is not None}
        self.kinds: dict[tuple[str, str], _Kind] = {}
        # Under 'within' a decision may act on later ones, and its weight says so; none may act on earlier ones.
        self.directions = DIRECTIONS if problem.carry_over == "none" else DIRECTIONS[:1]

    def add(self, view: View) -> None:
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
                first = np.append(True, group[1:] != group[:-1]) if group.size else np.zeros(0, dtype=np.bool_)
                ends = first | np.roll(first, -1)
                several = ~(first & np.roll(first, -1))
                self._bet(part, level, words, group[several], rows[several])
                if not ends[several].all():  # the first and the last of each group by themselves: what comes late
                    self._bet(part, level, f"{words}, ends", group[several & ends], rows[several & ends])

    def _bet(self, view: View, level: Level, words: str, group: AnyArray, rows: AnyArray) -> None:
        if not rows.size:
            return
        table = view.batch.levels[level.name].take(rows, rows)
        draws = Draws.of(level, table, view.cuts.shares[level.name])
        kind = self.kinds.setdefault((level.name, words), _Kind(draws.surprise.shape[1], self.directions))
        reward = view.rewards_below(level.name)[rows]
        result = centred(reward, view.cuts, level.name)
        kind.reward.add(group, draws.surprise, result, draws.variance)
        for name, reaction in draws.reactions():
            kind.reacts[name].add(group, draws.surprise, reaction, draws.variance)
        if self.directions != DIRECTIONS:
            return
        declared = least_chance(level)
        kind.seen = min(kind.seen, _smallest(table)) if declared is None else declared
        for place, least in enumerate(SMALLEST if declared is None else (declared,)):
            if kind.seen < least and declared is None:
                continue
            share = np.minimum(least / table.mu_taken, 1.0)
            kind.weighted[place].add(group, draws.surprise, result * share, draws.variance)
            # Sets that are drawn anew each time have the same mean weight, whatever others drew.
            kind.held[place].add(group, draws.surprise, draws.taken * share[:, None], draws.variance)

    def merge(self, other: Siblings) -> None:
        """Add what was found in other episodes, with the same cuts."""
        for key, kind in other.kinds.items():
            if key not in self.kinds:
                self.kinds[key] = kind
                continue
            self.kinds[key].merge(kind)

    def findings(self, wrong: Collection[str] = ()) -> list[Finding]:
        """Return what was found; levels whose propensities are `wrong` say nothing."""
        known = {key: self._believed(key[0], kind) for key, kind in self.kinds.items() if key[0] not in wrong}
        bets = {key: own for key, (own, _) in known.items() if own is not None}
        found = interfering(list(bets.values()), self.alpha)
        untested = self._untested({level for (level, _), (_, both) in known.items() if not both})
        if found is None:
            return untested
        level, group = list(bets)[found.place]
        where = "of the same episode" if group.startswith("episode") else "below the same parent"
        declared = self.problem.carry_over
        which, allowed = ("other decisions", "its own") if declared == "none" else ("earlier decisions", "later ones")
        message = (
            f"level '{level}': an action goes with the rewards of {which} {where}; under 'carry_over: {declared}' it acts on "
            f"{allowed} only{found.label}"
        )
        own = figures(bets[level, group], found)
        weighted = any(bets[level, group] is part for part in self.kinds[level, group].weighted)
        if weighted and least_chance(self.problem.level(level)) is None:
            own["test"] = FIXED  # the smallest propensity was seen and not declared: not a test that may pause a gate
        return [finding("siblings-interfere", found.severity, message, level, figures=own), *untested]

    def _untested(self, levels: Collection[str]) -> list[Finding]:
        """Return a warning for each of the levels at which rewards could not be compared with earlier actions."""
        return [
            finding(
                "rewards-not-compared",
                "warning",
                f"level '{level}': the controller reacts to other decisions of the episode, and how seldom it takes an action is "
                "not known; whether an action acts on later rewards of its episode was not tested",
                level,
            )
            for level in self.problem.names
            if level in levels
        ]

    def _believed(self, level: str, kind: _Kind) -> tuple[GroupBets | None, bool]:
        """Return the bets on rewards that hold for this controller, None if none do, and whether they look both ways."""
        if self.problem.carry_over != "none":
            return kind.reward, True  # a choice has mean zero given all that came before it, however the controller reacts
        if max(bets.overall() for bets in kind.reacts.values()) < REACTS:
            return kind.reward, True
        declared = least_chance(self.problem.level(level))
        for place, least in enumerate(SMALLEST if declared is None else (declared,)):
            if kind.seen >= least and kind.held[place].overall() < REACTS:
                return kind.weighted[place], True
        return (kind.reward.only("earlier") if drawn_in_turn(kind.reacts["taken"]) else None), False


def drawn_in_turn(taken: GroupBets) -> bool:
    """Say whether choices look drawn with their probabilities given earlier ones, and not held or only right on average."""
    return taken.only("earlier").overall() < TOGETHER


def _smallest(table: LevelTable) -> float:
    """Return the smallest propensity of an available action, 0 where only that of the action taken is known."""
    if table.mu_full is None:
        return 0.0  # of two actions both are known, but a row in which one is impossible is not told from one in which it is rare
    known = table.mu_full if table.available is None else table.mu_full[table.available]
    return float(known.min(initial=math.inf))
