"""The page about comparisons names every method, and its commands and code run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from aegis.cli import main
from aegis.comparison.bounds import CERTIFICATE_METHOD
from aegis.comparison.estimators import MEAN_METHODS
from aegis.evidence import BOUNDS

PAGE = (Path(__file__).parents[2] / "docs" / "compare.md").read_text()


def test_every_method_is_on_the_page():
    for name in (*MEAN_METHODS, "SNIPS", CERTIFICATE_METHOD):
        assert name in PAGE, name
    for name, method in BOUNDS.items():
        if "compare" in method.commands:
            assert f"| {name} |" in PAGE, name


def test_the_commands_and_the_code_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    calls = [
        ["simulate", "--episodes", "120", "--set", "inner_steps=3", "--out", "."],
        ["learn", "log.parquet", "--problem", "problem.yaml", "--kind", "capped", "--out", "policy"],
        *[shlex.split(line.replace("dose", "inner"))[1:] for line in re.findall(r"^    (aegis .*)$", PAGE, flags=re.M)],
    ]
    for call in calls:
        with pytest.raises(SystemExit) as stop:
            main(call)
        assert not stop.value.code, call
    assert (tmp_path / "methods.svg").exists()
    compared, chosen = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
    capsys.readouterr()
    exec(compared.replace('"dose"', '"inner"'), {})
    out = capsys.readouterr().out
    assert "AEGIS certificate gain" in out and "IPS gain" in out
    exec(chosen, {})
    assert "not a certificate" in capsys.readouterr().out
