"""TLS of the client: authorities of one's own, certificates of clients, and bad certificates, which stop no plant."""

from __future__ import annotations

from pathlib import Path

import pytest
from client_cases import asked
from tls_cases import Authority, served_over_tls

from aegis.errors import SettingError
from aegis.service.app import Service
from aegis.service.client.gate_client import Client

pytestmark = pytest.mark.usefixtures("quick_retries")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.make(tmp_path, "plant-authority")


def test_an_authority_of_its_own_and_certificates_of_clients(service: Service, authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.sign("reactor-7")
    with served_over_tls(service, authority.sign("127.0.0.1"), authority.ca) as url:
        own = {"ca": authority.ca, "certificate": certificate, "key": key}
        with Client(url, timeout=10, spool=tmp_path / "spool", **own) as gate:  # type: ignore[arg-type]
            assert asked(gate, name="e").by == "legacy"
            assert gate.flush() and gate.counters.by_gate == 1


def test_a_client_without_a_certificate_is_not_served(
    service: Service, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with served_over_tls(service, authority.sign("127.0.0.1"), authority.ca) as url:
        gate = Client(url, timeout=1.0, spool=tmp_path / "spool", ca=authority.ca)
        assert [asked(gate).by for _ in range(2)] == ["fallback"] * 2
        assert gate.counters.by_fallback == 2 and not service.live.state.trees
        gate.close(0.0)
    (warning,) = [item.message for item in caplog.records if "until the gate answers" in item.message]
    assert "a 'certificate' with its 'key'" in warning


def test_a_gate_with_tls_that_is_asked_without_it_says_so(
    service: Service, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with served_over_tls(service, authority.sign("127.0.0.1")) as url:
        gate = Client(url.replace("https:", "http:"), timeout=1.0, spool=tmp_path / "spool")
        assert asked(gate).by == "fallback"
        gate.close(0.0)
    (warning,) = [item.message for item in caplog.records if "until the gate answers" in item.message]
    assert "write https:// in its address" in warning


@pytest.mark.parametrize(
    ("host", "expired", "trusted", "words"),
    [
        ("127.0.0.1", False, False, "'ca'"),
        ("127.0.0.1", True, True, "renew"),
        ("gate.plant.example", False, True, "name that is in its certificate"),
    ],
)
def test_a_bad_certificate_is_an_outage_with_a_reason(
    service: Service,
    authority: Authority,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    host: str,
    expired: bool,
    trusted: bool,
    words: str,
) -> None:
    ca = authority.ca if trusted else Authority.make(tmp_path, "other").ca
    with served_over_tls(service, authority.sign(host, expired)) as url:
        gate = Client(url, timeout=1.0, spool=tmp_path / "spool", ca=ca)
        assert [asked(gate).by for _ in range(3)] == ["fallback"] * 3
        assert gate.counters.reasons == {"certificate": 3}
        gate.close(0.0)
    (warning,) = [item.message for item in caplog.records if "until the gate answers" in item.message]
    assert words in warning


def test_wrong_files_are_refused_at_once(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.sign("reactor-7")
    other = authority.sign("reactor-8")[1]
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    url = "https://127.0.0.1:1"
    for wrong, words in (
        ({"ca": tmp_path / "none.pem"}, "no file"),
        ({"ca": empty}, "no certificates"),
        ({"key": key}, "belongs to a 'certificate'"),
        ({"certificate": certificate, "key": other}, "belong together"),
        ({"certificate": empty}, "cannot be used"),
    ):
        with pytest.raises(SettingError, match=words):
            Client(url, spool=tmp_path / "spool", **wrong)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="https"):
        Client("http://127.0.0.1:1", spool=tmp_path / "spool", ca=authority.ca)
    for address in ("http://127.0.0.1:x", "http://[::1", "http://127.0.0.1:99999"):
        with pytest.raises(SettingError, match="looks like"):
            Client(address, spool=tmp_path / "spool")
