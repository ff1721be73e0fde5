"""The web server of `aegis serve`: the service made from the options, its log lines in JSON, its start and its end."""

from __future__ import annotations

import ipaddress
import json
import logging
import secrets
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from aegis.cli.handover_run import load_host
from aegis.errors import SettingError
from aegis.handover import GateOpened, GateSettings, event_from_plain
from aegis.problem import Problem
from aegis.service import (
    Database,
    EpisodeCounter,
    Journal,
    JournalRecord,
    LiveGate,
    Service,
    TrainerProcess,
    TrainerSetup,
    list_tokens,
    make_app,
)

LOG_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}

LOGGER_NAMES = ("aegis", "uvicorn", "asyncio")  # who would otherwise write lines of their own kind


class JsonLineFormatter(logging.Formatter):
    """One line of JSON for each thing that happened. `extra={"fields": {...}}` puts fields of its own beside the usual ones."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback is its field 'why'."""
        found: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "from": record.name,
            "what": record.getMessage().strip(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            found["why"] = self.formatException(record.exc_info)
        if record.stack_info:
            found["where"] = self.formatStack(record.stack_info)
        return json.dumps(found, default=str)


def log_json_lines(level: str) -> None:
    """Let everybody write lines of JSON from a level on; SettingError if there is no such level."""
    if level not in LOG_LEVELS:
        raise SettingError(f"--log-level is one of {', '.join(LOG_LEVELS)}, found '{level}'")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLineFormatter())
    for name in LOGGER_NAMES:
        speaker = logging.getLogger(name)
        speaker.handlers, speaker.propagate = [handler], False
        speaker.setLevel(LOG_LEVELS[level])


START_SECONDS = 60.0  # seconds that a server has to come up


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
    if not is_loopback(where[0]) and not list_tokens(database):
        raise SettingError(
            f"--listen {where[0]} can be reached from other machines, and nobody needs a token yet: make some first ('aegis "
            "token make'), or listen on 127.0.0.1"
        )
    first = next(iter(Journal(database, name).read()), None)
    settings, kept = _gate_settings(database, name, first, given, seed)
    live = LiveGate(database, name, problem, settings, kept)
    worker = TrainerProcess(TrainerSetup(store, name, live.problem, load_host(learner, live.problem), kept))
    service = Service(live, EpisodeCounter(live, worker, None if abandon is None else abandon * 3600.0), standby, rate, hosts)
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


def start_service(service: Service) -> None:
    """Start a service before its web server, so that why it cannot start is an error like any other."""
    try:
        service.start()
    except BaseException:
        service.stop()
        raise


def _gate_settings(
    database: Database, name: str, first: JournalRecord | None, given: Mapping[str, Any], seed: int | None
) -> tuple[GateSettings, int]:
    """Return the settings of a gate: those it was opened with, or those that are given now. first: record of its journal."""
    if first is None:
        return GateSettings.of({**SERVICE_DEFAULTS, **given}), fresh_seed() if seed is None else seed
    event = event_from_plain(first.body["event"])
    if not isinstance(event, GateOpened):
        raise SettingError(f"the journal of gate '{name}' does not begin with its opening; verify the store")
    now = GateSettings.of({**event.settings.plain(), **given})
    if now != event.settings or (seed is not None and seed != first.body["seed"]):
        raise SettingError(
            f"gate '{name}' in {database.shown} was opened with other settings, which a gate keeps for life: leave these options "
            "out, or open another gate with --name. Its mode is changed by an operator (the page, or POST /v1/operator)"
        )
    return event.settings, int(first.body["seed"])


def run_beside_server(server: Any, work: Callable[[], int]) -> int:
    """Run a server in the background while something uses it, and return what that returns."""
    thread = threading.Thread(target=server.run, name="aegis-server", daemon=True)
    thread.start()
    end = time.monotonic() + START_SECONDS
    try:
        while not server.started:
            if not thread.is_alive() or time.monotonic() > end:
                raise SettingError("the service did not start: see above, or try another --listen")
            time.sleep(0.02)
        return work()
    finally:
        server.should_exit = True
        thread.join(30)


SERVICE_DEFAULTS = {"mode": "approve"}  # where the gate's own defaults do not fit a plant


def is_loopback(host: str) -> bool:
    """Say whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def fresh_seed() -> int:
    """Return a seed that nobody can guess."""
    return secrets.randbits(63)
