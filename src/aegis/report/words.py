"""What verdicts, scopes and units are called on a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from aegis.certificate.certificate import CERTIFIED, NOT_YET, REFUSED
from aegis.report.svg import tag

NOT_A_CERTIFICATE = "estimate, not a certificate"


@dataclass(frozen=True, slots=True)
class Face:
    """How a verdict looks: a word, a class for its colour and border, and an icon whose shape tells it without colour."""

    word: str
    style: str
    icon: Markup


def _icon(*shapes: Markup) -> Markup:
    return tag("svg", *shapes, viewBox="0 0 48 48", class_="icon", aria_hidden="true", focusable="false")


def _stroke(path: str, width: float = 5) -> Markup:
    return tag("path", d=path, class_="icon-line", stroke_width=width)


TICK = _icon(tag("circle", cx=24, cy=24, r=22, class_="icon-body"), _stroke("M13 25 L21 33 L35 16"))
GLASS = _icon(
    tag("path", d="M24 2 L46 24 L24 46 L2 24 Z", class_="icon-body"),
    _stroke("M16 13 H32 M16 35 H32 M18 13 C18 20 24 21 24 24 C24 21 30 20 30 13 M18 35 C18 28 24 27 24 24 C24 27 30 28 30 35", 3),
)
STOP = _icon(
    tag("path", d="M15 2 H33 L46 15 V33 L33 46 H15 L2 33 V15 Z", class_="icon-body"), _stroke("M15 15 L33 33 M33 15 L15 33")
)
ALERT = _icon(tag("path", d="M24 3 L46 44 H2 Z", class_="icon-body"), _stroke("M24 17 V29 M24 36.5 V37"))
DOT = _icon(tag("circle", cx=24, cy=24, r=10, class_="icon-body"))

FACES: dict[str, Face] = {
    CERTIFIED: Face("Certified", "certified", TICK),
    NOT_YET: Face("Not yet", "not-yet", GLASS),
    REFUSED: Face("Refused", "refused", STOP),
}


def face(verdict: str | None) -> Face:
    """Return how a verdict looks; a word that is none of the three looks neutral."""
    word = str(verdict or "unknown")
    return FACES.get(word) or Face(word[:1].upper() + word[1:], "neutral", DOT)


def named(value: object) -> str:
    """Return a name as it was given, or that there is none."""
    return "not named" if value is None else str(value)


def scope_words(scope: Sequence[str], order: Sequence[str] = ()) -> str:
    """Return the levels of a scope as the user calls them, outermost first where the order is known."""
    places = {name: place for place, name in enumerate(order)}
    return " + ".join(sorted(scope, key=lambda name: places.get(name, 0))) or "no level"


def per_words(problem: Mapping[str, Any]) -> str:
    """Return what one amount of the reward belongs to."""
    cluster = problem.get("cluster")
    if isinstance(cluster, Mapping):
        return "per possible episode"
    per = (problem.get("reward") or {}).get("per", "decision")
    if per == "episode":
        return "per episode"
    levels = problem.get("levels") or ()
    name = levels[-1]["name"] if per == "decision" and levels else None if per == "decision" else per
    return "per decision" if name is None else f"per decision at \u2018{name}\u2019"
