"""What a client still has to deliver, in one file on its own disk: kept at once, removed when it has arrived."""

from __future__ import annotations

import json
import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aegis.errors import OutputError


@dataclass(frozen=True, slots=True)
class Parcel:
    """A request that is to be delivered: where to, under which key, with which body. episode: it is about."""

    number: int
    path: str
    key: str
    body: dict[str, Any]
    episode: str


class Spool:
    """Parcels in the order in which they were put in; several threads may use it."""

    def __init__(self, path: str | Path) -> None:
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(str(path), check_same_thread=False, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS parcels (number INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT, key TEXT, body TEXT, "
                "episode TEXT, refused TEXT)"
            )
        except (OSError, sqlite3.Error) as error:
            raise OutputError(f"cannot keep undelivered requests in {path}: {error}") from error
        self._lock = threading.Lock()

    def put(self, path: str, key: str, body: dict[str, Any], episode: str) -> None:
        """Keep a request until it has arrived."""
        values = (path, key, json.dumps(body, allow_nan=False), episode)
        try:
            with self._lock:
                self._connection.execute("INSERT INTO parcels (path, key, body, episode) VALUES (?, ?, ?, ?)", values)
        except sqlite3.Error as error:
            raise OutputError(f"cannot keep a request to {path} until it has arrived: {error}") from error

    def first(self) -> Parcel | None:
        """Return the oldest request that is still to be delivered."""
        with self._lock:
            query = "SELECT number, path, key, body, episode FROM parcels WHERE refused IS NULL ORDER BY number LIMIT 1"
            row = self._connection.execute(query).fetchone()
        return None if row is None else Parcel(row[0], row[1], row[2], json.loads(row[3]), row[4])

    def waits(self, episode: str) -> bool:
        """Say whether something about an episode is still to be delivered."""
        with self._lock:
            query = "SELECT 1 FROM parcels WHERE refused IS NULL AND episode = ? LIMIT 1"
            return self._connection.execute(query, (episode,)).fetchone() is not None

    def __len__(self) -> int:
        with self._lock:
            return int(self._connection.execute("SELECT count(*) FROM parcels WHERE refused IS NULL").fetchone()[0])

    def arrived(self, parcel: Parcel) -> None:
        """Remove a request that has arrived."""
        with self._lock:
            self._connection.execute("DELETE FROM parcels WHERE number = ?", (parcel.number,))

    def refuse(self, parcel: Parcel, why: str) -> None:
        """Set aside a request that the gate refuses: it would be refused for ever. It stays in the file."""
        with self._lock:
            self._connection.execute("UPDATE parcels SET refused = ? WHERE number = ?", (why, parcel.number))

    def refused(self) -> list[tuple[str, dict[str, Any], str]]:
        """Return what was set aside: path, body and why."""
        with self._lock:
            rows = self._connection.execute("SELECT path, body, refused FROM parcels WHERE refused IS NOT NULL").fetchall()
        return [(row[0], json.loads(row[1]), row[2]) for row in rows]

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()
