"""An output never overwrites what a command reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from aegis.cli.options import spare_inputs
from aegis.errors import OutputError


def test_inputs_and_what_is_inside_input_folders_are_spared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "policy"
    folder.mkdir()
    (folder / "policy.json").write_text("{}")
    (tmp_path / "log.csv").write_text("a\n")
    inputs = [tmp_path / "log.csv", folder, "module:object", tmp_path / "none*.csv"]
    for out in (Path("log.csv"), tmp_path / "policy" / ".." / "log.csv", folder / "policy.json", folder):
        with pytest.raises(OutputError, match=r"--out .* would overwrite an input"):
            spare_inputs({"--out": out}, inputs)
    with pytest.raises(OutputError, match="--report and --out both name"):
        spare_inputs({"--out": Path("c.json"), "--report": tmp_path / "c.json"}, inputs)
    spare_inputs({"--out": Path("c.json"), "--report": folder / "report.html", "--plot": None}, inputs)
