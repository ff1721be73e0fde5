"""plan as a user types it: tables, JSON, the picture, and errors in one line."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from typed import done, run

QUICK = ("--explore", "0.5,1", "--caps", "2,inf")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Simulated logs of a legacy that explores and of one that does not, and a policy."""
    folder = tmp_path_factory.mktemp("plan")
    few = ["--set", "inner_steps=3", "--seed", "3", "--episodes", "80"]
    calls = [
        ["simulate", *few, "--legacy", "sign:epsilon=0.3", "--out", str(folder)],
        ["simulate", *few, "--legacy", "deterministic", "--out", str(folder / "certain")],
        [
            *["learn", str(folder / "log.parquet"), "--problem", str(folder / "problem.yaml"), "--kind", "capped"],
            *["--scope", "inner", "--out", str(folder / "policy")],
        ],
    ]
    for call in calls:
        assert done(*call) == 0
    return folder


def test_a_plan_from_a_guess(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = ["--problem", place / "problem.yaml", "--level", "inner"]
    code, out, _ = run("plan", *problem, "--gain", 2, "--loss", 1, *QUICK, "--within", 100, capsys=capsys)
    assert code == 0
    assert "inner: episodes until half of all studies" in out
    assert "W = 2" in out and "no cap" in out and "exploring costs" in out
    assert "has a certificate within 100 episodes in nine of ten studies" in out
    said = "assumed: level 'inner', from a guess: the best action earns 2 more than the legacy's own, a random one earns 1 less"
    assert said in out
    assert "assumed: level 'inner', from a guess: rewards vary by 2 (a tenth of the range)" in out
    assert "taken 1.25 times as large" in out
    assert "A plan is a forecast, not a certificate." in out


def test_a_plan_for_costs(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = tmp_path / "costs.yaml"
    problem.write_text((place / "problem.yaml").read_text().replace("goal: maximise", "goal: minimise"))
    given = ["--problem", problem, "--level", "inner", "--gain", 2, "--loss", 1, *QUICK, "--within", 100]
    code, out, _ = run("plan", *given, capsys=capsys)
    assert code == 0
    assert "the best action costs 2 less than the legacy's own, a random one costs 1 more" in out
    assert "the legacy costs the middle of the range" in out and "costs vary by 2" in out
    assert "inner: saving over the incumbent, without exploration" in out and "exploring adds" in out
    assert "to the mean cost of each of them" in out and "earns" not in out


def test_a_plan_as_json(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = ["--problem", place / "problem.yaml", "--level", "inner"]
    code, out, err = run("plan", *problem, "--gain", 2, *QUICK, "--tests", 5, "--json", capsys=capsys)
    found = json.loads(out)
    assert code == 0 and not err
    assert found["tests"] == 5 and found["delta_per_test"] == pytest.approx(0.01)
    (level,) = found["levels"]
    assert [(row["explore"], row["cap"]) for row in level["rows"]] == [(0.5, 2), (0.5, "inf"), (1, 2), (1, "inf")]
    assert all(row["episodes"] <= row["likely"] for row in level["rows"])
    assert level["cost_is"] == "at most"


def test_a_plan_from_a_pilot_leaves_the_other_side_alone(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [place / "log.parquet", "--problem", place / "problem.yaml", "--level", "inner", *QUICK, "--json"]
    code, out, _ = run("plan", *given, capsys=capsys)
    prior = json.loads(out)
    assert code == 0 and 20 <= prior["pilot_episodes"] < 60
    assert prior["levels"][0]["rows"][0]["explore"] is None
    code, out, _ = run("plan", *given, "--whole", capsys=capsys)
    assert json.loads(out)["pilot_episodes"] == 80
    code, out, _ = run("plan", *given, "--policy", place / "policy", capsys=capsys)
    own = json.loads(out)
    assert code == 0 and own["pilot_episodes"] == prior["pilot_episodes"]
    assert any("learned from this very log" in note for note in own["levels"][0]["notes"])


def test_the_table_of_a_pilot(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [place / "log.parquet", "--problem", place / "problem.yaml", "--level", "inner", *QUICK]
    code, out, _ = run("plan", *given, "--within", 1000, capsys=capsys)
    assert code == 0
    assert "on the side to learn from; the rest of the log was not looked at" in out
    assert "as logged" in out and "the exploration in the log is enough" in out
    assert "over the incumbent, without exploration" in out


@pytest.mark.ci
def test_a_legacy_without_exploration(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [place / "certain" / "log.parquet", "--problem", place / "certain" / "problem.yaml", "--level", "inner", *QUICK]
    code, out, _ = run("plan", *given, capsys=capsys)
    assert code == 0 and "no gain can be certified there" in out and "--gain" in out
    code, out, _ = run("plan", *given, "--gain", 2, "--within", 300, capsys=capsys)
    assert code == 0 and "with an exploration rate of" in out and "Exploring costs at most" in out
    code, out, _ = run("plan", *given, "--gain", 2, "--within", 2, capsys=capsys)
    assert code == 0 and "No rate and cap looked at has a certificate within 2 episodes" in out


def test_the_picture_is_well_formed(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [place / "log.parquet", "--problem", place / "problem.yaml", *QUICK, "--within", 500]
    code, out, _ = run("plan", *given, "--plot", tmp_path / "plan.svg", capsys=capsys)
    assert code == 0 and "picture:" in out
    drawn = ElementTree.parse(tmp_path / "plan.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    panels = drawn.findall(f"{space}g")
    assert drawn.tag == f"{space}svg" and len(panels) == 2
    assert len(panels[1].findall(f"{space}polyline")) == 4  # two caps, half of the studies and nine in ten
    words = [text.text for text in panels[1].iter(f"{space}text")]
    assert {"as logged", "W = 2", "no cap", "≤ 500"} <= set(words)  # the dotted line is what was wanted
    certain = [place / "certain" / "log.parquet", "--problem", place / "certain" / "problem.yaml", "--level", "inner"]
    code, _, _ = run("plan", *certain, "--plot", tmp_path / "none.svg", capsys=capsys)
    assert code == 0 and "no exploration rate and cap" in (tmp_path / "none.svg").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--gain"),
        (("--gain", "0"), "above 0"),
        (("--gain", "50"), "declared range"),
        (("--gain", "1", "--spread", "10.5"), "standard deviation above 10"),
        (("--gain", "1", "--level", "iner"), "did you mean 'inner'"),
        (("--gain", "1", "--caps", "1"), "above 1"),
        (("--gain", "1", "--explore", "2"), "at most 1"),
        (("--gain", "1", "--explore", "a,b"), "numbers with commas"),
        (("--gain", "1", "--plot", "plan.png"), ".svg"),
        (("--gain", "1", "--policy", "x"), "LOG"),
        (("--gain", "1", "--whole"), "LOG"),
    ],
)
def test_bad_input_takes_one_line(words: tuple[str, ...], message: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run("plan", "--problem", place / "problem.yaml", *words, capsys=capsys)
    assert code == 2 and not out
    assert message in err and "Traceback" not in err


def test_an_empty_pilot(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pq.read_table(place / "log.parquet").slice(0, 0), tmp_path / "empty.parquet")
    code, _, err = run("plan", tmp_path / "empty.parquet", "--problem", place / "problem.yaml", capsys=capsys)
    assert code == 2 and "Traceback" not in err
    pq.write_table(pq.read_table(place / "log.parquet").slice(0, 30), tmp_path / "short.parquet")
    code, _, err = run("plan", tmp_path / "short.parquet", "--problem", place / "problem.yaml", capsys=capsys)
    assert code == 2 and "20 or more" in err
