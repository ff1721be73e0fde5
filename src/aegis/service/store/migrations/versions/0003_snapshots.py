"""Snapshots of what the writer knows, and blocks of counted episodes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables, empty: the first start fills them from the journal."""
    whole = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "snapshots",
        sa.Column("gate", sa.String(64), primary_key=True),
        sa.Column("seq", whole, primary_key=True, autoincrement=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "blocks",
        sa.Column("gate", sa.String(64), primary_key=True),
        sa.Column("link", sa.String(64), primary_key=True),
        sa.Column("last", whole, nullable=False),
        sa.Column("before", sa.String(64), nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    """Drop the tables."""
    for name in ("blocks", "snapshots"):
        op.drop_table(name)
