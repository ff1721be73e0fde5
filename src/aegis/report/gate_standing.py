"""The standing of a gate at each level: who is in control, and how far the leading challenge is from being certified; now, and
over the run, by a replay of the events.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from aegis.errors import InputError, RefusedError
from aegis.handover import (
    GAIN,
    VALUE,
    Challenge,
    ClaimState,
    Event,
    Flipped,
    GateLook,
    GateOpened,
    GateState,
    UnitCounted,
    apply_event,
    replay_events,
)
from aegis.ope import Measure


@dataclass(frozen=True, slots=True)
class ChallengeEvidence:
    """Of a challenge, in powers of ten: the wealth of the test that is furthest behind, and the wealth that certifies it."""

    wealth: float
    threshold: float

    @property
    def share(self) -> float:
        """Return how much of the way is behind it: 1 is certified, 0 is where a test starts, below 0 speaks against it."""
        return self.wealth / self.threshold


@dataclass(frozen=True, slots=True)
class LeadingChallenge:
    """The open challenge at a level whose certified bound is highest, or the last look of a gate that looks from time to time.

    bound: lower bound of its gain in units of the reward as logged. margin: what the bound must exceed.
    evidence: None for a look. certified: it has reached its threshold already, and patience or an operator is waited for.
    further: about how many more units it would take, if evidence went on growing as so far; an estimate, None if it does not.
    """

    name: str
    kind: str
    cap: float
    units: int
    bound: float
    margin: float
    evidence: ChallengeEvidence | None
    certified: bool
    further: int | None


@dataclass(frozen=True, slots=True)
class LevelStanding:
    """One level: in control is 'legacy' or 'agent', since which episode, at which certified gain; and who challenges that."""

    level: str
    control: str
    since: int | None
    gain_lower: float | None
    leading: LeadingChallenge | None


def level_standings(state: GateState, measure: Measure, looks: Sequence[GateLook] = ()) -> tuple[LevelStanding, ...]:
    """Return where every level stands, innermost first. looks: of a gate that looks at its log from time to time."""
    last = {look.level: look for look in looks if look.gain is not None}
    return tuple(_standing(state, measure, level, last.get(level)) for level in state.levels)


def challenge_evidence(challenge: Challenge) -> ChallengeEvidence:
    """Return the evidence of the claim that is furthest from its threshold; minus infinity where it speaks of nothing."""
    tested = [_evidence(claim) for claim in challenge.claims if claim.what != VALUE]
    return min(tested, key=lambda evidence: evidence.wealth - evidence.threshold)


def leading_challenge(state: GateState, level: str, measure: Measure) -> tuple[Challenge, float] | None:
    """Return the challenge at a level whose certified bound is highest, and that bound; None before any has counted a unit.

    All open challenges share the risk, so that the highest of their bounds holds too.
    """
    bounds = [(item, challenge_bound(item, measure)) for item in state.challenges if item.level == level and item.units]
    known = [(item, bound) for item, bound in bounds if bound is not None]
    return max(known, key=lambda pair: (pair[0].crossed is not None, pair[1]), default=None)


def challenge_bound(challenge: Challenge, measure: Measure) -> float | None:
    """Return the lower bound of the gain as logged; None if the evidence contradicts what it rests on."""
    try:
        lower = challenge.claim(GAIN).lower
    except RefusedError:
        return None
    # A bound of the moment it was certified holds at all units at once and is not lost while something is waited for.
    return measure.gain(max(lower, -math.inf if challenge.gain_lower is None else challenge.gain_lower))


def _standing(state: GateState, measure: Measure, level: str, look: GateLook | None) -> LevelStanding:
    now, ahead = state.at(level), leading_challenge(state, level, measure)
    lead = None if ahead is None else _leading(*ahead, measure)
    if now is not None:
        gain = measure.gain(now.gain_lower)
        return LevelStanding(level=level, control="agent", since=now.since, gain_lower=gain, leading=lead)
    if lead is None and look is not None:
        lead = LeadingChallenge(
            name="look",
            kind="handover",
            cap=math.inf,
            units=look.units,
            bound=measure.gain(look.gain or 0.0),
            margin=measure.gain(look.margin),
            evidence=None,
            certified=False,
            further=None,
        )
    return LevelStanding(level=level, control="legacy", since=None, gain_lower=None, leading=lead)


def _leading(item: Challenge, bound: float, measure: Measure) -> LeadingChallenge:
    gain = item.claim(GAIN)
    needed = None if gain.blend is None else gain.blend.units_needed(gain.margin, gain.delta)
    return LeadingChallenge(
        name=item.name,
        kind=item.kind,
        cap=item.cap,
        units=item.units,
        bound=bound,
        margin=measure.gain(gain.margin),
        evidence=challenge_evidence(item),
        certified=item.crossed is not None,
        further=None if needed is None else needed - gain.count,
    )


def _evidence(claim: ClaimState) -> ChallengeEvidence:
    threshold = math.log10(1.0 / claim.delta)
    if claim.margin < claim.low:  # exceeded by any data
        return ChallengeEvidence(math.inf if claim.certified else -math.inf, threshold)
    return ChallengeEvidence(claim.log_evidence / math.log(10.0), threshold)


TRAJECTORY_STATIONS = 60
EARLY_LOOK_FACTOR = 1.12  # between two looks soon after a phase begins


@dataclass(frozen=True, slots=True)
class LeadingBound:
    """The challenge that led at a level after so many episodes, its bound (as logged) and what it must exceed."""

    episode: int
    challenge: str
    bound: float
    margin: float


@dataclass(frozen=True, slots=True)
class EvidenceCourse:
    """The evidence of one challenge: episodes, and its share of what certifies it."""

    name: str
    level: str
    points: tuple[tuple[int, float], ...]
    won: bool


@dataclass(frozen=True, slots=True)
class GateTrajectory:
    """bounds: by level, in phases between flips, restarts and reverts. courses: every challenge that counted units.

    For a gate that only looks at its log from time to time: what it computed at every look, and no courses.
    """

    bounds: dict[str, tuple[tuple[LeadingBound, ...], ...]]
    courses: tuple[EvidenceCourse, ...]


def replay_trajectory(events: Sequence[Event], measure: Measure, stations: int = TRAJECTORY_STATIONS) -> GateTrajectory:
    """Return how bounds and evidence grew; InputError as `replay_events` raises it.

    Looked at are about so many episodes that are equally far apart, more of them early in each phase, and every flip.
    """
    if not events or not isinstance(events[0], GateOpened):
        raise InputError("the events of a gate begin with 'opened'")
    state = replay_events(events[:1])
    bounds: dict[str, list[list[LeadingBound]]] = {level: [[]] for level in state.levels}
    points: dict[str, list[tuple[int, float]]] = {}
    levels: dict[str, str] = {}
    won: set[str] = set()
    count = sum(isinstance(event, UnitCounted) for event in events)
    chosen, early = set(range(count, 0, -max(1, math.ceil(count / stations)))), _early_episodes(count)
    last_look = 0

    def look(state: GateState) -> None:
        for level in state.levels:
            ahead = leading_challenge(state, level, measure)
            if ahead is not None:
                margin = measure.gain(ahead[0].claim(GAIN).margin)
                bounds[level][-1].append(LeadingBound(state.episode, ahead[0].name, ahead[1], margin))
        for item in state.challenges:
            share = challenge_evidence(item).share if item.units else math.nan
            if math.isfinite(share):
                levels[item.name] = item.level
                points.setdefault(item.name, [(item.since - 1, 0.0)]).append((state.episode, share))

    for event in events[1:]:
        if isinstance(event, Flipped) and last_look != state.episode:
            look(state)
            last_look = state.episode
        before = state.start
        state = apply_event(state, event)
        if isinstance(event, Flipped):
            won.add(event.challenge)
        if state.start != before:  # a new phase
            for phases in bounds.values():
                phases.append([])
        if isinstance(event, UnitCounted) and (event.episode in chosen or event.episode - state.start in early):
            look(state)
            last_look = event.episode
    return GateTrajectory(
        {level: tuple(tuple(phase) for phase in phases if phase) for level, phases in bounds.items()},
        tuple(EvidenceCourse(name, levels[name], tuple(course), name in won) for name, course in points.items()),
    )


def look_trajectory(looks: Sequence[GateLook], levels: Sequence[str], measure: Measure) -> GateTrajectory:
    """Return what a gate computed at its looks, by level."""
    bounds: dict[str, list[LeadingBound]] = {level: [] for level in levels}
    for look in looks:
        if look.gain is not None and look.decides and look.level in bounds:
            bounds[look.level].append(LeadingBound(look.episode, "", measure.gain(look.gain), measure.gain(look.margin)))
    return GateTrajectory({level: (tuple(own),) if own else () for level, own in bounds.items()}, ())


def _early_episodes(episodes: int) -> set[int]:
    """Return after how many episodes of a phase to look."""
    episodes_to_look, place = set(), 1.0
    while place <= episodes:
        episodes_to_look.add(math.ceil(place))
        place *= EARLY_LOOK_FACTOR
    return episodes_to_look
