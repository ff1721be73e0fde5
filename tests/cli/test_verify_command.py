"""verify as a user types it: the same again, what was changed, and what cannot be read."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typed import run

from aegis.cli import main
from aegis.files import json_digest


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated log, a policy learned from it, and its certificate."""
    folder = tmp_path_factory.mktemp("verify")
    log = [folder / "log.parquet", "--problem", folder / "problem.yaml"]
    calls: list[list[object]] = [
        ["simulate", "--episodes", 120, "--set", "inner_steps=4", "--seed", 3, "--out", folder],
        ["learn", *log, "--kind", "capped", "--out", folder / "policy"],
        ["learn", *log, "--kind", "capped", "--cap", 3, "--out", folder / "other"],
        ["certify", *log, "--policy", folder / "policy", "--out", folder / "certificate.json"],
    ]
    for call in calls:
        with pytest.raises(SystemExit) as stop:
            main([str(word) for word in call])
        assert stop.value.code in (None, 0, 3)
    return folder


def verify(*arguments: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any, str]:
    code, out, err = run("verify", *arguments, "--json", capsys=capsys)
    return code, json.loads(out) if out else None, err


def what(found: Any) -> str:
    return "; ".join(item["what"] for item in found["differences"])


def test_it_holds(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found, err = verify(place / "certificate.json", place / "log.parquet", capsys=capsys)
    assert code == 0, err
    assert found == {"holds": True, "differences": [], "notes": []}
    code, out, _ = run("verify", place / "certificate.json", place / "log.parquet", capsys=capsys)
    assert code == 0 and "bit for bit" in out


def test_it_holds_with_policy_and_problem_in_another_place(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(place / "policy", tmp_path / "moved")
    shutil.copy(place / "problem.yaml", tmp_path / "problem.yaml")
    more = ["--policy", tmp_path / "moved", "--problem", tmp_path / "problem.yaml"]
    code, found, err = verify(place / "certificate.json", place / "log.parquet", *more, capsys=capsys)
    assert code == 0, (err, found)


def test_a_changed_reward_is_told(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pq.read_table(place / "log.parquet")
    rewards = table["R"].to_pylist()
    rewards[11] += 0.25
    pq.write_table(table.set_column(table.column_names.index("R"), "R", pa.array(rewards)), tmp_path / "log.parquet")
    code, found, _ = verify(place / "certificate.json", tmp_path / "log.parquet", capsys=capsys)
    assert code == 4 and not found["holds"] and "the log: log.parquet" in what(found)
    assert "log.parquet, row 12: changed" in what(found)
    code, out, _ = run("verify", place / "certificate.json", tmp_path / "log.parquet", capsys=capsys)
    assert code == 4 and out.startswith("Not verified") and "the log: log.parquet" in out
    assert "\n  log.parquet, row 12: changed\n" in out
    assert out.startswith("Not verified: 1 thing differs from ")
    follow = len([item for item in found["differences"] if not item["cause"]])
    assert out.endswith(f"  {follow} results follow from it: --json lists all\n") and len(out.splitlines()) == 4 and follow > 4


def test_rows_in_another_order_are_told_to_have_the_same_numbers(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pq.read_table(place / "log.parquet")
    pq.write_table(table.take(pa.array(np.random.default_rng(1).permutation(table.num_rows))), tmp_path / "log.parquet")
    code, out, _ = run("verify", place / "certificate.json", tmp_path / "log.parquet", capsys=capsys)
    assert code == 4 and out.startswith("Not verified: 1 thing differs from ")
    assert "\n  log.parquet, the same rows in another order\n  Every number is the same, but for the path" in out


def test_an_edited_result_has_no_cause(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads((place / "certificate.json").read_text())
    content["levels"][0]["gain_lower"] = 9.0
    content["seal"] = json_digest({key: value for key, value in content.items() if key != "seal"})
    (tmp_path / "sealed.json").write_text(json.dumps(content))
    code, out, _ = run("verify", tmp_path / "sealed.json", place / "log.parquet", capsys=capsys)
    assert code == 4 and "Not verified: 1 thing differs" in out and "gain_lower: the certificate says 9.0, found" in out
    assert "it does not follow from them" in out


MODULE = """
import numpy as np

def bold(level, rows):
    count = level.actions.count
    n = len(next(iter(rows.values()))) if rows else 1
    return np.tile(np.eye(count)[0] * {share} + (1 - {share}) / count, (n, 1))
"""


def test_a_function_that_was_changed_under_its_name_is_told(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    log = [place / "log.parquet", "--problem", place / "problem.yaml", "--scope", "inner"]
    for share in (0.9, 0.6):
        (tmp_path / "my_changing_policy.py").write_text(MODULE.format(share=share))
        sys.modules.pop("my_changing_policy", None)
        importlib.invalidate_caches()
        if share == 0.9:
            code, _, err = run("certify", *log, "--policy", "my_changing_policy:bold", "--out", "c.json", capsys=capsys)
            assert code == 3, err
            assert verify("c.json", place / "log.parquet", capsys=capsys)[0] == 0
    code, found, _ = verify("c.json", place / "log.parquet", capsys=capsys)
    assert code == 4 and "the policy my_changing_policy:bold behaves differently at inner" in what(found)


def test_code_in_another_folder_is_named_with_its_place(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issued in one folder, verified in another, where the module cannot be imported."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "my_distant_policy.py").write_text(MODULE.format(share=0.9))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(here)
    log = [place / "log.parquet", "--problem", place / "problem.yaml", "--scope", "inner"]
    assert run("certify", *log, "--policy", "my_distant_policy:bold", "--out", there / "c.json", capsys=capsys)[0] == 3
    monkeypatch.chdir(there)
    sys.path.remove(str(here))
    sys.modules.pop("my_distant_policy")
    code, _, err = verify("c.json", place / "log.parquet", capsys=capsys)
    assert code == 2 and "--policy FOLDER/my_distant_policy:bold" in err and len(err.splitlines()) == 1
    for reference in ("../here/my_distant_policy:bold", here / "my_distant_policy.py:bold"):
        code, found, err = verify("c.json", place / "log.parquet", "--policy", reference, capsys=capsys)
        assert code == 0, (err, found)
        sys.modules.pop("my_distant_policy")


def test_another_policy_is_told(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [place / "certificate.json", place / "log.parquet", "--policy", place / "other"]
    code, found, _ = verify(*arguments, capsys=capsys)
    assert code == 4 and "the policy" in what(found)


def test_another_problem_is_told(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (place / "problem.yaml").read_text()
    (tmp_path / "problem.yaml").write_text(text.replace("[-10.0, 10.0]", "[-12.0, 12.0]").replace("- -10.0", "- -12.0"))
    assert (tmp_path / "problem.yaml").read_text() != text
    arguments = [place / "certificate.json", place / "log.parquet", "--problem", tmp_path / "problem.yaml"]
    code, found, err = verify(*arguments, capsys=capsys)
    assert code in (2, 4)  # the policy's folder notices it first
    assert ("problem" in err) if code == 2 else ("the problem" in what(found))


def test_an_edited_certificate_is_told(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads((place / "certificate.json").read_text())
    content["levels"][0]["gain_lower"] = 9.0
    (tmp_path / "edited.json").write_text(json.dumps(content))
    code, _, err = verify(tmp_path / "edited.json", place / "log.parquet", capsys=capsys)
    assert code == 2 and "changed after it was written" in err


def test_what_cannot_be_read(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        ([tmp_path / "nothing.json", place / "log.parquet"], "cannot be read"),
        ([place / "problem.yaml", place / "log.parquet"], "is not a certificate"),
        ([place / "certificate.json", tmp_path / "nothing.parquet"], "nothing.parquet"),
        ([place / "certificate.json", place / "log.parquet", "--policy", "a", "--policy", "b"], "speaks of 1 candidate ("),
        ([place / "certificate.json", place / "log.parquet", "--policy", tmp_path / "gone"], "gone"),
    ):
        code, _, err = verify(*arguments, capsys=capsys)
        assert code == 2 and message in err and "Traceback" not in err, (arguments, err)
