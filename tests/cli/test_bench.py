"""`aegis bench` on the command line."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typed import run as aegis

from aegis import paper
from aegis.engine import engines
from aegis.paper import ResultStore, bench_runs, load_bench, plan_bench

pytestmark = pytest.mark.usefixtures("coarse_oracle")

SMALL = """
title: A small bench
section: none
question: Does it run?
measure: online
base: {world: {name: additive, inner_steps: 3}, agent: nested_nig, episodes: 6}
seeds: 2
arms: {linear: {}}
claims: [{says: it earns something, test: within, with: {arm: linear, low: 0}}]
figures: [{kind: bars, label: reward}]
"""
QUICK = ("bench", "run", "3a", "--set", "episodes=5", "--set", "seeds=2", "--workers", "1")


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = aegis("bench", "list", "--json", capsys=capsys)
    assert code == 0 and {"1a", "1b", "3b"} <= {item["name"] for item in json.loads(out)["benches"]}
    code, out, _ = aegis("bench", "list", capsys=capsys)
    assert code == 0 and "Recursive nested commit" in " ".join(out.replace("│", " ").split())


def test_run_prints_numbers_and_verdicts_and_keeps_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = aegis(*QUICK, "--store", tmp_path, "--json", capsys=capsys)
    assert code == 0, err
    found = json.loads(out)
    assert found["failures"] == []
    row = next(row for row in found["results"] if row["agent"] == "thompson")
    assert row["paper"]["mean"] == 80.2 and row["runs"] == 2 and row["oracle"] > 100
    assert {claim["verdict"] for claim in found["claims"]} <= {"holds", "does not hold", "cannot be tested"}
    assert found["preset"] == "quick" and found["changes"] == {"episodes": 5, "seeds": 2}
    code, out, _ = aegis(*QUICK, "--store", tmp_path, capsys=capsys)
    assert code == 0 and "80.2" in out and "Thompson gains over D-optimal" in out
    assert "preset quick, episodes=5, seeds=2)" in out
    assert "(settings were changed: episodes = 5)" in out  # which claims of the paper do not speak of


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("bench", "run", "3x"), "3a"),
        (("bench", "run", "3a", "--preset", "quik"), "quick"),
        (("bench", "run", "3a", "--set", "epsodes=3"), "episodes"),
        (("bench", "run", "none.yaml"), "none.yaml"),
        (("bench", "run", "3a", "--set", "agent=nobody"), "bench 3a, thompson: 'agent': unknown agent 'nobody'"),
        (("bench", "run", "3a", "--set", "legacy=5"), "bench 3a, thompson: 'legacy' should be a text, found 5"),
        (("bench", "run", "1c", "--set", "episodes=20"), "--set options.points=[20]"),
        (
            ("bench", "run", "aegis-flip", "--set", "world.sigma_q=6"),
            "the arm 'published, sigma_Q = 1' sets 'world.sigma_q' itself",
        ),
        (("bench", "report", "3a", "--pictures", "svg,gif"), "unknown kind of picture 'gif'"),
        (("bench", "report", "3a", "--set", "epsodes=3"), "episodes"),
    ],
)
def test_bad_input(arguments: tuple[str, ...], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = aegis(*arguments, "--store", tmp_path, capsys=capsys)
    assert code == 2 and says in err


def test_a_part_that_fails_ends_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(settings: object, seeds: object) -> None:
        raise ZeroDivisionError("by [hand]")

    monkeypatch.setattr(bench_runs, "MEASURES", {"online": broken})
    code, out, _ = aegis(*QUICK, "--store", tmp_path, capsys=capsys)
    assert code == 1 and "failed: 3a, thompson: ZeroDivisionError: by [hand]" in out


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a bench of one's own."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL, encoding="utf-8")
    return path


def test_report(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, out = ("--store", tmp_path / "store"), tmp_path / "out"
    assert aegis("bench", "run", small, *store, "--workers", "1", capsys=capsys)[0] == 0
    code, _, err = aegis("bench", "report", small, *store, "--out", out, capsys=capsys)
    assert code == 0 and err == ""
    assert "A small bench" in (out / "paper.md").read_text()
    assert "<svg" in (out / "paper.html").read_text()


def test_a_report_without_some_benches_says_which_and_ends_with_1(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, out = ("--store", tmp_path / "store"), tmp_path / "out"
    changed = ("--set", "episodes=7")
    assert aegis("bench", "run", small, *changed, *store, "--workers", "1", capsys=capsys)[0] == 0
    code, _, err = aegis("bench", "report", small, "3a", *changed, *store, "--out", out, "--no-figures", capsys=capsys)
    assert code == 1 and "left out, not run to its end with preset quick: 3a" in err
    assert f"aegis bench run 3a --preset quick --set episodes=7 --store {tmp_path / 'store'}" in err
    assert "A small bench" in (out / "paper.md").read_text()


def test_a_report_about_nothing_is_not_written(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, out = ("--store", tmp_path / "store"), tmp_path / "out"
    code, _, err = aegis("bench", "report", small, *store, "--out", out, "--no-figures", capsys=capsys)
    assert code == 2 and not out.exists()
    assert f"aegis bench run {small} --preset quick --store {tmp_path / 'store'}" in err
    code, _, err = aegis("bench", "report", *store, "--out", out, "--no-figures", capsys=capsys)
    assert code == 2 and "aegis bench run all --preset quick" in err


def test_a_damaged_line_of_the_store_is_run_again(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("bench", "run", small, "--store", tmp_path / "store", "--workers", "1")
    assert aegis(*command, capsys=capsys)[0] == 0
    (path,) = (tmp_path / "store" / "small").glob("*.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"run": 0', b"\xff"))
    assert aegis(*command, capsys=capsys)[0] == 0
    assert path.read_bytes().splitlines()[-1] == whole.splitlines()[1]


@pytest.mark.parametrize(("given", "used"), [((), 7), (("--workers", "2"), 2)])
def test_as_many_workers_as_cores_unless_told_otherwise(
    given: tuple[str, ...], used: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[engines.Engine] = []
    monkeypatch.setattr(engines, "usable_cores", lambda: 7)
    monkeypatch.setattr(paper, "run_plans", lambda plans, store, engine, say: asked.append(engine) or [])
    assert aegis("bench", "run", "3a", *given, "--store", tmp_path, capsys=capsys)[0] == 0
    assert asked == [engines.Local(used)]


BENCH = """
title: One that is done at once, and two that take for ever
section: none
question: What is kept?
measure: offline
base: {world: {name: additive, inner_steps: 3}, agent: nested_nig}
seeds: 2
metrics: [gain]
arms:
  short: {episodes: 20}
  long: {episodes: 400000}
"""
# As `python -m aegis`, with Ctrl-C at its default: a process started in the background of a shell inherits it as ignored.
INTERRUPTIBLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from aegis.cli import main; main()"


def test_interrupted_it_keeps_what_was_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = bench_runs.MEASURES["offline"]

    def interrupted(settings: Any, seeds: Any) -> Any:
        if settings["episodes"] > 20:
            raise KeyboardInterrupt
        return measure(settings, seeds)

    path, store = tmp_path / "mine.yaml", tmp_path / "store"
    path.write_text(BENCH, encoding="utf-8")
    plan = plan_bench(load_bench(str(path)), "quick")
    monkeypatch.setattr(bench_runs, "MEASURES", {"offline": interrupted})
    code, out, err = aegis("bench", "run", path, "--store", store, "--workers", 1, capsys=capsys)
    assert (code, out) == (130, "")
    assert err.splitlines()[-1] == (
        f"aegis: interrupted; every part that was done is kept in {store}, and the same command goes on from there"
    )
    assert [len(ResultStore(store).read(unit)) for unit in plan.units] == [2, 0]


@pytest.mark.ci
def test_stopped_on_several_processes_it_keeps_what_was_done(tmp_path: Path) -> None:
    path, store = tmp_path / "mine.yaml", tmp_path / "store"
    path.write_text(BENCH, encoding="utf-8")
    plan = plan_bench(load_bench(str(path)), "quick")
    arguments = ["bench", "run", str(path), "--store", str(store), "--workers", "2"]
    running = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        while running.poll() is None and len(ResultStore(store).read(plan.units[0])) < 2:
            time.sleep(0.1)
        os.killpg(running.pid, signal.SIGINT)  # as Ctrl-C does: every process gets it, and only the first reports it
        out, err = running.communicate(timeout=120)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode == 130, err.decode()
    lines = [line for line in err.decode().splitlines() if line.strip() and not line.startswith("benches:")]
    assert lines == [f"aegis: interrupted; every part that was done is kept in {store}, and the same command goes on from there"]
    assert out == b""
    assert [len(ResultStore(store).read(unit)) for unit in plan.units] == [2, 0]
