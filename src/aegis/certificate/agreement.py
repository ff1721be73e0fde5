"""Do candidate and comparator differ at all on the certified decisions, and does the log reach what the incumbent does?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from aegis.certificate.exact import whole_sum
from aegis.certificate.view import View
from aegis.policies import path_full, path_taken
from aegis.problem import AnyArray, Scope

SAME = 1e-9  # probabilities closer than this are equal
BITS = 30


@dataclass(slots=True)
class Agreement:
    """A candidate beside its comparator at a scope, over the certified decisions.

    differs: whether any probability does. decisions, unreached: by level whose incumbent is stated, how many decisions there are,
    and the sum of the probability that the incumbent gives to actions that the logger never takes, in units of 2^-BITS.
    """

    differs: bool = False
    decisions: dict[str, int] = field(default_factory=dict)
    unreached: dict[str, int] = field(default_factory=dict)

    def add(self, view: View, scope: Scope, rows: Mapping[str | None, AnyArray]) -> None:
        """Add the decisions of a view; rows: by level which of them count, all where a level is not named."""
        found, batch = view.against(scope), view.batch
        wide = view.comparator.compared(scope)
        for level in batch.levels:
            known = batch.levels[level].mu_full is not None
            seen = view.against(wide) if known and level in wide & view.comparator.levels else None
            if seen is not None:
                self._reach(level, path_full(seen, level, batch), view.logging(level), rows.get(level))
            if self.differs or level not in scope:
                continue
            stated = found is not None and level in view.comparator.levels
            full = level in view._full and known
            if full:
                mu = path_full(found, level, batch) if stated and found is not None else view.logging(level)
                apart = np.abs(path_full(view, level, batch, scope) - mu).max(axis=1) > SAME
            else:
                own = path_taken(found, level, batch) if stated and found is not None else batch.levels[level].mu_taken
                apart = np.abs(path_taken(view, level, batch, scope) - own) > SAME * np.maximum(own, 1.0)
            kept = rows.get(level)
            self.differs = bool((apart if kept is None else apart[kept]).any())

    def merge(self, other: Agreement) -> None:
        """Add the decisions of another."""
        self.differs = self.differs or other.differs
        for name, count in other.decisions.items():
            self.decisions[name] = self.decisions.get(name, 0) + count
            self.unreached[name] = self.unreached.get(name, 0) + other.unreached[name]

    def share(self, level: str) -> float:
        """Return the mean probability that the incumbent gives to actions which the logger never takes; 0 if none were seen."""
        return self.unreached.get(level, 0) / 2.0**BITS / max(self.decisions.get(level, 0), 1)

    def _reach(self, level: str, mu: AnyArray, nu: AnyArray, kept: AnyArray | None) -> None:
        never = nu <= 0
        count = len(nu) if kept is None else int(np.count_nonzero(kept))
        total = 0
        if never.any():
            missed = np.where(never, mu, 0.0).sum(axis=1)
            total = whole_sum(missed if kept is None else missed[kept], BITS) or 0
        self.decisions[level] = self.decisions.get(level, 0) + count
        self.unreached[level] = self.unreached.get(level, 0) + total
