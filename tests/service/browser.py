"""A browser for tests of pages, and live gates that it can look at: both are real, on this machine only."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from inline import Inline, Plant, small_world

from aegis.cli.gate_server import START_SECONDS, ServerOptions, make_service
from aegis.handover import HOSTS
from aegis.problem import Batch
from aegis.service.app import Service
from aegis.service.trainer import Trainer

ARGUMENTS = (
    "--no-sandbox",
    "--headless=new",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
SETTINGS = {"mode": "approve", "first": 8, "caps": [2.0, 3.0]}
SEED, SETTLES = 3, 60.0  # seconds that episodes have to be counted


def chromium() -> str:
    """Return where Chromium is; the test is skipped where there is none."""
    found = os.environ.get("AEGIS_CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
    if not Path(found).is_file():
        pytest.skip(f"there is no Chromium at {found}: install chromium, or set AEGIS_CHROMIUM")
    return found


@contextlib.contextmanager
def opened_browser() -> Iterator[Any]:
    """Open a browser; the test is skipped without Playwright or Chromium."""
    api = pytest.importorskip("playwright.sync_api", reason="install playwright: it is among the 'dev' extras")
    path = chromium()
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Spoiled:
    """A world in which everything has gone wrong: every reward is the worst there is."""

    world: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world, name)

    def episodes(self, *arguments: Any) -> Batch:
        """Run episodes."""
        found: Batch = self.world.episodes(*arguments)
        return replace(found, reward=found.reward * 0.0 + self.world.problem.reward.range[0])


@dataclass
class Running:
    """A live gate over HTTP beside a small simulated plant, which runs when the test says so. It learns in this process."""

    service: Service
    url: str
    server: Any
    thread: threading.Thread
    plant: Plant

    def run(self, episodes: int, spoiled: bool = False) -> None:
        """Run episodes and wait until all of them are counted."""
        world = self.plant.world
        if spoiled:
            self.plant.world = Spoiled(world)  # type: ignore[assignment]
        self.plant.run(episodes, count=False)
        self.plant.world = world
        live, end = self.service.live, time.monotonic() + SETTLES
        with live.changed:
            while live.state.opened.episode < live.state.started:
                if time.monotonic() > end or self.service.counting.failure is not None:
                    raise TimeoutError(f"episodes were not counted: {self.service.counting.failure}")
                live.changed.wait(0.2)

    def run_until(self, said: Callable[[dict[str, Any]], bool], most: int = 400, spoiled: bool = False) -> None:
        """Run episodes until the gate says what is waited for."""
        for _ in range(0, most, 4):
            self.run(4, spoiled)
            if said(self.gate()):
                return
        raise TimeoutError(f"{most} episodes did not lead to what the test waits for")

    def gate(self) -> dict[str, Any]:
        """Return what the page is told."""
        with self.service.live.changed:
            return self.service.reading.gate()

    def say(self, action: str, level: str | None = None, who: str = "Ada", why: str = "because") -> None:
        """Let an operator say something, not over HTTP."""
        self.service.live.say(f"{action} {time.monotonic_ns()}", action, who, why, level)

    def stop(self) -> None:
        """Stop the service: nobody answers any more."""
        self.server.should_exit = True
        self.thread.join(30)


@contextlib.contextmanager
def running_gate(
    folder: Path, prepare: Callable[[Service], object] = lambda _: None, standby: bool = False, port: int = 0
) -> Iterator[Running]:
    """Serve the gate of a folder, on a free port unless one is given. prepare: called before anybody can ask, for tokens."""
    world, port = small_world(), port or free_port()
    store = folder / "gate.sqlite"
    given = {} if store.exists() else SETTINGS
    service, server = make_service(
        *(world.problem, str(store), "press", given, None if store.exists() else SEED, "greedy"),
        ServerOptions("127.0.0.1", port, standby=standby),
    )
    service.counting.worker = Inline(_workshop(service))  # type: ignore[assignment]
    prepare(service)
    thread = threading.Thread(target=server.run, name="aegis-server", daemon=True)
    thread.start()
    end = time.monotonic() + START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > end:
            raise TimeoutError("the service did not start")
        time.sleep(0.01)
    url = f"http://127.0.0.1:{port}"
    running = Running(service, url, server, thread, Plant(world, service.live, service.counting))
    try:
        yield running
    finally:
        running.stop()


def _workshop(service: Service) -> Trainer:
    """Return a workshop that takes up what the journal holds, as a worker's process does."""
    workshop, followed = Trainer(service.live.problem, HOSTS["greedy"](), SEED), service.live.state.on_counted

    def counted(*given: Any) -> None:
        workshop.counted(*given)
        if followed is not None:
            followed(*given)

    service.live.state.on_counted = counted
    return workshop


def free_port() -> int:
    """Return a port of this machine that nobody uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
