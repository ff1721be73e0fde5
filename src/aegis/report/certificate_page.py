"""The page of a certificate: one HTML file with its styles and pictures inside, readable on a phone, on paper and in grey."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from aegis.certificate import Certificate, load_certificate
from aegis.files import write_text
from aegis.report.document import Document
from aegis.report.numbers import format_confidence, format_count
from aegis.report.sections.audit_trail import audit_trail, finding_lines, ledger_looks, sensitivity_lines
from aegis.report.sections.gains import path_figures, scope_rows, subgroup_rows
from aegis.report.sections.log_overlap import level_differences, overlap_section
from aegis.report.sections.summary import summary_section


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
