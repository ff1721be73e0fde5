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

from aegis.audit.batch_view import BatchView, comparable_times, in_reward_units
from aegis.audit.betting import Choices, EpisodeBets, log_mean_evidence, set_count
from aegis.audit.checks.base import AuditSetting, Check, Known, PropensityTolerance, Thinning, upper_quantile
from aegis.audit.checks.randomisation import cluster_hashes
from aegis.audit.finding import Finding, make_finding
from aegis.audit.slices import Mask
from aegis.audit.sums import Sums
from aegis.errors import pluralise
from aegis.problem import AnyArray, Array, has_next_sibling, sibling_positions

MOST_DECISIONS = 2**16  # of a level that are all read; then some batches only
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
        self.extremes: dict[str, tuple[float, int]] = dict.fromkeys(self.problem.names, (math.inf, 0))

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

    def _stretch(self, level: str, low: float, high: int) -> None:
        self.extremes[level] = min(self.extremes[level][0], low), max(self.extremes[level][1], high)

    def findings(self, known: Known) -> list[Finding]:
        """Return the findings; actions at levels whose propensities are wrong prove nothing about sizes."""
        return PropensityTolerance(self.problem).findings(self._findings, known.wrong)

    def _findings(self, wrong: Collection[str]) -> list[Finding]:
        varying = [name for name, (low, high) in self.extremes.items() if high > low and in_reward_units(self.problem, name)]
        findings: list[Finding] = []
        tested = [name for name in varying if name in self.bets and name not in wrong and self.bets[name].pairs]
        logs = {name: self.bets[name].evidence() for name in tested}
        if log_mean_evidence(logs.values()) >= math.log(2.0 / self.alpha):
            name = max(logs, key=lambda level: float(logs[level].max()))
            message = f"level '{name}': whether another decision follows in the same parent depends on the action taken"
            figures: dict[str, float | str] = {
                "log10_evidence": float(logs[name].max()) / math.log(10),
                "fewest": float(self.extremes[name][0]),
                "most": float(self.extremes[name][1]),
            }
            findings.append(make_finding("size-follows-action", "refused", message, name, figures=figures))
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
        self.next = 0  # number of the next episode
        self.episodes = 0

    def begin_part(self, first: int, episodes: int) -> None:
        """Number the episodes of a part from the first one on."""
        self.next = first

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

    def merge(self, other: ClusterSizes) -> None:
        """Add the episodes of a later part of the log."""
        super().merge(other)
        self.next = max(self.next, other.next)

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
