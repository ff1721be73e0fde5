"""A PostgreSQL server of a test's own: found on this machine, started on a free port, stopped and started again at will."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

STARTS = 60.0


def server_folder() -> Path | None:
    """Return the folder with `postgres` and `initdb`: of the system, or of the package pgserver; None if there is neither."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    asked = shutil.which("pg_config")
    if asked is not None:
        found.append(Path(subprocess.run([asked, "--bindir"], capture_output=True, text=True, check=True).stdout.strip()))
    package = find_spec("pgserver")
    if package is not None and package.origin is not None:
        found.append(Path(package.origin).parent / "pginstall" / "bin")
    return next((folder for folder in found if (folder / "postgres").exists() and (folder / "initdb").exists()), None)


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _unprivileged() -> dict[str, Any]:
    """Return for a subprocess who it runs as: PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(name)
            return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    return {}


@dataclass(slots=True)
class Server:
    """A server in a temporary folder. Nothing of it outlives `remove`. more: variables of its environment."""

    binaries: Path
    more: dict[str, str] = field(default_factory=dict)
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="aegis-pg-")), init=False)
    port: int = field(default_factory=free_port, init=False)
    count: int = field(default=0, init=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _crashing: threading.Lock = field(default_factory=threading.Lock, init=False)

    def create(self) -> None:
        """Make the cluster and start the server."""
        who = _unprivileged()
        if who:
            os.chown(self.folder, who["user"], who["group"])
        command = [self.binaries / "initdb", "-D", self.folder / "data", "-A", "trust", "-U", "aegis", "-E", "UTF8", "--no-sync"]
        subprocess.run(command, check=True, capture_output=True, cwd="/", env=self._environment(), **who)
        self.start()

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = [*("-p", str(self.port), "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self.folder}")]
        options += [*("-c", "fsync=off", "-c", "max_connections=200", "-c", "shared_buffers=16MB")]
        with (self.folder / "server.log").open("ab") as log:
            command = [self.binaries / "postgres", "-D", self.folder / "data", *options]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", env=self._environment(), **_unprivileged())
        end = time.monotonic() + STARTS
        while True:
            try:
                psycopg.connect(self.address("postgres"), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError((self.folder / "server.log").read_text()) from None
                time.sleep(0.05)

    def stop(self) -> None:
        """Stop the server at once, whoever is connected."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(STARTS)
            self._process = None

    def crash(self) -> None:
        """End the server without a shutdown, if it is still there, and start it again, on a failing disk as soon as it can."""
        with self._crashing:
            if self._process is not None:
                if self._process.poll() is None:
                    self._process.send_signal(signal.SIGQUIT)
                self._process.wait(STARTS)
            end = time.monotonic() + STARTS
            while True:
                try:
                    self.start()
                    return
                except RuntimeError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.1)

    @property
    def ended(self) -> bool:
        """Whether the server has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def remove(self) -> None:
        """Stop the server and remove everything."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def address(self, name: str) -> str:
        """Return the address of a database."""
        return f"postgresql://aegis@127.0.0.1:{self.port}/{name}"

    def fresh(self) -> str:
        """Make a new database and return its address."""
        self.count += 1
        name = f"fresh_{self.count}"
        self._say(f'CREATE DATABASE "{name}"')
        return self.address(name)

    def drop(self, address: str) -> None:
        """Remove a database, whoever is connected."""
        self._say(f'DROP DATABASE "{address.rpartition("/")[2]}" WITH (FORCE)')

    def _say(self, words: str) -> None:
        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute(words.encode())

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "LC_ALL": "C", "HOME": str(self.folder), **self.more}
