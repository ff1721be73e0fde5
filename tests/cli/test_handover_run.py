"""What one does with a kept run: look at it again, certify and use its policies, give levels back, and read what it says then."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typed import run as aegis

from aegis.cli import handover_run
from aegis.cli.commands import handover
from aegis.cli.config import HandoverRequest
from aegis.cli.handover_run import prepare_run
from aegis.cli.live_view import LiveView
from aegis.handover import Handover

pytestmark = pytest.mark.usefixtures("coarse_oracle")
SMALL: dict[str, Any] = {"f_a": 2.0, "inner_steps": 3}
WORLD: tuple[object, ...] = ("--set", "f_a=2.0", "--set", "inner_steps=3")
QUICK: tuple[object, ...] = ("handover", *WORLD, "--host", "greedy", "--caps", "2", "--gate-set", "upgrades=false")
WHO = ("--who", "ann", "--why", "not convinced")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished run of 60 episodes that has handed over 'inner'."""
    place = tmp_path_factory.mktemp("after") / "run"
    asked = HandoverRequest(
        settings=SMALL, host="greedy", episodes=60, gate_settings={"caps": [2.0], "upgrades": False}, out=place
    )
    handover.run_handover(asked, True)
    return place


@pytest.fixture
def kept(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def content(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}


def test_fewer_episodes_change_nothing_and_say_so(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (kept / "report.html").unlink()
    before = content(kept)
    code, out, err = aegis(*QUICK, "--episodes", 20, "--out", kept, capsys=capsys)
    assert code == 0, err
    assert f"The run in {kept} has 60 episodes already, more than the 20 asked for: none was run." in " ".join(out.split())
    assert "Handed over: 'inner'" in out and content(kept) == before
    page = kept.parent / "page.html"
    code, out, err = aegis(*QUICK, "--episodes", 20, "--out", kept, "--report", page, "--json", capsys=capsys)
    assert code == 0 and "60 episodes already" in json.loads(out)["note"] and page.exists(), err


def test_a_mistyped_word_changes_nothing(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = content(kept)
    for word in ("revrt:inner", "revert:iner", "revert", "resume"):
        code, _, err = aegis(*QUICK, "--episodes", 80, "--out", kept, "--operator", word, *WHO, capsys=capsys)
        assert code == 2 and "Traceback" not in err
    assert content(kept) == before


def test_policies_are_certified_on_other_logs_and_refused_on_their_own(
    kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = ("--policy", kept / "policies" / "inner", "--json")
    code, out, err = aegis("certify", kept / "log.parquet", "--problem", kept / "problem.yaml", *policy, capsys=capsys)
    assert code == 4 and "was learned from" in out, err
    code, _, err = aegis(
        *("simulate", "--world", "additive", *WORLD, "--legacy", "uniform", "--episodes", 120, "--seed", 77),
        *("--out", tmp_path / "other"),
        capsys=capsys,
    )
    assert code == 0, err
    other = tmp_path / "other"
    code, out, err = aegis("certify", other / "log.parquet", "--problem", other / "problem.yaml", *policy, capsys=capsys)
    assert code == 0 and json.loads(out)["verdict"] == "certified", err


def test_policies_are_hosts_of_other_runs_and_not_of_the_same_episodes(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = ("handover", *WORLD, "--host", kept / "policies" / "inner", "--episodes", 30, "--json")
    code, out, err = aegis(*own, "--seed", 2, capsys=capsys)
    assert code == 0 and json.loads(out)["episodes"] == 30, err
    code, _, err = aegis(*own, "--seed", 1, capsys=capsys)
    assert code == 2 and "was learned from episodes that --seed 1 runs again" in err


def test_a_level_that_is_given_back_is_told_as_it_is(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = aegis(*QUICK, "--episodes", 75, "--out", kept, "--operator", "revert:inner", *WHO, capsys=capsys)
    assert code == 0, err
    words = " ".join(out.split())
    assert words.startswith("Given back: after 75 episodes the legacy controls every level again; the agent has had 'inner'")
    assert "who acts now (the legacy)" in words
    found = json.loads((kept / "summary.json").read_text())
    since, until = found["levels"][0]["held"][0]
    assert until == 60 and not (kept / "policies" / "inner").exists()
    page = (kept / "report.html").read_text()
    assert f"again since episode 61 (the agent had it from {since} to 60)" in page and "since control changed last" in page
    row = re.search(r"who acts now \(the legacy\) │ +([-\d.]+) │ +([-\d.]+)", words)
    assert row is not None and float(row[2]) == pytest.approx(found["rewards"]["now"], abs=1e-4)


def test_what_exploration_earned_is_not_called_the_legacy_s(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = aegis(*QUICK, "--episodes", 60, "--gate-set", "explore=0.2", capsys=capsys)
    assert code == 0, err
    rows = {row[0]: row[1:] for row in (re.split(r" *│ *", line.strip("│ ")) for line in out.splitlines() if "│" in line)}
    code, out, err = aegis(*QUICK, "--episodes", 60, "--gate-set", "explore=0.2", "--json", capsys=capsys)
    found = json.loads(out)
    truth, earned = ({who: f"{value:.4f}" for who, value in found[name].items() if value} for name in ("values", "rewards"))
    assert found["levels"][0]["control"] == "agent" and found["levels"][1]["control"] == "legacy"
    assert rows["legacy"] == [truth["legacy"], "-"] and rows["who acts now"] == [truth["agent"], "-"]
    assert rows["legacy, with exploration"] == ["-", earned["before_first_flip"]]
    assert rows["who acts now, with exploration"] == ["-", earned["now"]] and rows["best possible"] == [truth["oracle"], "-"]


def test_an_approved_flip_does_not_wait_any_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    usual = (*QUICK, "--mode", "approve", "--out", tmp_path / "run")
    assert aegis(*usual, "--episodes", 60, capsys=capsys)[0] == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Approve the certified flip of \u2018inner\u2019" in page and "certified, waits for an operator" in page
    code, out, err = aegis(*usual, "--episodes", 62, "--operator", "approve:inner", *WHO, capsys=capsys)
    assert code == 0, err
    assert "Approve the certified flip" not in (tmp_path / "run" / "report.html").read_text() and "Waits:" not in out


def test_what_was_held_back_is_compared_in_plain_averages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    code, said, err = aegis(*QUICK, "--gate-set", "holdback=0.3", "--episodes", 80, "--out", out, capsys=capsys)
    assert code == 0, err
    rewards = json.loads((out / "summary.json").read_text())["rewards"]
    words = " ".join(said.split())
    assert f"in {rewards['held_back_episodes']} episodes, the policies in control" in words
    assert "Plain averages, not a certificate." in words
    shown = re.search(r"a difference of ([-+][\d.]+)\.", words)
    assert shown is not None and float(shown[1]) == pytest.approx(rewards["beside"] - rewards["held_back"], rel=0.01)
    page = (out / "report.html").read_text()
    assert "Held back for comparison" in page
    assert "Held back for comparison" not in aegis(*QUICK, "--episodes", 20, capsys=capsys)[1]


def test_a_pause_by_an_operator_is_exit_code_4(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = aegis(*QUICK, "--episodes", 60, "--out", kept, "--operator", "pause", *WHO, capsys=capsys)
    assert code == 4 and "The gate is paused: by ann: not convinced." in out
    helps = " ".join(aegis("handover", "--help", capsys=capsys)[1].split())
    assert "4 the gate is paused: an assumption failed, or an operator paused it" in helps
    for word in ("approve:LEVEL", "revert:LEVEL", "pause", "resume", "live", "ask", "shadow"):
        assert word in helps


# ---- while it runs -----------------------------------------------------------------------------------------------------------


def lines(watched: LiveView, until: int) -> list[str]:
    """Return the line after every episode."""
    found = []
    for episode in range(1, until + 1):
        watched.gate.advance(episode, watched.add)
        found.append(watched.line())
    return found


def test_a_certified_level_says_that_it_waits() -> None:
    made = prepare_run(
        HandoverRequest(settings=SMALL, host="greedy", gate_settings={"caps": [2.0], "upgrades": False, "patience": 1.5})
    )
    found = lines(LiveView(made.gate, True, 60), 60)
    waits = [line for line in found if "certified, waits for a larger cap (patience)" in line]
    assert waits and all("inner: legacy, gain at least +" in line for line in waits)
    assert "waits" not in found[15] and "waits for a larger cap" not in found[-1]


def test_numbers_of_the_published_gate_are_not_called_gains() -> None:
    made = prepare_run(HandoverRequest(settings=SMALL, gate="published", gate_settings={"stride": 10}))
    found = LiveView(made.gate, made.certificate, 30)
    text = lines(found, 30)[-1]
    assert "gain" not in text and re.search(r"inner: legacy, estimate [-+][\d.]+ \(needs at least 0\), not a certificate", text)


def test_the_time_left_is_that_of_what_is_left(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr("aegis.cli.live_view.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("aegis.cli.live_view.EVERY", 0.0)
    restore = Handover.restore

    def slow(*args: Any) -> None:
        restore(*args)
        clock[0] += 1000.0  # a long time to take a run up

    monkeypatch.setattr(Handover, "restore", slow)
    code, _, err = aegis(*QUICK, "--episodes", 100, "--out", kept, capsys=capsys)
    left = re.findall(r"handover: (\d+)/100, about (\d+) s left", err)
    assert code == 0 and left and int(left[0][0]) > 60 and all(seconds == "0" for _, seconds in left)


def test_stopped_while_it_starts_it_says_what_is_kept(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(handover_run, "prepare_run", stop)
    code, _, err = aegis(*QUICK, "--episodes", 100, "--out", kept, capsys=capsys)
    assert code == 130 and f"60 episodes are kept in {kept}, and the same command goes on from there" in err


def test_a_host_starts_from_an_earlier_log_and_not_from_the_future(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ("--out", tmp_path / "log", "--json")
    assert (
        aegis(
            "simulate", "--world", "additive", *WORLD, "--legacy", "uniform", "--episodes", 30, "--seed", 5, *out, capsys=capsys
        )[0]
        == 0
    )
    own = (
        "handover",
        *WORLD,
        "--host",
        "pessimistic",
        "--episodes",
        30,
        "--json",
        "--host-log",
        tmp_path / "log" / "log.parquet",
    )
    code, said, err = aegis(*own, "--seed", 2, capsys=capsys)
    assert code == 0 and json.loads(said)["host log"].endswith("log.parquet"), err
    code, _, err = aegis(*own, "--seed", 5, capsys=capsys)
    assert code == 2 and "holds episodes that --seed 5 runs again" in err


def test_an_agent_of_the_table_runs_behind_the_gates_that_ask_a_host(capsys: pytest.CaptureFixture[str]) -> None:
    own = ("handover", *WORLD, "--host", "aegis_handover", "--episodes", 20, "--json")
    for gate in ("challenger", "published"):
        code, said, err = aegis(*own, "--gate", gate, capsys=capsys)
        assert code == 0 and json.loads(said)["host"] == "aegis_handover", err
    code, _, err = aegis(*own, "--gate", "pac-bayes", capsys=capsys)
    assert code == 2 and "belief of its own, and asks no host" in err
