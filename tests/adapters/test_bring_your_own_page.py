"""docs/bring-your-own.md: every block and command runs, in the order of the page, and what it lists is what there is."""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import one_level
import pyarrow.parquet as pq
import pytest

from aegis.adapters import mlflow_logging
from aegis.certificate.certificate import TABLE_SCHEMAS
from aegis.cli import main
from aegis.problem import load_problem, save_problem

PAGE = (Path(__file__).parents[2] / "docs" / "bring-your-own.md").read_text(encoding="utf-8")
ROUNDS, SECOND = 900, 2  # of each log; the seed of the later one
SECTIONS = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE, flags=re.S | re.M))


def blocks(section: str, kind: str = "python") -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", SECTIONS[section], flags=re.S)


def commands(section: str) -> list[str]:
    return re.findall(r"^    aegis (.*)$", SECTIONS[section], flags=re.M)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a reader: the log with a candidate's probabilities, and the problem of the page."""
    yaml = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.S)[0]
    (tmp_path / "problem.yaml").write_text(yaml)
    assert load_problem(tmp_path / "problem.yaml") == one_level.problem_of()
    table = one_level.table_of(ROUNDS)
    can = np.stack([table[f"can_{name}"].to_numpy() for name in one_level.DRUGS], axis=1)
    wanted = np.where(table["age"].to_numpy()[:, None] < 0.5, [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]) * can
    wanted /= wanted.sum(axis=1, keepdims=True)
    for place, name in enumerate(one_level.DRUGS):
        table = table.append_column(f"q_{name}", [wanted[:, place]])
    taken = [one_level.DRUGS.index(name) for name in table["drug"].to_pylist()]
    pq.write_table(table.append_column("q", [wanted[np.arange(ROUNDS), taken]]), tmp_path / "log.parquet")
    pq.write_table(one_level.table_of(ROUNDS, seed=SECOND), tmp_path / "later.parquet")
    pq.write_table(one_level.table_of(300, masked=False), tmp_path / "open.parquet")
    save_problem(one_level.problem_of(masked=False), tmp_path / "open.yaml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(line: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(line))
    return int(stop.value.code or 0)


def test_scikit_learn(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    module, second = blocks("scikit-learn")
    (folder / "drug_policy.py").write_text(module)
    monkeypatch.delitem(sys.modules, "drug_policy", raising=False)
    certify, verify = commands("scikit-learn")
    assert run(certify) == 0, capsys.readouterr().out
    assert "Certified: with probability at least 95 %" in capsys.readouterr().out
    assert run(verify) == 0, capsys.readouterr().out
    capsys.readouterr()
    exec(second, {})
    assert capsys.readouterr().out.startswith("Certified: ")


def test_results(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = commands("pandas, polars and probability columns")
    assert run(f"{line} --out certificate.json") == 0
    found: dict[str, Any] = {}
    exec(blocks("Results: JSON, its schema, and tables")[0], found)
    assert found["levels"] == pq.read_table("levels.parquet") and found["paths"].num_rows > 0
    listed = SECTIONS["Results: JSON, its schema, and tables"]
    assert ", ".join(f"`{name}`" for name in TABLE_SCHEMAS) in listed
    for reference in re.findall(r"`aegis\.(handover|comparison)\.(\w+)\(", listed):
        assert callable(getattr(importlib.import_module(f"aegis.{reference[0]}"), reference[1]))


def test_vowpal_wabbit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = json.loads(blocks("Vowpal Wabbit", "json")[0])
    rng = np.random.default_rng(1)
    with (folder / "events.dsjson").open("w") as file:
        for number in range(200):  # the line of the page, again and again with other numbers
            taken = int(rng.random() < 0.7)
            line["c"]["user"] = {"age": float(rng.random()), "city": ["Oslo", "Bonn"][int(rng.integers(2))]}
            a, p = ([2, 1], [0.7, 0.3]) if taken else ([1, 2], [0.3, 0.7])
            cost = -float(rng.random() < 0.5)
            changed = {
                "EventId": f"e{number}",
                "a": a,
                "p": p,
                "_labelIndex": taken,
                "_label_probability": p[0],
                "_label_cost": cost,
            }
            file.write(json.dumps({**line, **changed}) + "\n")
    for command in commands("Vowpal Wabbit"):
        assert run(command) == 0, capsys.readouterr()
    problem = load_problem("vw/problem.yaml")
    assert problem.innermost.actions.values == ("news", "music") and problem.time == "timestamp"


def test_obp(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, Any] = {}
    exec(blocks("Open Bandit Pipeline (obp)")[0], found)
    assert found["chosen"].shape == (300, 3, 1) and capsys.readouterr().out.strip().startswith("fit")
    there, certify, back = commands("Open Bandit Pipeline (obp)")
    assert run(there) == 0
    assert run(certify) == 4  # the logging policy against itself: identical
    assert run(back) == 0
    with np.load("again.npz") as again, np.load("feedback.npz") as first:
        np.testing.assert_array_equal(again["pscore"], first["pscore"])


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_frames(library: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A frame library if it is there, and Arrow in its place in any case."""
    (block,) = blocks("pandas, polars and probability columns")
    known = SimpleNamespace(read_parquet=pq.read_table) if library == "arrow" else pytest.importorskip(library)
    if library != "pandas":
        monkeypatch.setitem(sys.modules, "pandas", known)
    exec(block, {})
    assert capsys.readouterr().out.startswith("certified ['candidate', 'scope', 'verdict'")


def test_mlflow(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: dict[str, Any] = {}
    tracker = SimpleNamespace(
        start_run=contextlib.nullcontext,
        set_tags=said.update,
        log_params=said.update,
        log_metrics=said.update,
        log_artifact=lambda path, folder: said.update({f"{folder}/{Path(path).name}": True}),
    )
    monkeypatch.setitem(sys.modules, "mlflow", tracker)
    exec(blocks("MLflow")[0], {})
    section = SECTIONS["MLflow"]
    for name in said:
        short = name.replace("aegis/drug/not_certified/", "aegis/SCOPE/not_certified/").replace("aegis/drug/", "")
        assert f"`{short}`" in section or "not_certified" in short or "report" in short or f"aegis/SCOPE/{short}`" in section, (
            name
        )
    assert said["aegis.verdict"] == "certified" and mlflow_logging.FILE in section


def test_the_page_names_what_there_is() -> None:
    for module, name in re.findall(r"from (aegis\.adapters\.\w+) import ([\w, ]+)", PAGE):
        for one in name.split(", "):
            assert hasattr(importlib.import_module(module), one), one
    for anchor in re.findall(r"\]\(#([^)]+)\)", PAGE):
        made = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in SECTIONS]
        assert anchor in made, anchor
    from aegis.adapters.dsjson_events import SKIPPED, UNOBSERVED

    for word in UNOBSERVED:
        assert f"--unobserved {word}" in PAGE
    assert "--skipped missing" in PAGE and f"--skipped '{SKIPPED[1]}'" in PAGE
