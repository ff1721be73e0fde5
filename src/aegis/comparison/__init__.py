"""Estimates and bounds by other methods, side by side on the units of one log, each with what it may be called."""

from aegis.comparison.compare import compare
from aegis.comparison.comparison import (
    Comparison,
    ComparisonSettings,
    Estimate,
    LowerBound,
    MissingMethod,
    ScopeChoice,
    comparison_table,
)
from aegis.comparison.published_scopes import POSTERIOR_CHOICE, choose_published_scope

__all__ = [
    "POSTERIOR_CHOICE",
    "Comparison",
    "ComparisonSettings",
    "Estimate",
    "LowerBound",
    "MissingMethod",
    "ScopeChoice",
    "choose_published_scope",
    "compare",
    "comparison_table",
]
