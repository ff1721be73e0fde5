"""The page of a certificate: one HTML file with its styles and pictures inside, readable on a phone, on paper and in grey."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from aegis.certificate import CERTIFIED, NOT_YET, REFUSED, Certificate, load_certificate
from aegis.files import write_text
from aegis.ope import AGAINST_AVERAGE, AGAINST_LOG
from aegis.report.audit_trail import audit_trail, finding_lines, ledger_looks, sensitivity_lines
from aegis.report.document import ESTIMATE_NOTE, Document, Plain, Row, verdict_face
from aegis.report.gains import forecast_words, further_words, guard_line, path_figures, scope_rows, subgroup_rows
from aegis.report.numbers import DOWN, UNKNOWN, format_confidence, format_count, format_percent, format_risk, one_in
from aegis.report.overlap import level_differences, overlap_section


def write_report(certificate: Certificate | Mapping[str, Any] | str | Path, path: str | Path) -> Path:
    """Write the page of a certificate.

    Parameters
    ----------
    certificate
        A certificate, its plain data, or the path of a stored one.
    path
        The HTML file to write.

    Returns
    -------
    Path
        Where the page is.

    Raises
    ------
    InputError
        If it is not a certificate as it was issued.
    OutputError
        If the file cannot be written.
    """
    if isinstance(certificate, str | Path):
        content: Mapping[str, Any] = load_certificate(certificate)
    else:
        content = certificate.to_json() if isinstance(certificate, Certificate) else certificate
    target = Path(path)
    write_text(target, render_certificate(content))
    return target


def render_certificate(content: Mapping[str, Any]) -> str:
    """Return the page of what `Certificate.to_json()` returns; the same text for the same content."""
    document = Document.of(content)
    return (
        page_environment()
        .get_template("certificate.html")
        .render(
            document=document,
            summary=summary_section(document),
            rows=scope_rows(document),
            paths=path_figures(document),
            overlap=overlap_section(document),
            differs=level_differences(document),
            subgroups=subgroup_rows(document),
            sensitivity=sensitivity_lines(document),
            assumptions=content["assumptions"],
            findings=finding_lines(document),
            looks=ledger_looks(document),
            auditor=audit_trail(document),
            confidence=format_confidence(document.verdict["delta"]),
            count=format_count,
        )
    )


@functools.cache
def page_environment() -> Environment:
    """Return the templates, which escape all text. They are kept, because to compile them takes longer than to fill them."""
    return Environment(
        loader=PackageLoader("aegis.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


@dataclass(frozen=True, slots=True)
class Tile:
    """One of the five numbers: what it is, the number, its unit, what it means, and its exact value for a tooltip.

    limit: `at least` or `at most`, if the number is one end of what is certain.
    """

    label: str
    value: str
    unit: str
    caption: str
    limit: str = ""
    exact: str = ""
    style: str = ""


def summary_section(document: Document) -> Row:
    """Return the top of the page."""
    verdict = document.verdict
    return {
        "face": verdict_face(verdict["verdict"]),
        "action": _action(document),
        "sentence": verdict["sentence"],
        "tiles": _tiles(document),
        "reasons": _reasons(document),
        "next_step": verdict["next_step"],
    }


def _action(document: Document) -> str:
    kind = document.verdict["verdict"]
    if kind == CERTIFIED:
        title, against = document.title(document.verdict), (document.main or {}).get("against")
        if against == AGAINST_AVERAGE:
            return f"Better than the average of the log: {title}. State the incumbent before you hand over"
        if against == AGAINST_LOG:
            return f"Better than the policy that wrote the log: {title}. Hand over only where that policy is in control"
        return f"Yes: hand over {title}"
    if kind == NOT_YET:
        return "Keep the incumbent for now: the evidence does not suffice yet"
    return "Do not hand over: nothing can be certified from this log as it is"


def _tiles(document: Document) -> tuple[Tile, ...]:
    verdict, main = document.verdict, document.main or {}
    stated, at_end = main.get("incumbent_value"), "at least" if document.minimise else "at most"
    value = main.get("legacy_value") if stated is None else stated
    doing, best = ("costs", "costs the least") if document.minimise else ("earns", "earns the most")
    who = "the policy that wrote the log" if stated is None else "the incumbent"
    caption = f"what {who} {doing} {document.per}; {ESTIMATE_NOTE}"
    if main.get("unreached"):  # the incumbent acts where the log never does: its estimate lies at one end
        share = format_percent(main["unreached"])
        caption += f"; {share} of its probability lies where the log never acts, and counts as if it {best} there"
    return (
        _gain(document, main),
        _estimate(document, main),
        _evidence(document, main),
        Tile(label="Risk", value=format_risk(verdict["delta"]), unit="", caption=_risk(document), limit="at most"),
        Tile(
            label="Value of the log" if stated is None else "Value of the incumbent",
            value=document.amounts.show(value),
            unit=document.measure if value is not None else "",
            caption=caption,
            limit=at_end if main.get("unreached") else "",
            exact=_exact(value),
        ),
    )


def _gain(document: Document, main: Plain) -> Tile:
    lower, certified = document.verdict["gain_lower"], document.verdict["verdict"] == CERTIFIED
    if document.refused or lower is None:
        why = "a refused certificate certifies no number" if document.refused else "no bound could be computed"
        return Tile(label="Certified gain", value="none", unit="", caption=why, style="first")
    margin = main.get("margin") or 0.0
    caption = f"{document.per}; holds with probability at least {format_confidence(document.verdict['delta'])}"
    if not certified:
        caption += f"; a handover needs more than {document.amounts.show(margin)}"
    elif margin:
        caption += f"; more than the margin of {document.amounts.show(margin)}"
    return Tile(
        label="Certified gain" if certified else "Certified gain so far",
        value=document.amounts.show(lower, DOWN, sign=True),
        unit=document.measure,
        caption=caption,
        limit="at least",
        exact=_exact(lower),
        style="first",
    )


def _estimate(document: Document, main: Plain) -> Tile:
    estimate, error = document.verdict["estimate"], main.get("estimate_error")
    if estimate is None:
        return Tile(label="Estimated gain", value=UNKNOWN, unit="", caption=ESTIMATE_NOTE)
    caption = ESTIMATE_NOTE + ("" if error is None else f"; give or take {document.amounts.show(error)} (standard error)")
    shown = document.amounts.show(estimate, sign=True)
    return Tile(label="Estimated gain", value=shown, unit=document.measure, caption=caption, exact=_exact(estimate))


def _evidence(document: Document, main: Plain) -> Tile:
    verdict = document.verdict
    caption = f"that count as evidence; {_unseen(document)}"
    if document.refused:
        caption = "read, but nothing is certified on them"
    elif verdict["verdict"] == NOT_YET:
        further = verdict["further_units"]
        unknown = further_words(main) if main else "more of the same would not do"
        needs = "is needed" if further == 1 else "are needed"
        caption = unknown if further is None else f"{forecast_words(further)} more {needs}"
    return Tile(label="Evidence", value=format_count(verdict["units"]), unit=document.unit_word, caption=caption)


def _unseen(document: Document) -> str:
    """Return why these units were not seen by the candidate: its record shows it, or it is assumed."""
    name = document.verdict["candidate"]
    learned = any(item.get("learned") for item in document.content["candidates"] if item.get("name") == name)
    if learned:
        return "the candidate was not learned from them, as its training record shows"
    return "the candidate is assumed not to have been made from them: no training record shows it"


def _risk(document: Document) -> str:
    if document.refused:
        return "as asked for; it applies to nothing here"
    return f"a bound is wrong in at most 1 of {format_count(one_in(document.verdict['delta']))} analyses like this one"


def _reasons(document: Document) -> list[Row]:
    """Return what refuses, with its repair; else the reason of the main result."""
    main, findings = document.main, document.content["findings"]
    refusals = [{"text": item["message"], "fix": item["fix"]} for item in findings if item["severity"] == REFUSED]
    if document.refused and refusals:
        return refusals
    if main is None or not main["reason"]:
        return []
    text = main["reason"][:1].upper() + main["reason"][1:]
    if document.refused:
        return [{"text": text, "fix": ""}]
    if main["gain_lower"] is not None:
        lower, needed = document.amounts.show(main["gain_lower"], DOWN, sign=True), document.amounts.show(main["margin"] or 0.0)
        text += f": at least {lower} {document.measure}; a handover needs more than {needed}"
    waiting = [guard_line(document, main, guard) for guard in main["guards"] if guard["verdict"] != CERTIFIED]
    guards = [f"The guard \u2018{guard['column']}\u2019 {guard['text']}" for guard in waiting]
    return [{"text": line, "fix": ""} for line in (text, *guards)]


def _exact(value: float | None) -> str:
    return "" if value is None else f"exactly {value!r}"
