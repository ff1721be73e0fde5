"""Carry-over: does a decision affect later ones of its episode, or whether there are any?

Carry-over. Under `carry_over: none` it must not affect them (theory section 1, A1). `E[(w_earlier - 1) f(later)] = 0` for the
weight of any policy at the earlier decision and any f of the later one's context or reward. f is a sign at a cut point; the
policies are uniform choices from sets of actions, and the candidate where there is one. The pairs are next siblings, those
after them, all earlier siblings together, and the last decision below an outer one with the next outer decision of the
episode.

All earlier siblings together: the sign of what comes now times the mean excess of the earlier choices has mean zero if they
do not act on it, and is at least -1. Turned around, an earlier choice has the sum of the later signs, each divided by how
many choices come before it: sums from the end, one pass over the rows.

Sizes (theory section 1, A3). Whether a decision has a next sibling must not depend on its action, which was drawn at random: a
test by betting. Nor on its reward: among siblings of one place, the last ones are compared with the others by how their
reward differs from the mean of the siblings before, which takes out what the parent has in common. The same holds for the
episodes of a cluster, which keep 24 bytes each.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from aegis.audit.batch_view import BatchView, cluster_hashes, comparable_times, in_reward_units
from aegis.audit.betting import REACTS, Choices, EpisodeBets, log_mean_evidence, set_count, set_members, silenced
from aegis.audit.check import AuditSetting, Check, Finding, Known, Sums, Thinning, make_finding, tolerate, upper_quantile
from aegis.audit.slices import Mask, own_context_signs, sign_at
from aegis.errors import pluralise
from aegis.logs import describe_order
from aegis.problem import AnyArray, Array, Level, Problem, has_next_sibling, sibling_positions

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
        return tolerate(self.problem, self._findings, known.wrong)

    def _findings(self, wrong: Collection[str]) -> list[Finding]:
        tested = {key: bets for key, bets in self.kinds.items() if key[0] not in wrong}
        reacting = {name: None for (name, _), bets in tested.items() if log_mean_evidence(_logs(bets.action)) >= REACTS}
        parts: dict[tuple[tuple[str, str], str], Array] = {}
        for key, bets in tested.items():
            for label, own in bets.context.items():
                parts[key, label] = own.evidence()
            parts[key, "the reward"] = silenced(np.concatenate([np.zeros(0), *_logs(bets.reward)]), key[0] in reacting)
        note = "actions depend on earlier actions of the episode; carry-over was looked for in contexts only"
        notes = [make_finding("behaviour-reacts", "note", f"level '{name}': {note}", name) for name in reacting]
        if log_mean_evidence(parts.values()) < math.log(1.0 / self.alpha):
            return notes
        (key, what), strongest = max(parts.items(), key=lambda item: item[1].max(initial=-np.inf))
        bets = tested[key]
        order = describe_order(self.problem, bets.target)
        message = (
            f"level '{bets.target}': {what.removesuffix('candidate')} of a decision depends on {bets.words} ({order}), but the "
            "problem says 'carry_over: none'"
        )
        figures = {"log10_evidence": float(strongest.max()) / math.log(10), "pairs": bets.pairs}
        number = sum(logs.size for logs in parts.values())
        return [make_finding("carry-over", "refused", message, key[0], figures=figures, bets=number, order=order), *notes]


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


PLACES = 32  # with a contrast of their own; later ones are taken together
FEWEST = 30  # that stop and that go on, below which rewards prove nothing
EFFECT = 0.1  # standard deviations, below which a difference is not worth a finding
FEW_UNITS = 30  # independent units, below which hardly anything is certified


class Contrast(Sums):
    """Rewards minus the mean of the siblings before, by place and by whether the decision is the last: counts, sums, squares."""

    adds = ("sums",)

    def __init__(self) -> None:
        self.sums = np.zeros((3, PLACES, 2))

    def add(self, value: Array, parent: AnyArray, counts: Mask) -> None:
        """Add values `[m]`, nan where unknown, of siblings next to each other, and which of them `[m]` count."""
        known = np.isfinite(value)
        filled = np.where(known, value, 0.0)
        place = sibling_positions(parent)
        first = np.arange(parent.size) - place
        total, number = np.cumsum(filled) - filled, np.cumsum(known) - known
        total, number = total - total[first], number - number[first]
        use = known & counts & (number > 0)
        difference = filled[use] - total[use] / number[use]
        code = np.minimum(place[use], PLACES - 1) * 2 + has_next_sibling(parent)[use]
        for order in range(3):
            self.sums[order] += np.bincount(code, weights=difference**order, minlength=2 * PLACES).reshape(PLACES, 2)

    def score(self) -> tuple[float, float, float]:
        """Return the standard score of last minus others, the effect in standard deviations, and how many were the last."""
        number, total, square = self.sums
        usable = (number >= 2).all(axis=1)
        if not usable.any() or (number[usable].sum(axis=0) < FEWEST).any():
            return 0.0, 0.0, float(number[usable, 0].sum())
        number, total, square = number[usable], total[usable], square[usable]
        mean = total / number
        variance = np.maximum(square / number - mean**2, 0.0) * number / (number - 1)
        share = number.prod(axis=1) / number.sum(axis=1)
        gap = float((share * (mean[:, 0] - mean[:, 1])).sum() / share.sum())
        error = math.sqrt(float((share**2 * (variance / number).sum(axis=1)).sum())) / share.sum()
        sd = math.sqrt(max(float((variance * number).sum() / number.sum()), 1e-300))
        if error == 0.0:
            return math.copysign(math.inf, gap) if gap else 0.0, gap / sd, float(number[:, 0].sum())
        return gap / error, gap / sd, float(number[:, 0].sum())

    def departure(self, limit: float) -> tuple[str, dict[str, float | str]] | None:
        """Return whether the last have a 'higher' or 'lower' reward, with figures; None if no more than chance explains."""
        score, effect, stopped = self.score()
        if abs(score) < limit or abs(effect) < EFFECT:
            return None
        return "higher" if score > 0 else "lower", {"score": score, "effect": effect, "stopped": stopped}


class ParentSizes(Check):
    """The tests of sizes at all levels; bets and contrasts share alpha."""

    adds = ("bets", "contrasts")

    def __init__(self, setting: AuditSetting) -> None:
        super().__init__(setting)
        levels = [level for level in self.problem.levels if level.propensity is not None]
        self.bets = {level.name: EpisodeBets(set_count(level)) for level in levels}
        self.contrasts = {name: Contrast() for name in self.problem.names}
        self.thinning = {name: Thinning(MOST_DECISIONS) for name in self.problem.names}
        self.extremes: dict[str, tuple[float, float]] = dict.fromkeys(self.problem.names, (math.inf, 0))

    def add(self, view: BatchView) -> None:
        """Add the decisions of a batch; episodes that are still open may grow, and do not count."""
        for name in self.problem.names:
            part = self.thinning[name].part(view, name)
            if part is None:
                continue
            table, owner = part.batch.levels[name], part.episodes[name]
            closed = ~part.open_episodes()[owner]
            numbers = np.bincount(table.parent)
            numbers = numbers[numbers > 0]
            self._stretch(name, int(numbers.min(initial=2**31)), int(numbers.max(initial=0)))
            next_one = has_next_sibling(table.parent)
            if not next_one.any():
                continue
            self.contrasts[name].add(part.mean_rewards(name, scaled=True), table.parent, closed)
            if name in self.bets and np.isfinite(table.mu_taken).all():
                rows = np.flatnonzero(closed)
                choices = Choices.of(self.problem.level(name), table).take(rows)
                self.bets[name].add(choices, np.where(next_one, 1.0, -1.0)[rows], owner[rows], len(part.batch))

    def merge(self, other: ParentSizes) -> None:
        """Add the results of other episodes."""
        super().merge(other)
        for name, (low, high) in other.extremes.items():
            self._stretch(name, low, high)

    def _stretch(self, level: str, low: float, high: float) -> None:
        self.extremes[level] = min(self.extremes[level][0], low), max(self.extremes[level][1], high)

    def findings(self, known: Known) -> list[Finding]:
        """Return the findings; actions at levels whose propensities are wrong prove nothing about sizes."""
        return tolerate(self.problem, self._findings, known.wrong)

    def _findings(self, wrong: Collection[str]) -> list[Finding]:
        varying = [name for name, (low, high) in self.extremes.items() if high > low and in_reward_units(self.problem, name)]
        findings: list[Finding] = []
        tested = [name for name in varying if name in self.bets and name not in wrong and self.bets[name].pairs]
        logs = {name: self.bets[name].evidence() for name in tested}
        if log_mean_evidence(logs.values()) >= math.log(2.0 / self.alpha):
            name = max(logs, key=lambda level: float(logs[level].max()))
            message = f"level '{name}': whether another decision follows in the same parent depends on the action taken"
            evidence, (fewest, most) = float(logs[name].max()) / math.log(10), self.extremes[name]
            findings.append(
                make_finding("size-follows-action", "refused", message, name, log10_evidence=evidence, fewest=fewest, most=most)
            )
        limit = upper_quantile(self.alpha / 4.0 / max(len(varying), 1))
        for name in varying:
            departure = self.contrasts[name].departure(limit)
            if departure is None:
                continue
            direction, figures = departure
            message = (
                f"level '{name}': the last decisions below a parent have a {direction} reward, against those before them, "
                f"than decisions of the same place that others follow (standard score {figures['score']:.1f}); do units stop "
                "after a success?"
            )
            column = self.problem.reward.column
            findings.append(make_finding("size-follows-reward", "refused", message, name, column, figures=figures))
        return findings


class ClusterSizes(Check):
    """Episodes of each cluster in the order of their start (of the log, if there is no time), with their mean rewards.

    It also counts the independent units: clusters, or episodes without clusters.
    """

    adds = ("ids", "order", "rewards", "episodes")

    def __init__(self, setting: AuditSetting) -> None:
        super().__init__(setting)
        self.ids: list[AnyArray] = []
        self.order: list[AnyArray] = []
        self.rewards: list[Array] = []
        self.episodes = 0

    def add(self, view: BatchView) -> None:
        """Add the episodes of a batch."""
        count = len(view.batch)
        self.episodes += count
        if self.problem.cluster is None or view.batch.cluster is None:
            return
        self.ids.append(cluster_hashes(view.batch.cluster))
        times = comparable_times(view.batch)
        self.order.append(np.arange(self.next, self.next + count) if times is None else np.asarray(times))
        self.rewards.append(view.mean_rewards(scaled=True))
        self.next += count

    @property
    def count(self) -> int:
        """How many clusters there are."""
        return int(np.unique(np.concatenate(self.ids)).size) if self.ids else 0

    def figures(self) -> dict[str, float | str]:
        """Return the number of clusters, if there are any."""
        return {} if self.problem.cluster is None else {"clusters": float(self.count)}

    def findings(self, known: Known) -> list[Finding]:
        """Return findings about the sizes of clusters, and about too few units."""
        return [*self._sizes(), *self._few()]

    def _few(self) -> list[Finding]:
        number, what = (self.episodes, "episodes") if self.problem.cluster is None else (self.count, "clusters")
        if number >= FEW_UNITS:
            return []
        units = pluralise(number, "units", "independent ")
        message = f"the log has {units} ({what}); fewer than {FEW_UNITS} hardly ever certify anything"
        return [make_finding("few-units", "warning" if number else "refused", message, units=float(number))]

    def _sizes(self) -> list[Finding]:
        if not self.ids:
            return []
        ids, rewards = np.concatenate(self.ids), np.concatenate(self.rewards)
        arranged = np.lexsort((np.concatenate(self.order), ids))
        _, parent, sizes = np.unique(ids[arranged], return_inverse=True, return_counts=True)
        largest, most = int(sizes.max()), self.problem.cluster_most
        column = self.problem.cluster_name
        figures: dict[str, float | str] = {"largest": float(largest)}
        if most is not None:
            message = f"a cluster has {largest} episodes, more than the {most} that are declared as the most it can have"
            figures["declared"] = float(most)
            larger = make_finding("cluster-larger-than-declared", "refused", message, column=column, figures=figures)
            return [larger] if largest > most else []
        contrast = Contrast()
        contrast.add(rewards[arranged], parent, np.ones(parent.size, dtype=np.bool_))
        departure = contrast.departure(upper_quantile(self.alpha / 4.0))
        if departure is None:
            return []
        direction, more = departure
        message = (
            f"the last episodes of clusters have a {direction} reward, against those before them, than episodes of the same "
            f"place that others follow (standard score {more['score']:.1f}); does a cluster end after a success?"
        )
        figures = {**more, **figures}
        return [make_finding("cluster-size-follows-reward", "refused", message, column=column, figures=figures)]
