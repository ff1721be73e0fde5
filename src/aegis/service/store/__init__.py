"""Where a live gate keeps everything: an append-only, hash-chained journal, challengers, tokens. SQLite or PostgreSQL."""

from aegis.service.store.database import Database
from aegis.service.store.journal import Journal, JournalEntry, JournalRecord, list_gates, list_openings, verify_chain
from aegis.service.store.lease import Lease

__all__ = ["Database", "Journal", "JournalEntry", "JournalRecord", "Lease", "list_gates", "list_openings", "verify_chain"]
