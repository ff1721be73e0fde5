"""Are actions held within a cluster, although each episode logs a draw? Then a cluster counts as one bet on its propensities.

The bets of one cluster's episodes may depend on each other in any way. Their geometric mean is a fair bet all the same, for it
is at most their mean: the logarithms of an episode's bets are multiplied by a share, and the shares of a cluster sum to one.
While draws within clusters show no dependence, each of them is a bet of its own.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from aegis.audit.same_again import SameAgain
from aegis.audit.view import View
from aegis.logs.keys import hashes, id_parts
from aegis.problem import AnyArray, Array

DEPENDS = math.log(10.0)  # evidence from which draws within clusters count as dependent


class ClusterDraws:
    """Evidence about one level that actions come again within clusters, and in how many batches a cluster occurs."""

    def __init__(self) -> None:
        self.again = SameAgain()
        self.ids: list[AnyArray] = []  # of the clusters in each batch

    def add(self, view: View, level: str) -> Array | None:
        """Add the episodes of a batch; return the share `[m]` of each decision of a level, None without clusters."""
        if view.batch.cluster is None:
            return None
        found = hashes([pa.array(part) for part in id_parts(view.batch.cluster)])
        ids, cluster, sizes = np.unique(found, return_inverse=True, return_counts=True)
        self.ids.append(ids)
        first, some = view.first_decisions(level)
        order = np.argsort(cluster, kind="stable")
        order = order[some[order]]
        same = cluster[order[1:]] == cluster[order[:-1]]
        before, now = first[order[:-1][same]], first[order[1:][same]]
        table = view.batch.levels[level]
        known = np.isfinite(table.mu_taken[now]) & (table.mu_taken[now] > 0)
        if known.any():
            self.again.add(table, before[known], now[known])
        return np.asarray((1.0 / sizes)[cluster][view.episodes[level]])

    def merge(self, other: ClusterDraws) -> None:
        """Add what was found in other batches."""
        self.again.merge(other.again)
        self.ids += other.ids

    def batches(self, strongest: float) -> int | None:
        """Return in how many batches a cluster occurs at most, if draws within clusters depend on each other; else None.

        strongest: log evidence that the propensities are wrong in a slice; what is explained by that is no dependence.
        """
        if not self.again.pairs or self.again.evidence() < max(DEPENDS, strongest):
            return None
        _, number = np.unique(np.concatenate(self.ids), return_counts=True)
        return int(number.max())
