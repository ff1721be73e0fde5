"""Cases of a test of which a few run in `make test`; CI runs the others, too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def few(cases: Iterable[Any], kept: Iterable[Any]) -> list[Any]:
    """Return all cases, those that are not `kept` marked for CI; every kept one must be a case."""
    cases, kept = list(cases), list(kept)
    assert all(case in cases for case in kept)
    marked = [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.ci) for case in cases]
    return [case if case in kept else mark for case, mark in zip(cases, marked, strict=True)]
