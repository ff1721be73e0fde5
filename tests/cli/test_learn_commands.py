"""learn, explain and decide as a user types them: files, figures, exit codes."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typed import done, run

from aegis.cli.output import episode_progress
from aegis.logs import Source, Split
from aegis.planning import load_policy, load_rewards
from aegis.policies import load_record
from aegis.problem import load_problem

EXPLAINED = ["logged_decisions", "action_value", "policy_probability", "incumbent_probability"]


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of the clinic, contexts taken from it, and one learned policy of each kind."""
    folder = tmp_path_factory.mktemp("learned")
    calls = [["simulate", "--world", "clinic", "--legacy", "natural", "--episodes", "120", "--out", folder]]
    calls += [
        [
            "learn",
            folder / "log.parquet",
            "--problem",
            folder / "problem.yaml",
            "--kind",
            kind,
            "--particles",
            3,
            "--out",
            folder / kind,
        ]
        for kind in ("greedy", "planned", "capped")
    ]
    for call in calls:
        assert done(*call) == 0
    pyarrow.csv.write_csv(pq.read_table(folder / "log.parquet").slice(0, 30), folder / "contexts.csv")
    return folder


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
    assert stored.pop("fingerprints")  # many numbers that nobody reads
    assert found == {**stored, "out": str(tmp_path / "p")}
    assert len(found["rewards"]) == 64


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
    assert "mine.txt is a file; a policy is a folder" in err
    assert (tmp_path / "mine.txt").read_text() == "precious"


def test_the_progress_line_ends(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with episode_progress(False) as report:
        report("scaling", 7)
        report("fitting", 9)
    assert screen.getvalue().count("\n") == 1 and screen.getvalue().endswith("fitting: 9 episodes\n")

    def interrupted() -> None:
        with episode_progress(False) as report:
            report("scaling", 7)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert screen.getvalue().endswith("scaling: 7 episodes\n")
    with episode_progress(True) as nothing:
        assert nothing is None


def test_explain_tells_where_they_differ(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["explain", place / "greedy", place / "log.parquet", "--problem", place / "problem.yaml"]
    code, out, err = run(*call, "--lookup", tmp_path / "table.csv", capsys=capsys)
    assert code == 0, err
    assert "favourite differs" in out and "prior side" in " ".join(out.split())
    code, out, _ = run(*call, "--json", capsys=capsys)
    found = json.loads(out)
    assert [level["level"] for level in found["levels"]] == ["plan", "dose"]
    assert found["side"] == "prior"
    assert found["episodes"] == load_record(place / "greedy")["episodes"]
    for level in found["levels"]:
        assert 0 < level["total_variation"] <= 1
        assert {part["variable"] for part in level["bins"]} <= {"severity", "frailty", "ward", "response", "level"}
    cells = rows_of(tmp_path / "table.csv")
    assert list(cells[0]) == ["decision_level", "severity", "frailty", "ward", "response", "level", *EXPLAINED]
    total = dict.fromkeys(("plan", "dose"), 0.0)
    for row in cells:
        total[row["decision_level"]] += float(row["policy_probability"]) * int(row["logged_decisions"])
    for level in found["levels"]:
        assert total[level["level"]] == pytest.approx(level["decisions"], rel=1e-4)


def test_explain_says_what_is_an_estimate(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = ["simulate", "--world", "additive", "--episodes", 60, "--propensities", "taken", "--out", tmp_path / "log"]
    assert run(*world, capsys=capsys)[0] == 0
    log, problem = tmp_path / "log" / "log.parquet", tmp_path / "log" / "problem.yaml"
    assert run("learn", log, "--problem", problem, "--out", tmp_path / "p", capsys=capsys)[0] == 0
    call = ["explain", tmp_path / "p", log, "--problem", problem]
    text = " ".join(run(*call, capsys=capsys)[1].split())
    assert "about 0." in text and "about: an estimate" in text and "not logged" in text
    assert all(level["estimated"] for level in json.loads(run(*call, "--json", capsys=capsys)[1])["levels"])
    known = ["explain", place / "greedy", place / "log.parquet", "--problem", place / "problem.yaml"]
    assert "about" not in run(*known, capsys=capsys)[1]
    assert not any(level["estimated"] for level in json.loads(run(*known, "--json", capsys=capsys)[1])["levels"])


def test_explain_other_sides_and_fewer_episodes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["explain", place / "greedy", place / "log.parquet", "--problem", place / "problem.yaml", "--json"]
    counts = {side: json.loads(run(*call, "--side", side, capsys=capsys)[1])["episodes"] for side in ("prior", "certify", "all")}
    assert counts["prior"] + counts["certify"] == counts["all"] == 120
    assert json.loads(run(*call, "--episodes", 7, capsys=capsys)[1])["episodes"] == 7


def test_explain_draws_if_it_can(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["explain", place / "greedy", place / "log.parquet", "--problem", place / "problem.yaml"]
    code, _, err = run(*call, "--plot", tmp_path / "x.png", capsys=capsys)
    if importlib.util.find_spec("matplotlib") is None:
        assert code == 2
        assert "aegis-handover[report]" in err
        assert not list(tmp_path.iterdir())
    else:
        assert code == 0
        assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
        code, _, err = run(*call, "--plot", tmp_path / "x.xyz", capsys=capsys)
        assert code == 2
        assert ".png" in err


@pytest.mark.parametrize("kind", ["greedy", "planned", "capped"])
@pytest.mark.parametrize("level", ["plan", "dose"])
def test_decide_answers_as_the_policy_does(
    kind: str, level: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = load_problem(place / "problem.yaml")
    call = [
        "decide",
        place / kind,
        place / "contexts.csv",
        "--problem",
        place / "problem.yaml",
        "--level",
        level,
        "--scope",
        level,
    ]
    code, _, err = run(*call, "--out", tmp_path / "d.csv", capsys=capsys)
    assert code == 0, err
    answers = rows_of(tmp_path / "d.csv")
    values = given.level(level).actions.values
    chances = np.array([[float(row[f"probability_{value}"]) for value in values] for row in answers])
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    batch = Source(place / "log.parquet", given).read()
    policy = load_policy(place / kind, given)
    owner = batch.ancestors("dose")[level][:30]
    expected = np.einsum("s,sna->na", policy.weights, policy.full(level, batch))[owner]
    np.testing.assert_allclose(chances, expected, atol=1e-12)
    drawn = np.array([[str(value) for value in values].index(row[f"drawn_{level}"]) for row in answers])
    assert (chances[np.arange(30), drawn] > 0).all()
    if level == "dose":
        closed = np.array([row["can_dose_3"] == "false" for row in answers])
        assert closed.any() and (chances[closed, 3] == 0).all()


def test_decide_is_reproducible_and_follows_the_seed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["decide", place / "capped", place / "contexts.csv", "--problem", place / "problem.yaml", "--level", "dose", "--json"]
    one, two, three = (run(*call, "--seed", seed, capsys=capsys)[1] for seed in (1, 1, 2))
    assert one == two
    drawn = [[decision["action"] for decision in json.loads(text)["decisions"]] for text in (one, three)]
    assert drawn[0] != drawn[1]


def test_decide_prints_a_table_for_the_outermost_level(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("decide", place / "greedy", place / "contexts.csv", "--problem", place / "problem.yaml", capsys=capsys)
    assert code == 0
    assert "Level 'plan': 10 of 30 decisions" in out


def test_decide_stays_within_what_was_learned(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learned = ["learn", place / "log.parquet", "--problem", place / "problem.yaml", "--scope", "dose", "--kind", "capped"]
    assert run(*learned, "--out", tmp_path / "p", capsys=capsys)[0] == 0
    call = ["decide", tmp_path / "p", place / "contexts.csv", "--problem", place / "problem.yaml"]
    code, out, err = run(*call, "--json", capsys=capsys)
    assert code == 0, err
    assert json.loads(out)["level"] == "dose"  # the outermost level that it controls
    for more in (["--scope", "plan"], ["--scope", "plan", "--scope", "dose", "--level", "dose"]):
        code, _, err = run(*call, *more, capsys=capsys)
        assert code == 2
        assert "--scope plan: the policy was learned for dose only" in err
    code, _, err = run(*call, "--level", "plan", capsys=capsys)
    assert code == 2
    assert "does not act at level 'plan'" in err


def spoilt(place: Path, tmp_path: Path, column: str, value: str | None) -> Path:
    """The contexts without a column, or with another value in its first row."""
    rows = rows_of(place / "contexts.csv")
    names = [name for name in rows[0] if value is not None or name != column]
    if value is not None:
        rows[0][column] = value
    with (tmp_path / "spoilt.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return tmp_path / "spoilt.csv"


BAD = {
    "fraction": (["learn", "{log}", "--problem", "{yaml}", "--out", "x", "--fraction", "1.5"], "above 0 and below 1"),
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


CONTEXTS = {
    "lacking": ("severity", None, "'severity' (context of level 'plan')"),
    "category": ("ward", "genral", "did you mean 'general'"),
    "number": ("level", "high", "a number is needed"),
}


@pytest.mark.parametrize("what", CONTEXTS)
def test_contexts_that_do_not_fit(what: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    column, value, expected = CONTEXTS[what]
    path = spoilt(place, tmp_path, column, value)
    code, _, err = run("decide", place / "greedy", path, "--problem", place / "problem.yaml", "--level", "dose", capsys=capsys)
    assert code == 2
    assert expected in err


def test_a_capped_policy_needs_the_legacy_to_decide(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = spoilt(place, tmp_path, "p_dose_1", None)
    code, _, err = run("decide", place / "capped", path, "--problem", place / "problem.yaml", "--level", "dose", capsys=capsys)
    assert code == 2
    assert "probabilities of all actions" in err


def test_a_policy_of_another_problem_is_refused(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("simulate", "--world", "additive", "--episodes", 5, "--out", tmp_path, capsys=capsys)
    for call in (["explain", place / "greedy", tmp_path / "log.parquet"], ["decide", place / "greedy", tmp_path / "log.parquet"]):
        code, _, err = run(*call, "--problem", tmp_path / "problem.yaml", capsys=capsys)
        assert code == 2
        assert "another problem" in err


def test_a_mixture_has_no_answer_below_actions_it_would_never_take(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["decide", place / "planned", place / "contexts.csv", "--problem", place / "problem.yaml", "--level", "dose"]
    code, _, err = run(*call, capsys=capsys)
    assert code == 2
    assert "--scope" in err
