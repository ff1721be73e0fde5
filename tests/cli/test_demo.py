"""The demo tells its story, and a second demo in the same folder works."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typed import run as aegis

from aegis.cli.commands import demo
from aegis.cli.commands.demo import discard_run, run_counter_example
from aegis.cli.output import console
from aegis.handover import Handover

pytestmark = pytest.mark.usefixtures("coarse_oracle")


def test_the_demo_tells_the_story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(demo, "COUNTER_EPISODES", 60)
    code, out, err = aegis("demo", "--episodes", 60, "--out", tmp_path, capsys=capsys)
    assert code == 0
    words = " ".join(out.split())
    for part in (
        "$ aegis handover",
        "Handed over: 'inner' since episode",
        "best possible",
        "Why a certificate",
        "not a certificate",
        "$ aegis certify",
        "Certified: with probability at least 95 %",
    ):
        assert part in words
    assert words.endswith(
        "Next, with a log of your own: aegis init LOG --out problem.yaml; then audit, learn and certify as above."
    )
    assert "Level 'inner' is handed over to the agent" in err
    assert (tmp_path / "handover-seed-1-episodes-60" / "report.html").exists() and (tmp_path / "certify" / "report.html").exists()


def test_a_finished_demo_is_run_again_and_anything_else_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    advance, begun = Handover.advance, []

    def counted(self: Handover, *given: Any) -> None:
        begun.append(self.state.episode)
        advance(self, *given)

    monkeypatch.setattr(Handover, "advance", counted)
    monkeypatch.setattr(demo, "run_certificate_part", lambda *_: {"verdict": "certified"})
    monkeypatch.setattr(demo, "run_counter_example", lambda *_: {"legacy_value": 1.0})
    arguments = ["demo", "--episodes", 20, "--out", tmp_path, "--json"]
    code, first, err = aegis(*arguments, capsys=capsys)
    assert (code, begun) == (0, [0]), err
    code, second, _ = aegis(*arguments, capsys=capsys)
    assert (code, begun) == (0, [0, 0]) and json.loads(second) == json.loads(first)
    folder = tmp_path / "handover-seed-1-episodes-20"
    (folder / "summary.json").unlink()  # not finished: the run goes on
    assert aegis(*arguments, capsys=capsys)[0] == 0 and begun == [0, 0, 20]
    found = json.loads(first)
    assert found["handover"]["values"]["legacy"] < found["handover"]["values"]["oracle"]
    assert found["counter_example"] == {"legacy_value": 1.0} and found["verdict"] == "certified"


@pytest.mark.ci
def test_our_gate_keeps_the_legacy_where_the_agent_is_worse() -> None:
    result = run_counter_example(1, console(quiet=True))
    assert result["challenger_hands_over_after"] is None
    assert result["published_hands_over_after"] is not None and result["agent_value"] < result["legacy_value"]


def test_a_folder_that_is_no_finished_handover_is_left_alone(tmp_path: Path) -> None:
    for name in ("settings.json", "summary.json", "mine.txt"):
        (tmp_path / name).write_text("kept")
    discard_run(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt", "settings.json", "summary.json"]
