"""How wrong the logged probabilities may be before a certified result is certified no longer."""

from __future__ import annotations

from dataclasses import dataclass

from aegis.certificate.certificate import CERTIFIED
from aegis.report.document import Document, Plain
from aegis.report.numbers import DOWN, UP, brief, count, percent

EXAMPLE = 0.2  # a logged probability that everybody can picture


@dataclass(frozen=True, slots=True)
class Survival:
    """What a certified result survives, in one sentence; survives: it is more than nothing. note: how it was found out."""

    text: str
    note: str
    survives: bool


def sensitivity(document: Document) -> tuple[Survival, ...]:
    """Return one line for each certified result, the main one first; none of what is refused or not certified."""
    if document.refused:
        return ()
    certified = [level for level in document.levels if level["verdict"] == CERTIFIED]
    found = ((level, level.get("sensitivity")) for level in certified)  # which older certificates do not have
    return tuple(_survival(document, level, item) for level, item in found if item is not None and item["tried"])


def _survival(document: Document, level: Plain, item: Plain) -> Survival:
    place, gamma = document.title(level), item["gamma"]
    if gamma is None:
        return Survival(f"{place}: it could not be found out; {item['reason']}.", "", False)
    tests = f"on {count(item['units'])} {document.unit_word}, by these tests: {item['method']}"
    note = f"{tests}; {item['reason']}" if item["reason"] else tests
    if gamma == 1:
        first = brief(item["tried"][0])
        text = f"it relies on the logged probabilities being right; errors by a factor of {first} are more than it survives"
        return Survival(f"{place}: {text}.", note, False)
    text = (
        f"it stays certified even if every logged probability is wrong by a factor of up to {brief(gamma)}; a logged "
        f"{percent(EXAMPLE)} may then in truth have been anything from {percent(EXAMPLE / gamma, UP)} to "
        f"{percent(min(1.0, EXAMPLE * gamma), DOWN)}"
    )
    return Survival(f"{place}: {text}.", note, True)
