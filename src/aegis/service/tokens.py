"""Tokens: who may do what. Only hashes are stored; a token is shown once, when it is made."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

from sqlalchemy.exc import IntegrityError

from aegis.errors import SettingError, choose
from aegis.service.store import Database
from aegis.service.store.tables import tokens

ROLES = ("controller", "viewer", "operator")
PREFIX = "aegis_"


@dataclass(frozen=True, slots=True)
class Token:
    """Who a token belongs to, and what it allows."""

    name: str
    role: str
    made: str
    revoked: str | None = None


def make_token(database: Database, name: str, role: str) -> str:
    """Return a new token; SettingError if the name is taken."""
    choose(role, ROLES, "role")
    if not name.strip() or len(name) > 64:
        raise SettingError(f"a token has a name of up to 64 characters, that of a person or a machine, found {name!r}")
    secret = PREFIX + secrets.token_urlsafe(32)
    try:
        with database.transaction() as connection:
            connection.execute(tokens.insert().values(name=name, role=role, hash=_hash(secret), made=_now()))
    except IntegrityError as error:
        raise SettingError(f"there is, or was, a token called '{name}'; choose another name") from error
    return secret


def revoke_token(database: Database, name: str) -> None:
    """Make a token worthless; SettingError if there is none of that name."""
    with database.transaction() as connection:
        query = tokens.update().where(tokens.c.name == name, tokens.c.revoked.is_(None)).values(revoked=_now())
        if connection.execute(query).rowcount == 0:
            raise SettingError(f"there is no token '{name}', or it was revoked before; 'aegis token list' shows them")


def list_tokens(database: Database) -> list[Token]:
    """Return all tokens, without their secrets."""
    with database.answering(), database.engine.connect() as connection:
        rows = connection.execute(tokens.select().order_by(tokens.c.made)).mappings().all()
    return [Token(row["name"], row["role"], row["made"], row["revoked"]) for row in rows]


def find_token(database: Database, secret: str) -> Token | None:
    """Return whose token a secret is; None if nobody's, or revoked."""
    with database.answering(), database.engine.connect() as connection:
        row = connection.execute(tokens.select().where(tokens.c.hash == _hash(secret))).mappings().first()
    if row is None or row["revoked"] is not None:
        return None
    return Token(row["name"], row["role"], row["made"])


def _hash(secret: str) -> str:
    # A token has 256 random bits: a plain hash cannot be reversed, and is quick enough to be asked with every request.
    return sha256(secret.encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
