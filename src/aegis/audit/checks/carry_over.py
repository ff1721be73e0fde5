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
from dataclasses import dataclass, field

import numpy as np

from aegis.audit.batch_view import BatchView, in_reward_units
from aegis.audit.betting import Choices, EpisodeBets, log_mean_evidence, merge_bets, set_of
from aegis.audit.checks.base import Thinning
from aegis.audit.finding import Finding, make_finding
from aegis.audit.slices import context_signs, sign_at
from aegis.logs import describe_order
from aegis.problem import AnyArray, Array, Level, Problem, sibling_positions

MOST_DECISIONS = 2**16  # of a level that are all looked at; then some batches only

REACTS = math.log(20.0)  # evidence from which the controller counts as reacting to earlier decisions


EARLIER_LAGS = {1: "all decisions before it", 3: "the decisions three or more before it"}  # taken together, by how near they come


@dataclass(slots=True)
class _KindBets:
    """Bets about one kind of pairs: on contexts of the later decision, on its reward, and on its action."""

    target: str
    words: str
    context: dict[str, EpisodeBets] = field(default_factory=dict)
    reward: dict[str, EpisodeBets] = field(default_factory=dict)
    action: dict[str, EpisodeBets] = field(default_factory=dict)
    pairs: int = 0

    def merge(self, other: _KindBets) -> None:
        merge_bets(self.context, other.context)
        merge_bets(self.reward, other.reward)
        merge_bets(self.action, other.action)
        self.pairs += other.pairs


class CarryOver:
    """The test of `carry_over: none`, all levels together at level alpha."""

    def __init__(self, problem: Problem, alpha: float) -> None:
        self.problem, self.alpha = problem, alpha
        self.thinning = {level.name: Thinning(MOST_DECISIONS) for level in problem.levels if level.propensity is not None}
        self.kinds: dict[tuple[str, str], _KindBets] = {}

    def add(self, view: BatchView, weights: dict[str, Array]) -> None:
        """Add the decisions of a batch; weights `[m]` of a candidate by level, where there is one."""
        if self.problem.carry_over != "none":
            return
        for name, thinning in self.thinning.items():
            part = thinning.part(view, name)
            if part is None or not np.isfinite(part.batch.levels[name].mu_taken).all():
                continue
            table, level = part.batch.levels[name], self.problem.level(name)
            own = weights[name][: len(table)] if name in weights else None
            every: Choices | None = None
            for pairs in decision_pairs(self.problem, part, name):
                if not pairs.rows.size or not in_reward_units(self.problem, pairs.target):
                    continue
                every = Choices.of(level, table) if every is None else every
                policies = {"": every.take(pairs.rows)}
                if own is not None:
                    policies["candidate"] = Choices.weighted(own[pairs.rows])
                self._bet(part, level, pairs, policies)
            if every is not None and in_reward_units(self.problem, name):
                self._bet_earlier(part, level, every, own)

    def _bet(self, view: BatchView, level: Level, pairs: DecisionPairs, policies: dict[str, Choices]) -> None:
        bets = self.kinds.setdefault((level.name, pairs.words), _KindBets(pairs.target, pairs.words))
        bets.pairs += pairs.rows.size
        owner, count = view.episodes[level.name][pairs.rows], len(view.batch)
        signs = _contexts(view, pairs.target, pairs.later)
        table = view.batch.levels[level.name]
        if pairs.target != level.name and view.problem.child(pairs.target) is level:
            signs |= _contexts(view, level.name, pairs.below)
        rewards = sign_at(view.rewards_below(pairs.target)[pairs.later], view.cuts.reward[pairs.target])
        for words, choices in policies.items():
            for label, sign in signs.items():
                _add(bets.context, f"{label}{words}", choices, sign, owner, count)
            _add(bets.reward, words, choices, rewards, owner, count)
        again = bets.action.setdefault("", EpisodeBets(policies[""].sets))
        again.add_repeats(policies[""], set_of(level, table.action[pairs.below]), owner, count)
        if pairs.target != level.name:
            outer = self.problem.level(pairs.target)
            high = view.batch.levels[pairs.target].action[pairs.later] >= outer.actions.count // 2
            _add(bets.action, pairs.target, policies[""], np.where(high, 1.0, -1.0), owner, count)

    def _bet_earlier(self, view: BatchView, level: Level, every: Choices, weights: Array | None) -> None:
        """Bet on earlier siblings together: effects that add up, or that come late."""
        table, count = view.batch.levels[level.name], len(view.batch)
        for lag, words in EARLIER_LAGS.items():
            earlier = EarlierSiblings.of(table.parent, view.fresh_at(level.name), lag, MOST_DECISION_PAIRS)
            rows = earlier.rows
            if not rows.size:
                continue
            key = f"the actions of {words} in the same parent"
            bets = self.kinds.setdefault((level.name, key), _KindBets(level.name, key))
            owner = view.episodes[level.name][rows]
            number = np.bincount(owner[earlier.later], minlength=count)
            bets.pairs += int(number.sum())
            chosen = every.take(rows)
            policies = {"": chosen} if weights is None else {"": chosen, "candidate": Choices.weighted(weights[rows])}
            rewards = sign_at(view.rewards_below(level.name)[rows], view.cuts.reward[level.name])
            for into, label, sign in [
                *[(bets.context, label, sign) for label, sign in _contexts(view, level.name, rows).items()],
                (bets.reward, "", rewards),
            ]:
                shares = earlier.shares(np.maximum(sign, 0.0)), earlier.shares(np.maximum(-sign, 0.0))
                for name, choices in policies.items():
                    into.setdefault(f"{label}{name}", EpisodeBets(choices.sets)).add_shares(choices, shares, owner, number)
            comes = (np.arange(chosen.sets) == chosen.chosen[:, None]).astype(np.float64)
            shares = earlier.shares(comes), earlier.shares(1.0 - comes)
            bets.action.setdefault("", EpisodeBets(chosen.sets)).add_shares(chosen, shares, owner, number)

    def merge(self, other: CarryOver) -> None:
        """Add the bets on other episodes, with the same cuts."""
        for key, bets in other.kinds.items():
            if key in self.kinds:
                self.kinds[key].merge(bets)
            else:
                self.kinds[key] = bets

    def findings(self, wrong: Collection[str] = ()) -> list[Finding]:
        """Return what was found; levels whose propensities are `wrong` say nothing about carry-over."""
        tested = {key: bets for key, bets in self.kinds.items() if key[0] not in wrong}
        reacting = {name: None for (name, _), bets in tested.items() if log_mean_evidence(_evidence(bets.action)) >= REACTS}
        parts: dict[tuple[tuple[str, str], str], Array] = {}
        for key, bets in tested.items():
            for label, found in bets.context.items():
                parts[key, label] = found.evidence()
            rewards = _evidence(bets.reward)
            parts[key, "the reward"] = np.full(rewards.size, -np.inf) if key[0] in reacting else rewards
        every = np.concatenate(list(parts.values())) if parts else np.zeros(0)
        noted = [self._reacts(name) for name in reacting]
        if not every.size or log_mean_evidence(every) < math.log(1.0 / self.alpha):
            return noted
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
                bets=float(every.size),
                order=order,
            ),
            *noted,
        ]

    def _reacts(self, level: str) -> Finding:
        return make_finding(
            "behaviour-reacts",
            "note",
            f"level '{level}': actions depend on earlier actions of the episode; carry-over was looked for in contexts only",
            level,
        )


def _contexts(view: BatchView, level: str, rows: AnyArray) -> dict[str, Array]:
    """Return the signs of a level's own contexts at some of its decisions."""
    context = view.batch.levels[level].context
    return context_signs([cut for cut in view.cuts.context[level] if cut.variable in context], context, rows)


def _add(bets: dict[str, EpisodeBets], label: str, choices: Choices, sign: Array, owner: AnyArray, count: int) -> None:
    bets.setdefault(label, EpisodeBets(choices.sets)).add(choices, sign, owner, count)


def _evidence(bets: dict[str, EpisodeBets]) -> Array:
    return np.concatenate([found.evidence() for found in bets.values()]) if bets else np.zeros(0)


MOST_DECISION_PAIRS = 2**15  # of next siblings in a batch, half as many of those after them; the rest of a larger one is left out


@dataclass(frozen=True, slots=True)
class DecisionPairs:
    """Decisions of one level and what came after them.

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
    owner: AnyArray = np.arange(parent.size)
    for outer in [*problem.above(level)][::-1]:
        owner = view.batch.levels[_inside(problem, outer.name)].parent[owner]
        yield _after(view, level, outer.name, owner, fresh)


def _inside(problem: Problem, name: str) -> str:
    inner = problem.child(name)
    return name if inner is None else inner.name


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
        """Return the groups of parents `[m]` that may be bet on and have a decision so far back; at most so many decisions.

        A group is taken as a whole or not at all; which ones depends on counts only, so that bets stay fair.
        """
        place = sibling_positions(parent)
        starts = np.flatnonzero(place == 0)
        sizes = np.diff(np.append(starts, parent.size))
        kept = fresh[starts] & (sizes > max(lag, 2))  # of two siblings there is one pair, which is a test of its own
        kept &= np.cumsum(np.where(kept, sizes, 0)) <= most
        rows = np.flatnonzero(np.repeat(kept, sizes))
        sizes = sizes[kept]
        return cls(rows, place[rows], np.repeat(np.cumsum(sizes) - 1, sizes), lag)

    @property
    def later(self) -> AnyArray:
        """Which decisions `bool[p]` have one so far back: those that something is asked of."""
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
