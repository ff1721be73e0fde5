"""serve as a user types it: addresses, and options that do not fit each other."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from typed import run

from aegis.cli.commands.serve import parse_address, parse_host
from aegis.errors import SettingError


def test_addresses() -> None:
    assert parse_address("127.0.0.1:8741") == ("127.0.0.1", 8741)
    assert parse_address("[::1]:80") == ("::1", 80)
    for wrong in ("8741", "host:", "host:http", "host:70000"):
        with pytest.raises(SettingError, match="--listen is HOST:PORT"):
            parse_address(wrong)


def test_names_under_which_a_gate_may_be_asked() -> None:
    for name in ("gate.plant.example", "Gate", "10.0.0.7", "gate_1"):
        assert parse_host(name) == name
    assert parse_host("[::1]") == parse_host("::1") == "::1"


@pytest.mark.parametrize(
    ("wrong", "instead"),
    [
        ("gate.example:8741", "--allow-host gate.example;"),
        ("http://x:1", "--allow-host x;"),
        ("https://gate.example/", "--allow-host gate.example;"),
        ("ann@gate", "--allow-host gate;"),
        ("[::1]:80", "--allow-host ::1;"),
        ("", "gate.plant.example"),
        ("*", "'*' alone"),
    ],
)
def test_a_name_that_would_never_match_is_refused(wrong: str, instead: str) -> None:
    with pytest.raises(SettingError, match="expected a name alone, without http:// and without a port") as refusal:
        parse_host(wrong)
    assert instead in str(refusal.value)


def test_an_address_that_is_in_use_is_refused_before_the_gate_is_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        store = tmp_path / "gate.sqlite"
        code, out, err = run("serve", "--simulate", "additive", "--listen", listen, "--store", store, capsys=capsys)
    assert (
        code == 2 and not out and err.startswith(f"aegis: --listen {listen}: cannot listen there") and len(err.splitlines()) == 1
    )
    assert not store.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a problem file (--problem), or a world to simulate"),
        (("--problem", "p.yaml", "--simulate", "additive"), "not both"),
        (("--problem", "p.yaml", "--episodes", 3), "--episodes and --set belong to --simulate"),
        (("--problem", "missing.yaml"), "missing.yaml"),
        (("--simulate", "additive", "--caps", "two"), "--caps takes numbers"),
        (("--simulate", "additive", "--allow-host", "gate:1", "--allow-host", "*"), "--allow-host gate:1: expected a name alone"),
        (("--simulate", "additive", "--tls-cert", __file__), "--tls-cert and --tls-key belong together"),
    ],
)
def test_options_that_do_not_fit(
    arguments: tuple[object, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: object,
) -> None:
    monkeypatch.chdir(str(tmp_path))
    code, _, err = run("serve", *arguments, capsys=capsys)
    assert code == 2 and message in err and "Traceback" not in err
