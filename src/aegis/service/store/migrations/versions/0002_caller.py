"""The caller of a record: the name of the token behind it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. Records written before have no caller, and their hashes stay as they are."""
    op.add_column("journal", sa.Column("caller", sa.String(64), nullable=True))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("journal", "caller")
