"""The web server of `aegis serve`: the service made from the options, its log lines in JSON, its start and its end."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import os
import secrets
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from aegis.cli.handover_run import load_host
from aegis.errors import SettingError
from aegis.files import describe_open_files, sqlite_files
from aegis.handover import GateOpened, GateSettings, event_from_plain
from aegis.problem import Problem
from aegis.service import (
    Database,
    EpisodeCounter,
    GateServer,
    Journal,
    JournalRecord,
    LiveGate,
    Service,
    TrainerProcess,
    TrainerSetup,
    list_tokens,
    load_journal_keys,
    make_app,
    raise_file_limit,
    server_config,
)

LOGGER_NAMES = ("aegis", "uvicorn", "asyncio")  # loggers that would otherwise write lines of their own kind


class JsonLineFormatter(logging.Formatter):
    """One line of JSON for each thing that happened. `extra={"fields": {...}}` puts fields of its own beside the usual ones."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback is its field 'why'."""
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "from": record.name,
            "what": record.getMessage().strip(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["why"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_json_lines(level: str) -> None:
    """Let all loggers write lines of JSON from a level on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLineFormatter())
    for name in LOGGER_NAMES:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())


SERVICE_DEFAULTS = {"mode": "approve"}  # where the gate's own defaults do not fit a plant
START_SECONDS = 60.0  # seconds that a server has to come up


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How a gate is served. names: hosts under which it may be asked, '*' for any. rate: requests of one caller per second.

    standby: wait while another process serves the gate. abandon_hours: after which episodes that never end are closed.
    journal_key: the file whose key signs the journal.
    tls_client_ca: the authorities of callers, who then need a certificate.
    snapshot_every: records from one snapshot to the next.
    trusted: addresses of proxies, or networks of them, that say who the caller is.
    """

    host: str
    port: int
    names: Sequence[str] = ()
    rate: float = 2000.0
    standby: bool = False
    abandon_hours: float | None = None
    snapshot_every: int = 20_000
    tls_cert: str | None = None
    tls_key: str | None = None
    journal_key: str | None = None
    tls_client_ca: str | None = None
    trusted: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise SettingError("--tls-client-ca asks callers for certificates, over TLS: give --tls-cert and --tls-key too")
        for address in self.trusted:
            try:
                ipaddress.ip_network(address)
            except ValueError as error:
                raise SettingError(f"--trust-proxy is an IP address or a network such as 10.0.0.0/24: {error}") from error
        if (self.tls_cert is None) != (self.tls_key is None):
            raise SettingError("--tls-cert and --tls-key belong together")

    def way_in(self) -> tuple[str, str] | None:
        """Return by which way callers on other machines reach the gate, and how to bar it; None if they do not."""
        if not is_loopback(self.host):
            return f"--listen {self.host} can be reached from other machines", "listen on 127.0.0.1"
        if self.trusted:
            return f"--trust-proxy {self.trusted[0]} lets other machines in through the proxy", "leave --trust-proxy out"
        other = next((name for name in self.names if not is_loopback(name)), None)
        return None if other is None else (f"--allow-host {other} is for callers on other machines", "leave --allow-host out")


def make_service(
    problem: Problem,
    store: str,
    name: str,
    changes: Mapping[str, Any],
    seed: int | None,
    learner: str,
    options: ServerOptions,
) -> tuple[Service, Any]:
    """Return the service and the web server for it; SettingError for what does not fit. changes: to the gate's settings."""
    database = Database.at(store)
    if database.version() is None if database.file is None or database.file.exists() else True:
        database.upgrade()
    database.check()
    if database.file is not None and (warning := describe_open_files(sqlite_files(database.file))) is not None:
        logging.getLogger("aegis.service").warning("the store is %s", warning)
    if (way := options.way_in()) is not None and not list_tokens(database):
        raise SettingError(
            f"{way[0]}, and no tokens protect the gate yet: without them every caller may do everything. Make some first ('aegis "
            f"token make'), or {way[1]}"
        )
    first = Journal(database, name).first()
    settings, gate_seed = _gate_settings(database, name, first, changes, seed)
    keys = None if options.journal_key is None else load_journal_keys(options.journal_key)
    live = LiveGate(database, name, problem, settings, gate_seed, keys)
    host = load_host(learner, live.problem)
    worker = TrainerProcess(TrainerSetup(store, name, live.problem, host, gate_seed, options.journal_key))
    abandon = None if options.abandon_hours is None else options.abandon_hours * 3600.0
    counting = EpisodeCounter(live, worker, abandon)
    hosts = () if "*" in options.names else options.names
    service = Service(live, counting, options.standby, options.rate, hosts, options.snapshot_every)
    raise_file_limit()
    tls = {
        "ssl_certfile": options.tls_cert,
        "ssl_keyfile": options.tls_key,
        "ssl_ca_certs": options.tls_client_ca,
        "ssl_cert_reqs": ssl.CERT_NONE if options.tls_client_ca is None else ssl.CERT_REQUIRED,
    }
    server = GateServer(server_config(make_app(service), options.host, options.port, options.trusted, **tls))
    service.ending = lambda: server.should_exit
    service.end = lambda: setattr(server, "should_exit", True)
    return service, server


def _gate_settings(
    database: Database, name: str, first: JournalRecord | None, changes: Mapping[str, Any], seed: int | None
) -> tuple[GateSettings, int]:
    """Return settings and seed of a gate: those it was opened with, or those of a new one. first: record of its journal."""
    if first is None:
        return GateSettings.of({**SERVICE_DEFAULTS, **changes}), secrets.randbits(63) if seed is None else seed
    event = event_from_plain(first.body["event"])
    if not isinstance(event, GateOpened):
        raise SettingError(f"the journal of gate '{name}' does not begin with its opening; verify the store")
    now = GateSettings.of({**event.settings.plain(), **changes})
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


def check_address(host: str, port: int) -> None:
    """Raise SettingError unless a server can listen there now."""
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            with socket.socket(family, kind, protocol) as probe:
                if os.name == "posix":  # as the server does; elsewhere it would share the port
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(address)
    except OSError as error:
        raise SettingError(
            f"--listen {host}:{port}: cannot listen there: {error.strerror or error}; end what uses it, or choose another address"
        ) from error


def is_loopback(host: str) -> bool:
    """Say whether an address can be reached from this machine only."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
