"""doctor as a user types it."""

from __future__ import annotations

import json
from importlib import metadata

import pytest
from typed import run

from aegis.cli import FIRST_STEPS, main


def aegis(*arguments: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    code = stop.value.code
    return (0 if code is None else int(code)), captured.out, captured.err


def test_doctor_is_content_here(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = aegis("doctor", "--json", capsys=capsys)
    found = json.loads(out)
    assert found["ok"] is (code == 0)
    assert {check["what"] for check in found["checks"]} >= {"python", "numpy", "BLAS threads", "simulate, write, read"}
    assert code == 0, found


def test_doctor_says_what_to_do_next(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("doctor", capsys=capsys)
    assert code == 0
    assert "Everything works. Next:" in out and all(typed in out for typed, _ in FIRST_STEPS)


def test_doctor_says_how_to_install_extras_and_what_to_mend(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, gone = metadata.version, {"fastapi", "scikit-learn", "mlflow-skinny"}

    def version(name: str) -> str:
        if name in gone:
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)
    code, out, _ = run("doctor", capsys=capsys)
    assert code == 0 and "For the live gate: pip install 'aegis-handover[service]'" in out
    assert "For models of scikit-learn as policies: pip install 'aegis-handover[sklearn]'" in out
    assert "For certificates in MLflow: pip install 'aegis-handover[mlflow]'" in out
    gone.add("jinja2")
    code, out, _ = run("doctor", capsys=capsys)
    assert code == 2 and "PROBLEM: install jinja2" in out and "Everything works" not in out
    assert "Mend what is marked PROBLEM first" in out
