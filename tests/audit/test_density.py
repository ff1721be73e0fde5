"""Exact actions that come again, or lie on a lattice, are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from interval_logs import CLIP, CUT, audited, exact, log

from aegis.problem import nearest_points


def test_a_mass_logged_where_no_atom_is_declared_is_refused() -> None:
    """A clipped log under a problem without atoms: the ends come again and again."""
    audit = audited(CUT, log(CLIP))
    assert audit.verdict == "refused" and "undeclared-atom" in audit.codes()
    found = next(item for item in audit.findings if item.code == "undeclared-atom")
    assert found.figures["value"] in (0.0, 10.0) and found.column == "dose"


@pytest.mark.parametrize(("digits", "refused"), [(0, True), (1, True), (4, False)])
def test_rounded_numbers_are_refused_where_rounding_matters(digits: int, refused: bool) -> None:
    batch = log(CUT)
    value = np.round(exact(batch), digits)
    table = replace(batch.levels["dose"], value=value, action=nearest_points(CUT.problem.innermost.actions, value))
    codes = audited(CUT, batch.with_level("dose", table)).codes()
    assert ("rounded-actions" in codes) == refused and "undeclared-atom" not in codes
