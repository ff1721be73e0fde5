"""Sizes: does the number of decisions in a parent, or of episodes in a cluster, depend on actions or rewards?

It must not (theory section 1c). Whether a decision has a next sibling must not depend on its action, which was drawn at
random: a test by betting. Nor on its reward: among siblings of one place, the last ones are compared with the others by how
their reward differs from the mean of the siblings before, which takes out what the parent has in common. Clusters keep 24
bytes for each episode.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
import pyarrow as pa

from aegis.audit.batch_view import BatchView, Mask, in_reward_units
from aegis.audit.betting import Choices, EpisodeBets, log_mean_evidence, merge_bets, set_count
from aegis.audit.checks.base import Thinning, upper_quantile
from aegis.audit.finding import Finding, make_finding
from aegis.logs import hash_ids, id_parts
from aegis.problem import AnyArray, Array, Problem, has_next_sibling, sibling_positions

MOST_DECISIONS = 2**16  # of a level that are all looked at; then some batches only

PLACES = 32  # told apart; later ones are taken together

FEWEST = 30  # that stop and that go on, below which nothing is said about rewards

EFFECT = 0.1  # standard deviations, below which a difference is not worth a word


class Contrast:
    """Rewards minus the mean of the siblings before, by place and by whether the decision is the last: counts, sums, squares."""

    def __init__(self) -> None:
        self.sums = np.zeros((3, PLACES, 2))

    def add(self, value: Array, parent: AnyArray, kept: Mask) -> None:
        """Add values `[m]`, nan where unknown, of siblings next to each other; only the kept ones `[m]` count."""
        known = np.isfinite(value)
        filled = np.where(known, value, 0.0)
        place = sibling_positions(parent)
        first = np.arange(parent.size) - place
        total, number = np.cumsum(filled) - filled, np.cumsum(known) - known
        total, number = total - total[first], number - number[first]
        use = known & kept & (number > 0)
        difference = filled[use] - total[use] / number[use]
        code = np.minimum(place[use], PLACES - 1) * 2 + has_next_sibling(parent)[use]
        for order in range(3):
            self.sums[order] += np.bincount(code, weights=difference**order, minlength=2 * PLACES).reshape(PLACES, 2)

    def merge(self, other: Contrast) -> None:
        """Add the values of another."""
        self.sums = self.sums + other.sums

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


class ParentSizes:
    """The tests of sizes at all levels; bets and contrasts share alpha."""

    def __init__(self, problem: Problem, alpha: float) -> None:
        self.problem, self.alpha = problem, alpha
        self.bets = {level.name: EpisodeBets(set_count(level)) for level in problem.levels if level.propensity is not None}
        self.contrasts = {name: Contrast() for name in problem.names}
        self.thinning = {name: Thinning(MOST_DECISIONS) for name in problem.names}
        self.extremes: dict[str, tuple[float, int]] = dict.fromkeys(problem.names, (math.inf, 0))

    def add(self, view: BatchView) -> None:
        """Add the decisions of a batch; episodes that are still open may grow, and do not count."""
        for name in self.problem.names:
            part = self.thinning[name].part(view, name)
            if part is None:
                continue
            table, owner = part.batch.levels[name], part.episodes[name]
            kept = ~part.open_episodes()[owner]
            numbers = np.bincount(table.parent)
            numbers = numbers[numbers > 0]
            low, high = self.extremes[name]
            self.extremes[name] = min(low, int(numbers.min(initial=2**31))), max(high, int(numbers.max(initial=0)))
            next_one = has_next_sibling(table.parent)
            if not next_one.any():
                continue
            self.contrasts[name].add(part.scaled_below(name), table.parent, kept)
            bets = self.bets.get(name)
            if bets is None or not np.isfinite(table.mu_taken).all():
                continue
            rows = np.flatnonzero(kept)
            choices = Choices.of(self.problem.level(name), table).take(rows)
            bets.add(choices, np.where(next_one, 1.0, -1.0)[rows], owner[rows], len(part.batch))

    def merge(self, other: ParentSizes) -> None:
        """Add what was found in other episodes."""
        merge_bets(self.bets, other.bets)
        for name, contrast in other.contrasts.items():
            self.contrasts[name].merge(contrast)
            (low, high), (least, most) = self.extremes[name], other.extremes[name]
            self.extremes[name] = min(low, least), max(high, most)

    def findings(self, wrong: Collection[str] = ()) -> list[Finding]:
        """Return what was found; actions at levels whose propensities are `wrong` say nothing about sizes."""
        varying = [name for name, (low, high) in self.extremes.items() if high > low and in_reward_units(self.problem, name)]
        found: list[Finding] = []
        logs = {
            name: self.bets[name].evidence()
            for name in varying
            if name in self.bets and name not in wrong and self.bets[name].pairs
        }
        every = np.concatenate(list(logs.values())) if logs else np.zeros(0)
        if log_mean_evidence(every) >= math.log(2.0 / self.alpha):
            name = max(logs, key=lambda level: float(logs[level].max()))
            found.append(
                make_finding(
                    "size-follows-action",
                    "refused",
                    f"level '{name}': whether another decision follows in the same parent depends on the action taken",
                    name,
                    log10_evidence=float(logs[name].max()) / math.log(10),
                    fewest=float(self.extremes[name][0]),
                    most=float(self.extremes[name][1]),
                )
            )
        limit = upper_quantile(self.alpha / 4.0 / max(len(varying), 1))
        for name in varying:
            score, effect, stopped = self.contrasts[name].score()
            if abs(score) < limit or abs(effect) < EFFECT:
                continue
            direction = "higher" if score > 0 else "lower"
            found.append(
                make_finding(
                    "size-follows-reward",
                    "refused",
                    f"level '{name}': the last decisions below a parent have a {direction} reward, against those before them, "
                    f"than decisions of the same place that others follow (standard score {score:.1f}); do units stop after a "
                    "success?",
                    name,
                    self.problem.reward.column,
                    score=score,
                    effect=effect,
                    stopped=stopped,
                )
            )
        return found


class ClusterSizes:
    """Episodes of each cluster in the order of their start (of the log, if there is no time), with their mean rewards."""

    def __init__(self, problem: Problem, alpha: float) -> None:
        self.problem, self.alpha = problem, alpha
        self.ids: list[AnyArray] = []
        self.order: list[AnyArray] = []
        self.rewards: list[Array] = []
        self.seen = 0

    def add(self, view: BatchView) -> None:
        """Add the episodes of a batch."""
        batch = view.batch
        if self.problem.cluster is None or batch.cluster is None:
            return
        self.ids.append(np.asarray(hash_ids([pa.array(part) for part in id_parts(batch.cluster)])))
        in_time = batch.time is not None and batch.time.dtype.kind in "iufM"
        self.order.append(np.asarray(batch.time) if in_time else np.arange(self.seen, self.seen + len(batch)))
        self.rewards.append(view.scaled_episodes())
        self.seen += len(batch)

    def merge(self, other: ClusterSizes) -> None:
        """Add the episodes of another part of the log, which were numbered from where it begins."""
        self.ids += other.ids
        self.order += other.order
        self.rewards += other.rewards
        self.seen = max(self.seen, other.seen)

    @property
    def count(self) -> int:
        """How many clusters there are."""
        return int(np.unique(np.concatenate(self.ids)).size) if self.ids else 0

    def findings(self) -> list[Finding]:
        """Return what was found."""
        if not self.ids:
            return []
        ids, rewards = np.concatenate(self.ids), np.concatenate(self.rewards)
        arranged = np.lexsort((np.concatenate(self.order), ids))
        _, parent, sizes = np.unique(ids[arranged], return_inverse=True, return_counts=True)
        largest, most = int(sizes.max()), self.problem.cluster_most
        column = self.problem.cluster_name
        if most is not None:
            if largest <= most:
                return []
            message = f"a cluster has {largest} episodes, more than the {most} that are declared as the most it can have"
            size = float(largest)
            return [
                make_finding(
                    "cluster-larger-than-declared", "refused", message, column=column, largest=size, declared=float(most)
                )
            ]
        contrast = Contrast()
        contrast.add(rewards[arranged], parent, np.ones(parent.size, dtype=np.bool_))
        score, effect, stopped = contrast.score()
        if abs(score) < upper_quantile(self.alpha / 4.0) or abs(effect) < EFFECT:
            return []
        direction = "higher" if score > 0 else "lower"
        message = (
            f"the last episodes of clusters have a {direction} reward, against those before them, than episodes of the same "
            f"place that others follow (standard score {score:.1f}); does a cluster end after a success?"
        )
        return [
            make_finding(
                "cluster-size-follows-reward",
                "refused",
                message,
                column=column,
                score=score,
                effect=effect,
                stopped=stopped,
                largest=float(largest),
            )
        ]
