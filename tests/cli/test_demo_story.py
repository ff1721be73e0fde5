"""The demo tells the story: a handover, a gate that hands over to a worse agent, a certificate from a log alone."""

from __future__ import annotations

from pathlib import Path

from aegis.cli.demo_story import discard_run, run_counter_example


def test_our_gate_keeps_the_legacy_where_the_agent_is_worse() -> None:
    found = run_counter_example(1, None)
    assert found.challenger_flip is None
    assert found.published_flip is not None and found.agent < found.legacy


def test_a_folder_that_is_no_finished_handover_is_left_alone(tmp_path: Path) -> None:
    for name in ("settings.json", "summary.json", "mine.txt"):
        (tmp_path / name).write_text("kept")
    discard_run(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt", "settings.json", "summary.json"]
