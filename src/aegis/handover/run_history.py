"""The history of a run: closed episodes with arms and rewards, turns of the agent at each level, events as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aegis.handover.events import Event, Flipped, Reverted, UnitCounted, event_to_plain
from aegis.ope import LOGGER_COMPARATOR, CandidateView, Comparator, RewardModels, reward_measure
from aegis.problem import Array, Batch, Policy, Problem, concat


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
    comparator: Comparator = LOGGER_COMPARATOR

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


def join_batches(batches: Sequence[Batch]) -> tuple[Batch, ...]:
    """Return batches as one, so that they need not be joined again."""
    return (concat(list(batches)),) if batches else ()


@dataclass(frozen=True, slots=True)
class Turn:
    """Episodes in which an agent had a level: from `since` up to and including `until`, None if it still has it."""

    level: str
    since: int
    until: int | None = None


def turns(events: Sequence[Event]) -> tuple[Turn, ...]:
    """Return the turns of agents in the order in which they began; an upgrade goes on with a turn."""
    by_place: dict[int, Turn] = {}  # by the place of the event that began it
    open_at: dict[str, int] = {}
    for place, event in enumerate(events):
        if isinstance(event, Flipped) and event.level not in open_at:
            open_at[event.level], by_place[place] = place, Turn(event.level, event.since)
        if isinstance(event, Reverted) and event.level in open_at:
            began = open_at.pop(event.level)
            by_place[began] = replace(by_place[began], until=event.since - 1)
    return tuple(by_place.values())


def last_change_of_control(events: Sequence[Event]) -> int:
    """Return from which episode on the policies that act now have acted: the last flip or revert; 1 if there was none."""
    return max((event.since for event in events if isinstance(event, Flipped | Reverted)), default=1)


def has_gate(events: Sequence[Event]) -> bool:
    """Return whether a gate decides who acts; without one the agent acts from the first episode on, before any look."""
    return not any(isinstance(event, Flipped) and event.episode == 0 for event in events)


def handed_over_episodes(events: Sequence[Event]) -> npt.NDArray[np.bool_]:
    """Return `[episodes]`: whether any level was handed over at the time of each closed episode."""
    size = sum(isinstance(event, UnitCounted) for event in events)
    handed_over = np.zeros(size, dtype=np.bool_)
    for turn in turns(events):
        handed_over[turn.since - 1 : turn.until] = True
    return handed_over


_COLUMN_TYPES: dict[str, pa.DataType] = {
    "kind": pa.string(),
    "episode": pa.int64(),
    "level": pa.string(),
    "challenge": pa.string(),
    "since": pa.int64(),
    "units": pa.int64(),
    "gain_lower": pa.float64(),
    "value_lower": pa.float64(),
    "cap": pa.float64(),
    "policy": pa.string(),
    "arm": pa.string(),
    "reward": pa.float64(),
    "evidence": pa.float64(),
    "floor": pa.float64(),
    "freeze": pa.int64(),
    "mode": pa.string(),
    "action": pa.string(),
    "who": pa.string(),
    "why": pa.string(),
    "code": pa.string(),
    "fix": pa.string(),
}

EVENT_SCHEMA = pa.schema(_COLUMN_TYPES)


def events_table(events: Iterable[Event], units: bool = False) -> pa.Table:
    """Return events with the fields they have, others null; bounds are scaled to [0, 1], as in the events themselves.

    Of a flip that is no certificate the numbers that bound nothing are null.

    units: one row for each closed episode too, with arm and scaled reward; `evidence` is that of an alarm. Settings and the
    sums of single challenges stay in `events.jsonl`.
    """
    return pa.Table.from_pylist([_row(event) for event in events if units or not isinstance(event, UnitCounted)], EVENT_SCHEMA)


def _row(event: Event) -> dict[str, Any]:
    plain = event_to_plain(event)
    bounds = () if plain.get("certificate", True) else ("gain_lower", "value_lower")
    row = {name: value for name, value in plain.items() if name in _COLUMN_TYPES and name not in bounds}
    return {name: value for name, value in row.items() if not isinstance(value, dict | list | tuple)}


def scaled_episode_rewards(problem: Problem, batch: Batch) -> Array:
    """Return the scaled nested-mean reward `[E]` of each episode; nan where rewards are missing."""
    view = CandidateView(problem, batch, None, RewardModels())  # type: ignore[arg-type]  # no policy is asked
    bounds = view.below(reward_measure(problem), None)
    return np.where(bounds.low == bounds.high, bounds.low, np.nan)
