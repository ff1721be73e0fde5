"""Parts of the page of a certificate."""

from __future__ import annotations

from page_reader import Element, read, section

from aegis.certificate import Certificate
from aegis.report import render_certificate

LABEL = "estimate, not a certificate"


def page_of(certificate: Certificate) -> Element:
    """Return the page of a certificate."""
    return read(render_certificate(certificate.to_json()))


def tile(page: Element, name: str) -> Element:
    """Return one of the five numbers."""
    return next(item for item in page.all(".tile") if item.one("dt").text.startswith(name))


def exact(element: Element) -> float:
    """Return the number in a tooltip."""
    return float(element.attributes["title"].removeprefix("exactly "))


def cells(page: Element, title: str, column: str) -> list[Element]:
    """Return the cells of a column in a section."""
    return section(page, title).all(lambda item: item.attributes.get("data-label") == column)
