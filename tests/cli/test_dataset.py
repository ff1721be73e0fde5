"""`aegis dataset`: the list, what is written, and errors in one line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typed import run as aegis

sys.path.append(str(Path(__file__).parents[1] / "adapters"))
from published_samples import impressions, suggestions, write_suggestions, write_wheel

from aegis.adapters import DATASETS


def test_the_list_names_every_data_set(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = aegis("dataset", "list", capsys=capsys)
    assert code == 0 and "--set campaign: all, men, women" in out
    for name, entry in DATASETS.items():
        assert name in out and entry.cite in out and entry.licence in out
    assert aegis("dataset", capsys=capsys)[:2] == (0, out)
    code, out, _ = aegis("dataset", "list", "--json", capsys=capsys)
    assert code == 0 and [entry["name"] for entry in json.loads(out)["datasets"]] == list(DATASETS)


def test_a_data_set_is_written_and_audited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_suggestions(tmp_path / "suggestions.csv", suggestions(6, 6))
    code, out, err = aegis("dataset", "heartsteps", path, "--out", tmp_path / "hs", capsys=capsys)
    assert code == 0, err
    assert "180 rows" in out and "step counts" in out and str(tmp_path / "hs" / "log.parquet") in out
    log, problem = tmp_path / "hs" / "log.parquet", tmp_path / "hs" / "problem.yaml"
    code, out, err = aegis("audit", log, "--problem", problem, "--scope", "send", "--json", capsys=capsys)
    assert code == 0, err
    assert json.loads(out)["figures"]["episodes"] == 180


def test_candidates_come_along(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = {logger: impressions(logger, "men", seed=3) for logger in ("random", "bts")}
    wheel = write_wheel(tmp_path / "obp.whl", "men", logs)
    code, out, err = aegis(
        *("dataset", "open-bandit", wheel, "--set", "campaign=men", "--out", tmp_path / "men", "--json"), capsys=capsys
    )
    assert code == 0, err
    found = json.loads(out)
    assert found["rows"] == 180 and found["levels"] == ["item"]
    assert (Path(found["written"]["bts"]) / "policy.json").exists()


def test_what_goes_wrong_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_suggestions(tmp_path / "suggestions.csv", suggestions())
    for words, message in (
        (["heartstep", path, "--out", tmp_path], "did you mean 'heartsteps'?"),
        (["heartsteps", path], "--out FOLDER"),
        (["heartsteps", tmp_path / "none.csv", "--out", tmp_path], "none.csv does not exist"),
        (["heartsteps", "--out", tmp_path], "found 0 files; expected one, the suggestions.csv"),
        (["heartsteps", path, "--set", "campaign=men", "--out", tmp_path], "has no settings"),
        (["list", path], "takes no files"),
    ):
        code, _, err = aegis("dataset", *words, capsys=capsys)
        assert code == 2 and message in err and "Traceback" not in err, err
