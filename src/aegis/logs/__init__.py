"""Logs: from files to batches of whole episodes and back."""

from aegis.logs.chunks import LogChunks
from aegis.logs.columns import Column, required_columns
from aegis.logs.contexts import read_contexts
from aegis.logs.draft.draft import Draft, draft_problem
from aegis.logs.episode_tree import describe_order
from aegis.logs.formats.base import LogFile
from aegis.logs.ids import hash_ids, id_parts, ids_as_text
from aegis.logs.log_files import LogPart, log_digest, normalise_inputs, part_digests, resolve_parts, total_digest
from aegis.logs.reader import BackgroundObserver
from aegis.logs.source import SIDES, Source, Split, learning_record
from aegis.logs.writer import check_table_path, to_table, write_log, write_table

__all__ = [
    "SIDES",
    "BackgroundObserver",
    "Column",
    "Draft",
    "LogChunks",
    "LogFile",
    "LogPart",
    "Source",
    "Split",
    "check_table_path",
    "describe_order",
    "draft_problem",
    "hash_ids",
    "id_parts",
    "ids_as_text",
    "learning_record",
    "log_digest",
    "normalise_inputs",
    "part_digests",
    "read_contexts",
    "required_columns",
    "resolve_parts",
    "to_table",
    "total_digest",
    "write_log",
    "write_table",
]
