"""The spool of a client: requests that are still to be delivered, in one file, and the thread that delivers them.

Requests go in order, each under its own key; those the gate refuses are set aside. The file also keeps open episodes and their
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
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from aegis.errors import OutputError
from aegis.files import create_private_file, describe_open_files, make_private_folder, sqlite_files
from aegis.service.client.counters import REMEDIES, UNABLE, UNAUTHORISED
from aegis.service.client.fallback import ProblemFacts
from aegis.service.client.transport import GateAway, GateConnection, GateRefusal

SPOOL_TABLES = (
    "CREATE TABLE IF NOT EXISTS parcels (number INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT, key TEXT, body TEXT, episode TEXT, "
    "refused TEXT)",
    "CREATE INDEX IF NOT EXISTS parcels_of ON parcels (episode)",
    "CREATE TABLE IF NOT EXISTS opened (episode TEXT PRIMARY KEY, times INTEGER)",
    "CREATE TABLE IF NOT EXISTS choices (number INTEGER PRIMARY KEY AUTOINCREMENT, episode TEXT, id TEXT, choice TEXT, "
    "reported INTEGER DEFAULT 0)",
    "CREATE INDEX IF NOT EXISTS choices_of ON choices (episode, id)",
    "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT)",
)

LOCK_SECONDS = 5.0  # that a write waits for another process; a decision does not wait for the write
MARK = "UPDATE choices SET reported = 1 WHERE episode = ? AND id = ?"
MARK_ALL = "UPDATE choices SET reported = 1 WHERE episode = ?"
PUT = "INSERT INTO parcels (path, key, body, episode) VALUES (?, ?, ?, ?)"
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
    can still be read of it taken over, and the spool goes on in a new one.

    Raises
    ------
    OutputError
        If the file cannot be written, for another reason than a full disk.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock, self._unsaved, self._open = threading.RLock(), list[tuple[str, str, str, str]](), True
        try:
            make_private_folder(self.path.parent)
            self._safe, self._quick = _open_file(self.path)
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
        if (warning := describe_open_files(sqlite_files(self.path))) is not None:
            log.warning("the spool is %s", warning)

    def _go_on_in_memory(self, error: Exception) -> None:
        log.error("requests to the gate are kept in memory until this process ends, %s cannot be written: %s", self.path, error)
        self._safe, self._quick = _open_file(None)

    def _set_aside(self, error: Exception) -> None:
        """Move a damaged file away, take over the requests that can still be read, and go on with a new file."""
        for connection in (getattr(self, "_safe", None), getattr(self, "_quick", None)):
            if connection is not None:
                with suppress(sqlite3.Error):
                    connection.close()
        aside = self.path.with_name(f"{self.path.name}.damaged-{time.time_ns()}")
        log.error("the spool %s is damaged (%s): it is kept as %s, and a new one is begun", self.path, error, aside)
        try:
            for file, kept in zip(sqlite_files(self.path), sqlite_files(aside), strict=True):
                if file.exists():
                    os.replace(file, kept)
            self._unsaved[:0] = _readable_parcels(aside)
            self._safe, self._quick = _open_file(self.path)
        except (OSError, sqlite3.Error) as other:
            self._go_on_in_memory(other)

    @contextmanager
    def _using(self) -> Iterator[None]:
        """Let one thread use the file; a damaged one is replaced, and the error raised."""
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                if _is_damage(error):
                    self._set_aside(error)
                raise

    # ---- parcels -----------------------------------------------------------------------------------------------------------

    def put(self, path: str, key: str, body: Mapping[str, Any], episode: str) -> None:
        """Keep a request until it has arrived."""
        with self._using():
            self._unsaved.append((path, key, json.dumps(body, allow_nan=False), episode))
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
        self._settle(("DELETE FROM parcels WHERE number = ?", (parcel.number,)), more)

    def refuse(self, parcel: Parcel, why: str, more: Sequence[NewParcel] = ()) -> None:
        """Set aside a request that the gate refuses. It stays in the file. more: what is to be delivered after it."""
        self._settle(("UPDATE parcels SET refused = ? WHERE number = ?", (why, parcel.number)), more)

    def _settle(self, statement: tuple[str, tuple[Any, ...]], more: Sequence[NewParcel]) -> None:
        with self._using(), self._writing() as connection:
            connection.execute(*statement)
            connection.executemany(PUT, [(path, key, json.dumps(body), episode) for path, key, body, episode in more])

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
        with self._using(), self._writing() as connection:
            row = connection.execute("SELECT times FROM opened WHERE episode = ?", (episode,)).fetchone()
            times = 0 if row is None else int(row[0])
            connection.execute("REPLACE INTO opened VALUES (?, ?)", (episode, times + 1))
        return times

    def going(self, episode: str) -> bool:
        """Say whether an episode was opened here and the gate does not know yet that it is closed."""
        with self._using():
            query = "SELECT 1 FROM opened WHERE episode = ?1 UNION SELECT 1 FROM parcels WHERE episode = ?1 AND refused IS NULL "
            return self._safe.execute(f"{query} AND path LIKE '%/close'", (episode,)).fetchone() is not None

    def forget(self, episode: str) -> None:
        """Forget a closed episode."""
        with self._using(), self._writing(self._quick) as connection:
            connection.execute("DELETE FROM opened WHERE episode = ?", (episode,))
            connection.execute("DELETE FROM choices WHERE episode = ?", (episode,))

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
            connection.execute("REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))

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


def _readable_parcels(path: Path) -> list[tuple[str, str, str, str]]:
    """Return the undelivered requests that can still be read from a damaged file, in order. A request twice does no harm."""
    rows: list[tuple[str, str, str, str]] = []
    with suppress(sqlite3.Error), closing(sqlite3.connect(str(path))) as connection:
        for row in connection.execute("SELECT path, key, body, episode FROM parcels WHERE refused IS NULL ORDER BY number"):
            with suppress(ValueError, TypeError):
                json.loads(row[2])
                rows.append(row)
    return rows


RESULTS = "/v1/results"
STANDS_IN = "-missing"  # ends the keys of reports that stand in for refused ones


@dataclass(slots=True)
class DeliveryThread:
    """A thread that delivers. retry: seconds after which a gate that was away is asked again. urgent: the episode of a caller
    that waits."""

    spool: Spool
    line: GateConnection
    retry: float
    facts: ProblemFacts
    urgent: str = ""
    work: threading.Event = field(default_factory=threading.Event, init=False)
    answered: threading.Event = field(default_factory=threading.Event, init=False)  # a delivery has arrived since it was cleared
    failure: GateAway | None = field(default=None, init=False)  # why the last delivery did not arrive, None if it did
    _going: bool = field(default=True, init=False)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name="aegis-deliver", daemon=True)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """End the thread, in the middle of a delivery if need be: what was not confirmed is still in the spool."""
        self._going = False
        self.work.set()
        self.line.cut()
        self._thread.join(seconds)
        self.line.hang_up()

    def _run(self) -> None:
        learned = False
        while self._going:
            try:
                parcel = self.spool.first(self.urgent)
                if parcel is None:
                    self.work.wait(self.retry)
                    self.work.clear()
                    continue
                if not learned:
                    self._learn()
                    learned = True
                self._deliver(parcel)
                self.failure = None
                self.answered.set()
            except GateAway as error:
                if error.reason == UNAUTHORISED and (self.failure is None or self.failure.reason != UNAUTHORISED):
                    log.warning("deliveries wait in the spool (%s): %s; %s", UNAUTHORISED, error, REMEDIES[UNAUTHORISED])
                self.failure = error
                self._rest()
            except Exception:
                if not self._going:
                    return
                log.exception("a delivery to the gate failed; it is tried again")
                self._rest()

    def _rest(self) -> None:
        if self._going:
            time.sleep(min(self.retry, 0.2))

    def _learn(self) -> None:
        """Ask the gate which actions each level has; GateAway if it does not say so."""
        try:
            facts = ProblemFacts.from_answer(self.line.ask("GET", "/v1/problem"))
        except (KeyError, TypeError, GateRefusal) as error:  # that says nothing about what is to be delivered
            reason = UNAUTHORISED if isinstance(error, GateRefusal) and error.unauthorised else UNABLE
            raise GateAway(f"what answers does not describe a gate: {error}", reason) from error
        if facts != self.facts:
            self.facts = facts
            try:
                self.spool.learn("problem", asdict(facts))
            except sqlite3.Error as error:
                log.error("the actions of the levels cannot be kept: %s", error)

    def _deliver(self, parcel: Parcel) -> None:
        """Deliver a request, or set it aside."""
        parcel = self._completed(parcel)
        try:
            self.line.ask("POST", parcel.path, parcel.body, parcel.key)
        except GateRefusal as error:
            if error.unauthorised:  # a token may be put right
                raise GateAway(f"{error.status}: {error}", UNAUTHORISED) from error
            self._refused(parcel, f"{error.status}: {error}")
            return
        self.spool.arrived(parcel, self._after(parcel))

    def _completed(self, parcel: Parcel) -> Parcel:
        """Return a request with what was not known before: the value of an action, whether decisions were refused."""
        body = dict(parcel.body)
        if parcel.path.endswith("/overruled") and "index" in body:
            place = body.pop("index")
            values = self.facts.actions.get(body["ask"]["level"], [])
            body["used"] = values[place] if place < len(values) else None
        if parcel.path.endswith("/close"):
            lost = any(
                "/decisions" in item.path or item.path.endswith(("/overruled", "/replaced"))
                for item in self.spool.refused(parcel.episode)
            )
            body["incomplete"] = lost or bool(body.get("incomplete"))
        return replace(parcel, body=body)

    def _refused(self, parcel: Parcel, why: str) -> None:
        if parcel.path == RESULTS and parcel.key.endswith(STANDS_IN):
            self.spool.arrived(parcel)  # there is another result by now, or no such decision
            return
        items = parcel.body.get("items", [])
        if parcel.path == RESULTS and len(items) > 1:  # all or none: a wrong one must not take the others along
            singly: list[NewParcel] = [
                (RESULTS, f"{parcel.key}-{i}", {"items": [item]}, parcel.episode) for i, item in enumerate(items)
            ]
            self.spool.arrived(parcel, singly)
            return
        log.warning("the gate refuses %s of episode '%s' (Client.refused): %s", parcel.path, parcel.episode, why)
        more = [] if parcel.path != RESULTS or self.spool.going(parcel.episode) else [_missing_report(parcel.key, items[0])]
        self.spool.refuse(parcel, why, more)

    def _after(self, parcel: Parcel) -> list[NewParcel]:
        """Return the requests that follow one: at the end of an episode, that refused rewards will not come."""
        if not parcel.path.endswith("/close"):
            return []
        wrong = [item for item in self.spool.refused(parcel.episode) if item.path == RESULTS]
        return [_missing_report(f"{parcel.key}-{i}", item.body["items"][0]) for i, item in enumerate(wrong)]


def _missing_report(key: str, item: Mapping[str, Any]) -> NewParcel:
    """Return the report that stands in for a refused one: the episode would hold up all others. It counts as the worst."""
    about = {name: item[name] for name in ("episode", "decision") if name in item}
    return RESULTS, f"{key}{STANDS_IN}", {"items": [{**about, "missing": True}]}, str(item["episode"])
