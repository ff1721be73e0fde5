"""How Alembic runs: on the connection, and in the transaction, that it is given."""

from __future__ import annotations

from alembic import context

from aegis.service.store.database import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
