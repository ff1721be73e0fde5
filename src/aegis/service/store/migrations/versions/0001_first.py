"""The first schema: journal, challengers, tokens."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    whole = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "journal",
        sa.Column("gate", sa.String(64), primary_key=True),
        sa.Column("seq", whole, primary_key=True, autoincrement=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("episode", whole, nullable=True),
        sa.Column("key", sa.String(128), nullable=True),
        sa.Column("request", sa.String(64), nullable=True),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.UniqueConstraint("gate", "key", name="one_answer_per_key"),
    )
    op.create_index("by_episode", "journal", ["gate", "episode"])
    op.create_table(
        "challengers",
        sa.Column("gate", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(128), primary_key=True),
        sa.Column("policy", sa.String(64), nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "tokens",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False, unique=True),
        sa.Column("made", sa.String(32), nullable=False),
        sa.Column("revoked", sa.String(32), nullable=True),
    )


def downgrade() -> None:
    """Drop the tables."""
    for name in ("tokens", "challengers", "journal"):
        op.drop_table(name)
