"""The lease of a gate: its holder is the only writer.

With SQLite it is a lock on a file beside the database, with PostgreSQL an advisory lock of a connection of its own. The system
releases either when the process ends. The server ends a session from which nothing has come for a while, so that the lock of a
process that is stopped, or is cut off, expires.

Who speaks to the server decides what else lets the lock expire. A service speaks from the thread that looks after lease and
store (`held`): if that thread hangs, another process takes over. A start and a command may be busy for minutes: a thread of the
lease speaks for them (`keep_alive`), and the lock expires if the process is stopped or cut off, not if it hangs. A service ends
that thread when its own looks after the lease (`leave`).
"""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import dataclass, field
from hashlib import sha256

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from aegis.service.http_errors import StoreUnavailable
from aegis.service.store.database import Database

try:
    import fcntl
except ImportError:  # not on this system: see `docs/serve.md`
    fcntl = None  # type: ignore[assignment]


WAIT = 1.0  # seconds that letting go of a lease waits for a store that may be away
EXPIRES = 10  # seconds without a word after which a PostgreSQL server releases the lock; its holder speaks every second


@dataclass(slots=True)
class Lease:
    """The right to write to a gate."""

    database: Database
    gate: str
    _file: int | None = field(default=None, init=False)
    _connection: Connection | None = field(default=None, init=False)
    _wanted: bool = field(default=False, init=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False)  # one thread at a time asks the store
    _left: threading.Event | None = field(default=None, init=False)  # ends the thread that keeps the lease alive

    def take(self) -> bool:
        """Take the lease if no other process holds it; say whether it is held now."""
        with self._lock:
            self._wanted = True
            if self.database.file is not None:
                return self._file is not None or self._take_file()
            taken = self._alive() or self._take_connection()
            if taken and not self._wanted:  # meanwhile it was given back
                self.let_go()
            return taken and self._wanted

    def held(self) -> bool:
        """Say whether the lease is still held, by asking the store where it may be lost."""
        with self._lock:
            if self.database.file is not None:
                return self._file is not None
            alive = self._alive()
            if not self._wanted:  # meanwhile it was given back
                self.let_go()
            return alive and self._wanted

    def keep_alive(self) -> None:
        """Speak to the server from a thread, until the lease is left, let go or lost."""
        if self.database.file is None:
            self.leave()
            self._left = threading.Event()
            threading.Thread(target=self._speak, args=(self._left,), name="aegis-lease", daemon=True).start()

    def leave(self) -> None:
        """Leave it to the caller to ask every second whether the lease is held."""
        if self._left is not None:
            self._left.set()
            self._left = None

    def _speak(self, left: threading.Event) -> None:
        while not left.wait(EXPIRES / 10) and self.held():
            pass

    def let_go(self) -> None:
        """Give the lease back. A thread that waits for a store that is away gives it back itself, once that has answered."""
        self._wanted = False
        self.leave()
        if not self._lock.acquire(timeout=WAIT):
            return
        try:
            if self._file is not None:
                os.close(self._file)
                self._file = None
            if self._connection is not None:
                if not self._connection.invalidated:  # a broken one would be opened again
                    with contextlib.suppress(sa.exc.SQLAlchemyError), self.database.deadline(self._connection, seconds=WAIT):
                        self._connection.execute(sa.text("SELECT pg_advisory_unlock_all()"))  # now, not when the server notices
                with contextlib.suppress(sa.exc.SQLAlchemyError):
                    self._connection.close()
                self._connection = None
        finally:
            self._lock.release()

    def _take_file(self) -> bool:
        path = f"{self.database.file}.{self.gate}.lock"
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if fcntl is not None:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(handle)
                raise
        except BlockingIOError:
            return False
        except OSError as error:
            raise StoreUnavailable(f"cannot lock {path}: {error.strerror or error}") from error
        self._file = handle
        return True

    def _alive(self) -> bool:
        """Say whether the connection that holds the lock still does: if it broke, so did the lock."""
        if self._connection is None:
            return False
        try:
            with self.database.deadline(self._connection):
                self._connection.execute(sa.text("SELECT 1"))
            return True
        except sa.exc.SQLAlchemyError:
            wanted = self._wanted
            self.let_go()
            self._wanted = wanted
            return False

    def _take_connection(self) -> bool:
        number = int.from_bytes(sha256(f"aegis {self.gate}".encode()).digest()[:8], "big", signed=True)
        with self.database.answering():
            connection = self.database.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            try:
                connection.detach()  # never handed out again
                with self.database.deadline(connection):
                    if connection.execute(sa.text("SELECT pg_try_advisory_lock(:number)"), {"number": number}).scalar():
                        with contextlib.suppress(sa.exc.SQLAlchemyError):  # servers before version 14 do not have it
                            connection.execute(sa.text(f"SET idle_session_timeout = '{EXPIRES}s'"))
                        self._connection = connection
            finally:
                if self._connection is not connection:
                    connection.close()
        return self._connection is not None
