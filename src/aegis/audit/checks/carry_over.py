"""Carry-over: does a decision affect later ones of its episode? Under `carry_over: none` it must not (theory section 1a).

`E[(w_earlier - 1) f(later)] = 0` for the weight of any policy at the earlier decision and any f of the later one's context
or reward. f is a sign at a cut point; the policies are uniform choices from sets of actions, and the candidate where there
is one. The pairs are next siblings, those after them, all earlier siblings together, and the last decision below an outer
one with the next outer decision of the episode.

All earlier siblings together: the sign of what comes now times the mean excess of the earlier choices has mean zero if they
do not act on it, and is at least -1. Turned around, an earlier choice has the sum of the later signs, each divided by how
many choices come before it: sums from the end, one pass over the rows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from aegis.audit.batch_view import BatchView, in_reward_units
from aegis.audit.betting import REACTS, Choices, EpisodeBets, log_mean_evidence, set_members, silenced
from aegis.audit.checks.base import AuditSetting, Check, Known, PropensityTolerance, Thinning
from aegis.audit.finding import Finding, make_finding
from aegis.audit.slices import own_context_signs, sign_at
from aegis.audit.sums import Sums
from aegis.logs import describe_order
from aegis.problem import AnyArray, Array, Level, Problem, sibling_positions

MOST_DECISIONS = 2**16  # of a level that are all read; then some batches only
EARLIER_LAGS = {1: "all decisions before it", 3: "the decisions three or more before it"}  # taken together, by how near they come


class _PairBets(Sums):
    """Bets about one kind of pairs: on contexts of the later decision, on its reward, and on its action.

    target: the level of the later decision. words: the earlier actions, seen from the later decision.
    """

    adds = ("context", "reward", "action", "pairs")

    def __init__(self, target: str, words: str) -> None:
        self.target, self.words = target, words
        self.context: dict[str, EpisodeBets] = {}
        self.reward: dict[str, EpisodeBets] = {}
        self.action: dict[str, EpisodeBets] = {}
        self.pairs = 0


class CarryOver(Check):
    """The test of `carry_over: none`, all levels together at half of alpha; the other half is for the next episode."""

    adds = ("kinds",)

    def __init__(self, setting: AuditSetting) -> None:
        super().__init__(setting)
        self.alpha = setting.alpha / 2.0
        self.thinning = {level.name: Thinning(MOST_DECISIONS) for level in self.problem.levels if level.propensity is not None}
        self.kinds: dict[tuple[str, str], _PairBets] = {}

    def add(self, view: BatchView) -> None:
        """Add the decisions of a batch."""
        if self.problem.carry_over != "none":
            return
        for name, thinning in self.thinning.items():
            part = thinning.part(view, name)
            if part is None or not np.isfinite(part.batch.levels[name].mu_taken).all():
                continue
            table, level = part.batch.levels[name], self.problem.level(name)
            weights = view.candidate_weights(name) if name in self.scope else None
            pairs = [pair for pair in decision_pairs(self.problem, part, name) if pair.rows.size]
            pairs = [pair for pair in pairs if in_reward_units(self.problem, pair.target)]
            if not pairs:
                continue
            policies = {"": Choices.of(level, table)}
            if weights is not None:
                policies["candidate"] = Choices.weighted(weights[: len(table)])
            for pair in pairs:
                self._bet(part, level, pair, {words: choices.take(pair.rows) for words, choices in policies.items()})
            if in_reward_units(self.problem, name):
                self._bet_earlier(part, level, policies)

    def _kind(self, level: Level, target: str, words: str) -> _PairBets:
        return self.kinds.setdefault((level.name, words), _PairBets(target, words))

    def _bet(self, view: BatchView, level: Level, pairs: DecisionPairs, policies: dict[str, Choices]) -> None:
        bets = self._kind(level, pairs.target, pairs.words)
        bets.pairs += pairs.rows.size
        owner, count = view.episodes[level.name][pairs.rows], len(view.batch)
        signs = own_context_signs(view.cuts, view.batch, pairs.target, pairs.later)
        if pairs.target != level.name and view.problem.child(pairs.target) is level:
            signs |= own_context_signs(view.cuts, view.batch, level.name, pairs.below)
        rewards = sign_at(view.mean_rewards(pairs.target)[pairs.later], view.cuts.reward[pairs.target])
        for words, choices in policies.items():
            for label, sign in signs.items():
                _add(bets.context, f"{label}{words}", choices, sign, owner, count)
            _add(bets.reward, words, choices, rewards, owner, count)
        again = bets.action.setdefault("", EpisodeBets(policies[""].sets))
        after = view.batch.levels[level.name].action[pairs.below]
        again.add_repeats(policies[""], set_members(level)[after], owner, count)
        if pairs.target != level.name:
            outer = self.problem.level(pairs.target)
            high = view.batch.levels[pairs.target].action[pairs.later] >= outer.actions.count // 2
            _add(bets.action, pairs.target, policies[""], np.where(high, 1.0, -1.0), owner, count)

    def _bet_earlier(self, view: BatchView, level: Level, policies: dict[str, Choices]) -> None:
        """Bet on earlier siblings together: effects that add up, or that come late."""
        table, count = view.batch.levels[level.name], len(view.batch)
        for lag, words in EARLIER_LAGS.items():
            earlier = EarlierSiblings.of(table.parent, view.fresh_at(level.name), lag, MOST_DECISION_PAIRS)
            rows = earlier.rows
            if not rows.size:
                continue
            bets = self._kind(level, level.name, f"the actions of {words} in the same parent")
            owner = view.episodes[level.name][rows]
            number = np.bincount(owner[earlier.later], minlength=count)
            bets.pairs += int(number.sum())
            chosen = {name: choices.take(rows) for name, choices in policies.items()}
            rewards = sign_at(view.mean_rewards(level.name)[rows], view.cuts.reward[level.name])
            contexts = own_context_signs(view.cuts, view.batch, level.name, rows)
            for into, signs in ((bets.context, contexts), (bets.reward, {"": rewards})):
                for label, sign in signs.items():
                    shares = earlier.shares(np.maximum(sign, 0.0)), earlier.shares(np.maximum(-sign, 0.0))
                    for name, choices in chosen.items():
                        into.setdefault(f"{label}{name}", EpisodeBets(choices.sets)).add_shares(choices, shares, owner, number)
            every = chosen[""]
            comes = (np.arange(every.sets) == every.chosen[:, None]).astype(np.float64)
            shares = earlier.shares(comes), earlier.shares(1.0 - comes)
            bets.action.setdefault("", EpisodeBets(every.sets)).add_shares(every, shares, owner, number)

    def findings(self, known: Known) -> list[Finding]:
        """Return the findings; levels whose propensities are wrong prove nothing about carry-over."""
        return PropensityTolerance(self.problem).findings(self._findings, known.wrong)

    def _findings(self, wrong: Collection[str]) -> list[Finding]:
        tested = {key: bets for key, bets in self.kinds.items() if key[0] not in wrong}
        reacting = {name: None for (name, _), bets in tested.items() if log_mean_evidence(_logs(bets.action)) >= REACTS}
        parts: dict[tuple[tuple[str, str], str], Array] = {}
        for key, bets in tested.items():
            for label, own in bets.context.items():
                parts[key, label] = own.evidence()
            parts[key, "the reward"] = silenced(np.concatenate([np.zeros(0), *_logs(bets.reward)]), key[0] in reacting)
        notes = [self._reacts(name) for name in reacting]
        if log_mean_evidence(parts.values()) < math.log(1.0 / self.alpha):
            return notes
        (key, what), strongest = max(parts.items(), key=lambda item: item[1].max(initial=-np.inf))
        bets = self.kinds[key]
        order = describe_order(self.problem, bets.target)
        return [
            make_finding(
                "carry-over",
                "refused",
                f"level '{bets.target}': {what.removesuffix('candidate')} of a decision depends on {bets.words} ({order}), but "
                "the problem says 'carry_over: none'",
                key[0],
                log10_evidence=float(strongest.max()) / math.log(10),
                pairs=float(bets.pairs),
                bets=float(sum(logs.size for logs in parts.values())),
                order=order,
            ),
            *notes,
        ]

    def _reacts(self, level: str) -> Finding:
        return make_finding(
            "behaviour-reacts",
            "note",
            f"level '{level}': actions depend on earlier actions of the episode; carry-over was looked for in contexts only",
            level,
        )


def _add(bets: dict[str, EpisodeBets], label: str, choices: Choices, sign: Array, owner: AnyArray, count: int) -> None:
    bets.setdefault(label, EpisodeBets(choices.sets)).add(choices, sign, owner, count)


def _logs(bets: dict[str, EpisodeBets]) -> list[Array]:
    return [own.evidence() for own in bets.values()]


MOST_DECISION_PAIRS = 2**15  # of next siblings in a batch, half as many of those after them; the rest of a larger one is left out


@dataclass(frozen=True, slots=True)
class DecisionPairs:
    """Decisions of one level and later ones.

    rows `[p]`: the earlier decisions. target: the level of the later ones, later `[p]` their rows. below `[p]`: the first
    decision of the own level at or below the later one. words: where the earlier decision is, seen from the later one.
    """

    rows: AnyArray
    target: str
    later: AnyArray
    below: AnyArray
    words: str


def decision_pairs(problem: Problem, view: BatchView, level: str) -> Iterator[DecisionPairs]:
    """Yield the pairs whose earlier decisions are of a level, one kind after the other; only those that may be bet on."""
    parent = view.batch.levels[level].parent
    fresh = view.fresh_at(level)
    for lag, words in ((1, "the decision before it"), (2, "the decision two before it")):
        rows = np.flatnonzero((parent[lag:] == parent[:-lag]) & fresh[:-lag])[: MOST_DECISION_PAIRS // lag]
        yield DecisionPairs(rows, level, rows + lag, rows + lag, f"the action of {words} in the same parent")
    above = view.batch.ancestors(level)
    for outer in reversed(problem.above(level)):
        yield _after(view, level, outer.name, above[outer.name], fresh)


def _after(view: BatchView, level: str, outer: str, owner: AnyArray, fresh: AnyArray) -> DecisionPairs:
    """Return the last decision below an outer one, with the next outer one of the episode; owner `[m]`: the outer one above."""
    episode = view.episodes[outer]
    earlier = np.flatnonzero(episode[1:] == episode[:-1])
    last = np.searchsorted(owner, earlier, side="right") - 1
    first = np.searchsorted(owner, earlier + 1)
    # An outer decision may have nothing of this level below it.
    some = (last >= 0) & (first < owner.size)
    earlier, last, first = earlier[some], last[some], first[some]
    some = (owner[last] == earlier) & (owner[first] == earlier + 1) & fresh[last]
    words = f"the last action of level '{level}' below the '{outer}' before it"
    return DecisionPairs(last[some], outer, earlier[some] + 1, first[some], words)


@dataclass(frozen=True, slots=True)
class EarlierSiblings:
    """Decisions `[p]` of whole groups of siblings, one group after the other, and how many come before each of them.

    rows `[p]`: the decisions. place `[p]`: the place of each among its siblings, from 0. last `[p]`: where its group ends.
    lag: so far back is the nearest decision that counts as earlier.
    """

    rows: AnyArray
    place: AnyArray
    last: AnyArray
    lag: int

    @classmethod
    def of(cls, parent: AnyArray, fresh: AnyArray, lag: int, most: int) -> EarlierSiblings:
        """Return the groups of parents `[m]` that may be bet on and have a decision `lag` back; at most `most` decisions.

        A group is taken as a whole or not at all; which ones depends on counts only, so that bets stay fair.
        """
        place = sibling_positions(parent)
        starts = np.flatnonzero(place == 0)
        sizes = np.diff(np.append(starts, parent.size))
        usable = fresh[starts] & (sizes > max(lag, 2))  # of two siblings there is one pair, which is a test of its own
        usable &= np.cumsum(np.where(usable, sizes, 0)) <= most
        rows = np.flatnonzero(np.repeat(usable, sizes))
        sizes = sizes[usable]
        return cls(rows, place[rows], np.repeat(np.cumsum(sizes) - 1, sizes), lag)

    @property
    def later(self) -> AnyArray:
        """Which decisions `bool[p]` have one `lag` back."""
        return self.place >= self.lag

    def shares(self, sign: Array) -> Array:
        """Return for each decision the sum over later ones of sign >= 0, `[p]` or `[p, B]`, by the number that come before."""
        number = np.maximum(self.place - self.lag + 1, 1)
        each = np.where(self.later, 1.0 / number, 0.0)
        spread = sign * (each if sign.ndim == 1 else each[:, None])
        before = np.concatenate([np.zeros((1, *spread.shape[1:])), np.cumsum(spread, axis=0)])
        # What comes at or after the place that is `lag` on; nothing if the group ends before.
        first = np.minimum(np.arange(self.rows.size) + self.lag, self.last + 1)
        return np.asarray(np.maximum(before[self.last + 1] - before[first], 0.0))
