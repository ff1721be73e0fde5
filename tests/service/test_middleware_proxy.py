"""A proxy in front of the service: what it says of its callers is believed if it was named, and only then."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from served_gate import Helper, Served
from service_cases import SMALL, make_live, make_service, served

from aegis.service.app import Service
from aegis.service.auth import COOKIE, FORGERY, make_token
from aegis.service.store.database import Database

PROXY, OTHER, ONE, TWO = "127.0.0.2", "127.0.0.3", "192.0.2.1", "192.0.2.2"


@pytest.fixture
def service(file_database: Database) -> Service:
    """Return the service of a gate that allows five requests a second."""
    return make_service(make_live(file_database), rate=5.0)


@pytest.fixture
def token(file_database: Database) -> str:
    """Return the token of an operator; there are none without it."""
    return make_token(file_database, "ann", "operator")


@pytest.fixture
def url(service: Service) -> Iterator[str]:
    """Return where the service is, behind a proxy."""
    with served(service, trusted=[PROXY]) as client:
        yield str(client.base_url)


def ask(url: str, way: str, path: str = "/v1/health", how: str = "GET", **headers: str) -> httpx.Response:
    """Return the answer to a request that comes by way of an address."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    with httpx.Client(base_url=url, transport=httpx.HTTPTransport(local_address=way, verify=False), timeout=30) as client:
        data = {"token": sent.pop("token")} if "token" in sent else None
        return client.request(how, path, headers=sent, data=data)


def drained(url: str, way: str, **headers: str) -> bool:
    """Say whether a caller has too many requests, after many."""
    return 429 in [ask(url, way, **headers).status_code for _ in range(30)]


def test_rates_are_those_of_the_forwarded_addresses(url: str) -> None:
    assert drained(url, PROXY, x_forwarded_for=ONE)
    assert ask(url, PROXY, x_forwarded_for=TWO).status_code == 200
    # The one who called the proxy says something as well: the proxy adds whom it was called by.
    assert drained(url, PROXY, x_forwarded_for=f"{TWO}, {ONE}")
    assert ask(url, PROXY, x_forwarded_for=TWO).status_code == 200


def test_what_others_say_of_themselves_is_ignored(url: str) -> None:
    assert 429 in [ask(url, OTHER, x_forwarded_for=f"192.0.2.{number}").status_code for number in range(60)]
    forged = ask(url, OTHER, x_forwarded_proto="https", x_forwarded_for=ONE)
    assert "strict-transport-security" not in forged.headers
    assert ask(url, PROXY, x_forwarded_for=ONE).status_code == 200


def test_without_a_named_proxy_no_one_is_believed(service: Service) -> None:
    with served(service) as client:
        url = str(client.base_url)
        assert 429 in [ask(url, PROXY, x_forwarded_for=f"192.0.2.{number}").status_code for number in range(60)]
        assert "strict-transport-security" not in ask(url, OTHER, x_forwarded_proto="https").headers


def wait_for(happens: Callable[[], bool]) -> None:
    """Wait for something: a line is written after its answer was sent."""
    end = time.monotonic() + 60.0
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.02)


class Lines(logging.Handler):
    """Keeps the fields of log lines."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        self.fields.append(vars(record)["fields"])


def test_the_log_has_the_forwarded_address(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, logger = Lines(), logging.getLogger("aegis.service.requests")
    monkeypatch.setattr(logger, "handlers", [lines])
    before = logger.level
    logger.setLevel(logging.INFO)
    try:
        ask(url, PROXY, x_forwarded_for=ONE)
        ask(url, PROXY)
        ask(url, OTHER, x_forwarded_for=ONE)
        wait_for(lambda: len(lines.fields) == 3)
    finally:
        logger.setLevel(before)
    assert [line["address"] for line in lines.fields] == [ONE, PROXY, OTHER]


@pytest.mark.parametrize(("way", "secure"), [(PROXY, True), (OTHER, False)])
def test_behind_https_cookies_are_secure(token: str, url: str, way: str, secure: bool) -> None:
    entered = ask(url, way, "/enter", "POST", x_forwarded_proto="https", token=token)
    cookie = entered.headers["set-cookie"]
    assert (entered.status_code, "strict-transport-security" in entered.headers) == (303, secure)
    assert cookie.startswith(f"__Host-{COOKIE}=" if secure else f"{COOKIE}=")
    assert ("; secure" in cookie.lower()) == secure
    assert "httponly" in cookie.lower() and "samesite=strict" in cookie.lower()
    session = cookie.split(";")[0]
    page = ask(url, way, "/", x_forwarded_proto="https", cookie=session)
    assert page.status_code == 200
    proof = page.text.split('data-proof="')[1].split('"')[0]
    left = ask(url, way, "/leave", "POST", x_forwarded_proto="https", cookie=session, **{FORGERY: proof})
    assert left.status_code == 303
    assert ask(url, way, "/", x_forwarded_proto="https", cookie=session).status_code == 401


def test_a_cookie_of_plain_http_is_none_of_https(token: str, url: str) -> None:
    """A page of another port of the same host could have set it."""
    session = ask(url, PROXY, "/enter", "POST", token=token).headers["set-cookie"].split(";")[0]
    assert ask(url, PROXY, "/", cookie=session).status_code == 200
    assert ask(url, PROXY, "/", cookie=session, x_forwarded_proto="https").status_code == 401


@pytest.mark.ci
def test_the_command_line_names_proxies(helper: Helper, tmp_path: Path) -> None:
    (tmp_path / "problem.yaml").write_text(SMALL)
    words = ["--problem", str(tmp_path / "problem.yaml"), "--store", str(tmp_path / "gate.sqlite"), "--log-level", "info"]
    database = Database.at(str(tmp_path / "gate.sqlite"))
    database.upgrade()
    make_token(database, "ann", "operator")  # a gate that trusts a proxy is not started without one
    gate = Served(helper, [*words, "--trust-proxy", "127.0.0.2/32", "--trust-proxy", "10.0.0.0/24"])
    gate.start()
    try:
        for way in (PROXY, OTHER):
            answer = ask(gate.url, way, x_forwarded_proto="https", x_forwarded_for=ONE)
            assert ("strict-transport-security" in answer.headers) == (way == PROXY)
        wait_for(lambda: _forwarded(helper)[-2:] == [ONE, OTHER])
    finally:
        gate.kill()


def _forwarded(helper: Helper) -> list[str]:
    """Return the addresses in the log of gates that are not those of this process itself."""
    lines = [json.loads(line) for line in helper.log.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
    return [line["address"] for line in lines if line.get("address", "127.0.0.1") != "127.0.0.1"]
