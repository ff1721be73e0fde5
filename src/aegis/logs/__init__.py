"""Logs: from files to batches of whole episodes and back."""

from aegis.logs.schema import Column, required_columns
from aegis.logs.source import Source
from aegis.logs.tidy import to_table
from aegis.logs.writer import write_log

__all__ = ["Column", "Source", "required_columns", "to_table", "write_log"]
