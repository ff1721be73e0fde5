"""The database of a store: its address, its tables, its schema version, and what its errors mean.

Changes of tables go with a migration in `migrations/versions`.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, String, Table, Text, UniqueConstraint
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from aegis.errors import SettingError
from aegis.files import create_private_file, describe_denied_access, make_private_folder
from aegis.service.http_errors import NotWriter, StoreUnavailable

metadata = MetaData()
Whole = BigInteger().with_variant(Integer, "sqlite")

# Everything that ever happened to a gate, in order. hash: of this record and the one before it. caller: the name of the token.
journal_table = Table(
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
    Column("caller", String(64), nullable=True),
    UniqueConstraint("gate", "key", name="one_answer_per_key"),
    Index("by_episode", "gate", "episode"),
)

# Frozen challengers, by the name of their challenge.
challengers_table = Table(
    "challengers",
    metadata,
    Column("gate", String(64), primary_key=True),
    Column("name", String(128), primary_key=True),
    Column("policy", String(64), nullable=False),
    Column("content", LargeBinary, nullable=False),
)

# Who may do what. hash: of the token, which is shown once, when it is made.
tokens_table = Table(
    "tokens",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("role", String(16), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("made", String(32), nullable=False),
    Column("revoked", String(32), nullable=True),
)

# What the writer knew at a record of the journal, so that a start need not read what is before. digest: of the content.
snapshots_table = Table(
    "snapshots",
    metadata,
    Column("gate", String(64), primary_key=True),
    Column("seq", Whole, primary_key=True, autoincrement=False),
    Column("digest", String(64), nullable=False),
    Column("content", LargeBinary, nullable=False),
)

# Counted episodes up to `last` as columns of numbers. link: the hash of this block and of the link before it.
blocks_table = Table(
    "blocks",
    metadata,
    Column("gate", String(64), primary_key=True),
    Column("link", String(64), primary_key=True),
    Column("last", Whole, nullable=False),
    Column("before", String(64), nullable=False),
    Column("content", LargeBinary, nullable=False),
)

# Digests of the keys of records that are in an archive. run: which one. number: of the episode that was opened under the key.
archived_keys_table = Table(
    "archived_keys",
    metadata,
    Column("gate", String(64), primary_key=True),
    Column("key", LargeBinary, primary_key=True),
    Column("run", Whole, nullable=False),
    Column("number", Whole, nullable=True),
    Column("caller", String(64), nullable=True),
)

SQLITE, POSTGRES = "sqlite", "postgresql"
PATIENCE = 5.0  # seconds that a statement waits for a lock, and a connection for an answer
# A server that vanished without a word is given up by this side: the kernel ends a connection whose data, or whose keepalives,
# were not confirmed in time, and so does the server's. A statement that the server does not finish is ended by the server;
# `deadline` is for one whose answer never comes. A process that is stopped within a transaction holds the locks of what it has
# written: the server ends the transaction, so that another process can write.
POSTGRES_LIMITS = {
    "connect_timeout": int(PATIENCE),
    "options": " ".join(
        f"-c {name}={value}"
        for name, value in {
            "statement_timeout": int(PATIENCE * 1000),
            "idle_in_transaction_session_timeout": int(PATIENCE * 1000),
            "tcp_user_timeout": int(PATIENCE * 1000),
            "tcp_keepalives_idle": 2,
            "tcp_keepalives_interval": 1,
            "tcp_keepalives_count": 3,
        }.items()
    ),
    "tcp_user_timeout": int(PATIENCE * 1000),
    "keepalives": 1,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
}
DEADLINE = PATIENCE + 1.0  # seconds that a server has for all of a transaction; its own limit comes first
LARGE = 30.0  # the same for large content: a snapshot, or blocks of episodes
ENDLESS = math.inf  # for commands that read or write a whole store, and whose user waits
IDLE = 600  # seconds for which such a command may be busy between two statements of a transaction
MIGRATIONS = Path(__file__).parent / "migrations"


@dataclass(slots=True)
class Outage:
    """Whether a server is known to be away, and the thread that looks whether it is back."""

    known: bool = False
    thread: int | None = None


@dataclass(frozen=True, slots=True)
class Database:
    """A database by its address: a file, `sqlite:///FILE` or `postgresql://USER@HOST/NAME`."""

    url: URL
    engine: Engine = field(repr=False, compare=False)
    outage: Outage = field(default_factory=Outage, repr=False, compare=False)

    @classmethod
    def at(cls, where: str | Path) -> Database:
        """Return the database at an address; SettingError if it cannot be one. Nothing is opened yet."""
        url = _url(str(where))
        return cls(url, _engine(url))

    @property
    def file(self) -> Path | None:
        """Return the file of an SQLite database."""
        return Path(str(self.url.database)) if self.url.get_backend_name() == SQLITE else None

    @property
    def shown(self) -> str:
        """Return the address without its password."""
        return self.url.render_as_string(hide_password=True)

    @contextlib.contextmanager
    def transaction(self, seconds: float | None = None) -> Iterator[Connection]:
        """Yield a connection in a transaction: all of it is written, or nothing. StoreUnavailable if it cannot be had.

        seconds: that it may take with its commit, DEADLINE if None.
        """
        self._refuse_in_outage()
        with self.answering(), self.engine.connect() as connection, self.deadline(connection, seconds):
            connection.execution_options(aegis_begin="BEGIN IMMEDIATE")
            with connection.begin():
                self._allow_idle(connection, seconds)
                yield connection

    @contextlib.contextmanager
    def reading(self, seconds: float | None = None) -> Iterator[Connection]:
        """Yield a connection to read from. StoreUnavailable if it cannot be had. seconds: that it may take, DEADLINE if None.

        With ENDLESS everything is read as it was at one moment.
        """
        self._refuse_in_outage()
        with self.answering(), self.engine.connect() as connection, self.deadline(connection, seconds):
            if seconds == ENDLESS and self.file is None:  # with SQLite every transaction sees one moment
                connection.execution_options(isolation_level="REPEATABLE READ")
            try:
                self._allow_idle(connection, seconds)
                yield connection
            finally:
                connection.rollback()  # it asks the server as well: before the deadline is called off

    def _allow_idle(self, connection: Connection, seconds: float | None) -> None:
        if seconds == ENDLESS and self.file is None:
            connection.execute(sa.text(f"SET LOCAL idle_in_transaction_session_timeout = '{IDLE}s'"))

    @contextlib.contextmanager
    def reconnecting(self) -> Iterator[None]:
        """Ask a server that is away from this thread alone: all others get StoreUnavailable at once, until it has answered."""
        if self.file is not None:
            yield
            return
        self.outage.thread, self.outage.known = threading.get_ident(), True
        try:
            yield
            self.outage.known = False
        except StoreUnavailable as error:
            self.outage.known = not isinstance(error, NotWriter)  # then it has answered
            raise
        except BaseException:
            self.outage.known = False
            raise
        finally:
            self.outage.thread = None

    def _refuse_in_outage(self) -> None:
        if self.outage.known and self.outage.thread != threading.get_ident():
            raise StoreUnavailable(f"the store {self.shown} does not answer; the service tries to reach it again every second")

    @contextlib.contextmanager
    def deadline(self, connection: Connection, seconds: float | None = None) -> Iterator[None]:
        """Cut a connection to a server whose answers take longer than DEADLINE, or `seconds`; who waits for it gets an error."""
        if seconds == ENDLESS or self.file is not None:
            yield
            return
        watch = threading.Timer(seconds or DEADLINE, _cut, [connection.connection.dbapi_connection])
        watch.daemon = True
        watch.start()
        try:
            yield
        finally:
            watch.cancel()

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Turn errors of a database that is gone into StoreUnavailable."""
        try:
            yield
        except sa.exc.IntegrityError:
            raise
        except SQLAlchemyError as error:
            words = str(getattr(error, "orig", None) or error).strip().splitlines()
            why = words[0] if words else str(error)
            denied = None if self.file is None else describe_denied_access(self.file)
            raise StoreUnavailable(f"the store {self.shown} does not answer: {why}{f' ({denied})' if denied else ''}") from error

    # ---- schema ------------------------------------------------------------------------------------------------------------

    def version(self) -> str | None:
        """Return the version of the schema; None if there is none yet."""
        with self.reading() as connection:
            return MigrationContext.configure(connection).get_current_revision()

    @staticmethod
    def newest() -> str:
        """Return the version of the schema that this release writes."""
        return str(ScriptDirectory(str(MIGRATIONS)).get_current_head())

    @staticmethod
    def versions() -> list[str]:
        """Return the versions of the schema that this release can upgrade, oldest first; the last one is the newest."""
        return [step.revision for step in ScriptDirectory(str(MIGRATIONS)).walk_revisions()][::-1]

    def upgrade(self) -> None:
        """Bring the schema up to date, creating it if there is none; all of it or nothing."""
        if self.file is not None:
            try:
                make_private_folder(self.file.parent)
            except OSError as error:
                raise SettingError(f"cannot create the folder of {self.file}: {error.strerror or error}") from error
        with self.transaction(ENDLESS) as connection:
            config = Config()
            config.set_main_option("script_location", str(MIGRATIONS))
            config.attributes["connection"] = connection
            try:
                command.upgrade(config, "head")
            except CommandError as error:  # a version that this release does not know
                raise SettingError(f"the store {self.shown} cannot be upgraded by this release: {error}") from error

    def check(self, older: bool = False) -> None:
        """Raise SettingError unless the schema is that of this release. older: or one that this release can upgrade."""
        version, versions = self.version(), self.versions()
        if version == versions[-1] or (older and version in versions):
            return
        what = f"has the schema {version}, this release needs {versions[-1]}"
        upgrade = "'aegis store upgrade --store ...'"
        if version is None:
            what, remedy = "holds no gate yet", f"make one with 'aegis serve', or run {upgrade}"
        elif version in versions:
            remedy = f"stop its gates, back it up with 'aegis store backup --store ... --out FILE', then run {upgrade}"
        else:
            remedy = "another release wrote it; use that one"
        raise SettingError(f"the store {self.shown} {what}: {remedy}")

    def close(self) -> None:
        """Let go of all connections."""
        self.engine.dispose()


def _url(where: str) -> URL:
    if "://" not in where:
        return URL.create(SQLITE, database=str(Path(where)))
    try:
        url = make_url(where)
    except ArgumentError as error:
        raise SettingError(f"'{where}' is not a valid store address: {error}") from error
    if url.drivername in ("postgres", POSTGRES):
        return url.set(drivername=f"{POSTGRES}+psycopg")
    if url.get_backend_name() not in (SQLITE, POSTGRES):
        raise SettingError(f"a store is a file, sqlite:///FILE or postgresql://USER@HOST/NAME, found '{url.drivername}://...'")
    if url.get_backend_name() == SQLITE and not url.database:
        raise SettingError("a store in memory would lose everything: name a file, as in sqlite:///gate.sqlite")
    return url


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == SQLITE:
        engine = sa.create_engine(url, connect_args={"timeout": PATIENCE, "check_same_thread": False})
        # Created here and not by SQLite, which would let others read it.
        sa.event.listen(engine, "do_connect", lambda *_: create_private_file(str(url.database)))
        sa.event.listen(engine, "connect", _careful)
        sa.event.listen(engine, "begin", _begun)
        return engine
    try:
        engine = sa.create_engine(url, connect_args=POSTGRES_LIMITS, pool_timeout=PATIENCE)
    except ModuleNotFoundError as error:
        raise SettingError("a store in PostgreSQL needs psycopg: pip install 'aegis-handover[postgres]'") from error
    # Rows go as one statement. The driver would send them one by one and end with a message after which the server does not
    # limit how long the transaction is idle.
    engine.dialect.use_insertmanyvalues_wo_returning = True
    return engine


def _cut(connection: Any) -> None:
    """End the connection of a driver below its feet, from another thread."""
    with contextlib.suppress(OSError, AttributeError), socket.socket(fileno=os.dup(connection.fileno())) as wire:
        wire.shutdown(socket.SHUT_RDWR)


def _careful(connection: Any, _: Any) -> None:
    """Let readers not wait for the writer, and commits survive a power cut."""
    connection.isolation_level = None  # transactions begin explicitly, see below
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _begun(connection: Connection) -> None:
    """Begin explicitly: otherwise the driver creates tables outside of the transaction, and queries see different moments."""
    # SQLite refuses at once, and does not wait, to turn a read into a write after another process has written.
    connection.exec_driver_sql(connection.get_execution_options().get("aegis_begin", "BEGIN"))
