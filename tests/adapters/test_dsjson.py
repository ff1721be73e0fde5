"""Vowpal Wabbit DSJSON: what becomes of an event, what has to be declared, and errors that name line and key."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aegis.adapters import DsjsonDeclaration, convert_dsjson
from aegis.adapters.dsjson import ABSENT_CATEGORY, read_dsjson
from aegis.adapters.dsjson_events import flatten_features
from aegis.cli import main
from aegis.errors import LogError, SettingError
from aegis.logs import Source
from aegis.problem import load_problem
from aegis.rng import stream

ITEMS = ("politics", "sports", "music")


def event(number: int = 1, **changes: Any) -> dict[str, Any]:
    """Return an event in which the second of three actions was taken."""
    found = {
        "_label_cost": -1.0,
        "_label_probability": 0.7,
        "_label_Action": 2,
        "_labelIndex": 1,
        "Version": "1",
        "EventId": f"event-{number}",
        "Timestamp": f"2021-07-29T10:00:{number % 60:02d}.1234567Z",
        "a": [2, 1, 3],
        "p": [0.7, 0.2, 0.1],
        "c": {
            "user": {"age": 0.5 + number, "city": "Oslo" if number % 2 else "Bonn"},
            "_multi": [{"_tag": item, "item": {"id": item, "length": 3}} for item in ITEMS],
        },
        "VWState": {"m": "model-1"},
    }
    found |= changes
    return {key: value for key, value in found.items() if value is not None}


def written(path: Path, *events: Any) -> Path:
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in events), encoding="utf-8")
    return path


def test_an_event_becomes_a_row(tmp_path: Path) -> None:
    path = written(tmp_path / "log.json", event(1), "", event(2, a=[3, 1, 2], p=[0.1, 0.2, 0.7], _label_cost=0.25))
    made = read_dsjson(path, DsjsonDeclaration((0, 1)))
    batch = made.source.read()
    table = batch.levels["choice"]
    assert batch.episode.tolist() == ["event-1", "event-2"]
    assert batch.reward is not None and batch.reward.tolist() == [1.0, -0.25]
    assert made.problem.reward.range == (0, 1) and made.problem.reward.goal == "maximise"
    assert made.problem.innermost.actions.values == ("1", "2", "3")
    assert table.action.tolist() == [1, 1]
    np.testing.assert_allclose(table.mu_full, [[0.2, 0.7, 0.1], [0.2, 0.7, 0.1]])
    np.testing.assert_allclose(table.mu_taken, [0.7, 0.7])
    assert table.context["user.age"].tolist() == [1.5, 2.5]
    assert made.problem.innermost.context[1].values == ("Oslo", "Bonn")
    assert batch.time is not None and str(batch.time[0]).startswith("2021-07-29T10:00:01.123456")
    assert "left out" in " ".join(made.notes)  # features of actions


def test_actions_by_a_feature_are_masked_where_they_were_not_offered(tmp_path: Path) -> None:
    two = event(2, a=[1, 2], p=[0.4, 0.6], _label_probability=0.4, _label_Action=1, _labelIndex=0)
    two["c"] = {"user": {"age": 1}, "_multi": [{"item": {"id": "music"}}, {"item": {"id": "news"}}]}
    path = written(tmp_path / "log.json", event(1), two)
    made = read_dsjson(path, DsjsonDeclaration(action_key="item.id"))
    table = made.source.read().levels["choice"]
    assert made.problem.innermost.actions.values == (*ITEMS, "news")
    assert table.available is not None and table.available.tolist() == [[True, True, True, False], [False, False, True, True]]
    np.testing.assert_allclose(table.mu_full, [[0.2, 0.7, 0.1, 0.0], [0.0, 0.0, 0.4, 0.6]])
    assert table.action.tolist() == [1, 2]
    assert made.source.read().levels["choice"].context["user.city"].tolist() == [0, 1]
    assert made.problem.innermost.context[1].values == ("Oslo", ABSENT_CATEGORY)
    by_tag = read_dsjson(written(tmp_path / "tags.json", event(1), event(2)), DsjsonDeclaration(action_key="_tag"))
    assert by_tag.problem.innermost.actions.values == ITEMS and not by_tag.problem.innermost.available


def test_features_are_flattened_as_they_are_nested() -> None:
    given = {"a": 1, "b": {"c": "x", "_tag": "no"}, "d": [1.5, {"e": True}], "_multi": [1]}
    assert flatten_features(given) == {"a": 1, "b.c": "x", "d.0": 1.5, "d.1.e": True}


def test_packed_files_several_of_them_and_taken_probabilities_only(tmp_path: Path) -> None:
    lines = [event(number, a=None, p=None, EventId=None, Timestamp=None) for number in range(4)]
    with gzip.open(tmp_path / "one.json.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(map(json.dumps, lines[:2])))
    made = read_dsjson([tmp_path / "one.json.gz", written(tmp_path / "two.json", *lines[2:])])
    batch = made.source.read()
    assert batch.episode.tolist() == [1, 2, 3, 4] and made.problem.time is None
    assert batch.levels["choice"].mu_full is None and batch.levels["choice"].mu_taken.tolist() == [0.7] * 4
    assert made.problem.reward.range is None and any("range" in note for note in made.notes)


def test_numbers_that_an_event_does_not_have_are_nought(tmp_path: Path) -> None:
    made = read_dsjson(written(tmp_path / "log.json", event(1), event(2, c={"_multi": [{}, {}, {}], "user": {"city": "Oslo"}})))
    assert made.source.read().levels["choice"].context["user.age"].tolist() == [1.5, 0.0]
    assert any("is 0" in note for note in made.notes)


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


def test_features_of_two_kinds_and_ids_are_no_contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = event(2)
    mixed["c"]["user"]["age"] = "old"
    with pytest.raises(LogError, match=r"line 2, key 'c\.user\.age': found 'old', but a number in lines before"):
        read_dsjson(written(tmp_path / "a.json", event(1), mixed))
    monkeypatch.setattr("aegis.adapters.dsjson.MOST_TEXTS", 1)
    path = written(tmp_path / "b.json", event(1), event(2), event(3))
    with pytest.raises(LogError, match="an id is no context"):
        read_dsjson(path)
    made = read_dsjson(path, DsjsonDeclaration(contexts=("user.age",), cluster="user.city"))
    assert [variable.name for variable in made.problem.innermost.context] == ["user.age"]
    batch = made.source.read()
    assert batch.cluster is not None and batch.cluster.tolist() == ["Oslo", "Bonn", "Oslo"]
    with pytest.raises(LogError, match=r"no event has the shared feature 'user.ages' \(did you mean 'user.age'"):
        read_dsjson(path, DsjsonDeclaration(contexts=("user.ages",)))
    clash = event(1)
    clash["c"]["reward"] = 1.0
    with pytest.raises(LogError, match="'reward' has the name of a column"):
        read_dsjson(written(tmp_path / "c.json", clash))


def test_thinning_is_declared_or_refused(tmp_path: Path) -> None:
    thin = written(tmp_path / "thin.json", event(1, pdrop=0.5), event(2, pdrop=0.5))
    with pytest.raises(LogError, match=r"'pdrop' is 0.5: decisions are missing .* --thinned"):
        read_dsjson(thin)
    assert any("coin toss" in note for note in read_dsjson(thin, DsjsonDeclaration(thinned=True)).notes)
    late = [{"RewardValue": 1.0, "EventId": f"event-{number}"} for number in (1, 9)]
    lost = written(tmp_path / "lost.json", event(1), *late)
    with pytest.raises(LogError, match="1 outcomes have no decision in the file"):
        read_dsjson(lost)
    assert read_dsjson(lost, DsjsonDeclaration(thinned=True)).table.num_rows == 1
    assert read_dsjson(written(tmp_path / "none.json", event(1), late[1]), DsjsonDeclaration(thinned=True)).table.num_rows == 1


def test_outcomes_whose_ids_match_nothing_show_one_of_each(tmp_path: Path) -> None:
    late = [{"RewardValue": 1.0, "EventId": f"EVENT_{number}"} for number in range(3)]
    with pytest.raises(LogError, match=r"line 2, key 'EventId': .* 'EVENT_0', but a decision has 'event-1' .*line 1") as found:
        read_dsjson(written(tmp_path / "log.json", event(1), *late))
    assert "not one of the 3 outcomes" in str(found.value) and "--thinned" not in str(found.value)
    with pytest.raises(LogError, match=r"'EVENT_0', but no decision has one"):
        read_dsjson(written(tmp_path / "bare.json", event(1, EventId=None), late[0]))


def test_a_cost_and_an_outcome_that_differ_are_refused_and_agreeing_ones_are_not(tmp_path: Path) -> None:
    late = {"RewardValue": 0.9, "EventId": "event-1"}
    with pytest.raises(
        LogError, match=r"line 2, key 'RewardValue': found 0.9, .* '_label_cost' -0.5, a reward of 0.5 \(.*line 1\)"
    ):
        read_dsjson(written(tmp_path / "log.json", event(1, _label_cost=-0.5), late))
    for cost in (-0.9, 0.0):
        made = read_dsjson(written(tmp_path / "log.json", event(1, _label_cost=cost), late))
        assert made.table["reward"].to_pylist() == [0.9]


@pytest.mark.parametrize("empty", [None, []])
def test_a_file_without_any_outcome_is_refused_unless_that_is_declared(empty: list[Any] | None, tmp_path: Path) -> None:
    path = written(tmp_path / "log.json", *[event(number, _label_cost=0.0, o=empty) for number in range(3)])
    with pytest.raises(LogError, match=r"line 1: not one of the 3 decisions has an outcome .* --unobserved cost"):
        read_dsjson(path)
    made = read_dsjson(path, DsjsonDeclaration(unobserved="cost"))
    assert made.table["reward"].to_pylist() == [0.0] * 3
    assert any("no decision tells of an outcome, and all have the same cost, 0" in note for note in made.notes)
    assert read_dsjson(path, DsjsonDeclaration(unobserved="missing")).table["reward"].to_pylist() == [None] * 3


def test_a_deferred_action_counts_if_it_was_activated(tmp_path: Path) -> None:
    active = {"EventId": "event-1", "ActionTaken": True}
    inside = event(2, DeferredAction=True, o=[{"v": 1.0}, {"EventId": "event-2", "ActionTaken": True}])
    path = written(tmp_path / "log.json", event(1, DeferredAction="true", o=[{"v": 1.0}]), active, inside)
    made = read_dsjson(path)
    assert made.table["reward"].to_pylist() == [1.0, 1.0] and not any("deferred" in note for note in made.notes)
    off = {**active, "ActionTaken": False}
    path = written(tmp_path / "log.json", event(1, DeferredAction=True, o=[{"v": 1.0}]), off, inside, event(3, o=[{"v": 1.0}]))
    with pytest.raises(LogError, match=r"line 1, key 'DeferredAction': the action was to wait .*--skipped"):
        read_dsjson(path)
    left = read_dsjson(path, DsjsonDeclaration(skipped="left out"))
    assert left.table["event_id"].to_pylist() == ["event-2", "event-3"]
    assert "1 deferred actions were never activated: declared 'left out'" in left.notes
    assert read_dsjson(path, DsjsonDeclaration(skipped="missing")).table["reward"].to_pylist() == [None, 1.0, 1.0]
    alone = written(tmp_path / "alone.json", event(1, o=[active]), event(2, o=[{"v": 1.0}]))
    with pytest.raises(LogError, match=r"line 1, key 'o': this event has no outcome, others have"):
        read_dsjson(alone)


@pytest.mark.parametrize("first", [True, False])
def test_an_outcome_in_a_line_of_its_own_is_joined_to_its_decision(first: bool, tmp_path: Path) -> None:
    late = {"RewardValue": 0.25, "EnqueuedTimeUtc": "2021-07-30T10:00:00Z", "EventId": "event-1"}
    lines = [event(1, _label_cost=0.0), event(2, o=[{"v": 1.0}])]
    made = read_dsjson(written(tmp_path / "log.json", *([late, *lines] if first else [*lines, late])))
    assert made.table["reward"].to_pylist() == [0.25, 1.0]
    assert "1 outcomes stood in lines of their own and were joined to their decisions by EventId" in made.notes
    assert not any("coin toss" in note for note in made.notes)
    with pytest.raises(LogError, match=r"line 2: no line holds an outcome \('RewardValue'\) of this event, EventId 'event-3'"):
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


def test_clusters_that_are_numbers_count_by_their_size_and_are_no_texts(tmp_path: Path) -> None:
    def of(number: int, user: object) -> dict[str, Any]:
        found = event(number)
        found["c"]["user"]["id"] = user
        return found

    path = written(tmp_path / "log.json", of(1, 1), of(2, 1.0), of(3, 2))
    assert read_dsjson(path, DsjsonDeclaration(cluster="user.id")).table["cluster"].to_pylist() == ["1", "1", "2"]
    with pytest.raises(LogError, match=r"line 2, key 'c\.user\.id': found '1', but a number in lines before"):
        read_dsjson(written(tmp_path / "mixed.json", of(1, 1), of(2, "1")), DsjsonDeclaration(cluster="user.id"))


def test_no_outcome_means_a_default_or_nothing_known(tmp_path: Path) -> None:
    path = written(tmp_path / "log.json", event(1, o=[{"v": 1.0}]), event(2, _label_cost=0.0))
    with pytest.raises(LogError, match=r"line 2, key 'o': this event has no outcome, others have"):
        read_dsjson(path)
    assert read_dsjson(path, DsjsonDeclaration(unobserved="cost")).table["reward"].to_pylist() == [1.0, 0.0]
    assert read_dsjson(path, DsjsonDeclaration(unobserved="missing")).table["reward"].to_pylist() == [1.0, None]
    with pytest.raises(SettingError, match="allowed: cost, missing"):
        DsjsonDeclaration(unobserved="zero")


def test_skipped_events_stay_without_a_reward_or_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "log.json", event(1), event(2, _skipLearn=True, _label_cost=0.0), event(3, _skipLearn=False))
    assert read_dsjson(path, DsjsonDeclaration(skipped="missing")).table["reward"].to_pylist() == [1.0, None, 1.0]
    left = read_dsjson(path, DsjsonDeclaration(skipped="left out"))
    assert left.table["event_id"].to_pylist() == ["event-1", "event-3"]
    assert "1 events were marked _skipLearn: declared 'left out'" in left.notes


def test_a_log_that_learned_says_so(tmp_path: Path) -> None:
    made = read_dsjson(written(tmp_path / "log.json", event(1), event(2, VWState={"m": "model-2"})))
    assert any("2 models wrote this log" in note for note in made.notes)


def simulated(count: int) -> list[dict[str, Any]]:
    """Return events of a bandit that explores; the second action is best for the young, the third for others."""
    rng = stream(3, "dsjson")
    found = []
    for number in range(count):
        age = float(rng.random())
        chances = [0.5, 0.25, 0.25]
        taken = int(rng.choice(3, p=chances))
        reward = float(rng.random() < (0.9 if taken == (1 if age < 0.5 else 2) else 0.1))
        order = [taken, *[place for place in range(3) if place != taken]]
        found.append(
            event(
                number,
                a=[place + 1 for place in order],
                p=[chances[place] for place in order],
                c={"user": {"age": age}, "_multi": [{"item": {"id": item}} for item in ITEMS]},
                _labelIndex=taken,
                _label_Action=taken + 1,
                _label_probability=chances[taken],
                _label_cost=-reward,
            )
        )
    return found


def test_written_block_by_block_it_is_the_same_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "log.json", *simulated(23))
    whole = read_dsjson(path, DsjsonDeclaration((0, 1), action_key="item.id"))
    monkeypatch.setattr("aegis.adapters.dsjson.ROWS_AT_ONCE", 5)
    rows, problem, notes = convert_dsjson(path, tmp_path / "log", DsjsonDeclaration((0, 1), action_key="item.id"))
    assert rows == 23 and notes == whole.notes and problem == whole.problem
    again = Source(tmp_path / "log" / "log.parquet", load_problem(tmp_path / "log" / "problem.yaml")).read()
    np.testing.assert_array_equal(again.levels["choice"].mu_full, whole.source.read().levels["choice"].mu_full)


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)


def test_the_command_and_what_follows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = written(tmp_path / "events.dsjson", *simulated(400)), tmp_path / "log"
    convert = ["convert", path, "--from", "dsjson", "--action-key", "item.id", "--reward-range", 0, 1, "--out", out]
    assert run(*convert, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == 400 and found["actions"] == 3 and found["contexts"] == ["user.age"] and found["full_propensities"]
    assert run(*convert) == 2 and "--force" in capsys.readouterr().err
    assert run(*convert, "--force") == 0 and "note: " in capsys.readouterr().out
    log = [out / "log.parquet", "--problem", out / "problem.yaml"]
    assert run("audit", *log, "--json") == 0
    assert run("learn", *log, "--kind", "capped", "--out", tmp_path / "policy", "--json") == 0
    capsys.readouterr()
    assert run("certify", *log, "--policy", tmp_path / "policy", "--json") == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "certified"


def test_usage_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "events.dsjson", event(1))
    for arguments, message in (
        ([path, "--out", tmp_path / "x"], "say what FILE is"),
        ([path, "--from", "obp", "--thinned", "--out", tmp_path / "x"], "--thinned: about dsjson files"),
        ([path, "--from", "dsjson", "--policy", "p", "--out", tmp_path / "x"], "belong to --to"),
        ([path, "--to", "obp", "--out", tmp_path / "x.npz"], "name its problem file"),
        ([path, "--to", "obp", "--reward-range", 0, 1, "--out", tmp_path / "x.npz"], "--reward-range belongs to --from"),
        ([path, path, "--from", "obp", "--out", tmp_path / "x"], "takes one file"),
        ([path, "--from", "obp", "--out", tmp_path / "x"], "cannot be read as an .npz file"),
    ):
        assert run("convert", *arguments) == 2
        assert message in capsys.readouterr().err
