"""What a client still has to deliver, in one file on its own disk: kept at once, removed when it has arrived.

Beside it what a control system that was restarted has to know: the episodes it has opened and the choices in them, and the
actions of each level.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aegis.errors import OutputError

TABLES = (
    "CREATE TABLE IF NOT EXISTS parcels (number INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT, key TEXT, body TEXT, episode TEXT, "
    "refused TEXT)",
    "CREATE INDEX IF NOT EXISTS parcels_of ON parcels (episode)",
    "CREATE TABLE IF NOT EXISTS opened (episode TEXT PRIMARY KEY, times INTEGER)",
    "CREATE TABLE IF NOT EXISTS choices (number INTEGER PRIMARY KEY AUTOINCREMENT, episode TEXT, id TEXT, choice TEXT)",
    "CREATE INDEX IF NOT EXISTS choices_of ON choices (episode, id)",
    "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT)",
)
PUT = "INSERT INTO parcels (path, key, body, episode) VALUES (?, ?, ?, ?)"
log = logging.getLogger("aegis.client")


@dataclass(frozen=True, slots=True)
class Parcel:
    """A request that is to be delivered: where to, under which key, with which body. episode: it is about."""

    number: int
    path: str
    key: str
    body: dict[str, Any]
    episode: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that the gate refuses: it would be refused for ever. why: what the gate said."""

    path: str
    episode: str
    body: dict[str, Any]
    why: str


New = tuple[str, str, Mapping[str, Any], str]  # path, key, body, episode


class Spool:
    """Parcels in the order in which they were put in; several threads may use it. A disk that is full loses nothing as long as
    the process lives: what could not be written is tried again."""

    def __init__(self, path: str | Path) -> None:
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._safe, self._quick = (_connection(path, level) for level in ("FULL", "NORMAL"))
            for words in TABLES:
                self._safe.execute(words)
        except (OSError, sqlite3.Error) as error:
            raise OutputError(f"cannot keep undelivered requests in {path}: {error}") from error
        self._lock, self._unsaved, self._open = threading.RLock(), list[tuple[str, str, str, str]](), True

    # ---- parcels -----------------------------------------------------------------------------------------------------------

    def put(self, path: str, key: str, body: Mapping[str, Any], episode: str) -> None:
        """Keep a request until it has arrived."""
        with self._lock:
            self._unsaved.append((path, key, json.dumps(body, allow_nan=False), episode))
            self._save()

    def _save(self) -> bool:
        """Write down what is in memory only; say whether nothing is left."""
        if not self._unsaved:
            return True
        try:
            with self._writing() as connection:
                connection.executemany(PUT, self._unsaved)
            self._unsaved.clear()
        except sqlite3.Error as error:
            log.error("%d requests to the gate are in memory only, the spool cannot be written: %s", len(self._unsaved), error)
        return not self._unsaved

    def first(self, urgent: str = "") -> Parcel | None:
        """Return the oldest request that is still to be delivered, those about an urgent episode before all others."""
        with self._lock:
            self._save()
            query = "SELECT number, path, key, body, episode FROM parcels WHERE refused IS NULL"
            row = self._safe.execute(f"{query} AND episode = ? ORDER BY number LIMIT 1", (urgent,)).fetchone() if urgent else None
            row = row or self._safe.execute(f"{query} ORDER BY number LIMIT 1").fetchone()
        return None if row is None else Parcel(row[0], row[1], row[2], json.loads(row[3]), row[4])

    def waits(self, episode: str) -> bool:
        """Say whether something about an episode is still to be delivered."""
        with self._lock:
            query = "SELECT 1 FROM parcels WHERE refused IS NULL AND episode = ? LIMIT 1"
            found = self._safe.execute(query, (episode,)).fetchone() is not None
            return found or any(item[3] == episode for item in self._unsaved)

    def __len__(self) -> int:
        with self._lock:
            found = self._safe.execute("SELECT count(*) FROM parcels WHERE refused IS NULL").fetchone()[0]
            return int(found) + len(self._unsaved)

    def arrived(self, parcel: Parcel, more: Sequence[New] = ()) -> None:
        """Remove a request that has arrived, or that others stand in for. more: what is to be delivered after it."""
        with self._lock, self._writing() as connection:
            connection.execute("DELETE FROM parcels WHERE number = ?", (parcel.number,))
            connection.executemany(PUT, [(path, key, json.dumps(body), episode) for path, key, body, episode in more])

    def refuse(self, parcel: Parcel, why: str, more: Sequence[New] = ()) -> None:
        """Set aside a request that the gate refuses. It stays in the file. more: what is to be delivered after it."""
        with self._lock, self._writing() as connection:
            connection.execute("UPDATE parcels SET refused = ? WHERE number = ?", (why, parcel.number))
            connection.executemany(PUT, [(path, key, json.dumps(body), episode) for path, key, body, episode in more])

    def refused(self, episode: str | None = None) -> list[Refusal]:
        """Return what was set aside, of one episode or of all."""
        query = "SELECT path, episode, body, refused FROM parcels WHERE refused IS NOT NULL"
        with self._lock:
            rows = self._safe.execute(f"{query} ORDER BY number").fetchall()
        return [Refusal(row[0], row[1], json.loads(row[2]), row[3]) for row in rows if episode in (None, row[1])]

    # ---- episodes ----------------------------------------------------------------------------------------------------------

    def open(self, episode: str) -> int:
        """Take note of an episode, and return how often it was opened before: above 0 after a restart."""
        with self._lock, self._writing() as connection:
            row = connection.execute("SELECT times FROM opened WHERE episode = ?", (episode,)).fetchone()
            times = 0 if row is None else int(row[0])
            connection.execute("REPLACE INTO opened VALUES (?, ?)", (episode, times + 1))
        return times

    def going(self, episode: str) -> bool:
        """Say whether an episode was opened here and the gate does not know yet that it is closed."""
        with self._lock:
            query = "SELECT 1 FROM opened WHERE episode = ?1 UNION SELECT 1 FROM parcels WHERE episode = ?1 AND refused IS NULL "
            return self._safe.execute(f"{query} AND path LIKE '%/close'", (episode,)).fetchone() is not None

    def forget(self, episode: str) -> None:
        """Forget an episode that is closed: it is not gone on with."""
        with self._lock, self._writing(self._quick) as connection:
            connection.execute("DELETE FROM opened WHERE episode = ?", (episode,))
            connection.execute("DELETE FROM choices WHERE episode = ?", (episode,))

    def choose(self, episode: str, name: str, choice: Mapping[str, Any] | None) -> None:
        """Keep a choice; None before the answer is there. This one may be lost with the power: a restart is what it is for."""
        with self._lock, self._writing(self._quick) as connection:
            connection.execute("DELETE FROM choices WHERE episode = ? AND id = ?", (episode, name))
            values = (episode, name, None if choice is None else json.dumps(choice))
            connection.execute("INSERT INTO choices (episode, id, choice) VALUES (?, ?, ?)", values)

    def choices(self, episode: str) -> dict[str, dict[str, Any] | None]:
        """Return the choices in an episode by their names; None for one whose answer never came to be kept."""
        with self._lock:
            rows = self._safe.execute("SELECT id, choice FROM choices WHERE episode = ? ORDER BY number", (episode,)).fetchall()
        return {row[0]: None if row[1] is None else json.loads(row[1]) for row in rows}

    # ---- facts -------------------------------------------------------------------------------------------------------------

    def learn(self, name: str, value: Any) -> None:
        """Keep a fact."""
        with self._lock, self._writing() as connection:
            connection.execute("REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))

    def fact(self, name: str) -> Any:
        """Return a fact, None if it is not known."""
        with self._lock:
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
                self._save()
                self._open = False
                self._safe.close()
                self._quick.close()


def _connection(path: str | Path, synchronous: str) -> sqlite3.Connection:
    found = sqlite3.connect(str(path), check_same_thread=False, isolation_level=None, timeout=5.0)
    found.execute("PRAGMA journal_mode=WAL")
    found.execute(f"PRAGMA synchronous={synchronous}")
    return found
