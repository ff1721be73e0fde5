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
from aegis.errors import LogError, SettingError
from aegis.logs import Source
from aegis.problem import load_problem
from dsjson_cases import ITEMS, event, simulated, written


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


def test_packed_files_several_of_them_and_taken_probabilities_only(tmp_path: Path) -> None:
    lines = [event(number, a=None, p=None, EventId=None, Timestamp=None) for number in range(4)]
    with gzip.open(tmp_path / "one.json.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(map(json.dumps, lines[:2])))
    made = read_dsjson([tmp_path / "one.json.gz", written(tmp_path / "two.json", *lines[2:])])
    batch = made.source.read()
    assert batch.episode.tolist() == [1, 2, 3, 4] and made.problem.time is None
    assert batch.levels["choice"].mu_full is None and batch.levels["choice"].mu_taken.tolist() == [0.7] * 4
    assert made.problem.reward.range is None and any("range" in note for note in made.notes)
    twice = written(tmp_path / "three.json", event(1))
    with pytest.raises(LogError, match="'event-1' was there before"):
        read_dsjson([twice, twice])


def test_numbers_that_an_event_does_not_have_are_nought(tmp_path: Path) -> None:
    made = read_dsjson(written(tmp_path / "log.json", event(1), event(2, c={"_multi": [{}, {}, {}], "user": {"city": "Oslo"}})))
    assert made.source.read().levels["choice"].context["user.age"].tolist() == [1.5, 0.0]
    assert any("is 0" in note for note in made.notes)


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


def test_written_block_by_block_it_is_the_same_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "log.json", *simulated(23))
    whole = read_dsjson(path, DsjsonDeclaration((0, 1), action_key="item.id"))
    monkeypatch.setattr("aegis.adapters.dsjson.ROWS_AT_ONCE", 5)
    rows, problem, notes = convert_dsjson(path, tmp_path / "log", DsjsonDeclaration((0, 1), action_key="item.id"))
    assert rows == 23 and notes == whole.notes and problem == whole.problem
    again = Source(tmp_path / "log" / "log.parquet", load_problem(tmp_path / "log" / "problem.yaml")).read()
    np.testing.assert_array_equal(again.levels["choice"].mu_full, whole.source.read().levels["choice"].mu_full)
