"""How a gate got where it is: its events replayed, looked at from time to time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from aegis.certificate.measures import Measure
from aegis.errors import InputError
from aegis.handover.challenge import GAIN
from aegis.handover.events import Event, Flipped, Opened, Unit
from aegis.handover.periodic import Look
from aegis.handover.state import GateState, apply, replay
from aegis.report.handover_standing import evidence_of, leading

STATIONS = 60
CLOSER = 1.12  # what happens soon after a phase begins is looked at after so many times as many episodes each time


@dataclass(frozen=True, slots=True)
class Bound:
    """The challenge that led at a level after so many episodes, its bound (as logged) and what it must exceed."""

    episode: int
    challenge: str
    bound: float
    margin: float


@dataclass(frozen=True, slots=True)
class Course:
    """The evidence of one challenge: episodes, and its share of what certifies it."""

    name: str
    level: str
    points: tuple[tuple[int, float], ...]
    won: bool


@dataclass(frozen=True, slots=True)
class Trajectory:
    """bounds: by level, in phases between flips, restarts and reverts. courses: every challenge that counted units.

    For a gate that only looks at its log from time to time: what it computed at every look, and no courses.
    """

    bounds: dict[str, tuple[tuple[Bound, ...], ...]]
    courses: tuple[Course, ...]


@dataclass(slots=True)
class _Seen:
    """What has been seen so far; filled while events are replayed."""

    measure: Measure
    bounds: dict[str, list[list[Bound]]]
    courses: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)
    won: set[str] = field(default_factory=set)

    def look(self, state: GateState) -> None:
        for level in state.levels:
            ahead = leading(state, level, self.measure)
            if ahead is not None:
                margin = self.measure.gain(ahead[0].claim(GAIN).margin)
                self.bounds[level][-1].append(Bound(state.episode, ahead[0].name, ahead[1], margin))
        for item in state.challenges:
            share = evidence_of(item).share if item.units else math.nan
            if math.isfinite(share):
                self.levels[item.name] = item.level
                self.courses.setdefault(item.name, [(item.since - 1, 0.0)]).append((state.episode, share))

    def new_phase(self) -> None:
        for phases in self.bounds.values():
            phases.append([])


def trajectory(events: Sequence[Event], measure: Measure, stations: int = STATIONS) -> Trajectory:
    """Return how bounds and evidence grew; InputError as `replay` raises it.

    Looked at are about so many episodes that are equally far apart, more of them early in each phase, and every flip.
    """
    if not events or not isinstance(events[0], Opened):
        raise InputError("the events of a gate begin with 'opened'")
    state = replay(events[:1])
    seen = _Seen(measure, {level: [[]] for level in state.levels})
    episodes = [event.episode for event in events if isinstance(event, Unit)]
    chosen, early = _chosen(len(episodes), stations), _early(len(episodes))
    looked = 0
    for event in events[1:]:
        if isinstance(event, Flipped) and looked != state.episode:
            seen.look(state)
            looked = state.episode
        before = state.start
        state = apply(state, event)
        if isinstance(event, Flipped):
            seen.won.add(event.challenge)
        if state.start != before:
            seen.new_phase()
        if isinstance(event, Unit) and (event.episode in chosen or event.episode - state.start in early):
            seen.look(state)
            looked = event.episode
    bounds = {level: tuple(tuple(phase) for phase in phases if phase) for level, phases in seen.bounds.items()}
    courses = (Course(name, seen.levels[name], tuple(points), name in seen.won) for name, points in seen.courses.items())
    return Trajectory(bounds, tuple(courses))


def looked(looks: Sequence[Look], levels: Sequence[str], measure: Measure) -> Trajectory:
    """Return what a gate computed at its looks, by level."""
    found: dict[str, tuple[tuple[Bound, ...], ...]] = {}
    for level in levels:
        own = [look for look in looks if look.level == level and look.gain is not None]
        points = tuple(Bound(look.episode, "", measure.gain(look.gain or 0.0), measure.gain(look.margin)) for look in own)
        found[level] = (points,) if points else ()
    return Trajectory(found, ())


def _chosen(episodes: int, stations: int) -> set[int]:
    """Return the episodes to look at, the last among them."""
    step = max(1, math.ceil(episodes / stations))
    return set(range(episodes, 0, -step))


def _early(episodes: int) -> set[int]:
    """Return after how many episodes of a phase to look."""
    found, place = set(), 1.0
    while place <= episodes:
        found.add(math.ceil(place))
        place *= CLOSER
    return found
