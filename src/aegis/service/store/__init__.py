"""Where a live gate keeps everything: an append-only, hash-chained journal, challengers, tokens. SQLite or PostgreSQL."""
