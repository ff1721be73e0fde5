"""The spool of a client: requests that are still to be delivered, in one file.

Requests stay in order, each under its own key; those the gate refuses are set aside. The file also keeps open episodes and their
choices for a restart of the control system.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aegis.errors import OutputError
from aegis.files import create_private_file, describe_open_files, make_private_folder, sqlite_files
from aegis.service.client.damaged_spool import ChoiceRow, ParcelRow, find_aside, lacks_frames, name_aside, read_remains

SPOOL_TABLES = (
    "CREATE TABLE IF NOT EXISTS parcels (number INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT, key TEXT, body TEXT, episode TEXT, "
    "refused TEXT)",
    "CREATE INDEX IF NOT EXISTS parcels_of ON parcels (episode)",
    "CREATE TABLE IF NOT EXISTS opened (episode TEXT PRIMARY KEY, times INTEGER)",
    "CREATE TABLE IF NOT EXISTS choices (number INTEGER PRIMARY KEY AUTOINCREMENT, episode TEXT, id TEXT, choice TEXT, "
    "reported INTEGER DEFAULT 0)",
    "CREATE INDEX IF NOT EXISTS choices_of ON choices (episode, id)",
    "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT)",
    "CREATE TABLE IF NOT EXISTS incomplete (episode TEXT PRIMARY KEY)",
)

LOCK_SECONDS = 5.0  # that a write waits for another process, and all writes after `end_waits`; a decision does not wait for it
MARK = "UPDATE choices SET reported = 1 WHERE episode = ? AND id = ?"
MARK_ALL = "UPDATE choices SET reported = 1 WHERE episode = ?"
PUT = "INSERT INTO parcels (path, key, body, episode) VALUES (?, ?, ?, ?)"
PUT_BACK = "INSERT INTO parcels (path, key, body, episode, refused) VALUES (?, ?, ?, ?, ?)"
CHOOSE = "INSERT INTO choices (episode, id, choice, reported) VALUES (?, ?, ?, ?)"
LEARN = "REPLACE INTO facts VALUES (?, ?)"
TAKEN_OVER, UNSURE = "taken over", "unsure"  # facts: damaged files that were taken over; open episodes may not be known
CLOSE = "/close"  # ends the path of the request that closes an episode
SHOWN = 5  # names that a message lists
RESULTS = "/v1/results"
STANDS_IN = "-missing"  # ends the keys of reports that stand in for refused ones
log = logging.getLogger("aegis.client")


@dataclass(frozen=True, slots=True)
class Parcel:
    """A request to be delivered. episode: that it is about."""

    number: int
    path: str
    key: str
    body: dict[str, Any]
    episode: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that the gate refuses for good. why: the gate's reason."""

    path: str
    episode: str
    body: dict[str, Any]
    why: str


@dataclass(frozen=True, slots=True)
class KeptChoice:
    """A decision that was asked for. choice: None if its answer was never seen. reported: its result was handed in."""

    episode: str
    id: str
    choice: dict[str, Any] | None
    reported: bool


NewParcel = tuple[str, str, Mapping[str, Any], str]  # path, key, body, episode


class Spool:
    """Parcels in the order in which they were put in; several threads may use it.

    A full disk loses nothing as long as the process lives: a failed write is tried again. A damaged file is set aside, with what
    can still be read of it taken over, and the spool goes on in a new one. An episode of which the damaged file may have held a
    request is incomplete from then on, also after a restart. If the file is found damaged at the start, not all open episodes may
    be known: those that are opened before one is closed count as open.

    Raises
    ------
    OutputError
        If the file cannot be written, for another reason than a full disk.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock, self._unsaved, self._open = threading.RLock(), list[tuple[str, str, str, str]](), True
        self._waits_end: float | None = None
        # What a damaged file cannot say: how often open episodes were opened, and the closes that have not arrived yet.
        self._opened, self._closes = dict[str, int](), dict[str, tuple[str, str, str, str]]()
        self._incomplete, self._taken_over, self._unsure, self._started = set[str](), list[str](), False, False
        try:
            make_private_folder(self.path.parent)
            cut = lacks_frames(self.path)
            self._safe, self._quick = _open_file(self.path)
            self._take_up(cut)
        except sqlite3.Error as error:
            if _is_damage(error):
                self._set_aside(error)
            elif _is_full(error):
                self._go_on_in_memory(error)
            else:
                raise OutputError(f"cannot keep undelivered requests in {path}: {error}") from error
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise OutputError(f"cannot keep undelivered requests in {path}: {error}") from error
            self._go_on_in_memory(error)
        self._started = True
        if (warning := describe_open_files(sqlite_files(self.path))) is not None:
            log.warning("the spool is %s", warning)

    def _take_up(self, cut: bool) -> None:
        """Take up a file that can be read. cut: writes are missing at its end."""
        known = self._safe.execute("SELECT value FROM facts WHERE name = ?", (TAKEN_OVER,)).fetchone()
        self._taken_over = [] if known is None else json.loads(known[0])
        self._unsure = self._safe.execute("SELECT 1 FROM facts WHERE name = ?", (UNSURE,)).fetchone() is not None
        aside = [file for file in find_aside(self.path) if file.name not in self._taken_over]
        if cut:
            log.error("the last writes to the spool %s are damaged", self.path)
        if cut or aside:  # a process may have ended before it had taken them over
            self._take_over(aside)
        self._opened = dict(self._safe.execute("SELECT episode, times FROM opened"))
        self._incomplete = {row[0] for row in self._safe.execute("SELECT episode FROM incomplete")}
        query = f"SELECT path, key, body, episode FROM parcels WHERE refused IS NULL AND path LIKE '%{CLOSE}'"
        self._closes = {row[3]: row for row in self._safe.execute(query)}

    def _go_on_in_memory(self, error: Exception) -> None:
        log.error("requests to the gate are kept in memory until this process ends, %s cannot be written: %s", self.path, error)
        self._unsure = self._unsure or not self._started
        self._safe, self._quick = _open_file(None)

    def _set_aside(self, error: Exception) -> None:
        """Move a damaged file away, take over what can still be read, and go on with a new file."""
        self._hang_up()
        aside = name_aside(self.path)
        log.error("the spool %s is damaged (%s): it is kept as %s, and a new one is begun", self.path, error, aside)
        try:
            for file, kept in zip(sqlite_files(self.path), sqlite_files(aside), strict=True):
                if file.exists():
                    os.replace(file, kept)
            self._safe, self._quick = _open_file(self.path)
            self._take_over([aside])
        except (OSError, sqlite3.Error) as other:
            self._hang_up()
            self._go_on_in_memory(other)
            self._take_over([aside if aside.exists() else self.path])

    def _hang_up(self) -> None:
        for connection in (getattr(self, "_safe", None), getattr(self, "_quick", None)):
            if connection is not None:
                with suppress(sqlite3.Error):
                    connection.close()

    def _take_over(self, files: Sequence[Path]) -> None:
        """Write what can be read of damaged files into this one, and which episodes may lack something.

        Once it was started, the process knows which episodes are open, and the closes that have not arrived.
        """
        parcels, opened, choices = list[ParcelRow](), self._opened, list[ChoiceRow]()
        episodes = {*opened, *self._closes, *(row[3] for row in self._unsaved)}
        for remains in map(read_remains, files):
            parcels += remains.parcels
            opened = opened if self._started else {**opened, **remains.opened}
            choices += [row for row in remains.choices if row[0] in opened]
            episodes |= remains.episodes
        here = {row[1] for row in (*parcels, *self._unsaved)}
        parcels += [(*row, None) for row in self._closes.values() if row[1] not in here]
        if not self._started:
            self._unsure, self._opened = True, opened
            self._closes |= {row[3]: row[:4] for row in parcels if row[0].endswith(CLOSE) and row[4] is None}
            own = "SELECT episode FROM opened UNION SELECT episode FROM parcels WHERE refused IS NULL"
            episodes |= {row[0] for row in self._safe.execute(own)}
        self._incomplete |= episodes
        self._taken_over += [file.name for file in files]
        with self._writing() as connection:
            connection.executemany(PUT_BACK, parcels)
            connection.executemany(CHOOSE, choices)
            connection.executemany("REPLACE INTO opened VALUES (?, ?)", opened.items())
            connection.executemany("INSERT OR IGNORE INTO incomplete VALUES (?)", [(name,) for name in self._incomplete])
            connection.execute(LEARN, (TAKEN_OVER, json.dumps(self._taken_over)))
            if self._unsure:
                connection.execute(LEARN, (UNSURE, "true"))
        names = ", ".join(f"'{name}'" for name in sorted(episodes)[:SHOWN]) + (", ..." if len(episodes) > SHOWN else "")
        more = "; so will those that are opened before one is closed: it is not known which were open" if self._unsure else ""
        log.error("requests may be lost, and these episodes will be closed as incomplete: %s%s", names or "none", more)

    @contextmanager
    def _using(self) -> Iterator[None]:
        """Let one thread use the file; a damaged one is replaced, and the error raised."""
        with self._lock:
            try:
                self._limit_wait()
                yield
            except sqlite3.Error as error:
                if _is_damage(error):
                    self._set_aside(error)
                raise

    def end_waits(self) -> None:
        """Let all writes from now on wait for another process no longer than one does, together. It returns at once."""
        self._waits_end = time.monotonic() + LOCK_SECONDS

    def _limit_wait(self) -> None:
        """Give the next write what is left of the time of all."""
        if self._waits_end is not None:
            left = max(0.0, self._waits_end - time.monotonic())
            for connection in (self._safe, self._quick):
                connection.execute(f"PRAGMA busy_timeout = {int(1000 * left)}")

    # ---- parcels -----------------------------------------------------------------------------------------------------------

    def put(self, path: str, key: str, body: Mapping[str, Any], episode: str) -> None:
        """Keep a request until it has arrived."""
        with self._using():
            self._unsaved.append((path, key, json.dumps(body, allow_nan=False), episode))
            if path.endswith(CLOSE):
                self._closes[episode] = self._unsaved[-1]
            self._save()

    def _save(self) -> bool:
        """Write down what is in memory only; say whether nothing is left."""
        if not self._unsaved:
            return True
        try:
            with self._writing() as connection:
                connection.executemany(PUT, self._unsaved)
                for path, key, body, episode in self._unsaved:
                    if path == RESULTS and not key.endswith(STANDS_IN):
                        _mark_reported(connection, episode, json.loads(body).get("items", ()))
            self._unsaved.clear()
        except sqlite3.Error as error:
            log.error("%d requests to the gate are in memory only, the spool cannot be written: %s", len(self._unsaved), error)
            if _is_damage(error):
                self._set_aside(error)
        return not self._unsaved

    def first(self, urgent: str = "") -> Parcel | None:
        """Return the oldest request that is still to be delivered, those about an urgent episode before all others."""
        with self._using():
            self._save()
            query = "SELECT number, path, key, body, episode FROM parcels WHERE refused IS NULL"
            row = self._safe.execute(f"{query} AND episode = ? ORDER BY number LIMIT 1", (urgent,)).fetchone() if urgent else None
            row = row or self._safe.execute(f"{query} ORDER BY number LIMIT 1").fetchone()
        return None if row is None else Parcel(row[0], row[1], row[2], json.loads(row[3]), row[4])

    def waits(self, episode: str) -> bool:
        """Say whether something about an episode is still to be delivered."""
        with self._using():
            query = "SELECT 1 FROM parcels WHERE refused IS NULL AND episode = ? LIMIT 1"
            stored = self._safe.execute(query, (episode,)).fetchone() is not None
            return stored or any(item[3] == episode for item in self._unsaved)

    def __len__(self) -> int:
        with self._using():
            stored = self._safe.execute("SELECT count(*) FROM parcels WHERE refused IS NULL").fetchone()[0]
            return int(stored) + len(self._unsaved)

    def arrived(self, parcel: Parcel, more: Sequence[NewParcel] = ()) -> None:
        """Remove a request that has arrived, or that others stand in for. more: what is to be delivered after it."""
        self._settle("DELETE FROM parcels WHERE number = :number AND key = :key", parcel, more)

    def refuse(self, parcel: Parcel, why: str, more: Sequence[NewParcel] = ()) -> None:
        """Set aside a request that the gate refuses. It stays in the file. more: what is to be delivered after it."""
        self._settle("UPDATE parcels SET refused = :why WHERE number = :number AND key = :key", parcel, more, why)

    def _settle(self, statement: str, parcel: Parcel, more: Sequence[NewParcel], why: str | None = None) -> None:
        """Note what has become of a request. After a damage its number may be that of another one: its key is not."""
        with self._using():
            with self._writing() as connection:
                connection.execute(statement, {"number": parcel.number, "key": parcel.key, "why": why})
                connection.executemany(PUT, [(path, key, json.dumps(body), episode) for path, key, body, episode in more])
            if (close := self._closes.get(parcel.episode)) is not None and close[1] == parcel.key:
                del self._closes[parcel.episode]

    def refused(self, episode: str | None = None) -> list[Refusal]:
        """Return what was set aside, of one episode or of all."""
        query = "SELECT path, episode, body, refused FROM parcels WHERE refused IS NOT NULL"
        with self._using():
            rows = self._safe.execute(f"{query} ORDER BY number").fetchall()
        return [Refusal(row[0], row[1], json.loads(row[2]), row[3]) for row in rows if episode in (None, row[1])]

    # ---- episodes ----------------------------------------------------------------------------------------------------------

    def resume(self, episode: str) -> tuple[int, list[KeptChoice]]:
        """Take note of an episode; return how often it was opened before, above 0 after a restart, and its choices so far."""
        times = self.open(episode)
        return times, self.choices(episode) if times else []

    def open(self, episode: str) -> int:
        """Take note of an episode, and return how often it was opened before."""
        with self._using():
            times = self._opened.get(episode, 0)
            self._opened[episode] = times + 1  # first: what is open has to be known if the file is damaged
            if self._unsure:
                self._incomplete.add(episode)
            with self._writing() as connection:
                connection.execute("REPLACE INTO opened VALUES (?, ?)", (episode, times + 1))
                if self._unsure:
                    connection.execute("INSERT OR IGNORE INTO incomplete VALUES (?)", (episode,))
        return times

    def is_incomplete(self, episode: str) -> bool:
        """Say whether requests about an episode may have been lost with a damaged file."""
        with self._lock:
            return episode in self._incomplete

    def going(self, episode: str) -> bool:
        """Say whether an episode was opened here and the gate does not know yet that it is closed."""
        with self._using():
            query = "SELECT 1 FROM opened WHERE episode = ?1 UNION SELECT 1 FROM parcels WHERE episode = ?1 AND refused IS NULL "
            return self._safe.execute(f"{query} AND path LIKE '%/close'", (episode,)).fetchone() is not None

    def forget(self, episode: str) -> None:
        """Forget a closed episode."""
        with self._using():
            self._opened.pop(episode, None)
            self._unsure = False
            with self._writing(self._quick) as connection:
                connection.execute("DELETE FROM opened WHERE episode = ?", (episode,))
                connection.execute("DELETE FROM choices WHERE episode = ?", (episode,))
                connection.execute("DELETE FROM facts WHERE name = ?", (UNSURE,))

    def choose(self, episode: str, name: str, choice: Mapping[str, Any] | None) -> None:
        """Keep a choice for a restart; None before its answer. A power cut may lose it."""
        text = None if choice is None else json.dumps(choice)
        with self._using():  # each statement is a transaction of its own
            if text is not None:
                changed = self._quick.execute("UPDATE choices SET choice = ? WHERE episode = ? AND id = ?", (text, episode, name))
                if changed.rowcount:
                    return
            self._quick.execute("INSERT INTO choices (episode, id, choice) VALUES (?, ?, ?)", (episode, name, text))

    def begin(self, episode: str, name: str) -> bool:
        """Keep that a decision is asked for; say whether something about its episode is still to be delivered."""
        self.choose(episode, name, None)
        return self.waits(episode)

    def choices(self, episode: str | None = None) -> list[KeptChoice]:
        """Return the choices in an episode, or in all that are open, in their order. What cannot be read has no choice."""
        query = "SELECT episode, id, choice, reported FROM choices"
        with self._using():
            if episode is None:
                rows = self._safe.execute(f"{query} ORDER BY number").fetchall()
            else:
                rows = self._safe.execute(f"{query} WHERE episode = ? ORDER BY number", (episode,)).fetchall()
        return [KeptChoice(row[0], row[1], _read_choice(row[2]), bool(row[3])) for row in rows]

    # ---- facts -------------------------------------------------------------------------------------------------------------

    def learn(self, name: str, value: Any) -> None:
        """Keep a fact."""
        with self._using(), self._writing() as connection:
            connection.execute(LEARN, (name, json.dumps(value)))

    def fact(self, name: str) -> Any:
        """Return a fact, None if it is not known."""
        with self._using():
            row = self._safe.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    @contextmanager
    def _writing(self, connection: sqlite3.Connection | None = None) -> Iterator[sqlite3.Connection]:
        """Write in one transaction."""
        chosen = self._safe if connection is None else connection
        chosen.execute("BEGIN IMMEDIATE")
        try:
            yield chosen
        except BaseException:
            chosen.execute("ROLLBACK")
            raise
        chosen.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._open:
                self._limit_wait()
                self._save()
                self._open = False
                self._safe.close()
                self._quick.close()


def _open_file(path: Path | None) -> tuple[sqlite3.Connection, sqlite3.Connection]:
    """Return two connections to a file, for writes that survive a power cut and for quick ones; None for one in memory."""
    if path is None:
        connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        safe, quick = connection, connection
    else:
        create_private_file(path)  # SQLite would let others read it
        safe, quick = _connection(path, "FULL"), _connection(path, "NORMAL")
    for words in SPOOL_TABLES:
        safe.execute(words)
    if not any(row[1] == "reported" for row in safe.execute("PRAGMA table_info(choices)")):  # a spool of an earlier version
        safe.execute("ALTER TABLE choices ADD COLUMN reported INTEGER DEFAULT 0")
    safe.execute("SELECT count(*) FROM parcels").fetchone()
    return safe, quick


def _connection(path: Path, synchronous: str) -> sqlite3.Connection:
    connection = sqlite3.connect(str(path), check_same_thread=False, isolation_level=None, timeout=LOCK_SECONDS)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={synchronous}")
    return connection


def _mark_reported(connection: sqlite3.Connection, episode: str, items: Sequence[Mapping[str, Any]]) -> None:
    """Take note that results of decisions were handed in; one without a decision is of the whole episode."""
    for item in items:
        decision = item.get("decision")
        connection.execute(*((MARK_ALL, (episode,)) if decision is None else (MARK, (episode, str(decision)))))


def _read_choice(text: str | None) -> dict[str, Any] | None:
    try:
        choice = None if text is None else json.loads(text)
    except ValueError:
        return None
    return choice if isinstance(choice, dict) else None


def _is_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _is_full(error: sqlite3.Error) -> bool:
    """Say whether a disk is full; a file from before whose shared memory does not fit reports an I/O error of its own."""
    code = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE
