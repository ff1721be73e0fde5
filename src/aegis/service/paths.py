"""How a live gate got where it is, thinned as it grows long: bounds by level, and what episodes earned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from aegis.certificate.measures import Measure
from aegis.handover import GateState
from aegis.handover.challenge import GAIN
from aegis.handover.events import Flipped, Reverted, Unit
from aegis.report.handover_standing import leading

MOST = 240  # points that are kept of a path; beyond it every other one is dropped


@dataclass(slots=True)
class Paths:
    """bounds: by level, points (episode, bound of the leading challenge, margin) in units of the reward. rewards: means of blocks
    (first episode, last, mean, who acted)."""

    measure: Measure
    bounds: dict[str, list[tuple[int, float, float]]] = field(default_factory=dict)
    rewards: list[tuple[int, int, float, str]] = field(default_factory=list)
    _every: int = 1
    _block: list[float] = field(default_factory=list)
    _size: int = 8
    _who: str = "legacy"
    _first: int = 1

    def unit(self, state: GateState, unit: Unit, who: str) -> None:
        """Go on by a unit; state: after it. who: acted in it, which may be somebody else than who is in control by now."""
        if unit.episode % self._every == 0:
            for level in state.levels:
                ahead = leading(state, level, self.measure)
                if ahead is not None:
                    margin = self.measure.gain(ahead[0].claim(GAIN).margin)
                    self.bounds.setdefault(level, []).append((unit.episode, ahead[1], margin))
            if max((len(path) for path in self.bounds.values()), default=0) > MOST:
                self.bounds = {level: path[::2] for level, path in self.bounds.items()}
                self._every *= 2
        if who != self._who or len(self._block) >= self._size:
            self._close(unit.episode - 1)
            self._who, self._first = who, unit.episode
        if unit.reward is not None:
            self._block.append(unit.reward)

    def changed(self, event: Flipped | Reverted) -> None:
        """Take note that who acts has changed: what comes now is a block of its own."""
        self._close(event.episode)
        self._first = event.episode + 1

    def _close(self, last: int) -> None:
        if self._block:
            mean = self.measure.value(sum(self._block) / len(self._block))
            self.rewards.append((self._first, last, mean, self._who))
        self._block = []
        if len(self.rewards) > MOST:
            self.rewards = _halved(self.rewards)
            self._size *= 2

    def plain(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "bounds": {level: [list(point) for point in path] for level, path in self.bounds.items()},
            "rewards": [list(block) for block in self.rewards],
        }


def _halved(blocks: list[tuple[int, int, float, str]]) -> list[tuple[int, int, float, str]]:
    """Return blocks with neighbours of the same actor joined, two at a time."""
    found: list[tuple[int, int, float, str]] = []
    place = 0
    while place < len(blocks):
        one = blocks[place]
        two = blocks[place + 1] if place + 1 < len(blocks) else None
        if two is None or two[3] != one[3]:
            found.append(one)
            place += 1
            continue
        sizes = one[1] - one[0] + 1, two[1] - two[0] + 1
        found.append((one[0], two[1], (one[2] * sizes[0] + two[2] * sizes[1]) / sum(sizes), one[3]))
        place += 2
    return found
