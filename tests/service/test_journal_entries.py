"""Journal entries: the action that is drawn follows its probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare
from service_cases import (
    begin,
    inner,
    key,
    played,
    records,
    say,
    started,
    taken_up,
    told,
)

from aegis.service.http_errors import ServiceError
from aegis.service.journal_entries import draw_action
from aegis.service.schemas import Ask
from aegis.service.store.database import Database


def test_draws_follow_their_probabilities() -> None:
    chances = (0.5, 0.0, 0.3, 0.15, 0.05)
    counts = np.bincount([draw_action(chances, 3, number, place) for number in range(200) for place in range(20)], minlength=5)
    assert counts[1] == 0
    kept = [0, 2, 3, 4]
    assert chisquare(counts[kept], 4000 * np.array(chances)[kept]).pvalue > 0.001
    uniform = [draw_action((0.5, 0.5), 3, number, 0) for number in range(2000)]
    following = chisquare(np.bincount(2 * np.array(uniform[:-1]) + np.array(uniform[1:]), minlength=4)).pvalue
    assert following > 0.001  # one episode says nothing about the next


def test_answers_follow_what_they_say(waiting: Database) -> None:
    with taken_up(waiting) as live:
        say(live, "approve", "inner")
        begin(live, "e")
        answers = [live.decide(key(), "e", inner(f"i{place}")) for place in range(300)]
        (chances,) = {tuple(item.body["chances"]) for item in records(live, "decision") if item.body["by"] == "agent"}
        assert all(answer["propensity"] == chances[answer["index"]] for answer in answers)
        assert sum(chances) == pytest.approx(1.0)
        assert max(abs(np.array(chances) - 0.2)) > 0.05  # it is not the legacy
        counts, likely = np.bincount([answer["index"] for answer in answers], minlength=5), np.array(chances) > 0
        assert counts[~likely].sum() == 0
        assert chisquare(counts[likely], 300 * np.array(chances)[likely]).pvalue > 0.001


def test_what_the_legacy_has_drawn_counts_while_it_is_in_control(waiting: Database) -> None:
    with taken_up(waiting) as live:
        begin(live, "legacy")
        answers = [live.decide(key(), "legacy", inner(f"i{place}", taken=-2.0)) for place in range(10)]
        assert {answer["action"] for answer in answers} == {-2.0}
        assert [answer["propensity"] for answer in answers] == [pytest.approx(0.2)] * 10
        say(live, "approve", "inner")
        begin(live, "agent")
        for taken in (-2.0, 2.0):
            asked = [live.decide(key(), "agent", inner(f"i{taken}-{place}", taken=taken)) for place in range(40)]
            assert len({answer["action"] for answer in asked}) > 1
        with pytest.raises(ServiceError, match=r"legacy\.taken"):
            live.decide(key(), "agent", inner("wrong", taken=7.0))


def test_the_draws_of_a_restarted_gate_go_on(file_database: Database) -> None:
    played(file_database, 2)
    with started(file_database) as live:
        before = told(live)
        assert before["started"] == 2
        live.open_episode(key(), "e")
        first = live.decide(
            key(),
            "e",
            Ask(level="recipe", context={"task": "hard"}, available=[True] * 3, legacy={"action": "fast", "epsilon": 0.9}),
        )
    body = records(live, "decision")[-1].body
    assert draw_action(tuple(body["chances"]), live.state.seed, 3, 0) == first["index"]
