"""The published schema is the one the code makes."""

from __future__ import annotations

import json
from pathlib import Path

from aegis.certificate import certificate_schema

PAGE = Path(__file__).parents[2] / "docs" / "certificate.schema.json"


def test_the_published_schema_is_current() -> None:
    assert json.loads(PAGE.read_text()) == certificate_schema(), (
        "write docs/certificate.schema.json again from certificate_schema()"
    )
