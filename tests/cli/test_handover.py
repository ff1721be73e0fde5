"""handover as a user types it: what it prints, its files, its modes, its gates, plants of one's own, and bad input."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typed import run as aegis

from aegis.cli.config import HandoverRequest
from aegis.cli.handover_run import load_host, prepare_run
from aegis.errors import AegisError
from aegis.handover import HOSTS, read_events, replay_events
from aegis.logs import Source
from aegis.policies import load_record, path_full
from aegis.problem import load_problem
from aegis.worlds import make_world, oracle_value, true_value

pytestmark = pytest.mark.usefixtures("coarse_oracle")
VALIDATE = (Path(__file__).parents[2] / "docs" / "validate.md").read_text(encoding="utf-8")

SMALL: dict[str, Any] = {"f_a": 2.0, "inner_steps": 3}

QUICK: tuple[object, ...] = (
    *("--set", "f_a=2.0", "--set", "inner_steps=3", "--host", "greedy", "--caps", "2"),
    *("--gate-set", "upgrades=false", "--episodes", 60, "--seed", 1),
)


def result(*arguments: object, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return what the quick run, with some options, prints as JSON."""
    code, out, err = aegis("handover", *QUICK, *arguments, "--json", capsys=capsys)
    assert code == 0, err
    assert err == ""
    found: dict[str, Any] = json.loads(out)
    return found


def test_verdict_table_flips_ledger_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = aegis("handover", *QUICK, "--out", tmp_path / "run", capsys=capsys)
    assert code == 0
    words = " ".join(out.split())
    flip = re.search(
        r"Handed over: 'inner' since episode (\d+) \(a gain of at least [\d.]+ over [^)]+\); the legacy keeps", words
    )
    assert flip is not None
    assert "Probability of any wrong handover: at most 0.05" in words
    for part in ("legacy", "who acts now", "best possible", "Flips", "W = 2", "Risk spent: 0.0", "of 0.05 by", "report.html"):
        assert part in words
    # Without a terminal flips are told as they happen, and where the run stands in the end.
    assert f"Level 'inner' is handed over to the agent from episode {flip[1]} on (W = 2; certified gain at least +" in err
    assert "handover: 60/60, about 0 s left  reward" in err
    for name in ("events.jsonl", "log.parquet", "problem.yaml", "summary.json", "settings.json", "report.html", "policies/inner"):
        assert (tmp_path / "run" / name).exists()
    source = Source(tmp_path / "run" / "log.parquet", load_problem(tmp_path / "run" / "problem.yaml"))
    assert sum(len(batch) for batch in source.batches()) == 60


def test_the_json_has_flips_levels_values_and_ledger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = result("--out", tmp_path / "run", capsys=capsys)
    flips = [event for event in found["events"] if event["kind"] == "flip"]
    assert [flip["level"] for flip in flips] == ["inner"]
    flip = flips[0]
    assert flip["action"] == "handover" and flip["cap"] == 2.0 and flip["since"] == flip["episode"] + 1
    assert [(level["level"], level["control"], level["since"]) for level in found["levels"]] == [
        ("inner", "agent", flip["since"]),
        ("meta", "legacy", None),
    ]
    world = make_world("additive", **SMALL)
    assert found["values"]["legacy"] == pytest.approx(true_value(world, world.legacy("uniform")))
    assert found["values"]["oracle"] == pytest.approx(oracle_value(world))
    gain = found["values"]["agent"] - found["values"]["legacy"]
    assert gain >= flip["gain_lower"] > 0
    assert found["ledger"]["spent"] < found["ledger"]["delta"] == 0.05
    assert found["certificate"] is True and found["gate"] == "challenger" and found["host"] == "greedy"
    assert found["gate_settings"]["caps"] == [2.0] and found["gate_settings"]["upgrades"] is False
    state = replay_events(read_events(Path(found["files"]["events"])))
    assert state.episode == found["episodes"] == 60 and state.spent == found["ledger"]["spent"]
    assert Path(found["report"]).read_text().startswith("<!DOCTYPE html>")


def test_without_a_folder_nothing_is_written_but_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert result(capsys=capsys)["files"] == {}
    assert list(tmp_path.iterdir()) == []
    found = result("--report", "page.html", capsys=capsys)
    assert found["report"] == "page.html" and [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_shadow_never_flips_and_approval_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    for mode, why in (("shadow", "in shadow"), ("approve", "has to approve")):
        found = result("--mode", mode, capsys=capsys)
        assert not [event for event in found["events"] if event["kind"] == "flip"]
        assert {level["control"] for level in found["levels"]} == {"legacy"}
        assert [item["level"] for item in found["waiting"]] == ["inner"] and why in found["waiting"][0]["why"]
    _, out, err = aegis("handover", *QUICK, "--mode", "approve", capsys=capsys)
    assert "Waits: 'inner'" in out and "waits: an operator has to approve it" in err


def test_margins_keep_a_level_with_the_legacy(capsys: pytest.CaptureFixture[str]) -> None:
    assert result("--margin", "1.9", capsys=capsys)["levels"][0]["control"] == "legacy"
    assert result("--margin", "5", "--margin", "inner=0.01", capsys=capsys)["levels"][0]["control"] == "agent"


def test_staged_and_held_back_episodes(capsys: pytest.CaptureFixture[str]) -> None:
    found = result("--gate-set", "holdback=0.3", capsys=capsys)
    assert found["rewards"]["held_back"] is not None
    staged = result("--gate-set", "share=0.5", "--gate-set", "stage=20", capsys=capsys)
    assert staged["gate_settings"]["stage"] == 20 and staged["levels"][0]["control"] == "agent"


def test_the_published_gate_is_called_what_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["handover", *QUICK[:6], "--gate", "published", "--episodes", 60, "--out", tmp_path / "run"]
    code, out, _ = aegis(*arguments, capsys=capsys)
    assert code == 0
    words = " ".join(out.split())
    assert "The gate 'published' is not a certificate" in words
    assert "Probability of any wrong handover" not in words and "certified" not in words
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Not a certificate" in page and "Ledger of the risk" not in page
    code, out, _ = aegis(*arguments, "--json", capsys=capsys)
    assert json.loads(out)["certificate"] is False and json.loads(out)["gated"] is True
    opened = (tmp_path / "run" / "events.jsonl").read_text().splitlines()[0]
    assert "published (not a certificate) gate" in json.loads(opened)["problem"]
    assert "Probability of any wrong" not in (tmp_path / "run" / "summary.json").read_text()


def test_flips_of_the_published_gate_are_marked_in_every_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, settings = tmp_path / "run", ("--gate-set", "stride=20", "--margin", "inner=-100")
    arguments = ["handover", *QUICK[:6], "--gate", "published", *settings, "--episodes", 41, "--out", folder]
    code, out, _ = aegis(*arguments, "--json", capsys=capsys)
    assert code == 0
    flips = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines() if '"flip"' in line]
    assert flips and all(flip["certificate"] is False for flip in flips)
    for plain in (json.loads(out), json.loads((folder / "summary.json").read_text())):
        assert plain["certificate"] is False
        (shown,) = [event for event in plain["events"] if event["kind"] == "flip"]
        assert shown["certificate"] is False and "difference" in shown and not {"gain_lower", "value_lower"} & set(shown)
    assert load_record(folder / "policies" / "inner")["certificate"] is False
    _, words, _ = aegis(*arguments, capsys=capsys)  # taken up from its events
    assert "by an estimate with nothing subtracted for chance" in " ".join(words.split())


def test_an_agent_without_a_gate_is_called_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["handover", *QUICK[:6], "--gate", "published", "--gate-set", "progressive_handover=false", "--episodes", 20]
    code, out, err = aegis(*arguments, "--out", tmp_path / "run", capsys=capsys)
    assert code == 0
    words = " ".join(out.split())
    assert words.startswith("Not a certificate, and no gate: the agent acts from the start, at 'inner' and 'meta'.")
    assert not re.search(r"Flips|handed over|hand over|difference", words + err)
    (legacy,) = [line for line in out.splitlines() if line.startswith("│ legacy")]
    assert re.fullmatch(r"│ legacy +│ +[-\d.]+ │ +- │", legacy)  # it has acted in no episode
    plain = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert plain["gated"] is False and plain["events"] == []
    assert [(level["first_flip"], level["difference"]) for level in plain["levels"]] == [(None, None)] * 2


@pytest.fixture
def greenhouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    blocks = re.findall(r"```python\n(.*?)```", VALIDATE, flags=re.S)
    more = (
        "\nclass Thirsty:\n    def propose(self, history, levels, seed):\n        return {level: Wants() for level in levels}\n"
        "\nclass Wants:\n    def predict(self, level, batch):\n"
        "        dry = batch.levels[level].context['dryness']\n"
        "        return -np.abs(2 * dry[:, None] - np.arange(3.0))\n"
        "\ndef wise(level, rows):\n    return np.eye(3)[np.rint(2 * np.asarray(rows['dryness'])).astype(int)]\n"
    )
    (tmp_path / "greenhouse.py").write_text(blocks[1] + more)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "greenhouse", raising=False)
    return tmp_path


@pytest.mark.parametrize("host", ["greedy", "greenhouse:wise"])
@pytest.mark.usefixtures("greenhouse")
def test_a_plant_and_a_host_of_ones_own(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    own = ["--plant", "greenhouse:plant", "--legacy", "greenhouse:legacy", "--host", host, "--episodes", 150]
    code, out, err = aegis("handover", *own, "--gate-set", "upgrades=false", "--json", capsys=capsys)
    assert code == 0, err
    found = json.loads(out)
    assert found["values"] is None and "world" not in found and found["plant"] == "greenhouse:plant"
    assert found["levels"][0]["control"] == "agent"
    assert found["rewards"]["after_last_flip"] > found["rewards"]["before_first_flip"]


def test_the_table_of_a_plant_of_ones_own_has_no_truth(greenhouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = ["--plant", "greenhouse:plant", "--legacy", "greenhouse:legacy", "--host", "greedy", "--episodes", 30]
    code, out, _ = aegis("handover", *own, "--report", greenhouse / "page.html", capsys=capsys)
    assert code == 0 and "best possible" not in out
    assert "This plant is simulated" not in (greenhouse / "page.html").read_text()


BAD = {
    "unknown world": (["--world", "aditive"], "did you mean 'additive'"),
    "unknown host": (["--host", "nct"], "did you mean 'ncts'"),
    "host without its object": (["--host", "external"], "--host module:object"),
    "hosts that there are": (
        ["--host", "nobody"],
        f"allowed: {', '.join(name for name in HOSTS if name != 'external')}, or your own module:object or policy folder",
    ),
    "an agent that is no host": (["--host", "joint_cts"], "agent 'joint_cts' is no host: a gate hands over level by level"),
    "a log for a host that takes none": (["--host-log", "log.parquet"], "is what host 'pessimistic' starts from; host 'ncts'"),
    "host that does not exist": (["--host", "nowhere:learner"], "cannot import the module 'nowhere'"),
    "unknown gate": (["--gate", "chalenger"], "did you mean 'challenger'"),
    "unknown mode": (["--mode", "aprove"], "'mode' should be 'live', 'approve' or 'shadow'"),
    "unknown gate setting": (["--gate-set", "patients=2"], "did you mean 'patience'"),
    "not a gate setting": (["--gate-set", "patience"], "--gate-set takes KEY=VALUE"),
    "a setting given twice": (["--delta", "0.1", "--gate-set", "delta=0.2"], "'delta' of the gate is given twice"),
    "no risk": (["--delta", "0"], "'delta' should be greater than 0"),
    "a cap of one": (["--caps", "1,2"], "a cap of 1 is the legacy itself"),
    "caps that are no numbers": (["--caps", "two"], "--caps takes numbers"),
    "impatience": (["--patience", "0.5"], "'patience' should be greater than or equal to 1"),
    "a margin that is no number": (["--margin", "inner=much"], "--margin takes NUMBER or LEVEL=NUMBER"),
    "a margin without its level": (["--margin", "=1"], "--margin takes NUMBER or LEVEL=NUMBER"),
    "a margin twice": (["--margin", "inner=1", "--margin", "inner=2"], "given twice for level 'inner'"),
    "a margin of an unknown level": (["--margin", "iner=1"], "did you mean 'inner'"),
    "unknown level": (["--gate-set", "levels=[iner]"], "no level 'iner'"),
    "plant without legacy": (["--plant", "greenhouse:plant"], "needs a legacy of your own"),
    "plant and world": (["--plant", "a:b", "--world", "additive", "--legacy", "a:c"], "found both"),
    "plant with settings": (["--plant", "a:b", "--set", "f_a=1", "--legacy", "a:c"], "a plant of your own has none"),
    "preset as a setting": (["--set", "preset=stress"], "--preset stress"),
    "no episodes": (["--episodes", "0"], "--episodes"),
    "no such file": (["--config", "missing.yaml"], "cannot read missing.yaml"),
    "a share without a stage": (["--gate-set", "share=0.5"], "'share' of 0.5"),
    "a host for a gate that asks none": (["--gate", "pac-bayes", "--host", "greedy"], "asks no host; found the host 'greedy'"),
    "caps for a gate without": (["--gate", "published", "--caps", "2"], "gate: unknown key 'caps'; allowed here: delta, "),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_a_clear_error_and_writes_nothing(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, expected = BAD[what]
    code, out, err = aegis("handover", *arguments, "--out", "run", capsys=capsys)
    assert code == 2 and expected in err
    assert "Traceback" not in err + out
    assert list(tmp_path.iterdir()) == []


def test_another_run_in_the_folder_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result("--episodes", 20, "--out", tmp_path / "run", capsys=capsys)
    before = (tmp_path / "run" / "events.jsonl").read_bytes()
    for change in (("--seed", 2), ("--delta", 0.1), ("--margin", "1"), ("--host", "ncts")):
        code, _, err = aegis("handover", *QUICK, "--episodes", 20, *change, "--out", tmp_path / "run", capsys=capsys)
        assert code == 2 and "holds a run with other settings" in err
    assert (tmp_path / "run" / "events.jsonl").read_bytes() == before


def test_margins_do_not_change_the_plant() -> None:
    plain, wide = (prepare_run(HandoverRequest(settings=SMALL, margins=margins)) for margins in ({}, {"": 0.5}))
    one, other = (made.gate.plant.episodes(0, 5, made.legacy, 3) for made in (plain, wide))
    assert np.array_equal(one.reward, other.reward)
    assert [level.margin for level in wide.gate.problem.levels] == [0.5, 0.5]
    assert np.array_equal(path_full(plain.legacy, "inner", one), path_full(wide.legacy, "inner", one))


def test_an_operator_approves_what_waits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    usual = (
        "handover",
        "--set",
        "inner_steps=3",
        "--host",
        "greedy",
        "--caps",
        "2",
        "--gate-set",
        "levels=[inner]",
        "--mode",
        "approve",
    )
    out = ("--out", tmp_path / "run", "--json")
    code, said, err = aegis(*usual, "--episodes", 90, *out, capsys=capsys)
    assert code == 0 and json.loads(said)["levels"][0]["control"] == "legacy", err
    who = ("--who", "ann", "--why", "the trend holds")
    code, said, err = aegis(*usual, "--episodes", 95, *out, "--operator", "approve:inner", *who, capsys=capsys)
    assert code == 0, err
    found = json.loads(said)
    assert found["levels"][0]["control"] == "agent"
    assert [(e["who"], e["action"]) for e in found["events"] if e["kind"] == "operator"] == [("ann", "approve")]
    code, said, err = aegis(*usual, "--episodes", 96, *out, "--operator", "revert:inner", *who, capsys=capsys)
    assert code == 0 and json.loads(said)["levels"][0]["control"] == "legacy", err


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--operator", "approve:inner"), "--who"),
        (("--who", "ann"), "--operator"),
        (("--operator", "pause", "--who", "ann", "--why", "x"), "--out"),
        (("--margin", "-40"), "margin"),
    ],
)
def test_words_that_do_not_fit(more: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = aegis("handover", "--episodes", 3, *more, capsys=capsys)
    assert code == 2 and says in err


def test_a_folder_of_the_same_name_does_not_stand_in_the_way_of_a_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "greedy").mkdir()
    problem = make_world("additive").problem
    assert isinstance(load_host("greedy", problem), type(HOSTS["greedy"]()))
    with pytest.raises(AegisError, match="there is no policy in"):
        load_host("./greedy", problem)
