"""The web server of a gate: options that belong together, and addresses that other machines reach."""

from __future__ import annotations

import json
import logging
import socket
from typing import Any

import pytest

from aegis.cli.gate_server import JsonLineFormatter, ServerOptions, check_address, is_loopback
from aegis.errors import SettingError


def test_a_certificate_needs_its_key() -> None:
    assert ServerOptions("localhost", 1, tls_cert="c", tls_key="k").rate == 2000.0
    with pytest.raises(SettingError, match="--tls-cert and --tls-key belong together"):
        ServerOptions("localhost", 1, tls_cert="c")
    with pytest.raises(SettingError, match="--tls-client-ca"):
        ServerOptions("localhost", 1, tls_client_ca="a")


@pytest.mark.parametrize(
    ("host", "own"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("gate.example", False)]
)
def test_only_loopback_addresses_stay_on_this_machine(host: str, own: bool) -> None:
    assert is_loopback(host) is own


@pytest.mark.parametrize(
    ("more", "way"),
    [
        ({}, None),
        ({"names": ("127.0.0.1", "localhost", "::1")}, None),
        ({"host": "0.0.0.0"}, "--listen 0.0.0.0"),
        ({"trusted": ("10.0.0.7",)}, "--trust-proxy 10.0.0.7"),
        ({"names": ("localhost", "gate.example")}, "--allow-host gate.example"),
        ({"names": ("*", "localhost")}, "--allow-host *"),
    ],
)
def test_the_way_in_of_callers_on_other_machines(more: dict[str, Any], way: str | None) -> None:
    found = ServerOptions(**{"host": "127.0.0.1", "port": 1, **more}).way_in()
    assert found is None if way is None else found is not None and found[0].startswith(way)


def test_a_line_of_json_has_the_fields_of_its_record() -> None:
    record = logging.LogRecord("aegis.x", logging.INFO, "file", 1, "done %d", (3,), None)
    record.fields = {"gate": "press"}
    line = json.loads(JsonLineFormatter().format(record))
    assert (line["level"], line["from"], line["what"], line["gate"]) == ("info", "aegis.x", "done 3", "press")


def test_an_address_is_free_or_refused() -> None:
    check_address("127.0.0.1", 0)
    check_address("localhost", 0)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(SettingError, match=rf"--listen 127.0.0.1:{port}: cannot listen there: .*choose another address"):
            check_address("127.0.0.1", port)
    check_address("127.0.0.1", port)  # nothing is left of a probe
    check_address("127.0.0.1", port)
    with pytest.raises(SettingError, match="cannot listen there"):
        check_address("192.0.2.1", 8741)


def test_proxies_are_named_by_address() -> None:
    assert ServerOptions("localhost", 1, trusted=("10.0.0.7", "10.0.1.0/24", "::1")).trusted
    for wrong in ("*", "proxy.example", "10.0.0.7/24", ""):
        with pytest.raises(SettingError, match="--trust-proxy is an IP address or a network"):
            ServerOptions("localhost", 1, trusted=(wrong,))
