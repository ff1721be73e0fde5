"""Authentication: bearer tokens for machines, session cookies with a token against forged requests for browsers.

Only hashes of tokens are stored; a token is shown once, when it is made.
"""

from __future__ import annotations

import hmac
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256

from fastapi import HTTPException, Request
from sqlalchemy.exc import IntegrityError

from aegis.errors import SettingError, check_choice
from aegis.service.client.names import SIGNS, is_name
from aegis.service.http.admission import run_in_share
from aegis.service.store.database import Database, tokens_table

ROLES = ("controller", "viewer", "operator")
PREFIX = "aegis_"
LONGEST_TOKEN = 64  # characters of the name of a token


def machine_of(name: str) -> str:
    """Return the machine that a token is for: its name up to the first slash. `reactor-7/2` takes over from `reactor-7`."""
    return name.split("/", 1)[0]


def is_same_machine(owner: str | None, caller: str | None) -> bool:
    """Say whether a caller may go on where another has begun. None: a store without tokens, or the gate itself."""
    return owner is None or caller is None or machine_of(owner) == machine_of(caller)


@dataclass(frozen=True, slots=True)
class Token:
    """The holder of a token, and what it allows."""

    name: str
    role: str
    made: str
    revoked: str | None = None


def make_token(database: Database, name: str, role: str) -> str:
    """Return a new token; SettingError if the name is taken."""
    check_choice(role, ROLES, "role")
    if len(name) > LONGEST_TOKEN or not all(map(is_name, name.split("/"))):
        raise SettingError(
            f"{name!r} cannot be the name of a token: that of a person or a machine, up to {LONGEST_TOKEN} characters, a slash "
            f"between parts, each of {SIGNS}"
        )
    secret = PREFIX + secrets.token_urlsafe(32)
    try:
        with database.transaction() as connection:
            connection.execute(tokens_table.insert().values(name=name, role=role, hash=_hash(secret), made=_now()))
    except IntegrityError as error:
        raise SettingError(f"there is, or was, a token called '{name}'; choose another name") from error
    return secret


def revoke_token(database: Database, name: str) -> None:
    """Revoke a token; SettingError if there is no such token."""
    with database.transaction() as connection:
        query = tokens_table.update().where(tokens_table.c.name == name, tokens_table.c.revoked.is_(None)).values(revoked=_now())
        if connection.execute(query).rowcount == 0:
            raise SettingError(f"there is no token '{name}', or it was revoked before; 'aegis token list' shows them")


def list_tokens(database: Database) -> list[Token]:
    """Return all tokens, without their secrets."""
    return list(_tokens_by_hash(database).values())


def _tokens_by_hash(database: Database) -> dict[str, Token]:
    with database.reading() as connection:
        rows = connection.execute(tokens_table.select().order_by(tokens_table.c.made)).mappings()
        return {row["hash"]: Token(row["name"], row["role"], row["made"], row["revoked"]) for row in rows}


def find_token(database: Database, secret: str) -> Token | None:
    """Return the token of a secret; None if it is unknown or revoked."""
    with database.reading() as connection:
        row = connection.execute(tokens_table.select().where(tokens_table.c.hash == _hash(secret))).mappings().first()
    if row is None or row["revoked"] is not None:
        return None
    return Token(row["name"], row["role"], row["made"])


def _hash(secret: str) -> str:
    # A token has 256 random bits: a plain hash cannot be reversed, and is quick enough to be asked with every request.
    return sha256(secret.encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


COOKIE, FORGERY = "aegis_session", "x-aegis-csrf"
REMEMBERED = 5.0  # seconds for which a token is believed without asking the store again: a revoked one works no longer than that
MOST = 1000  # tokens and sessions that are remembered
SESSION_SECONDS = 12 * 3600.0  # seconds of a session

MAY = {
    "read": ("controller", "viewer", "operator"),
    "control": ("controller",),
    "operate": ("operator",),
}


def session_cookie(request: Request) -> str:
    """Return the name of the cookie of a session. Over https it has a prefix, with which browsers refuse it from others."""
    return f"__Host-{COOKIE}" if request.scope["scheme"] == "https" else COOKIE


ANONYMOUS = Token("", "", "")  # the caller of a store without tokens


@dataclass(slots=True)
class AccessControl:
    """Checks requests against the tokens of a store. Without any token, every process on this machine may do everything."""

    database: Database
    # By hash, when the store was asked and its answer; apart, so that invented tokens do not push out real ones.
    _known: OrderedDict[str, tuple[float, Token | None]] = field(default_factory=OrderedDict)
    _unknown: OrderedDict[str, tuple[float, Token | None]] = field(default_factory=OrderedDict)
    _sessions: OrderedDict[str, tuple[float, str]] = field(default_factory=OrderedDict)
    _any: tuple[float, bool] = (-math.inf, False)

    def protected(self) -> bool:
        """Say whether there are tokens. Once there are, there is no way back without them: revoked ones count too."""
        now = time.monotonic()
        if not self._any[1] and now - self._any[0] > REMEMBERED:
            hashes = _tokens_by_hash(self.database)
            for name, token in hashes.items():
                if token.revoked is None:  # recognised from now on, and asked about when it comes
                    self._known.setdefault(name, (-math.inf, token))
            self._any = now, bool(hashes)
        return self._any[1]

    def caller(self, request: Request, what: str) -> Token:
        """Return whose request it is; HTTPException if they may not do `what`."""
        if not self.protected():
            return ANONYMOUS
        secret = self._secret(request)
        if secret is None:
            raise HTTPException(
                401, "a token is needed: 'Authorization: Bearer ...' (aegis token make)", {"WWW-Authenticate": "Bearer"}
            )
        token = self.token(secret)
        if token is None:
            raise HTTPException(401, "this token is not known, or was revoked", {"WWW-Authenticate": "Bearer"})
        request.state.caller = token.name  # for the log line
        if token.role not in MAY[what]:
            raise HTTPException(403, f"a token of the role '{token.role}' may not do this; it takes: {', '.join(MAY[what])}")
        return token

    def token(self, secret: str) -> Token | None:
        """Return the token of a secret; the store is asked from time to time only."""
        name, now = _hash(secret), time.monotonic()
        at, token = self._known.get(name) or self._unknown.get(name, (-math.inf, None))
        if now - at > REMEMBERED:
            token = find_token(self.database, secret)
            here, there = (self._unknown, self._known) if token is None else (self._known, self._unknown)
            here[name] = now, token
            there.pop(name, None)
            if len(here) > MOST:
                here.popitem(last=False)
        return token

    def recognise(self, request: Request) -> Token | None:
        """Return the token of a request if it was found in the store before, from memory alone; None if it is a stranger's.

        Whether it allows anything is asked later (`caller`). A store without tokens has no strangers.
        """
        if not self._any[1]:
            return ANONYMOUS
        secret = self._presented(request)
        return None if secret is None else self._known.get(_hash(secret), (0.0, None))[1]

    def remembers(self, request: Request) -> bool:
        """Say whether `caller` would answer from memory alone for the next moment."""
        limit = time.monotonic() - 0.9 * REMEMBERED
        if not self._any[1]:
            return self._any[0] > limit
        secret = self._presented(request)
        if secret is None:
            return True
        name = _hash(secret)
        return (self._known.get(name) or self._unknown.get(name, (-math.inf, None)))[0] > limit

    def open_session(self, secret: str) -> str:
        """Return the name of a new session for the holder of a token."""
        name = secrets.token_urlsafe(32)
        self._sessions[name] = time.monotonic(), secret
        if len(self._sessions) > MOST:
            self._sessions.popitem(last=False)
        return name

    def close_session(self, name: str) -> None:
        """End a session."""
        self._sessions.pop(name, None)

    @staticmethod
    def proof(session: str) -> str:
        """Return the value that a page of a session sends with every request that changes something."""
        return sha256(f"aegis page {session}".encode()).hexdigest()

    def _proved(self, request: Request, session: str) -> bool:
        sent = request.headers.get(FORGERY, "")
        return hmac.compare_digest(sent.encode(), self.proof(session).encode())  # as bytes: a header may hold any letter

    def _presented(self, request: Request) -> str | None:
        """Return the token that a request carries, or that of its session."""
        secret = _bearer(request.headers.get("authorization", ""))
        if secret is not None:
            return secret
        session = request.cookies.get(session_cookie(request), "")
        opened, secret = self._sessions.get(session, (-math.inf, None))
        if time.monotonic() - opened > SESSION_SECONDS:
            self.close_session(session)
            return None
        return secret

    def _secret(self, request: Request) -> str | None:
        """Return the same, and refuse a browser that changes something without the proof of its page."""
        secret = self._presented(request)
        if secret is None or _bearer(request.headers.get("authorization", "")) is not None:
            return secret
        session = request.cookies[session_cookie(request)]
        if request.method != "GET" and not self._proved(request, session):
            raise HTTPException(403, f"a request from a browser carries the header '{FORGERY}' of its page")
        return secret


def _bearer(header: str) -> str | None:
    return header[7:].strip() if header.lower().startswith("bearer ") else None


def require_permission(what: str) -> Callable[[Request], Awaitable[Token]]:
    """Return a dependency that lets only those through who may do `what`."""

    async def check(request: Request) -> Token:
        access: AccessControl = request.app.state.access
        if access.remembers(request):
            return access.caller(request, what)
        return await run_in_share(access.caller, request, what)  # the store is asked, and nothing else waits for it

    return check
