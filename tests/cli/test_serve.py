"""serve as a user types it: addresses, and options that do not fit each other."""

from __future__ import annotations

import pytest
from typed import run

from aegis.cli.commands.serve import parse_address
from aegis.errors import SettingError


def test_addresses() -> None:
    assert parse_address("127.0.0.1:8741") == ("127.0.0.1", 8741)
    assert parse_address("[::1]:80") == ("::1", 80)
    for wrong in ("8741", "host:", "host:http", "host:70000"):
        with pytest.raises(SettingError, match="--listen is HOST:PORT"):
            parse_address(wrong)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a problem file (--problem), or a world to simulate"),
        (("--problem", "p.yaml", "--simulate", "additive"), "not both"),
        (("--problem", "p.yaml", "--episodes", 3), "--episodes and --set belong to --simulate"),
        (("--problem", "missing.yaml"), "missing.yaml"),
        (("--simulate", "additive", "--caps", "two"), "--caps takes numbers"),
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
