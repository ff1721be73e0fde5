"""handover as a user types it: what it prints, its files, its modes, its gates, plants of one's own, and bad input."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typed import run as aegis

from aegis.cli.config import HandoverRequest
from aegis.cli.handover_run import load_host, prepare_run
from aegis.cli.live_view import LiveView, watch_run
from aegis.errors import AegisError
from aegis.handover import HOSTS, read_events, replay_events
from aegis.logs import Source
from aegis.policies import path_full
from aegis.problem import load_problem
from aegis.worlds import make_world, oracle_value, true_value

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


def test_a_file_says_the_same_as_options_which_come_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(
        "world: additive\nset: {f_a: 2.0, inner_steps: 3}\nhost: greedy\ncaps: [2]\n"
        "gate-set:\n  upgrades: false\nepisodes: 60\nseed: 1\nmargin: {meta: 0.1}\ndelta: 0.05\npreset: null\n"
    )
    typed = result("--margin", "meta=0.1", "--out", tmp_path / "typed", capsys=capsys)
    code, out, err = aegis("handover", "--config", config, "--out", tmp_path / "read", "--json", capsys=capsys)
    assert code == 0, err
    assert json.loads(out)["events"] == typed["events"]
    assert (tmp_path / "typed" / "events.jsonl").read_bytes() == (tmp_path / "read" / "events.jsonl").read_bytes()
    over = ("--episodes", 30, "--delta", 0.1, "--set", "f_a=1.5", "--gate-set", "generations=1")
    code, out, _ = aegis("handover", "--config", config, *over, "--json", capsys=capsys)
    found = json.loads(out)
    assert code == 0 and found["episodes"] == 30
    assert found["settings"] == {"f_a": 1.5, "inner_steps": 3}
    assert (found["gate_settings"]["delta"], found["gate_settings"]["generations"]) == (0.1, 1)
    assert found["gate_settings"]["caps"] == [2.0]


def test_shadow_never_flips_and_approval_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    for mode, why in (("shadow", "in shadow"), ("approve", "has to approve")):
        found = result("--mode", mode, capsys=capsys)
        assert not [event for event in found["events"] if event["kind"] == "flip"]
        assert {level["control"] for level in found["levels"]} == {"legacy"}
        assert [item["level"] for item in found["waiting"]] == ["inner"] and why in found["waiting"][0]["why"]
    _, out, err = aegis("handover", *QUICK, "--mode", "approve", capsys=capsys)
    assert "Waits: 'inner'" in out and "waits: an operator has to approve it" in err


def test_margins_keep_a_level_with_the_legacy(capsys: pytest.CaptureFixture[str]) -> None:
    for margin, handed in (("inner=1.9", False), ("1.9", False), ("meta=1.9", True)):
        found = result("--margin", margin, capsys=capsys)
        assert (found["levels"][0]["control"] == "agent") is handed
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
    assert json.loads(out)["certificate"] is False
    assert "Probability of any wrong" not in (tmp_path / "run" / "summary.json").read_text()


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


# ---- while it runs -----------------------------------------------------------------------------------------------------------


def watched() -> LiveView:
    settings = {"caps": [2.0], "upgrades": False}
    made = prepare_run(HandoverRequest(settings=SMALL, host="greedy", episodes=60, gate_settings=settings))
    return LiveView(made.gate, True, 60)


def drawn(found: LiveView) -> str:
    screen = Console(record=True, width=120, file=open("/dev/null", "w"))  # noqa: SIM115
    screen.print(found.screen())
    screen.file.close()
    return screen.export_text()


def test_the_screen_shows_control_bounds_evidence_reward_and_flips() -> None:
    found = watched()
    assert "no episode yet" in drawn(found)
    found.gate.advance(30, found.add)
    early = drawn(found)
    assert re.search(r"inner\s+│ legacy\s+│ W = 2\s+│\s+[-+][\d.]+ \(0\) │ [█░]{10} -?[\d.]+ of \d\.\d", early)
    assert "agent since" not in early and "reward  legacy" in early
    found.gate.advance(60, found.add)
    late = drawn(found)
    since = found.gate.state.at("inner").since
    assert f"agent since {since}, +" in late and f"episode {since - 1}: Level 'inner' is handed over" in late
    before = np.mean([found.measure.value(value) for value in found.gate.rewards[: since - 1]])
    assert f"legacy {before:.4g}   last 50" in late


def test_the_screen_of_a_gate_that_looks_from_time_to_time() -> None:
    made = prepare_run(HandoverRequest(settings=SMALL, gate="published", episodes=60))
    found = LiveView(made.gate, made.certificate, 60)
    found.gate.advance(60, found.add)
    text = drawn(found)
    assert "not a certificate" in text and re.search(r"inner\s+│ \S+.*│ (no cap|-)\s", text)


def test_quiet_runs_say_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    found = watched()
    with watch_run(found.gate, 60, quiet=True) as watch:
        found.gate.advance(60, watch)
    assert capsys.readouterr() == ("", "")


# ---- bad input ---------------------------------------------------------------------------------------------------------------

BAD = {
    "unknown world": (["--world", "aditive"], "did you mean 'additive'"),
    "unknown host": (["--host", "nct"], "did you mean 'ncts'"),
    "host without its object": (["--host", "external"], "--host module:object"),
    "hosts that there are": (
        ["--host", "nobody"],
        "allowed: greedy, ncts, ucb, ids, pb, or your own module:object or policy folder",
    ),
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
    "caps for a gate without": (["--gate", "published", "--caps", "2"], "unknown setting of a published gate 'caps'"),
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


FILES = {
    "unknown key": (
        "world: additive\nepsiodes: 3\n",
        "run.yaml, line 2: unknown key 'epsiodes' (did you mean 'episodes'?); allowed",
    ),
    "text for a number": ("# a run\n\nepisodes: many\n", "run.yaml, line 3: 'episodes' is a whole number, found 'many'"),
    "half an episode": ("episodes: 3.5\n", "line 1: 'episodes' is a whole number, found 3.5"),
    "no episodes": ("episodes: 0\n", "line 1: 'episodes' is a whole number from 1, found 0"),
    "truth for a number": ("delta: true\n", "line 1: 'delta' is a number, found True"),
    "one cap": ("caps: 2\n", "line 1: 'caps' is a list, found 2"),
    "a table that is none": ("set: f_a=2\n", "line 1: 'set' is a mapping"),
    "a margin that is none": ("margin: {inner: much}\n", "line 1: 'margin' is a number or a mapping"),
    "a key twice": ("seed: 1\nseed: 2\n", "the key 'seed' is given twice"),
    "a list": ("- 1\n", "a mapping of options to values is expected"),
    "not YAML": ("world: [\n", "not valid YAML"),
    "twice by different names": ("delta: 0.1\ngate-set: {delta: 0.2}\n", "'delta' of the gate is given twice (run.yaml)"),
    "unknown gate setting": ("gate-set: {patients: 2}\n", "did you mean 'patience'"),
    "unknown gate setting, nested": (
        "seed: 1\ngate-set:\n  first: 20\n  generation: 2\n",
        "run.yaml, line 4: unknown key 'generation' in 'gate-set' (did you mean 'generations'?); allowed: delta",
    ),
    "unknown setting of a world": ("set: {f_a: 1, f_b: 3}\n", "run.yaml, line 1: unknown key 'f_b' in 'set' (did you mean"),
    "a setting of another gate": ("gate: published\ngate-set: {caps: [2]}\n", "run.yaml, line 2: unknown key 'caps'"),
    "a margin of an unknown level": ("margin:\n  iner: 1\n", "unknown level of --margin (run.yaml, line 2) 'iner'"),
    "empty text": ("world: ''\n", "line 1: 'world' is a text"),
}


@pytest.mark.parametrize("what", FILES)
def test_a_bad_file_is_named_with_the_line(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text, expected = FILES[what]
    Path("run.yaml").write_text(text)
    code, out, err = aegis("handover", "--config", "run.yaml", "--out", "run", capsys=capsys)
    assert code == 2 and expected in err
    assert "Traceback" not in err + out and not Path("run").exists()


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
