"""Where a live gate keeps everything: an append-only, hash-chained journal, challengers, tokens. SQLite or PostgreSQL."""

from aegis.service.store.database import Database
from aegis.service.store.journal import Entry, Journal, Record, gates_in, opened_in, verify
from aegis.service.store.lease import Lease

__all__ = ["Database", "Entry", "Journal", "Lease", "Record", "gates_in", "opened_in", "verify"]
