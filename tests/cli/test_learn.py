"""learn, explain and decide as a user types them: files, figures, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typed import run

from aegis.logs import Source, Split
from aegis.planning import load_policy, load_rewards
from aegis.policies import load_record
from aegis.problem import load_problem


def test_learn_prints_what_was_fitted_and_records_it(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, problem = place / "log.parquet", place / "problem.yaml"
    code, out, err = run("learn", log, "--problem", problem, "--out", tmp_path / "p", "--fraction", "0.4", capsys=capsys)
    assert code == 0, err
    record = load_record(tmp_path / "p")
    given = load_problem(problem)
    episodes = len(Source(log, given).read(side="prior", split=Split.of(record["split"])))
    text = " ".join(out.split())
    assert f"{episodes} episodes" in text and "prior side" in text and "not a certificate" in text
    assert record["split"] == Split(fraction=0.4).describe()
    assert record["kind"] == "greedy" and record["scope"] == ["plan", "dose"] and record["episodes"] == episodes
    batch = Source(log, given).read()
    assert load_policy(tmp_path / "p", given).full("dose", batch).shape == (1, len(batch.levels["dose"]), 4)
    assert np.isfinite(load_rewards(tmp_path / "p" / "rewards", given).predict("plan", batch)).all()


def test_learn_in_json(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--problem",
        place / "problem.yaml",
        "--out",
        tmp_path / "p",
        "--kind",
        "capped",
        "--cap",
        "3",
        "--scope",
        "dose",
    ]
    code, out, _ = run("learn", place / "log.parquet", *arguments, "--json", capsys=capsys)
    found = json.loads(out)
    assert code == 0
    assert (found["kind"], found["cap"], found["scope"]) == ("capped", 3.0, ["dose"])
    assert found["plug_in_note"].endswith("not a certificate")
    stored = load_record(tmp_path / "p")
    assert stored.pop("fingerprints")  # many numbers that are not compared
    assert found == {**stored, "out": str(tmp_path / "p")}
    assert len(found["rewards"]) == 64


def test_what_learned_nothing_is_certified_on_all_units_and_verified(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, problem, policy = place / "log.parquet", place / "problem.yaml", tmp_path / "p"
    code, out, err = run("learn", log, "--problem", problem, "--out", policy, "--fraction", "0", capsys=capsys)
    words = " ".join(out.split())
    assert code == 0, err
    assert "is that of the hyper-prior: nothing was learned from the log, and all its units are left" in words
    assert "likeliest" not in words and "nan" not in words
    units = len(Source(log, load_problem(problem)).read())
    certified = (log, "--problem", problem, "--policy", policy, "--ledger", tmp_path / "ledger", "--out", tmp_path / "c.json")
    code, out, err = run("certify", *certified, "--json", capsys=capsys)
    found = json.loads(out)
    assert code in (0, 3), err
    assert {level["units"] for level in found["levels"]} == {units}
    (fixed,) = [item for item in found["assumptions"] if item["code"] == "fixed-policy"]
    assert "has learned nothing from the log" in fixed["checked"]
    code, out, err = run("verify", tmp_path / "c.json", log, capsys=capsys)
    assert code == 0 and "bit for bit" in " ".join(out.split()), err
    code, out, _ = run("explain", policy, log, "--problem", problem, capsys=capsys)
    assert code == 0 and f"{units} episodes of the whole log" in " ".join(out.split())


def test_learn_warns_of_few_episodes(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--problem", place / "problem.yaml", "--out", tmp_path / "p", "--fraction", "0.05", "--kind", "capped"]
    code, out, _ = run("learn", place / "log.parquet", *arguments, capsys=capsys)
    assert code == 0
    assert "warning: the prior side has" in " ".join(out.split())


def test_learn_refuses_a_file_before_it_reads_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    call = ["learn", tmp_path / "gone.parquet", "--problem", tmp_path / "gone.yaml", "--out", tmp_path / "mine.txt"]
    code, _, err = run(*call, capsys=capsys)
    assert code == 2
    assert "mine.txt" in err and "is a file" in err
    assert (tmp_path / "mine.txt").read_text() == "precious"


BAD = {
    "fraction": (["learn", "{log}", "--problem", "{yaml}", "--out", "x", "--fraction", "1.5"], "from 0 and below 1"),
    "empty prior side": (
        ["learn", "{log}", "--problem", "{yaml}", "--out", "x", "--fraction", "1e-9"],
        "prior side of the split",
    ),
    "unknown scope": (["learn", "{log}", "--problem", "{yaml}", "--out", "x", "--scope", "does"], "did you mean 'dose'"),
    "unknown kind": (["learn", "{log}", "--problem", "{yaml}", "--out", "x", "--kind", "gredy"], "did you mean 'greedy'"),
    "small cap": (["learn", "{log}", "--problem", "{yaml}", "--out", "x", "--kind", "capped", "--cap", "0.5"], "from 1"),
    "unknown split": (["learn", "{log}", "--problem", "{yaml}", "--out", "x", "--split", "rows"], "unknown kind of split"),
    "time without a column": (["learn", "{log}", "--problem", "{yaml}", "--out", "x", "--split", "time"], "under 'time'"),
    "no log": (["learn", "gone.parquet", "--problem", "{yaml}", "--out", "x"], "gone.parquet does not exist"),
    "no problem": (["learn", "{log}", "--problem", "gone.yaml", "--out", "x"], "gone.yaml"),
    "explain, no policy": (["explain", "gone", "{log}", "--problem", "{yaml}"], "no policy in gone"),
    "explain, side": (["explain", "{greedy}", "{log}", "--problem", "{yaml}", "--side", "left"], "unknown side 'left'"),
    "explain, lookup": (["explain", "{greedy}", "{log}", "--problem", "{yaml}", "--lookup", "x.csv", "--by", "wrd"], "'ward'"),
    "decide, level": (["decide", "{greedy}", "{csv}", "--problem", "{yaml}", "--level", "does"], "did you mean 'dose'"),
    "decide, scope": (
        ["decide", "{greedy}", "{csv}", "--problem", "{yaml}", "--level", "dose", "--scope", "plan"],
        "does not act",
    ),
    "decide, no file": (["decide", "{greedy}", "gone.csv", "--problem", "{yaml}"], "gone.csv does not exist"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_a_clear_error_and_writes_nothing(
    what: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = {
        "log": place / "log.parquet",
        "yaml": place / "problem.yaml",
        "greedy": place / "greedy",
        "csv": place / "contexts.csv",
    }
    arguments, expected = BAD[what]
    code, out, err = run(*[word.format(**words) for word in arguments], capsys=capsys)
    assert code == 2, out
    assert expected in err
    assert "Traceback" not in err + out
    assert list(tmp_path.iterdir()) == []
