"""Estimates and bounds by other methods, side by side on the units of one log, each with what it may be called."""

from aegis.comparison.compare import compare
from aegis.comparison.results import Comparison, Estimate, LowerBound, Missing
from aegis.comparison.settings import ComparisonSettings
from aegis.comparison.tables import comparison_table

__all__ = ["Comparison", "ComparisonSettings", "Estimate", "LowerBound", "Missing", "compare", "comparison_table"]
