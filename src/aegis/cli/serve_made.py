"""From the options of `aegis serve` to a service that can begin."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aegis.cli.handover_made import host_of
from aegis.cli.serve import USUAL, fresh_seed, loopback
from aegis.errors import SettingError
from aegis.handover import GateSettings
from aegis.handover.events import Opened, event_of
from aegis.problem import Problem
from aegis.service.app import Service, make_app
from aegis.service.counting import Counting
from aegis.service.live import Live
from aegis.service.problems import as_opened
from aegis.service.store import Database, Journal, Record
from aegis.service.tokens import list_tokens
from aegis.service.worker import Order, Worker

log = logging.getLogger("aegis.service")
STARTS = 60.0  # seconds that a server has to come up


def make_service(
    problem: Problem,
    store: str,
    name: str,
    given: Mapping[str, Any],
    seed: int | None,
    learner: str,
    where: tuple[str, int],
    hosts: Sequence[str],
    rate: float,
    standby: bool,
    abandon: float | None,
    cert: str | None,
    key: str | None,
) -> tuple[Service, Any]:
    """Return the service and the web server for it; SettingError for what does not fit."""
    import uvicorn

    if (cert is None) != (key is None):
        raise SettingError("--tls-cert and --tls-key belong together")
    database = Database.at(store)
    if database.version() is None if database.file is None or database.file.exists() else True:
        database.upgrade()
    database.check()
    if not loopback(where[0]) and not list_tokens(database):
        raise SettingError(
            f"--listen {where[0]} can be reached from other machines, and nobody needs a token yet: make some first ('aegis "
            "token make'), or listen on 127.0.0.1"
        )
    first = next(iter(Journal(database, name).read()), None)
    settings, kept = _settings(database, name, first, given, seed)
    live = Live(database, name, _problem(name, first, problem), settings, kept)
    worker = Worker(Order(store, name, live.problem, host_of(learner, live.problem), kept))
    service = Service(live, Counting(live, worker, None if abandon is None else abandon * 3600.0), standby, rate, hosts)
    config = uvicorn.Config(
        make_app(service),
        where[0],
        where[1],
        log_config=None,
        access_log=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=3,  # an open dashboard never hangs up by itself
        limit_concurrency=512,
        ssl_certfile=cert,
        ssl_keyfile=key,
        server_header=False,
    )
    server = uvicorn.Server(config)
    service.ending = lambda: server.should_exit
    return service, server


def begin(service: Service) -> None:
    """Start a service before its web server, so that why it cannot start is an error like any other."""
    try:
        service.start()
    except BaseException:
        service.stop()
        raise


def _problem(name: str, first: Record | None, problem: Problem) -> Problem:
    """Return the problem as a gate takes it: one of an earlier release goes on comparing with the policy that writes the log."""
    found = problem if first is None else as_opened(problem, first.body["problem"])
    if found is not problem:
        log.warning(
            "gate '%s' was opened by an earlier release: its gains are over the policy that writes the log, exploration "
            "included, as they were. A new gate (--name) compares with the incumbent, which the problem file declares ('base')",
            name,
        )
    return found


def _settings(
    database: Database, name: str, first: Record | None, given: Mapping[str, Any], seed: int | None
) -> tuple[GateSettings, int]:
    """Return the settings of a gate: those it was opened with, or those that are given now. first: record of its journal."""
    if first is None:
        return GateSettings.of({**USUAL, **given}), fresh_seed() if seed is None else seed
    event = event_of(first.body["event"])
    if not isinstance(event, Opened):
        raise SettingError(f"the journal of gate '{name}' does not begin with its opening; verify the store")
    now = GateSettings.of({**event.settings.plain(), **given})
    if now != event.settings or (seed is not None and seed != first.body["seed"]):
        raise SettingError(
            f"gate '{name}' in {database.shown} was opened with other settings, which a gate keeps for life: leave these options "
            "out, or open another gate with --name. Its mode is changed by an operator (the page, or POST /v1/operator)"
        )
    return event.settings, int(first.body["seed"])


def wait_for_end(server: Any, work: Callable[[], int]) -> int:
    """Run a server in the background while something uses it, and return what that returns."""
    thread = threading.Thread(target=server.run, name="aegis-server", daemon=True)
    thread.start()
    end = time.monotonic() + STARTS
    try:
        while not server.started:
            if not thread.is_alive() or time.monotonic() > end:
                raise SettingError("the service did not start: see above, or try another --listen")
            time.sleep(0.02)
        return work()
    finally:
        server.should_exit = True
        thread.join(30)
