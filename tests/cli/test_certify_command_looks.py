"""`aegis certify --register`, `--fixed-before` and what the ledger refuses, with exit codes, as typed."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typed import done

from aegis.certificate import certify
from aegis.logs import Source
from aegis.problem import load_problem

PROBLEM = """
episode: unit
reward: {column: reward, range: [0, 1]}
levels:
  - name: level
    context: [x]
    action: {column: action, values: [a, b]}
    propensity: {policy: uniform}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a log on which 'b' is better, and columns of two candidates."""
    import numpy as np
    import pyarrow as pa

    from aegis.rng import stream

    rng = stream(3, "looks command")
    action = rng.integers(0, 2, 300)
    table = pa.table(
        {
            "unit": np.arange(300),
            "x": rng.normal(size=300),
            "action": np.array(["a", "b"])[action],
            "reward": np.clip(0.3 + 0.4 * action + 0.1 * rng.normal(size=300), 0, 1),
            "to_b": np.where(action == 1, 0.9, 0.1),
            "to_a": np.where(action == 0, 0.9, 0.1),
        }
    )
    pq.write_table(table, tmp_path / "log.parquet")
    pq.write_table(
        pa.concat_tables([table, table.set_column(0, "unit", pa.array(np.arange(300, 600)))]), tmp_path / "grown.parquet"
    )
    (tmp_path / "problem.yaml").write_text(PROBLEM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AEGIS_LEDGER", str(tmp_path / "looks"))
    return tmp_path


def typed(policy: str, *more: str, log: str = "log.parquet", command: str = "certify") -> int:
    return done(command, log, "--problem", "problem.yaml", "--policy", f"columns:{policy}", "--scope", "level", *more)


def test_register_then_certify(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("to_a", "--register") == 0
    out = capsys.readouterr().out
    assert "Registered: columns:to_a at level (gain, value, method auto), risk 0.05." in out
    assert "1 request on these data. It is tested at 0.05." in out and "No result was looked at." in out
    assert typed("to_b", "--register") == 0
    out = capsys.readouterr().out
    shared = "its share of 0.05 for all statements of the 2 requests registered on these data."
    assert f"2 requests on these data. This one is tested at 0.025, {shared}" in out
    assert typed("to_b", "--register", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["already"] and found["requests"] == 2 and found["share"]["risk"] == 0.025
    assert typed("to_b", "--out", "certificate.json") == 0
    assert "95 %, all statements of the 2 requests registered on these data hold; columns:to_b" in capsys.readouterr().out
    assert done("verify", "certificate.json", "log.parquet") == 0
    assert typed("to_a") == 3
    assert typed("to_b", "--gain-only", "--register") == 4
    assert "cannot be registered" in capsys.readouterr().err


@pytest.mark.parametrize("more", [["--out", "c.json"], ["--report", "r.html"], ["--table", "t.csv"], ["--mlflow"]])
def test_registering_writes_no_result(place: Path, more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("to_b", "--register", *more) == 2
    assert "--register looks at no result" in capsys.readouterr().err


def test_what_was_chosen_after_a_result_is_refused_unless_declared(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("to_a") == 3
    assert typed("to_b", "--out", "refused.json", "--report", "refused.html") == 4
    out = capsys.readouterr().out
    assert "Refused: not a certificate: chosen after results on these data" in out and "--fixed-before" in out
    content = json.loads((place / "refused.json").read_text())
    assert content["verdict"] == "refused" and content["findings"][0]["code"] == "chosen-after-results"
    assert content["levels"][0]["estimate"] is None and "gain" not in content["diagnostics"]
    assert done("verify", "refused.json", "log.parquet") == 4
    assert typed("to_b", "--fixed-before", "protocol of 3 May") == 4
    out = capsys.readouterr().out
    assert "earlier ones spent 0.05" in out and "--delta above 0.05" in out
    assert typed("to_b", "--fixed-before", "protocol of 3 May", "--delta", "0.1", "--report", "report.html") == 0
    assert '("protocol of 3 May")' in capsys.readouterr().out
    assert "protocol of 3 May" in (place / "report.html").read_text()
    assert typed("to_b", "--fixed-before", " ") == 2


def test_a_log_that_grew_is_a_second_look(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("to_b") == 0
    assert typed("to_b") == 0  # the same look
    capsys.readouterr()
    assert typed("to_b", log="grown.parquet") == 4
    assert "certify on the new episodes alone, in a file of their own" in capsys.readouterr().out.replace("Certify", "certify")


def test_a_comparison_is_written_into_the_users_ledger(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("to_a", command="compare") == 0
    assert "written into the ledger as a result on these data" in " ".join(capsys.readouterr().out.split())
    assert typed("to_b") == 4
    assert "the first result on them was aegis compare for columns:to_a" in capsys.readouterr().out
    assert typed("to_b", command="compare") == 0
    assert typed("to_a") == 3  # the first result was of this very request


@pytest.mark.parametrize("more", [["--whole"], ["--policy", "columns:to_b"]])
def test_a_plan_that_reads_what_can_be_certified_is_a_result(
    place: Path, more: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import aegis.validation

    monkeypatch.setattr(aegis.validation, "plan", lambda *rest, **named: (_ for _ in ()).throw(KeyboardInterrupt))
    assert done("plan", "log.parquet", "--problem", "problem.yaml") == 130
    assert not (place / "looks").exists()  # the side to learn from
    assert done("plan", "log.parquet", "--problem", "problem.yaml", *more) == 130
    capsys.readouterr()
    assert typed("to_b") == 4
    assert "was aegis plan" in capsys.readouterr().out
    source = Source("log.parquet", load_problem("problem.yaml"))
    assert certify(source, aegis.TargetColumns(source.problem, {"level": "to_b"}), ledger=False).certified
