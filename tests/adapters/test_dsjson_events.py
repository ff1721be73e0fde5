"""Lines of DSJSON files: features, flags, joined outcomes, and errors that name line and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aegis.adapters import DsjsonDeclaration
from aegis.adapters.dsjson import read_dsjson
from aegis.adapters.dsjson_events import flatten_features
from aegis.errors import LogError
from dsjson_cases import event, written


def test_features_are_flattened_as_they_are_nested() -> None:
    given = {"a": 1, "b": {"c": "x", "_tag": "no"}, "d": [1.5, {"e": True}], "_multi": [1]}
    assert flatten_features(given) == {"a": 1, "b.c": "x", "d.0": 1.5, "d.1.e": True}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"_label_cost": None}, "key '_label_cost': is missing; expected a finite number"),
        ({"_label_cost": "much"}, "key '_label_cost': found \"much\""),
        ({"_label_probability": 0}, "key '_label_probability': found 0; expected the probability of the action taken, above 0"),
        ({"_label_probability": 0.2}, "key '_label_probability': found 0.2, but 'p' gives the action taken 0.7"),
        ({"_labelIndex": 2}, r"'_labelIndex' 2 \(from 0\) and '_label_Action' 2 \(from 1\) are two actions"),
        ({"_labelIndex": None, "_label_Action": None}, "neither '_labelIndex' nor '_label_Action'"),
        ({"_labelIndex": 7, "_label_Action": None}, "key '_labelIndex': found 7, but 'c._multi' has 3 actions"),
        ({"p": [0.7, 0.2, 0.3]}, "key 'p': the probabilities sum to 1.2; expected 1"),
        ({"p": [0.7, 0.3]}, r"key 'p': found \[0.7, 0.3\]; expected 3 probabilities"),
        ({"a": [1, 2, 2]}, "key 'a': .* expected every action from 1 to 3"),
        ({"c": None}, "key 'c': is missing"),
        ({"c": {"x": 1}}, "key 'c._multi': is missing"),
        ({"c": {"_multi": [{}, {}], "_slots": []}}, "key '_slots': several decisions in one event"),
        ({"pdrop": 1.0}, "key 'pdrop': found 1.0; expected the share"),
        ({"EventId": 7}, "key 'EventId': found 7; expected a text"),
        ({"EventId": "event-1"}, "key 'EventId': 'event-1' was there before .*line 1"),
        ({"Timestamp": "noon"}, "key 'Timestamp': found 'noon'; expected a time"),
        ({"pdrop": 0.5}, "key 'pdrop': found 0.5, but 0 at .*line 1: events were thinned at different rates"),
        ({"_skipLearn": True}, "key '_skipLearn': .* declare skipped 'missing'"),
        ({"EventId": None}, "1 of 2 events have the key 'EventId'"),
        ({"p": None, "a": None}, "1 of 2 events have the key 'p'"),
    ],
)
def test_what_cannot_be_used_is_said_with_line_and_key(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = written(tmp_path / "log.json", event(1), event(2, **change))
    with pytest.raises(LogError, match=message) as found:
        read_dsjson(path)
    if "of 2 events" not in message:
        assert str(found.value).startswith(f"{path}, line 2")


def test_lines_that_are_no_json_and_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"line 2: is not JSON"):
        read_dsjson(written(tmp_path / "a.json", event(1), "{'single': 1}"))
    with pytest.raises(LogError, match=r"line 1: is a list"):
        read_dsjson(written(tmp_path / "b.json", "[1]"))
    with pytest.raises(LogError, match="cannot be read"):
        read_dsjson(tmp_path / "absent.json")
    (tmp_path / "c.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LogError, match="not UTF-8"):
        read_dsjson(tmp_path / "c.json")
    (tmp_path / "d.json.gz").write_bytes(b"no gzip")
    with pytest.raises(LogError, match="cannot be read"):
        read_dsjson(tmp_path / "d.json.gz")
    with pytest.raises(LogError, match="nothing to convert"):
        read_dsjson(written(tmp_path / "e.json"))


def test_a_cost_and_an_outcome_that_differ_are_refused_and_agreeing_ones_are_not(tmp_path: Path) -> None:
    late = {"RewardValue": 0.9, "EventId": "event-1"}
    with pytest.raises(
        LogError, match=r"line 2, key 'RewardValue': found 0.9, .* '_label_cost' -0.5, a reward of 0.5 \(.*line 1\)"
    ):
        read_dsjson(written(tmp_path / "log.json", event(1, _label_cost=-0.5), late))
    for cost in (-0.9, 0.0):
        made = read_dsjson(written(tmp_path / "log.json", event(1, _label_cost=cost), late))
        assert made.table["reward"].to_pylist() == [0.9]


@pytest.mark.parametrize("first", [True, False])
def test_an_outcome_in_a_line_of_its_own_is_joined_to_its_decision(first: bool, tmp_path: Path) -> None:
    late = {"RewardValue": 0.25, "EnqueuedTimeUtc": "2021-07-30T10:00:00Z", "EventId": "event-1"}
    lines = [event(1, _label_cost=0.0), event(2, o=[{"v": 1.0}])]
    made = read_dsjson(written(tmp_path / "log.json", *([late, *lines] if first else [*lines, late])))
    assert made.table["reward"].to_pylist() == [0.25, 1.0]
    assert "1 outcomes stood in lines of their own and were joined to their decisions by EventId" in made.notes
    assert not any("coin toss" in note for note in made.notes)
    with pytest.raises(LogError, match=r"line 2, key 'o': this event has no outcome, others have"):
        read_dsjson(written(tmp_path / "some.json", *lines[:1], event(3), late))
    skipped = written(tmp_path / "skipped.json", event(1, _skipLearn=True, _label_cost=0.0), event(2), late)
    assert read_dsjson(skipped, DsjsonDeclaration(skipped="left out", unobserved="cost")).table.num_rows == 1


def test_two_outcomes_of_one_decision_are_refused(tmp_path: Path) -> None:
    late = {"RewardValue": 0.25, "EventId": "event-1"}
    for lines in ([event(1, o=[{"v": 1.0}]), late], [late, event(1), late]):
        with pytest.raises(LogError, match=r"line \d, key 'EventId': an outcome of 'event-1', which has another one .*line \d"):
            read_dsjson(written(tmp_path / "log.json", *lines))
    with pytest.raises(LogError, match=r"line 2, key 'RewardValue': found \"much\"; expected a finite number"):
        read_dsjson(written(tmp_path / "log.json", event(1), {**late, "RewardValue": "much"}))


def test_flags_in_quotes_are_flags(tmp_path: Path) -> None:
    path = written(tmp_path / "log.json", event(1, _skipLearn="true"), event(2, _skipLearn="False"), event(3))
    left = read_dsjson(path, DsjsonDeclaration(skipped="left out"))
    assert left.table["event_id"].to_pylist() == ["event-2", "event-3"]
    with pytest.raises(LogError, match="line 1, key '_skipLearn': found \"perhaps\"; expected true or false"):
        read_dsjson(written(tmp_path / "odd.json", event(1, _skipLearn="perhaps")))
