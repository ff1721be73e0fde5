"""Bets on random choices: do other events depend on a randomly drawn action, and do actions repeat?

One factor per episode. The weight w of a policy that chooses from a set B of actions has mean one given everything before
the draw, so that (w - 1) s has mean zero for every s in [0, 1] that the action cannot influence. So has its mean over the
decisions of an episode, also where propensities are given the actions above only. It is at least -1, as betting upwards
requires; betting on s and on 1 - s shows a dependence in either direction. Without overlap the mean is below zero, which
makes no false finding.

Repeats. Given everything before it, a decision takes the action of an earlier one with that action's own propensity. With
the whole distribution known, the surprise has mean zero; with the propensity of the action taken only, the weight of "the
same again" has mean one.

Groups. A group is a set of members, each with a random choice and a result. v is what was chosen minus its probability, or the
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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from aegis.audit.batch_view import group_starts, merge_actions
from aegis.audit.check import ANYTIME, FIXED, Severity, Sums, merged
from aegis.audit.slices import Cuts, Mask, sum_rows
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
        self.add_shares(choices, (np.maximum(sign, 0.0), np.maximum(-sign, 0.0)), owner, np.bincount(owner, minlength=count))

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
    """The outcome of a test of interference. place: of the bets that show it most clearly.

    label: how far the finding can be trusted, for its message; empty where it refuses.
    """

    place: int
    severity: Severity
    label: str
    figures: dict[str, float | str]


def find_interference(bets: Sequence[GroupBets], alpha: float) -> InterferenceResult | None:
    """Return what several bets show together: evidence or a score at half of alpha each refuses, a score at 1 % warns."""
    if not bets:
        return None
    evidence = [own.evidence() for own in bets]
    scores = [float(own.scores().max(initial=0.0)) for own in bets]
    number = sum(own.scores().size for own in bets)

    def over(level: float) -> list[float]:
        return [score - score_limit(level / number, own.groups) for own, score in zip(bets, scores, strict=True)]

    severity: Severity = "refused"
    test, label = FIXED, ""
    if log_mean_evidence(evidence) >= math.log(2.0 / alpha):
        test, place = ANYTIME, int(np.argmax([log.max() for log in evidence]))
    elif max(over(alpha / 2.0)) > 0:
        place = int(np.argmax(over(alpha / 2.0)))
    elif max(over(WARNS)) > 0:
        severity, place = "warning", int(np.argmax(over(WARNS)))
        label = f" (a fixed-sample test: it warns of one in {1 / WARNS:.0f} logs that are in order, and never refuses)"
    else:
        return None
    figures: dict[str, float | str] = {"log10_evidence": float(evidence[place].max()) / math.log(10), "score": scores[place]}
    return InterferenceResult(place, severity, label, figures | {"groups": float(bets[place].groups), "test": test})


@dataclass(frozen=True, slots=True)
class RandomDraws:
    """The random choices of decisions among sets of actions, halves first: `[4, p, B]`, `[2, p, B]` without probabilities.

    The rows are the surprise, what was chosen minus its probability (the excess of its weight, from -1, where that is not
    known); what was chosen minus its usual share; its probability minus that share; and the variance of the surprise.
    """

    rows: Array

    @classmethod
    def of(cls, level: Level, table: LevelTable, shares: Sequence[float]) -> RandomDraws:
        """Return the draws of a table; shares `[A]`: how often each action is usually taken."""
        parts = [_draws(level, table, most, shares) for most in ((2, 8) if level.actions.count > 2 else (2,))]
        return cls(np.concatenate(parts, axis=2)[: 4 if knows_chances(level, table) else 2])

    @property
    def surprise(self) -> Array:
        """The surprises `[p, B]`."""
        return self.rows[0]

    @property
    def taken(self) -> Array:
        """What was chosen minus its usual share, `[p, B]`."""
        return self.rows[1]

    @property
    def variance(self) -> Array | None:
        """The variance `[p, B]` of the surprises, None if it is not known."""
        return self.rows[3] if len(self.rows) > 2 else None

    def reactions(self) -> Iterator[tuple[str, Array]]:
        """Yield results `[p, B]` that only a controller which reacts to other members makes depend on their actions."""
        yield from zip(("taken", "chance"), self.rows[1:3], strict=False)


def _draws(level: Level, table: LevelTable, most: int, shares: Sequence[float]) -> Array:
    choices = Choices.of(level, table, most)
    usual = np.bincount(set_members(level, most), weights=np.asarray(shares), minlength=choices.sets)
    taken = (np.arange(choices.sets) == choices.chosen[:, None]).astype(np.float64)
    first = int(choices.chance is not None and choices.sets == 2)  # of two sets with known probabilities one says it all
    if choices.chance is None:
        surprise, chance = choices.excess(), taken
    else:
        surprise, chance = taken - choices.chance, choices.chance
    return np.stack([surprise, taken - usual, chance - usual, chance * (1.0 - chance)])[:, :, first:]


def centre_rewards(values: Array, cuts: Cuts, level: str) -> Array:
    """Return mean rewards on a scale on which the usual one is 0 and two spreads are 1, clipped there; 0 where not known."""
    centre, spread = cuts.centre[level], cuts.spread[level]
    scaled = np.clip((values / 4.0 - centre / 4.0) / (spread / 2.0), -1.0, 1.0)  # differences of large numbers do not overflow
    return np.nan_to_num(scaled, nan=0.0)
