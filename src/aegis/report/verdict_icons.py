"""Icons and names of verdicts on a page; the shape tells the verdict without colour."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from aegis.certificate import CERTIFIED, NOT_YET, REFUSED
from aegis.report.svg import tag

ESTIMATE_NOTE = "estimate, not a certificate"


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


VERDICT_FACES: dict[str, Face] = {
    CERTIFIED: Face("Certified", "certified", TICK),
    NOT_YET: Face("Not yet", "not-yet", GLASS),
    REFUSED: Face("Refused", "refused", STOP),
}


def verdict_face(verdict: str | None) -> Face:
    """Return how a verdict looks; any other word looks neutral."""
    word = str(verdict or "unknown")
    return VERDICT_FACES.get(word) or Face(word[:1].upper() + word[1:], "neutral", DOT)
