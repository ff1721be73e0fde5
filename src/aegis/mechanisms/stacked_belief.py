"""The beliefs of several runs side by side: updated together, looked at one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from aegis.mechanisms.belief import Belief
from aegis.mechanisms.nig import NIG
from aegis.mechanisms.regression import Regression
from aegis.mechanisms.stacked import StackedNIG, StackedRegression
from aegis.problem import Batch


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
        """Return the beliefs after one episode of each run, of the same number of rows: the g-th of the batch is the g-th's."""
        rows = self.shared.rows(batch)
        return replace(self, states={name: stack.update(self.states[name], *rows[name]) for name, stack in self.stacks.items()})

    def beliefs(self) -> list[Belief]:
        """Return the belief of each run; its arrays are views."""
        each = {name: states.each() for name, states in self.states.items()}
        return [
            Belief(own.problem, own.mechanisms, own.prior, {name: states[g] for name, states in each.items()})
            for g, own in enumerate(self.members)
        ]
