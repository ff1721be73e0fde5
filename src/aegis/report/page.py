"""The page of a certificate: one HTML file with its styles and pictures inside, readable on a phone, on paper and in grey."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aegis.certificate.certificate import Certificate, load_certificate
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
    environment = _environment()
    # Imported late: the pictures escape with a part of the templates' library, whose absence deserves its own message.
    from aegis.report.document import Document
    from aegis.report.numbers import confidence, count
    from aegis.report.sections.auditor import auditor
    from aegis.report.sections.differs import differs
    from aegis.report.sections.overlap import overlap
    from aegis.report.sections.paths import paths
    from aegis.report.sections.rests_on import findings, looks
    from aegis.report.sections.scopes import rows
    from aegis.report.sections.sensitivity import sensitivity
    from aegis.report.sections.subgroups import subgroups
    from aegis.report.sections.summary import summary

    document = Document.of(content)
    return environment.get_template("certificate.html").render(
        document=document,
        summary=summary(document),
        rows=rows(document),
        paths=paths(document),
        overlap=overlap(document),
        differs=differs(document),
        subgroups=subgroups(document),
        sensitivity=sensitivity(document),
        assumptions=content["assumptions"],
        findings=findings(document),
        looks=looks(document),
        auditor=auditor(document),
        confidence=confidence(document.verdict["delta"]),
        count=count,
    )


@functools.cache
def _environment() -> Environment:
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
