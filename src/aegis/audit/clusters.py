"""Does the number of episodes in a cluster depend on their rewards? Keeps 24 bytes for each episode of a log with clusters."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from aegis.audit.finding import Finding, finding
from aegis.audit.sizes import EFFECT, Contrast
from aegis.audit.sums import upper_quantile
from aegis.audit.view import View
from aegis.logs.keys import hashes, id_parts
from aegis.problem import AnyArray, Array, Problem


class Clusters:
    """Episodes of each cluster in the order of their start (of the log, if there is no time), with their mean rewards."""

    def __init__(self, problem: Problem, alpha: float) -> None:
        self.problem, self.alpha = problem, alpha
        self.ids: list[AnyArray] = []
        self.order: list[AnyArray] = []
        self.rewards: list[Array] = []
        self.seen = 0

    def add(self, view: View) -> None:
        """Add the episodes of a batch."""
        batch = view.batch
        if self.problem.cluster is None or batch.cluster is None:
            return
        self.ids.append(np.asarray(hashes([pa.array(part) for part in id_parts(batch.cluster)])))
        in_time = batch.time is not None and batch.time.dtype.kind in "iufM"
        self.order.append(np.asarray(batch.time) if in_time else np.arange(self.seen, self.seen + len(batch)))
        self.rewards.append(view.scaled_episodes())
        self.seen += len(batch)

    def merge(self, other: Clusters) -> None:
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
                finding("cluster-larger-than-declared", "refused", message, column=column, largest=size, declared=float(most))
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
            finding(
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
