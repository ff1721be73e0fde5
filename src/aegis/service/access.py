"""Who is asking, and may they? Bearer tokens for machines; for browsers a session cookie with a token against forged requests."""

from __future__ import annotations

import hmac
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

from fastapi import HTTPException, Request

from aegis.service.store import Database
from aegis.service.tokens import Token, find_token, list_tokens

COOKIE, FORGERY = "aegis_session", "x-aegis-csrf"
REMEMBERED = 5.0  # seconds for which a token is believed without asking the store again: a revoked one works no longer than that
MOST = 1000  # tokens and sessions that are remembered
LASTS = 12 * 3600.0  # seconds of a session
MAY = {
    "read": ("controller", "viewer", "operator"),
    "control": ("controller",),
    "operate": ("operator",),
}
NOBODY = Token("", "", "")


@dataclass(slots=True)
class Access:
    """Checks requests against the tokens of a store. Without any token everybody on this machine may do everything."""

    database: Database
    # By hash, when it was asked for and what was found; apart, so that tokens which are made up do not push out real ones.
    _seen: OrderedDict[str, tuple[float, Token | None]] = field(default_factory=OrderedDict)
    _unknown: OrderedDict[str, tuple[float, Token | None]] = field(default_factory=OrderedDict)
    _sessions: OrderedDict[str, tuple[float, str]] = field(default_factory=OrderedDict)
    _any: tuple[float, bool] = (-math.inf, False)

    def protected(self) -> bool:
        """Say whether there are tokens. Once there are, there is no way back without them: revoked ones count too."""
        now = time.monotonic()
        if not self._any[1] and now - self._any[0] > REMEMBERED:
            self._any = now, bool(list_tokens(self.database))
        return self._any[1]

    def caller(self, request: Request, what: str) -> Token:
        """Return whose request it is; HTTPException if they may not do `what`."""
        if not self.protected():
            return NOBODY
        secret = self._secret(request)
        if secret is None:
            raise HTTPException(
                401, "a token is needed: 'Authorization: Bearer ...' (aegis token make)", {"WWW-Authenticate": "Bearer"}
            )
        token = self.token(secret)
        if token is None:
            raise HTTPException(401, "this token is not known, or was revoked", {"WWW-Authenticate": "Bearer"})
        if token.role not in MAY[what]:
            raise HTTPException(403, f"a token of the role '{token.role}' may not do this; it takes: {', '.join(MAY[what])}")
        return token

    def token(self, secret: str) -> Token | None:
        """Return whose token a secret is, asked of the store from time to time only."""
        name, now = sha256(secret.encode()).hexdigest(), time.monotonic()
        at, token = self._seen.get(name) or self._unknown.get(name, (-math.inf, None))
        if now - at > REMEMBERED:
            token = find_token(self.database, secret)
            here, there = (self._unknown, self._seen) if token is None else (self._seen, self._unknown)
            here[name] = now, token
            there.pop(name, None)
            if len(here) > MOST:
                here.popitem(last=False)
        return token

    def verified(self, header: str) -> str | None:
        """Return the hash of the token in an 'Authorization' header if it was found in the store before; asks memory alone."""
        secret = _bearer(header)
        name = None if secret is None else sha256(secret.encode()).hexdigest()
        return name if name in self._seen else None

    def open_session(self, secret: str) -> str:
        """Return the name of a new session for whoever holds a token."""
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
        """Return what a page of a session sends along with everything that changes something."""
        return sha256(f"aegis page {session}".encode()).hexdigest()

    def _proved(self, request: Request, session: str) -> bool:
        found = request.headers.get(FORGERY, "")
        return hmac.compare_digest(found.encode(), self.proof(session).encode())  # as bytes: a header may hold any letter

    def _secret(self, request: Request) -> str | None:
        secret = _bearer(request.headers.get("authorization", ""))
        if secret is not None:
            return secret
        session = request.cookies.get(COOKIE)
        if session is None or session not in self._sessions:
            return None
        opened, secret = self._sessions[session]
        if time.monotonic() - opened > LASTS:
            self.close_session(session)
            return None
        if request.method != "GET" and not self._proved(request, session):
            raise HTTPException(403, f"a request from a browser carries the header '{FORGERY}' of its page")
        return secret


def _bearer(header: str) -> str | None:
    return header[7:].strip() if header.lower().startswith("bearer ") else None


def allowed(what: str) -> Callable[[Request], Token]:
    """Return a dependency that lets only those through who may do `what`."""

    def check(request: Request) -> Token:
        access: Access = request.app.state.access
        return access.caller(request, what)

    return check
