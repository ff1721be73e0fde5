"""How the certified gain grew with the evidence, scope by scope."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from aegis.report.charts.path import path_chart
from aegis.report.document import Document, Plain
from aegis.report.words import Face, face


@dataclass(frozen=True, slots=True)
class PathFigure:
    """The path of one result; `left_out` says what lies below the picture, if anything does."""

    title: str
    face: Face
    picture: Markup
    left_out: str
    main: bool


def paths(document: Document) -> tuple[PathFigure, ...]:
    """Return a figure for each result that has a path and is not refused, the main one first."""
    shown = [level for level in document.levels if not document.is_refused(level) and _stations(level)]
    return tuple(_figure(document, place, level) for place, level in enumerate(shown))


def _figure(document: Document, place: int, level: Plain) -> PathFigure:
    name = document.title(level)
    drawn = path_chart(
        f"path-{place}",
        f"Certified gain at {name} as evidence came in",
        _stations(level),
        level["estimate"],
        level["margin"] or 0.0,
        document.unit_word,
        document.amounts,
    )
    left_out = "" if drawn.floor is None else f"Early bounds below {document.amounts.show(drawn.floor)} are not drawn."
    return PathFigure(name, face(level["verdict"]), drawn.picture, left_out, level is document.main)


def _stations(level: Plain) -> list[tuple[int, float]]:
    """Return units and bounds in order, up to the bound that is certified in the end; empty if no path was recorded."""
    found = [(station["units"], station["gain_lower"]) for station in level["path"]]
    kept = [(units, bound) for units, bound in found if units > 0 and bound is not None]
    if kept and level["gain_lower"] is not None and level["units"] > kept[-1][0]:
        kept.append((level["units"], level["gain_lower"]))
    return kept
