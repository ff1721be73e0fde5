"""Better than whom, as a user reads it: each command names its comparator and says what to do first."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from typed import done, run

from aegis.rng import stream

TEXT = """
episode: id
reward: {{column: y, range: [0, 1]}}
levels:
  - name: act
    context: [x]
    action: {{column: a, values: [0, 1, 2]}}
    propensity: {{columns: [p0, p1, p2]}}
    {incumbent}
"""
STATED = "incumbent: {columns: [m0, m1, m2]}"
PROBLEMS = {
    "none": "",
    "stated": STATED,
    "action": "incumbent: {action: 0}",
    "broken": "incumbent: {columns: [m0, m1, m2], max_ratio: 1.01}",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of a controller that explores, and problems that state different incumbents."""
    folder, size = tmp_path_factory.mktemp("whom"), 900
    rng = stream(1, "whom")
    x, nu, mu = rng.random(size), np.array([0.6, 0.2, 0.2]), np.array([0.9, 0.1, 0.0])
    a = (rng.random(size)[:, None] > np.cumsum(nu)).sum(axis=1)
    y = (rng.random(size) < np.array([0.3, 0.8, 0.4])[a]).astype(float)
    columns = {"id": np.arange(size), "x": x, "a": a, "y": y}
    for name, chances in (("p", nu), ("m", mu), ("c", np.array([0.0, 1.0, 0.0])), ("d", np.array([0.1, 0.8, 0.1]))):
        columns |= {f"{name}{k}": np.full(size, chances[k]) for k in range(3)}
    pyarrow.csv.write_csv(pa.table(columns), folder / "log.csv")
    for name, incumbent in PROBLEMS.items():
        (folder / f"{name}.yaml").write_text(TEXT.format(incumbent=incumbent), encoding="utf-8")
    assert done("learn", folder / "log.csv", "--problem", folder / "stated.yaml", "--out", folder / "policy") == 0
    return folder


def test_explain_names_its_comparator(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for problem, who in (("stated", "the incumbent (the probabilities in 'm0' to 'm2')"), ("none", "the policy that wrote the")):
        asked = ["explain", place / "policy", place / "log.csv", "--problem", place / f"{problem}.yaml"]
        code, out, err = run(*asked, capsys=capsys)
        assert code == 0, err
        assert f"Where the policy differs from {who}" in " ".join(out.split()) and "logged behaviour" not in out
        code, out, err = run(*asked, "--json", capsys=capsys)
        assert code == 0 and json.loads(out)["levels"][0]["compared_with"].startswith(who)


def test_learn_speaks_of_an_incumbent_where_there_is_one(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for problem, known in (("stated", True), ("none", False)):
        code, out, err = run(
            "learn", place / "log.csv", "--problem", place / f"{problem}.yaml", "--out", tmp_path / problem, capsys=capsys
        )
        assert code == 0, err
        assert ("of the incumbent there" in " ".join(out.split())) == known


def test_learn_says_at_which_level_the_incumbent_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert done("dataset", "coating", "--out", tmp_path / "coating") == 0
    asked = ["learn", tmp_path / "coating" / "log.parquet", "--problem", tmp_path / "coating" / "problem.yaml"]
    capsys.readouterr()
    code, out, err = run(*asked, "--kind", "capped", "--out", tmp_path / "policy", capsys=capsys)
    assert code == 0, err
    words = " ".join(out.split())
    assert "EUR of the capped policy at program, and " in words
    assert "EUR of the incumbent there, with the same decisions at the levels below." in words


def test_stepped_as_the_page_learns_it(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "policy"
    asked = ["learn", place / "log.csv", "--problem", place / "stated.yaml", "--kind", "stepped", "--step", 0.3, "--out", out]
    assert done(*asked) == 0
    asked = ["certify", place / "log.csv", "--problem", place / "stated.yaml", "--policy", out, "--ledger", tmp_path / "ledger"]
    code, text, err = run(*asked, capsys=capsys)
    assert code in (0, 3), err
    assert "Gain over the incumbent (the probabilities in 'm0' to 'm2')" in " ".join(text.split())


@pytest.mark.parametrize("command", ["audit", "learn", "explain", "certify"])
def test_an_incumbent_that_a_row_contradicts_is_refused(
    command: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {
        "learn": ["--out", tmp_path / "p"],
        "certify": ["--policy", "full-columns:c0,c1,c2", "--ledger", tmp_path / "ledger"],
    }
    policy = [place / "policy"] if command == "explain" else []
    code, out, err = run(
        command, *policy, place / "log.csv", "--problem", place / "broken.yaml", *more.get(command, []), capsys=capsys
    )
    assert code == 4
    text = " ".join((out + err).replace("│", " ").split())
    row = "row" if command in ("learn", "explain") else "row 1,"  # these look at the prior side
    assert row in text and "under the stated incumbent the" in text
    if command == "certify":
        assert text.lower().count("correct 'incumbent' in the problem file") == 1


def test_registering_without_any_risk_left_fails(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["certify", place / "log.csv", "--problem", place / "stated.yaml", "--ledger", tmp_path, "--gain-only"]
    assert done(*asked, "--policy", "full-columns:c0,c1,c2") == 0
    capsys.readouterr()
    late = [*asked, "--policy", "full-columns:d0,d1,d2", "--register", "--fixed-before", "in the study plan of May"]
    code, out, err = run(*late, capsys=capsys)
    assert code == 4, err
    assert "Registered, but it cannot be tested:" in out and "No risk is left" in out
    assert "The same command without --register certifies" not in out


def test_a_given_incumbent_is_named_in_verdict_and_table(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "whom_mine.py").write_text(
        "import numpy as np\n\n\ndef same(level, rows):\n    return np.tile([1.0, 0.0, 0.0], (len(rows['x']), 1))\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    asked = ["certify", place / "log.csv", "--problem", place / "none.yaml", "--policy", "full-columns:c0,c1,c2"]
    code, out, err = run(*asked, "--incumbent", "whom_mine:same", "--ledger", tmp_path / "ledger", capsys=capsys)
    assert code == 0, err
    text = " ".join(out.split())
    assert "than the incumbent (the policy 'whom_mine:same')" in text
    assert "Gain over the incumbent (the policy 'whom_mine:same')" in text
