"""The beliefs of several runs side by side: updated together, looked at one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from aegis.mechanisms.belief import Belief
from aegis.mechanisms.nig import NIG
from aegis.mechanisms.regression import Regression
from aegis.mechanisms.stacked import StackedNIG, StackedRegression
from aegis.problem import AnyArray, Batch


@dataclass(frozen=True, slots=True)
class StackedBelief:
    """G beliefs over the same mechanisms. shared: the first one, for all that they have in common."""

    shared: Belief
    members: tuple[Belief, ...]
    stacks: Mapping[str, StackedRegression]
    states: Mapping[str, StackedNIG]

    @classmethod
    def of(cls, beliefs: Sequence[Belief]) -> StackedBelief | None:
        """Stack the beliefs of G runs of one agent; None if a mechanism is not a regression (a table has nothing to share)."""
        stacks, states = {}, {}
        for name in beliefs[0].mechanisms:
            specs = [spec for belief in beliefs if isinstance(spec := belief.mechanisms[name], Regression)]
            own = [state for belief in beliefs if isinstance(state := belief.states[name], NIG)]
            if not len(specs) == len(own) == len(beliefs):
                return None
            stacks[name], states[name] = StackedRegression.of(specs), StackedNIG.of(own)
        return cls(beliefs[0], tuple(beliefs), stacks, states)

    def update(self, batch: Batch) -> StackedBelief:
        """Return the beliefs after one episode of each run: the g-th of the batch is the g-th's."""
        if not all(equally_many(batch, level) for level in batch.levels):
            each = [own.update(batch.take_episodes([g])) for g, own in enumerate(self.beliefs())]
            found = {name: StackedNIG.of([own.states[name] for own in each]) for name in self.stacks}  # type: ignore[misc]
            return replace(self, states=found)
        rows = self.shared.rows(batch)
        return replace(self, states={name: stack.update(self.states[name], *rows[name]) for name, stack in self.stacks.items()})

    def beliefs(self) -> list[Belief]:
        """Return the belief of each run; its arrays are views."""
        return self._apart({name: states.each() for name, states in self.states.items()})

    def solved(self) -> list[Belief]:
        """Return the belief of each run with the moments of its posteriors known: what draws start from."""
        return self._apart({name: states.solved() for name, states in self.states.items()})

    def _apart(self, each: Mapping[str, Sequence[NIG]]) -> list[Belief]:
        return [
            Belief(own.problem, own.mechanisms, own.prior, {name: states[g] for name, states in each.items()})
            for g, own in enumerate(self.members)
        ]


def equally_many(batch: Batch, level: str) -> bool:
    """Say whether every episode of a batch has the same number of decisions at `level`."""
    episodes: AnyArray = np.arange(len(batch))
    owner = episodes
    for name, table in batch.levels.items():
        owner = owner[table.parent]
        if name == level:
            break
    return owner.size % len(batch) == 0 and bool((owner.reshape(len(batch), -1) == episodes[:, None]).all())
