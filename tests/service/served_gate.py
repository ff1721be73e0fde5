"""`aegis serve` in processes that can be killed: a helper imports everything once, and each start is a fork of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from postgres_server import free_port

from aegis.service.client.transport import GateAway, GateConnection

STARTS = 60.0


@dataclass(slots=True)
class Helper:
    """The process that gates are forked from. environment: variables beside those of this process."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        with self.log.open("a") as log:
            command = [sys.executable, __file__]
            pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log, "text": True}
            self._process = subprocess.Popen(command, env={**os.environ, **self.environment}, **pipes)

    @property
    def log(self) -> Path:
        """Return what gates write to."""
        return self.folder / "served.log"

    def say(self, *words: str) -> str:
        """Say something to it, and return what it says."""
        pipes: Any = self._process
        pipes.stdin.write("\t".join(words) + "\n")
        pipes.stdin.flush()
        found: str = pipes.stdout.readline()
        return found.strip()

    def end(self) -> None:
        """End it."""
        self._process.communicate(timeout=STARTS)


@dataclass(slots=True)
class Served:
    """A gate in a process of its own. arguments: of `aegis serve`, besides where it listens."""

    helper: Helper
    arguments: list[str]
    port: int = field(default_factory=free_port)
    pid: int | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        """Return where it is asked."""
        return f"http://127.0.0.1:{self.port}"

    def start(self, wait: bool = True) -> None:
        """Start it. wait: until it is the writer."""
        self.pid = int(self.helper.say("serve", *self.arguments, "--listen", f"127.0.0.1:{self.port}"))
        if wait:
            self.ready()

    def ready(self) -> None:
        """Wait until it is the writer."""
        line, end = GateConnection(self.url, None, 5.0), time.monotonic() + STARTS
        while True:
            try:
                line.ask("GET", "/v1/health")
                line.hang_up()
                return
            except GateAway:
                if time.monotonic() > end:
                    raise RuntimeError(self.helper.log.read_text()) from None
                time.sleep(0.02)

    def kill(self, how: int = signal.SIGKILL) -> None:
        """Kill it, and wait until it is gone."""
        if self.pid is not None:
            os.kill(self.pid, how)
            self.helper.say("wait", str(self.pid))
            self.pid = None


def _help() -> None:
    """Fork a gate for each line that says so, and wait for those that were killed."""
    import uvicorn  # noqa: F401

    import aegis.cli.gate_server
    import aegis.cli.simulated_controller  # noqa: F401
    from aegis.cli import main

    for line in sys.stdin:
        words = line.strip().split("\t")
        if words[0] == "wait":
            os.waitpid(int(words[1]), 0)
            print("gone", flush=True)
            continue
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(2, 1)
            sys.argv[0] = "aegis"
            status = 1
            try:
                status = main(words) or 0  # type: ignore[func-returns-value]
            except SystemExit as error:
                status = error.code if isinstance(error.code, int) else 1
            finally:
                os._exit(status)
        print(child, flush=True)


if __name__ == "__main__":
    _help()
