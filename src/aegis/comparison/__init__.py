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

__all__ = [
    "Comparison",
    "ComparisonSettings",
    "Estimate",
    "LowerBound",
    "MissingMethod",
    "ScopeChoice",
    "compare",
    "comparison_table",
]
