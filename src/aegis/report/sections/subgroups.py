"""Gains in parts of the data: for whom, or where, the candidate helps."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from aegis.report.charts.gain_bar import gain_bar, shared_axis
from aegis.report.document import Document
from aegis.report.numbers import count, risk
from aegis.report.sections.scopes import estimate_text, gain_text, known_gain
from aegis.report.words import Face, face, named


@dataclass(frozen=True, slots=True)
class Subgroup:
    """The gain in one part of the data."""

    scope: str
    where: str
    units: str
    face: Face
    gain: str
    estimate: str
    risk: str
    worse: bool
    bar: Markup


def subgroups(document: Document) -> tuple[Subgroup, ...]:
    """Return all subgroups, those of the main scope first; worse: the estimate says that the candidate loses there."""
    items = sorted(document.diagnostics("subgroups"), key=lambda item: not document.is_main(item))
    gains = [known_gain(document, item) for item in items]
    axis = shared_axis(gains)
    found = []
    for place, (item, gain) in enumerate(zip(items, gains, strict=True)):
        where = f"{named(item.get('variable'))}: {named(item.get('label'))}"
        delta = item.get("delta")
        found.append(
            Subgroup(
                document.title(item),
                where,
                count(item.get("units")),
                face("refused" if document.is_refused(item) else item.get("verdict")),
                gain_text(document, gain),
                estimate_text(document, gain),
                "" if delta is None else risk(delta),
                gain.estimate is not None and gain.estimate < 0,
                gain_bar(f"subgroup-{place}", f"Gain at {document.title(item)}, {where}", gain, axis, document.amounts),
            )
        )
    return tuple(found)
