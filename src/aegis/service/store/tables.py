"""The tables of a store. Changes to them go with a migration in `migrations/versions`."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, String, Table, Text, UniqueConstraint

metadata = MetaData()
Whole = BigInteger().with_variant(Integer, "sqlite")

# Everything that ever happened to a gate, in order. hash: of this record and the one before it.
journal = Table(
    "journal",
    metadata,
    Column("gate", String(64), primary_key=True),
    Column("seq", Whole, primary_key=True, autoincrement=False),
    Column("at", String(32), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("episode", Whole, nullable=True),
    Column("key", String(128), nullable=True),
    Column("request", String(64), nullable=True),
    Column("body", Text, nullable=False),
    Column("hash", String(64), nullable=False),
    UniqueConstraint("gate", "key", name="one_answer_per_key"),
    Index("by_episode", "gate", "episode"),
)

# Frozen challengers, by the name of their challenge.
challengers = Table(
    "challengers",
    metadata,
    Column("gate", String(64), primary_key=True),
    Column("name", String(128), primary_key=True),
    Column("policy", String(64), nullable=False),
    Column("content", LargeBinary, nullable=False),
)

# Who may do what. hash: of the token, which is shown once, when it is made.
tokens = Table(
    "tokens",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("role", String(16), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("made", String(32), nullable=False),
    Column("revoked", String(32), nullable=True),
)
