"""The demo tells the story: a handover, a gate that hands over to a worse agent, a certificate from a log alone."""

from __future__ import annotations

from pathlib import Path

from aegis.cli.demo_story import discard_run, run_counter_example
from aegis.cli.output import console


def test_our_gate_keeps_the_legacy_where_the_agent_is_worse() -> None:
    result = run_counter_example(1, console(quiet=True))
    assert result["challenger_hands_over_after"] is None
    assert result["published_hands_over_after"] is not None and result["agent_value"] < result["legacy_value"]


def test_a_folder_that_is_no_finished_handover_is_left_alone(tmp_path: Path) -> None:
    for name in ("settings.json", "summary.json", "mine.txt"):
        (tmp_path / name).write_text("kept")
    discard_run(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt", "settings.json", "summary.json"]
