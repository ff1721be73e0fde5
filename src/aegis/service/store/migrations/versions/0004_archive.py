"""Digests of the keys of records that are in an archive."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table, empty."""
    whole = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "archived_keys",
        sa.Column("gate", sa.String(64), primary_key=True),
        sa.Column("key", sa.LargeBinary, primary_key=True),
        sa.Column("run", whole, nullable=False),
        sa.Column("number", whole, nullable=True),
        sa.Column("caller", sa.String(64), nullable=True),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("archived_keys")
