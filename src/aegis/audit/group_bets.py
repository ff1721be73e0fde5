"""Bets within groups: does an action act on results of other members of its group, sibling decisions or episodes?

A group is a set of members, each with a random choice and a result. v is what was chosen minus its probability, or the
excess of a weight. Its mean is zero given everything but that choice, if the choice acts on no other member's result and
the legacy does not react to it. So `1 + stake * v * g` has mean one for every g in [-1, 1] that other members' results
make. Members are multiplied one after the other: each with the results of those before it (later choices that act on
earlier results), and, in a product of its own, with the results of those after it. Either product over a group has mean one
given earlier groups: the evidence holds after every group, at any time.

A score looks at both at once: over all pairs of a group, choices times results of others have mean zero given earlier
groups. Their sum divided by its own spread follows Student's t in large samples; it holds for a log of fixed length only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from aegis.audit.batch_view import group_starts
from aegis.audit.betting import Choices, knows_chances, log_mean_evidence, set_members
from aegis.audit.finding import ANYTIME, FIXED, Severity
from aegis.audit.slices import Cuts, sum_rows
from aegis.audit.sums import Sums
from aegis.evidence import log_mean_wealth
from aegis.problem import AnyArray, Array, Level, LevelTable

WARNS = 0.01  # share of logs in order of which a score warns
FEWEST = 50  # groups, below which a score says little
STAKES = np.array([0.9, 0.45, 0.2, 0.05, 0.0125])
DIRECTIONS = ("earlier", "later")  # whose results a choice is compared with


class GroupBets(Sums):
    """Evidence that choices go with results of other members, by direction, sign and set of actions; sums add up.

    directions: which of the two products are formed.
    """

    adds = ("logs", "sums", "groups", "members")

    def __init__(self, sets: int, directions: tuple[str, ...] = DIRECTIONS) -> None:
        self.directions = directions
        self.logs = np.zeros((STAKES.size, len(directions), 2, sets))
        # Over groups: choices times results of others, squares of that, their variance given the results, and that of choices;
        # results and choices times the number of others, results and choices, and the numbers themselves.
        self.sums = np.zeros((9, sets))
        self.groups = 0
        self.members = 0
        self.earlier = np.zeros((2, 1))  # results of groups before, and how many: what they are centred by

    def add(
        self,
        group: AnyArray,
        choice: Array,
        result: Array,
        variance: Array | None,
        member: AnyArray | None = None,
        bounded: bool = False,
    ) -> None:
        """Add members of whole groups, one group after the other.

        group `[p]`: never decreases. result `[p]` or `[p, B]` in [-1, 1], 0 where it is not known. choice `[q, B]`: at least -1.
        variance `[q, B]`: of the choices, which are then at most 1; None if it is not known. member `[q]`: which of the `p` made
        each choice, in order; None if each made one. bounded: choices are at most 1, although their variance is not known.
        """
        if not group.size:
            return
        owner = np.arange(group.size) if member is None else member
        starts = group_starts(group)
        sizes = np.diff(np.append(starts, group.size))
        self.groups += int(np.count_nonzero(sizes > 1))
        self.members += int(sizes[sizes > 1].sum())
        results = result if result.ndim > 1 else result[:, None]
        if variance is not None:  # without the whole distribution weights may average below one where overlap is missing
            count = group.size
            drawn = (choice, variance) if member is None else (sum_rows(choice, owner, count), sum_rows(variance, owner, count))
            self._score(drawn[0], results, starts, sizes, drawn[1])
        results = self._centred(results, starts, sizes)
        for place, direction in enumerate(self.directions):
            others = _others(results, starts, sizes, direction)[owner]
            self._bet(place, choice, others, bounded or variance is not None)

    def add_single(self, choice: Array, result: Array, bounded: bool, member: AnyArray | None = None) -> None:
        """Add members, each a group of its own, with something `[p]` in [-1, 1] that its choices `[q, B]` must not act on."""
        self.groups += result.size
        self.members += result.size
        self._bet(0, choice, (result if member is None else result[member])[:, None], bounded)

    def beside(self, other: GroupBets, holds: bool) -> GroupBets:
        """Return these bets with those of another beside them, which count as lost if they do not hold, and with its score."""
        joint = GroupBets(self.logs.shape[-1] + other.logs.shape[-1], self.directions)
        lost = other.logs if holds else np.full_like(other.logs, -np.inf)
        joint.logs = np.concatenate([self.logs, lost], axis=-1)
        joint.sums, joint.groups, joint.members = other.sums, other.groups, other.members
        return joint

    def only(self, direction: str) -> GroupBets:
        """Return the bets of one direction, without a score, which looks at both."""
        single = GroupBets(self.logs.shape[-1], (direction,))
        single.logs = self.logs[:, [self.directions.index(direction)]]
        single.groups, single.members = self.groups, self.members
        return single

    def _centred(self, results: Array, starts: AnyArray, sizes: AnyArray) -> Array:
        """Return results minus their mean in earlier groups, which no choice of this group has moved; 0 in the first group."""
        sums = np.concatenate([np.zeros((1, results.shape[1])), np.cumsum(np.add.reduceat(results, starts, axis=0), axis=0)])
        number = np.concatenate([[0.0], np.cumsum(sizes)])[:, None]
        earlier = self.earlier[1] + number
        means = (self.earlier[0] + sums) / np.maximum(earlier, 1.0)
        self.earlier = np.stack([self.earlier[0] + sums[-1], np.broadcast_to(self.earlier[1] + number[-1], sums[-1].shape)])
        known = np.repeat(np.broadcast_to(earlier[:-1] > 0, means[:-1].shape), sizes, axis=0)
        return np.where(known, np.clip(results - np.repeat(means[:-1], sizes, axis=0), -1.0, 1.0), 0.0)

    def _score(self, choice: Array, results: Array, starts: AnyArray, sizes: AnyArray, variance: Array) -> None:
        if len(self.directions) < 2:
            return
        number = np.repeat(sizes, sizes)[:, None].astype(np.float64)
        scale = np.where(number > 1, 1.0 / np.sqrt(np.maximum(number * (number - 1.0), 1.0)), 0.0)
        others = scale * (np.repeat(np.add.reduceat(results, starts, axis=0), sizes, axis=0) - results)
        pairs = np.add.reduceat(choice * others, starts, axis=0)
        more = scale * (number - 1.0)
        sums = [pairs, pairs**2, variance * others**2, np.where(number > 1, variance, 0.0)]
        sums += [more * results, more * choice, np.where(number > 1, results, 0.0), np.where(number > 1, choice, 0.0)]
        self.sums += np.stack([np.broadcast_to(part.sum(axis=0), pairs.shape[1:]) for part in (*sums, more)])

    def _bet(self, place: int, choice: Array, others: Array, bounded: bool) -> None:
        for sign, signed in enumerate((others, -others)):
            gain = choice * (signed if bounded else np.maximum(signed, 0.0))
            for row, stake in enumerate(STAKES):
                self.logs[row, place, sign] += np.log1p(stake * gain).sum(axis=0)

    def evidence(self) -> Array:
        """Return log evidence `[directions * 2 * B]`, mixed over stakes."""
        return np.asarray(log_mean_wealth(self.logs)).ravel()

    def scores(self) -> Array:
        """Return Student's t `[B]` of pairs within groups, either sign; 0 where too few groups or rare choices say too little."""
        total, square, expected, drawn, results, choices, all_results, all_choices, number = self.sums
        result, choice = all_results / max(self.members, 1), all_choices / max(self.members, 1)
        # As if results and choices had been centred: wrong propensities alone make no score.
        total = total - choice * results - result * choices + choice * result * number
        spread = np.sqrt(np.maximum(square, expected))
        enough = (self.groups >= FEWEST) & (drawn >= FEWEST / 2.0) & (spread > 0)
        return np.abs(np.where(enough, total / np.where(spread > 0, spread, 1.0), 0.0))

    def overall(self) -> float:
        """Return the log of the mean evidence."""
        return log_mean_evidence(self.evidence())


def _others(result: Array, starts: AnyArray, sizes: AnyArray, direction: str) -> Array:
    """Return for each member the sum of the results of those before (or after) it, by twice the root of their number."""
    total = np.cumsum(result, axis=0)
    first = np.repeat(starts, sizes)
    before = total - result - (total - result)[first]
    number = np.arange(len(result)) - first
    if direction == "later":
        last = np.repeat(starts + sizes - 1, sizes)
        before = total[last] - total
        number = last - np.arange(len(result))
    return np.asarray(np.clip(before / (2.0 * np.sqrt(np.maximum(number, 1)))[:, None], -1.0, 1.0))


def score_limit(alpha: float, groups: int) -> float:
    """Return the score, of either sign, that is exceeded with probability alpha at most."""
    return -float(stdtrit(max(groups - 1, 1), alpha / 2.0))


@dataclass(frozen=True, slots=True)
class InterferenceResult:
    """The outcome of a test of interference. place: of the bets that show it most clearly. test: the one that decided."""

    place: int
    severity: Severity
    test: str
    figures: dict[str, float | str]

    @property
    def label(self) -> str:
        """How far the finding can be trusted, for its message; empty where it refuses."""
        if self.severity == "refused":
            return ""
        return f" (a fixed-sample test: it warns of one in {1 / WARNS:.0f} logs that are in order, and never refuses)"


def find_interference(bets: Sequence[GroupBets], alpha: float) -> InterferenceResult | None:
    """Return what several bets show together: evidence or a score at half of alpha each refuses, a score at 1 % warns."""
    if not bets:
        return None
    logs = [own.evidence() for own in bets]
    if log_mean_evidence(logs) >= math.log(2.0 / alpha):
        return _result(bets, int(np.argmax([log.max() for log in logs])), "refused", ANYTIME)
    number = sum(own.scores().size for own in bets)
    levels: tuple[tuple[Severity, float], ...] = (("refused", alpha / 2.0), ("warning", WARNS))
    for severity, level in levels:
        over = [float(own.scores().max(initial=0.0)) - score_limit(level / number, own.groups) for own in bets]
        if max(over) > 0:
            return _result(bets, int(np.argmax(over)), severity, FIXED)
    return None


def _result(bets: Sequence[GroupBets], place: int, severity: Severity, test: str) -> InterferenceResult:
    own = bets[place]
    figures: dict[str, float | str] = {
        "log10_evidence": float(own.evidence().max()) / math.log(10),
        "score": float(own.scores().max(initial=0.0)),
        "groups": float(own.groups),
        "test": test,
    }
    return InterferenceResult(place, severity, test, figures)


@dataclass(frozen=True, slots=True)
class RandomDraws:
    """The random choices `[p, B]` of decisions among sets of actions, halves first.

    surprise: what was chosen minus its probability, whose `variance` is then known; else the excess of its weight, from -1, and
    no variance. taken: what was chosen minus its usual share; chance: its probability minus that share, None if it is not known.
    """

    surprise: Array
    taken: Array
    chance: Array | None
    variance: Array | None

    @classmethod
    def of(cls, level: Level, table: LevelTable, shares: Sequence[float]) -> RandomDraws:
        """Return the draws of a table; shares `[A]`: how often each action is usually taken."""
        parts = [_columns(level, table, most, shares) for most in ((2, 8) if level.actions.count > 2 else (2,))]
        surprise, taken, chance, variance = (np.concatenate(columns, axis=1) for columns in zip(*parts, strict=True))
        return cls(surprise, taken, chance, variance) if knows_chances(level, table) else cls(surprise, taken, None, None)

    def columns(self) -> tuple[Array | None, ...]:
        """Return all parts, as the constructor takes them."""
        return self.surprise, self.taken, self.chance, self.variance

    def reactions(self) -> Iterator[tuple[str, Array]]:
        """Yield results `[p, B]` that only a controller which reacts to other members makes depend on their actions."""
        yield "taken", self.taken
        if self.chance is not None:
            yield "chance", self.chance


def _columns(level: Level, table: LevelTable, most: int, shares: Sequence[float]) -> tuple[Array, ...]:
    choices = Choices.of(level, table, most)
    usual = np.bincount(set_members(level, most), weights=np.asarray(shares), minlength=choices.sets)
    taken = (np.arange(choices.sets) == choices.chosen[:, None]).astype(np.float64)
    first = int(choices.chance is not None and choices.sets == 2)  # of two sets with known probabilities one says it all
    if choices.chance is None:
        surprise, chance = choices.excess(), taken
    else:
        surprise, chance = taken - choices.chance, choices.chance
    return tuple(part[:, first:] for part in (surprise, taken - usual, chance - usual, chance * (1.0 - chance)))


def centre_rewards(values: Array, cuts: Cuts, level: str) -> Array:
    """Return mean rewards on a scale on which the usual one is 0 and two spreads are 1, clipped there; 0 where not known."""
    centre, spread = cuts.centre[level], cuts.spread[level]
    scaled = np.clip((values / 4.0 - centre / 4.0) / (spread / 2.0), -1.0, 1.0)  # differences of large numbers do not overflow
    return np.nan_to_num(scaled, nan=0.0)
