"""What is to know about the plan of a level from a pilot log, in sentences."""

from __future__ import annotations

from aegis.certificate import Candidate
from aegis.certificate.measures import Measure
from aegis.problem import Batch, Level
from aegis.validation.planner.legacy import Behaviour
from aegis.validation.planner.pilot import REFERENCE_CAP, PilotLevel
from aegis.validation.planner.words import better_by

NOTABLE = 0.05  # share of the modelled differences from which it is said that it was taken off


def no_gain(level: str, found: PilotLevel, measure: Measure, counts: bool) -> str:
    """Return that the pilot shows no gain, and what it shows; counts: the numbers of the plan are made from it all the same."""
    width = measure.width
    shown = f"{_who(found)} gains {found.robust * width:.3g} there, give or take {2 * found.error * width:.3g}"
    told = f"the pilot itself shows no gain yet at level '{level}': {shown}"
    if not counts:
        return told
    return (
        f"{told}; what is counted on is {found.counted * width + 0.0:.3g}, as in the table. Take the numbers for a guess, or "
        "give the gain that is hoped for (--gain)"
    )


def instead(gain: float, measure: Measure) -> str:
    """Return that the guess is used where the pilot shows no gain."""
    return (
        f"so the numbers are from the gain that was given: the best action {better_by(gain, measure.goal)} than the legacy's own"
    )


def not_used(level: str, gain: float, found: PilotLevel, measure: Measure, given: Candidate | None) -> str:
    """Return that a gain that was given is not used because the pilot has its own."""
    why = f"the pilot shows its own: {_who(found)} gains {found.counted * measure.width:.3g} there, which is what counts"
    if given is not None:
        why = (
            f"the plan is for the policy that was given, and {_who(found)} gains {found.counted * measure.width:.3g} by the pilot"
        )
    return f"the gain of {gain:g} that was given is not used at level '{level}': {why}"


def pilot_notes(
    level: Level, batch: Batch, found: PilotLevel, behaviour: Behaviour, modelled: bool, given: Candidate | None, counts: bool
) -> tuple[str, ...]:
    """Return what else is to know; batch: the pilot.

    modelled: both halves have reward models. given: the user's candidate. counts: what the pilot says of gains is what counts.
    """
    notes = []
    if not modelled:
        notes.append("no reward model could be fitted to the pilot, so that no candidate can be learned from it; make it longer")
    if counts and 0 < found.shrink < 1 - NOTABLE:
        notes.append(
            f"the fitted model is optimistic: {1 - found.shrink:.0%} was taken off its differences between actions, so that they "
            "make the gain that the other half of the pilot shows"
        )
    if behaviour.uniform_already:
        notes.append("the legacy chooses uniformly already: it cannot explore more, and what it would do otherwise is not known")
    if batch.observed is not None and not batch.observed.all():
        missing = 1 - float(batch.observed.mean())
        notes.append(
            f"{missing:.1%} of the rewards are missing; a certificate counts each at its worst, which takes longer than shown"
        )
    if level.propensity is not None and level.propensity.estimated:
        notes.append(
            f"the propensities of level '{level.name}' are estimated; the plan is for those that a controller logs exactly. "
            "Within a declared error ('wrong_by') it takes longer than shown, and without one nothing is certified"
        )
    if given is not None and given.record:
        notes.append("if the policy was learned from this very log, the pilot flatters it: take the numbers for a lower limit")
    return tuple(notes)


def _who(found: PilotLevel) -> str:
    return f"a candidate capped at {REFERENCE_CAP:g}" if found.caps is None else "the candidate"
