"""certify as a user types it: verdicts, exit codes, files, and every way to name a candidate."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typed import done, run

from aegis.certificate import load_certificate
from aegis.logs import Source, Split
from aegis.policies import load_record
from aegis.problem import load_problem, save_problem
from aegis.worlds import make_world

FIELDS = {"scope", "gain_lower", "value_lower", "legacy_value", "estimate", "units", "delta", "verdict"}
MODULE = """
import numpy as np

def bold(level, rows):
    count = level.actions.count
    n = len(next(iter(rows.values()))) if rows else 1
    return np.tile(np.eye(count)[0] * 0.9 + 0.1 / count, (n, 1))

number = 7
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated log with target columns beside it, and a policy learned from it."""
    folder = tmp_path_factory.mktemp("certify")
    calls: list[list[object]] = [
        ["simulate", "--episodes", 160, "--set", "inner_steps=5", "--seed", 3, "--out", folder],
        ["learn", folder / "log.parquet", "--problem", folder / "problem.yaml", "--kind", "capped", "--out", folder / "policy"],
    ]
    for call in calls:
        assert done(*call) == 0
    problem = load_problem(folder / "problem.yaml")
    batch = Source([folder / "log.parquet"], problem).read()
    log = pq.read_table(folder / "log.parquet")
    above = batch.ancestors("inner")
    world = make_world("additive", inner_steps=5)
    target = world.legacy("sign:epsilon=0.6")
    for level in problem.names:
        column = pa.array(target.taken(level, batch)[0][above[level]])
        log = log.append_column(f"new_{level}", column)
    pq.write_table(log, folder / "targets.parquet")
    (folder / "my_policies.py").write_text(MODULE)
    return folder


def certify(place: Path, *more: object, capsys: pytest.CaptureFixture[str], log: str = "log.parquet") -> tuple[int, Any, str]:
    code, out, err = run("certify", place / log, "--problem", place / "problem.yaml", *more, "--json", capsys=capsys)
    return code, json.loads(out) if out else None, err


def test_a_learned_policy_is_certified(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found, err = certify(place, "--policy", place / "policy", capsys=capsys)
    assert code == 0, err
    assert list(found)[:2] == ["verdict", "summary"]
    assert found["verdict"] == "certified" and found["summary"]["sentence"].startswith("Certified: ")
    assert [level["scope"] for level in found["levels"]] == [["inner"], ["meta"], ["meta", "inner"]]
    for level in found["levels"]:
        assert set(level) >= FIELDS
    best = next(level for level in found["levels"] if level["scope"] == found["summary"]["scope"])
    assert best["verdict"] == "certified" and 0 < best["gain_lower"] <= best["estimate"]
    assert sum(level["delta"] for level in found["levels"]) == pytest.approx(0.05)
    half = len(
        Source([place / "log.parquet"], load_problem(place / "problem.yaml")).read(
            side="certify", split=load_split(place / "policy")
        )
    )
    assert all(level["units"] == half for level in found["levels"])


def load_split(folder: Path) -> Any:
    return Split.of(load_record(folder)["split"])


def test_text_says_the_verdict_first(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = ["--policy", place / "policy"]
    code, out, err = run("certify", place / "log.parquet", "--problem", place / "problem.yaml", *policy, capsys=capsys)
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0].startswith("Certified: ") and lines[1].startswith("What to do: ")
    assert "meta + inner" in out


def test_text_says_how_wrong_propensities_may_be(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = ["--policy", place / "policy"]
    _, found, _ = certify(place, *policy, capsys=capsys)
    _, out, _ = run("certify", place / "log.parquet", "--problem", place / "problem.yaml", *policy, capsys=capsys)
    said = [line for line in out.splitlines() if "every propensity there is wrong by a factor of up to" in line]
    survived = [level for level in found["levels"] if (level["sensitivity"]["gamma"] or 1) > 1]
    assert survived and len(said) == len(survived)
    for line, level in zip(said, survived, strict=True):
        assert line.strip().startswith(f"{' + '.join(level['scope'])}: ")
        assert line.endswith(f"up to {level['sensitivity']['gamma']:g}")


def test_one_scope_gets_all_of_the_risk(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found, _ = certify(place, "--policy", place / "policy", "--scope", "inner", "--delta", 0.01, capsys=capsys)
    assert code == 0
    (level,) = found["levels"]
    assert level["scope"] == ["inner"] and level["delta"] == pytest.approx(0.01)
    code, both, _ = certify(place, "--policy", place / "policy", "--scope", "inner", "--scope", "meta", capsys=capsys)
    assert [level["scope"] for level in both["levels"]] == [["meta", "inner"]]


def test_gain_only_leaves_values_out(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, found, _ = certify(place, "--policy", place / "policy", "--scope", "inner", "--gain-only", capsys=capsys)
    assert found["levels"][0]["value_lower"] is None and found["settings"]["what"] == ["gain"]


def test_columns_of_the_log(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two = ["--policy", "columns:new_meta,new_inner"]
    code, found, err = certify(place, *two, capsys=capsys, log="targets.parquet")
    assert code in (0, 3), err
    assert [level["method"] for level in found["levels"]] == ["plain", "none", "plain"]
    assert "identical" in found["levels"][1]["reason"]  # 'meta' of these columns is as it was logged
    one = ["--policy", "columns:new_inner", "--scope", "inner", "--ledger", tmp_path]
    code, alone, err = certify(place, *one, capsys=capsys, log="targets.parquet")
    assert code in (0, 3), err
    inner = next(level for level in found["levels"] if level["scope"] == ["inner"])
    assert alone["levels"][0]["estimate"] == inner["estimate"]
    code, _, err = certify(place, "--policy", "columns:new_inner", "--scope", "inner", capsys=capsys)
    assert code == 2 and "new_inner" in err
    code, _, err = certify(place, "--policy", "columns:new_inner", capsys=capsys, log="targets.parquet")
    assert code == 2 and "names 1 columns for 2 levels" in err


def test_a_callable_of_ones_own(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(place)
    code, found, err = certify(place, "--policy", "my_policies:bold", "--scope", "inner", capsys=capsys)
    assert code == 3, err
    assert found["verdict"] == "not yet" and found["summary"]["next_step"].startswith("Keep the incumbent.")
    for wrong in ("my_policies:number", "my_policies:nothing", "no_such_module:x", "no/such/folder"):
        code, _, err = certify(place, "--policy", wrong, capsys=capsys)
        assert code == 2 and err.startswith("aegis: ") and "Traceback" not in err, wrong


def test_several_candidates_share_the_risk(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    pair = ["--policy", place / "policy", "--policy", "my_policies:bold"]
    code, found, err = certify(place, *pair, "--scope", "inner", capsys=capsys)
    assert code == 0, err
    assert [level["delta"] for level in found["levels"]] == pytest.approx([0.025, 0.025])
    assert [level["verdict"] for level in found["levels"]] == ["certified", "not yet"]
    assert found["summary"]["candidate"] == str(place / "policy")
    code, _, err = certify(place, "--policy", place / "policy", "--policy", place / "policy", capsys=capsys)
    assert code == 2 and "each needs a name of its own" in err


def test_a_range_that_rewards_leave_is_refused(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = load_problem(place / "problem.yaml")
    save_problem(replace(problem, reward=replace(problem.reward, range=(0.0, 0.5))), tmp_path / "narrow.yaml")
    # policies hold the digest of their problem, so the candidate comes from columns
    code, out, err = run(
        "certify", place / "targets.parquet", "--problem", tmp_path / "narrow.yaml", "--policy", "columns:new_meta,new_inner",
        "--json", capsys=capsys,
    )  # fmt: skip
    assert code == 4, err
    found = json.loads(out)
    assert found["verdict"] == "refused" and "'R'" in found["summary"]["sentence"]
    assert all(level["verdict"] == "refused" and level["gain_lower"] is None for level in found["levels"])


BAD = {
    "no such scope": (["--scope", "innr"], "did you mean 'inner'"),
    "no such method": (["--method", "robst"], "did you mean 'robust'"),
    "delta of one": (["--delta", "1"], "delta is a risk"),
    "delta of nan": (["--delta", "nan"], "delta is a risk"),
    "empty out": (["--out", ""], "the path is empty"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_usage_is_told_in_a_line(place: Path, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    more, message = BAD[case]
    code, out, err = certify(place, "--policy", place / "policy", *more, capsys=capsys)
    assert code == 2 and out is None and message in err and "Traceback" not in err


def test_a_candidate_is_needed_and_the_log_must_be_there(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = certify(place, capsys=capsys)
    assert code == 2 and "--policy" in err
    code, _, err = certify(place, "--policy", place / "policy", capsys=capsys, log="nothing.parquet")
    assert code == 2 and "nothing.parquet" in err


def test_files_are_written(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, report = tmp_path / "new" / "certificate.json", tmp_path / "page.html"
    files = ["--out", out, "--report", report]
    code, found, err = certify(place, "--policy", place / "policy", "--scope", "inner", *files, capsys=capsys)
    assert code == 0, err
    assert load_certificate(out) == found
    page = report.read_text()
    assert page.lstrip().lower().startswith("<!doctype html") and "Certified" in page


@pytest.mark.parametrize(
    ("option", "name"), [("--out", "log.parquet"), ("--report", "problem.yaml"), ("--out", "policy/policy.json")]
)
def test_inputs_are_never_overwritten(option: str, name: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (place / name).read_bytes()
    log, problem = place / "log.parquet", place / "problem.yaml"
    code, _, error = run("certify", log, "--problem", problem, "--policy", place / "policy", option, place / name, capsys=capsys)
    assert code == 2 and f"{option} {place / name} would overwrite an input" in error.replace("\n", " ")
    assert (place / name).read_bytes() == before


def test_looks_go_to_the_named_ledger(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = ["--policy", place / "policy", "--scope", "inner", "--ledger", tmp_path / "looks"]
    for number in range(2):
        code, found, _ = certify(place, *policy, capsys=capsys)
        assert code == 0 and len(found["looks"]["earlier"]) == number
    (ledger,) = (tmp_path / "looks").glob("*.json")
    assert [look["verdict"] for look in json.loads(ledger.read_text())["looks"]] == ["certified", "certified"]
    (tmp_path / "file").write_text("")
    code, _, err = certify(place, *policy[:-1], tmp_path / "file" / "looks", capsys=capsys)
    assert code == 2 and "cannot write" in err


def test_fresh_is_not_believed_of_the_log_a_policy_was_learned_from(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found, _ = certify(place, "--policy", place / "policy", "--fresh", capsys=capsys)
    assert code == 4 and "learned from this very log" in found["summary"]["sentence"]


def test_a_typo_is_not_a_look(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    looks = ["--ledger", tmp_path / "looks"]
    for policy in (["--policy", "columns:new_meta,new_iner"], ["--policy", "columns:new_inner", "--scope", "iner"]):
        code, _, _ = certify(place, *policy, *looks, capsys=capsys, log="targets.parquet")
        assert code == 2
    code, found, _ = certify(place, "--policy", "columns:new_meta,new_inner", *looks, capsys=capsys, log="targets.parquet")
    assert code in (0, 3) and found["looks"]["earlier"] == []


def test_renamed_episodes_are_known_again(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pq.read_table(place / "log.parquet")
    name = load_problem(place / "problem.yaml").episode[0]
    ids = pa.array([f"again {value}" for value in table[name].to_pylist()])
    pq.write_table(table.set_column(table.column_names.index(name), name, ids), tmp_path / "log.parquet")
    for more in ([], ["--fresh"]):
        arguments = [
            "certify",
            tmp_path / "log.parquet",
            "--problem",
            place / "problem.yaml",
            "--policy",
            place / "policy",
            *more,
        ]
        code, out, _ = run(*arguments, "--json", capsys=capsys)
        assert code == 4 and "for example episode again " in json.loads(out)["summary"]["sentence"]


def test_a_policy_without_a_training_record_is_said_to_be_taken_as_fixed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "The candidate is assumed fixed before this log was seen: no training record shows it."
    given = ("--problem", place / "problem.yaml")
    _, out, _ = run(
        "certify", place / "targets.parquet", *given, "--policy", "columns:new_inner", "--scope", "inner", capsys=capsys
    )
    assert words in out
    _, out, _ = run("certify", place / "log.parquet", *given, "--policy", place / "policy", capsys=capsys)
    assert words not in out


def test_one_of_a_thing_is_one_of_a_thing(place: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pq.write_table(pq.read_table(place / "log.parquet").slice(0, 1), tmp_path / "one.parquet")
    _, out, _ = run("audit", tmp_path / "one.parquet", "--problem", place / "problem.yaml", capsys=capsys)
    assert "1 episode, " in out and "the log has 1 independent unit (episodes)" in " ".join(out.replace("│", " ").split())
