"""validate as a user types it: tables, JSON, exit codes, going on, and the page's plant of one's own."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aegis import validation
from aegis.cli import main
from aegis.engine import parse_engine
from aegis.errors import InputError
from aegis.validation import bound_validation
from aegis.validation.trial import BY_REWARDS, TIMES, WITH_EQUATIONS

PAGE = (Path(__file__).parents[2] / "docs" / "validate.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
QUICK = ("--runs", 3, "--episodes", 40, "--prior", 30, "--judged", 300)
SMALL = (*QUICK, "--set", "inner_steps=3")
WRONG = """
from greenhouse import *

class Lying(Greenhouse):
    def episodes(self, first, count, policy, seed):
        batch = super().episodes(first, count, policy, seed)
        table = batch.levels["watering"]
        told = np.tile([0.4, 0.2, 0.4], (len(table), 1))
        return batch.with_level("watering", table.decided(table.action, told[np.arange(len(table)), table.action], told))

lying = Lying()
number = 7

def broken():
    raise OSError("no plant today")
"""


def run(*arguments: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["validate", *[str(argument) for argument in arguments]])
    captured = capsys.readouterr()
    code = stop.value.code
    return (0 if code is None else int(code)), captured.out, captured.err


@pytest.fixture
def greenhouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "greenhouse.py").write_text(BLOCKS[1])
    (tmp_path / "wrong_house.py").write_text(WRONG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("greenhouse", "wrong_house"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_json_has_every_bound_and_stands_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(*SMALL, "--json", "--out", tmp_path / "v", capsys=capsys)
    found = json.loads(out)
    assert code == 0 and found["verdict"] == "holds"
    good, others = found["certificates"], found["not_certificates"]
    ours = {"water-filled", "doubly robust", "plain"}
    assert {row["bound"] for row in good} >= {*ours, "Hoeffding", "PRISM: prior lam, B declared"}
    assert {row["bound"] for row in others} >= {"Student t", "central limit", "bootstrap, BCa", "PRISM, gate of Algorithm 2"}
    assert all(row["label"].startswith("certificate") and row["verdict"] == "holds" for row in good)
    assert all(row["label"].startswith("not a certificate") and row["verdict"] is None for row in others)
    assert (found["plant"], found["legacy"], found["candidate"], found["scope"]) == ("additive", "uniform", "capped", ["inner"])
    assert json.loads((tmp_path / "v" / "validation.json").read_text()) == found


def test_the_table_and_going_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    only = ("--bound", "plain", "--bound", "Hoeffding", "--bound", "Student t", "--out", tmp_path, "--candidate", "null")
    code, out, err = run(*SMALL, *only, capsys=capsys)
    assert code == 0 and out.startswith("4 certificates hold: 3 runs on 'additive' under uniform, candidate null at inner")
    assert "Hoeffding *" in out and "0 of 3" in out and "Not certificates" in out and "Student t" in out
    assert "validating: 3/3" in err
    lines = (tmp_path / "runs.jsonl").read_text().splitlines()
    code, _, err = run(*SMALL, *only, "--runs", 4, capsys=capsys)
    assert code == 0 and "validating: 1/1" in err
    assert (tmp_path / "runs.jsonl").read_text().splitlines()[: len(lines)] == lines
    code, _, err = run(*SMALL, *only, "--episodes", 41, capsys=capsys)
    assert code == 2 and "other settings: episodes (40 there, 41 now); move it away" in err
    code, _, err = run(*SMALL, *only, "--set", "f_a=1.5", capsys=capsys)
    assert code == 2 and "other settings: plant; move it away" in err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "Gains are over the incumbent (the rule 'constant'), while the other levels act as in the log."),
        (
            ("--comparator", "logger"),
            "Gains are over the policy that wrote the log, exploration included, while the other levels",
        ),
    ],
)
def test_the_second_line_says_over_whom_gains_are(
    words: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--legacy", "constant:value=1.6,epsilon=0.2", "--bound", "plain", *words)
    code, out, _ = run(*SMALL, *asked, capsys=capsys)
    assert code == 0 and out.splitlines()[1].startswith(expected)
    code, out, _ = run(*SMALL, *asked, "--json", capsys=capsys)
    assert code == 0 and f"Gains are over {json.loads(out)['comparator']}.".startswith(expected)


def test_the_headline_says_how_much_the_runs_can_tell(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(*SMALL, "--bound", "plain", "--runs", 1, capsys=capsys)
    assert code == 0 and out.startswith("Too few runs to tell whether 2 certificates hold: 1 run on 'additive'")
    assert "upper 95 % limit" not in out
    code, out, _ = run(*SMALL, "--bound", "PRISM: prior lam, B declared", capsys=capsys)
    assert code == 0 and out.startswith("1 certificate holds: 3 runs on")
    assert "the worst, PRISM: prior lam, B declared (value), was wrong in 0 of 3 runs" in out
    assert "a rate of at most 0.63 (upper 95 % limit)" in out


def test_a_plant_of_ones_own(greenhouse: None, capsys: pytest.CaptureFixture[str]) -> None:
    commands = re.findall(r"^    aegis (validate --plant .*)$", PAGE, flags=re.M)
    assert len(commands) == 2
    for line in commands:
        assert line.endswith("--runs 100")
        words = shlex.split(line)[1:-2]
        code, out, err = run(*words, *QUICK, "--json", capsys=capsys)
        assert code == 0, err
        found = json.loads(out)
        assert (found["plant"], found["legacy"]) == ("greenhouse:plant", "greenhouse:legacy")
        assert len(found["certificates"]) >= 20
    nulls = {row["nulls"] for row in found["certificates"] if row["claim"] == "gain"}
    assert nulls == {3}  # the last one was the null candidate


def test_a_plant_that_lies_about_its_probabilities(greenhouse: None, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--legacy", "greenhouse:legacy", *QUICK, "--episodes", 200, "--runs", 8, "--bound", "plain")
    code, out, _ = run("--plant", "wrong_house:lying", *asked, capsys=capsys)
    assert code == 4 and out.startswith("Violated: plain: 8 runs on 'wrong_house:lying'")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--candidate", "cappd"), "unknown candidate 'cappd' (did you mean 'capped'?)"),
        (("--candidate", "capped:cap=0.5"), "take a cap above 1"),
        (("--legacy", "sgn:epsilon=0.3"), "world 'additive' has no legacy 'sgn'"),
        (("--legacy", "nowhere:legacy"), "cannot import the module 'nowhere'"),
        (("--bound", "Hoefding"), "did you mean 'Hoeffding'"),
        (("--scope", "outer"), "outer"),
        (("--plant", "greenhouse:plant"), "needs a legacy of your own"),
        (("--plant", "greenhouse", "--legacy", "greenhouse:legacy"), "named 'module:object'"),
        (("--plant", "greenhouse:plnt", "--legacy", "greenhouse:legacy"), "the module 'greenhouse' has no 'plnt'"),
        (("--plant", "nowhere:x", "--legacy", "greenhouse:legacy"), "cannot import the module 'nowhere' of 'nowhere:x'"),
        (("--plant", "wrong_house:number", "--legacy", "greenhouse:legacy"), "is a int, not a plant"),
        (("--plant", "wrong_house:broken", "--legacy", "greenhouse:legacy"), "raised OSError: no plant today"),
        (("--plant", "greenhouse:plant", "--legacy", "uniform"), "needs a legacy of your own, named 'module:object'"),
        (("--plant", "greenhouse:plant", "--legacy", "greenhouse:legacy", "--set", "a=1"), "change parameters of a world"),
    ],
)
def test_mistakes_are_told(greenhouse: None, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(*words, "--runs", 1, capsys=capsys)
    assert code == 2 and message in err


def test_classes_that_make_plants(greenhouse: None, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--legacy", "greenhouse:legacy", *QUICK, "--runs", 1, "--bound", "plain", "--candidate", "greenhouse:legacy")
    code, out, _ = run("--plant", "greenhouse:Greenhouse", *asked, "--json", capsys=capsys)
    assert code == 0 and json.loads(out)["candidate"] == "greenhouse:legacy"


def test_the_python_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    quick = BLOCKS[0].replace("runs=10, episodes=100", "runs=3, episodes=40, judged=300")
    monkeypatch.chdir(tmp_path)
    exec(compile(quick, "docs/validate.md", "exec"), {"__name__": "page"})
    assert capsys.readouterr().out.startswith("True 0.")


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")])
def test_an_interruption_keeps_runs_and_says_so(
    number: signal.Signals,
    code: int,
    word: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "runs.jsonl"

    @contextlib.contextmanager
    def interrupting(label: str, quiet: bool) -> Iterator[Callable[[int, int, str], None]]:
        yield lambda done, total, note: signal.raise_signal(number) if done == 2 else None

    monkeypatch.setattr("aegis.cli.commands.validate.progress", interrupting)
    ended, _, err = run(*SMALL, "--runs", 5000, "--bound", "plain", "--out", tmp_path, capsys=capsys)
    assert ended == code and f"aegis: {word}; every run that was done is kept in {tmp_path}" in err and "Traceback" not in err
    assert path.read_text().endswith("\n") and path.read_text().count("\n") == 3  # the settings, and two runs


def test_numbers_on_the_page() -> None:
    text = " ".join(PAGE.split())
    assert f"{BY_REWARDS:,} episodes".replace(",", " ") in text and f"{WITH_EQUATIONS:,}".replace(",", " ") in text
    assert f"or {TIMES} for each that is certified" in text
    assert f"is below {bound_validation.SIGNIFICANT:g}" in text


def test_engine_and_workers_are_those_of_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(trial: object, words: object, runs: int, out: object, engine: object, report: object) -> None:
        raise InputError(repr(engine))

    monkeypatch.setattr(validation, "run_validation", asked)
    for words in (("--engine", "dask", "--workers", 2), ("--workers", 3)):
        code, _, err = run(*SMALL, *words, capsys=capsys)
        engine = parse_engine("dask" if "dask" in words else "local", int(words[-1]))
        assert code == 2 and err.strip() == f"aegis: {engine!r}"
    code, _, err = run(*SMALL, "--engine", "dusk", capsys=capsys)
    assert code == 2 and "an engine is local, dask or dask://host:port" in err


@pytest.mark.ci
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::UserWarning")
def test_a_dask_cluster_gives_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed: pip install 'aegis-handover[distributed]'")
    alone = run(*SMALL, "--json", capsys=capsys)
    assert alone[0] == 0
    assert run(*SMALL, "--json", "--engine", "dask", "--workers", 2, capsys=capsys) == alone
