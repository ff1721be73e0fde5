"""What a gate has seen: closed episodes in the order in which they started, and who acted in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aegis.certificate.comparator import LOGGER, Comparator
from aegis.problem import Batch, Policy, Problem, concat


@dataclass(frozen=True, slots=True)
class History:
    """Episodes so far. arms: who acted in each. start: the phase began with the episode after it. acting: who acts now.

    legacy: the controller that the plant came with. everywhere: legacy and the policies in control can be asked about any state;
    else they are known in the states that were met only, and what lies below a decision cannot be planned through them.
    comparator: the incumbent, with which a challenger is compared at levels that the legacy controls.
    """

    problem: Problem
    legacy: Policy
    acting: Policy
    batches: tuple[Batch, ...]
    arms: tuple[str, ...]
    start: int
    everywhere: bool = True
    comparator: Comparator = LOGGER

    @property
    def episodes(self) -> int:
        """Return how many there are."""
        return len(self.arms)

    def everything(self) -> Batch:
        """Return all episodes: the plant's mechanisms do not depend on who acts."""
        return concat(list(self.batches))

    def phase(self) -> Batch:
        """Return the episodes of the present phase in which the policies that act now acted."""
        whole = self.everything()
        chosen = [place for place in range(self.start, self.episodes) if self.arms[place] == "agent"]
        return whole.take_episodes(chosen)


def joined(batches: Sequence[Batch]) -> tuple[Batch, ...]:
    """Return batches as one, so that they need not be joined again."""
    return (concat(list(batches)),) if batches else ()
