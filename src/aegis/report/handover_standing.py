"""Where a gate stands at each level: who is in control, and how far the challenge that leads is from being certified."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from aegis.certificate.measures import Measure
from aegis.errors import RefusedError
from aegis.handover.challenge import GAIN, VALUE, Challenge, ClaimState
from aegis.handover.periodic import Look
from aegis.handover.state import GateState


@dataclass(frozen=True, slots=True)
class Evidence:
    """Of a challenge, in powers of ten: the wealth of the test that is furthest behind, and the wealth that certifies it."""

    wealth: float
    threshold: float

    @property
    def share(self) -> float:
        """Return how much of the way is behind it: 1 is certified, 0 is where a test starts, below 0 speaks against it."""
        return self.wealth / self.threshold


@dataclass(frozen=True, slots=True)
class Leading:
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
    evidence: Evidence | None
    certified: bool
    further: int | None


@dataclass(frozen=True, slots=True)
class Standing:
    """One level: in control is 'legacy' or 'agent', since which episode, at which certified gain; and who challenges that."""

    level: str
    control: str
    since: int | None
    gain_lower: float | None
    leading: Leading | None


def standings(state: GateState, measure: Measure, looks: Sequence[Look] = ()) -> tuple[Standing, ...]:
    """Return where every level stands, innermost first. looks: of a gate that looks at its log from time to time."""
    last = {look.level: look for look in looks if look.gain is not None}
    return tuple(_standing(state, measure, level, last.get(level)) for level in state.levels)


def evidence_of(challenge: Challenge) -> Evidence:
    """Return the evidence of the claim that is furthest from its threshold; minus infinity where it speaks of nothing."""
    tested = [_evidence(claim) for claim in challenge.claims if claim.what != VALUE]
    return min(tested, key=lambda found: found.wealth - found.threshold)


def leading(state: GateState, level: str, measure: Measure) -> tuple[Challenge, float] | None:
    """Return the challenge at a level whose certified bound is highest, and that bound; None before any has counted a unit.

    All open challenges share the risk, so that the highest of their bounds holds too.
    """
    bounds = [(item, bound_of(item, measure)) for item in state.challenges if item.level == level and item.units]
    known = [(item, bound) for item, bound in bounds if bound is not None]
    return max(known, key=lambda pair: (pair[0].crossed is not None, pair[1]), default=None)


def bound_of(challenge: Challenge, measure: Measure) -> float | None:
    """Return the lower bound of the gain as logged; None if the evidence contradicts what it rests on."""
    try:
        lower = challenge.claim(GAIN).lower
    except RefusedError:
        return None
    # A bound of the moment it was certified holds at all units at once and is not lost while something is waited for.
    return measure.gain(max(lower, -math.inf if challenge.gain_lower is None else challenge.gain_lower))


def _standing(state: GateState, measure: Measure, level: str, look: Look | None) -> Standing:
    now, ahead = state.at(level), leading(state, level, measure)
    lead = None if ahead is None else _leading(*ahead, measure)
    if lead is None and look is not None and now is None:
        gain, margin = measure.gain(look.gain or 0.0), measure.gain(look.margin)
        lead = Leading("look", "handover", math.inf, look.episode - state.start, gain, margin, None, False, None)
    return Standing(
        level,
        "legacy" if now is None else "agent",
        None if now is None else now.since,
        None if now is None else measure.gain(now.gain_lower),
        lead,
    )


def _leading(item: Challenge, bound: float, measure: Measure) -> Leading:
    gain = item.claim(GAIN)
    return Leading(
        item.name,
        item.kind,
        item.cap,
        item.units,
        bound,
        measure.gain(gain.margin),
        evidence_of(item),
        item.crossed is not None,
        _further(gain),
    )


def _evidence(claim: ClaimState) -> Evidence:
    threshold = math.log10(1.0 / claim.delta)
    if claim.margin < claim.low:  # exceeded whatever the data are
        return Evidence(math.inf if claim.certified else -math.inf, threshold)
    return Evidence(claim.log_evidence / math.log(10.0), threshold)


def _further(claim: ClaimState) -> int | None:
    blend = claim.blend
    needed = None if blend is None else blend.units_needed(claim.margin, claim.delta)
    return None if needed is None else needed - claim.count
