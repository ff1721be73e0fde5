"""Rows of the tables of compare."""

from __future__ import annotations

from aegis.comparison import Estimate


def test_an_estimate_that_does_not_vary_shows_no_error() -> None:
    """A model that says the same of all units has a standard error of 0 by construction, which is no precision."""
    from aegis.cli.comparison_rows import estimate_text

    assert estimate_text(Estimate("direct method", "value", 0.25, 0.0, 100)) == "0.25 ± -"
    assert estimate_text(Estimate("direct method", "value", 0.25, 1e-17, 100)) == "0.25 ± -"
    assert estimate_text(Estimate("direct method", "value", 0.25, 0.01, 100)) == "0.25 ± 0.01"
    assert estimate_text(None) == "-"
