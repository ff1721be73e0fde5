"""The page of a certificate: one HTML file with its styles and pictures inside, readable on a phone, on paper and in grey."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aegis.certificate import Certificate, load_certificate
from aegis.errors import SettingError
from aegis.files import write_text

if TYPE_CHECKING:
    from jinja2 import Environment


def write_report(certificate: Certificate | Mapping[str, Any] | str | Path, path: str | Path) -> Path:
    """Write the page of a certificate, of its plain data or of a stored one, and return where it is.

    Raises InputError if it is not a certificate as it was issued, OutputError if the place cannot be written, and SettingError
    if the templates' library is not installed.
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
    environment = page_environment()
    # Imported late: the pictures escape with a part of the templates' library, whose absence deserves its own message.
    from aegis.report.document import Document
    from aegis.report.numbers import format_confidence, format_count
    from aegis.report.sections.audit_trail import audit_trail, finding_lines, ledger_looks, sensitivity_lines
    from aegis.report.sections.gains import path_figures, scope_rows, subgroup_rows
    from aegis.report.sections.log_overlap import level_differences, overlap_section
    from aegis.report.sections.summary import summary_section

    document = Document.of(content)
    return environment.get_template("certificate.html").render(
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


@functools.cache
def page_environment() -> Environment:
    """Return the templates, which escape everything they are given; SettingError if the library is not installed.

    Kept, because to compile the templates takes longer than to fill them.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise SettingError(
            "a report needs jinja2, which is not installed; install it with pip install jinja2, or leave the "
            "report out: the certificate itself does not need it"
        ) from error
    return Environment(
        loader=PackageLoader("aegis.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
