"""Logs: from files to batches of whole episodes and back."""

from aegis.logs.blocks import LogFile
from aegis.logs.contexts import read_contexts
from aegis.logs.digest import log_digest, part_digests, total_digest
from aegis.logs.drafting import Draft, draft_problem
from aegis.logs.parts import Part, open_logs
from aegis.logs.record import learning_record
from aegis.logs.schema import Column, required_columns
from aegis.logs.source import Source
from aegis.logs.split import SIDES, Split
from aegis.logs.tables import check_table_path, write_table
from aegis.logs.tidy import to_table
from aegis.logs.writer import write_log

__all__ = [
    "SIDES",
    "Column",
    "Draft",
    "LogFile",
    "Part",
    "Source",
    "Split",
    "check_table_path",
    "draft_problem",
    "learning_record",
    "log_digest",
    "open_logs",
    "part_digests",
    "read_contexts",
    "required_columns",
    "to_table",
    "total_digest",
    "write_log",
    "write_table",
]
