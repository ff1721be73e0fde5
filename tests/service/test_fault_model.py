"""The model of the fault campaign finds what must not happen: each case breaks a history that is in order."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from fault_model import Verdict, judge_history

Rows = list[dict[str, Any]]
HALF = [0.5, 0.5]


def row(rows: Rows, kind: str, body: dict[str, Any], key: str | None = None) -> None:
    seq = len(rows) + 1
    rows.append({"seq": seq, "at": f"2026-01-01T00:00:{seq:02d}", "kind": kind, "key": key, "body": body})


def decision(episode: str, number: int, name: str, level: str, agent: str | None = None, **more: Any) -> dict[str, Any]:
    about = {"by": "legacy", "version": "legacy"} if agent is None else {"by": "agent", "version": agent}
    fields = {"episode": episode, "id": name, "level": level, "action": 1, "chances": HALF, "legacy": HALF, "number": number}
    return {**fields, "policies": {} if agent is None else {level: agent}, "arm": "agent", **about, **more}


def answered(
    key: str, path: str, answer: dict[str, Any], body: dict[str, Any] | None = None, status: int = 200
) -> dict[str, Any]:
    fields = {"what": "answer", "plant": "p", "process": "A.1", "key": key, "path": path, "body": body or {}}
    return {**fields, "status": status, "answer": answer, "sent": 0.0, "got": 0.1, "at": 0.1}


def choice(name: str, by: str = "legacy") -> dict[str, Any]:
    return {"decision": name, "index": 1, "propensity": 0.5, "by": by}


def called(what: str, episode: str, **more: Any) -> dict[str, Any]:
    return {"what": what, "plant": "c", "at": 1.0, "durable": True, "episode": episode, **more}


def decided(episode: str, name: str, by: str) -> dict[str, Any]:
    timing = {"seconds": 0.25, "timeout": 0.25, "timer": 0.001, "level": "dose"}
    return called("decide", episode, id=name, index=1, propensity=0.5, by=by, **timing)


def in_order() -> tuple[Rows, Rows]:
    """Return a history and its journal: an episode under keys, a flip, an episode of the agent, one through a client."""
    rows: Rows = []
    row(rows, "opened", {})
    row(rows, "writer", {"writer": "w1"})
    row(rows, "episode", {"id": "e"}, "episode e")
    row(rows, "keyed", {"episode": "e"}, "e.open")
    row(rows, "decision", decision("e", 1, "d", "dose"), "e.d")
    row(rows, "results", {"items": [{"episode": "e", "decision": "d", "reward": 4.0}]}, "e.p")
    row(rows, "closed", {"episode": "e", "missing": []}, "e.close")
    row(rows, "event", {"event": {"kind": "frozen", "challenges": [{"name": "1-dose-2"}]}})
    row(rows, "event", {"event": {"kind": "unit", "episode": 1, "reward": 0.4}})
    row(rows, "event", {"event": {"kind": "certified", "challenge": "1-dose-2", "level": "dose"}})
    row(rows, "event", {"event": {"kind": "flip", "challenge": "1-dose-2", "level": "dose", "since": 2}})
    row(rows, "writer", {"writer": "w2"})
    row(rows, "episode", {"id": "f"}, "episode f")
    row(rows, "decision", decision("f", 2, "d", "dose", "1-dose-2"), "f.d")
    row(rows, "episode", {"id": "c-1"}, "episode c-1")
    row(rows, "overruled", {**decision("c-1", 3, "dose-1", "dose"), "policies": {"dose": "1-dose-2"}, "overruled": True}, "k1")
    row(rows, "results", {"items": [{"episode": "c-1", "decision": "dose-1", "reward": 5.0}]}, "k2")
    row(rows, "closed", {"episode": "c-1", "missing": []}, "k3")
    items = [{"episode": "e", "decision": "d", "reward": 4.0}]
    history = [
        answered("e.open", "/v1/episodes", {"episode": "e"}),
        answered("e.d", "/v1/episodes/e/decisions", choice("d")),
        answered("e.p", "/v1/results", {"accepted": 1}, {"items": items}),
        answered("e.close", "/v1/episodes/e/close", {"episode": "e"}),
        answered("f.d", "/v1/episodes/f/decisions", choice("d", "agent")) | {"process": "B.1"},
        called("open", "c-1"),
        decided("c-1", "dose-1", "fallback"),
        called("report", "c-1", decision="dose-1", reward=5.0),
        called("close", "c-1"),
    ]
    return history, rows


def judged(history: Rows, rows: Rows) -> Verdict:
    return judge_history(history, rows, 0.0, 10.0, "dose")


def test_a_history_in_order_has_nothing_wrong() -> None:
    verdict = judged(*in_order())
    assert verdict.wrong == []
    assert [verdict.counts[name] for name in ("acknowledged", "flips", "freezes", "decisions by agents", "takeovers")] == [
        *(9, 1, 1, 1, 1)
    ]


def lose(history: Rows, rows: Rows) -> None:
    del rows[5]
    for place, item in enumerate(rows, 1):
        item["seq"] = place
    rows[7]["body"]["event"]["reward"] = None
    rows[5]["body"]["missing"] = ["d"]


def lose_of_client(history: Rows, rows: Rows) -> None:
    rows.pop()


def duplicate(history: Rows, rows: Rows) -> None:
    rows.append({**copy.deepcopy(rows[13]), "seq": len(rows) + 1, "key": "other", "at": "2026-01-01T00:00:59"})


def duplicate_reward(history: Rows, rows: Rows) -> None:
    rows.append({**copy.deepcopy(rows[16]), "seq": len(rows) + 1, "key": "other", "at": "2026-01-01T00:00:59"})


def change(history: Rows, rows: Rows) -> None:
    again = answered("e.d", "/v1/episodes/e/decisions", {**choice("d"), "index": 0})
    history.append(again)


def change_written(history: Rows, rows: Rows) -> None:
    rows[4]["body"]["action"] = 0


def refuse_later(history: Rows, rows: Rows) -> None:
    history.append(answered("e.d", "/v1/episodes/e/decisions", {"detail": "no"}, status=409))


def flip(history: Rows, rows: Rows) -> None:
    rows[9]["body"]["event"]["challenge"] = "another"


def give_up(history: Rows, rows: Rows) -> None:
    rows[9]["body"]["event"] = {"kind": "restarted"}


def decide_late(history: Rows, rows: Rows) -> None:
    history[6]["seconds"] = 0.28


def decide_by_agent_too_early(history: Rows, rows: Rows) -> None:
    rows[4]["body"] |= {"by": "agent", "version": "1-dose-2", "policies": {"dose": "1-dose-2"}}
    history[1]["answer"]["by"] = "agent"


def decide_by_another_version(history: Rows, rows: Rows) -> None:
    rows[13]["body"]["version"] = "2-dose-2"


def decide_by_legacy_at_a_level_of_the_agent(history: Rows, rows: Rows) -> None:
    rows[13]["body"] |= {"by": "legacy", "version": "legacy"}
    history[4]["answer"]["by"] = "legacy"


def change_propensities(history: Rows, rows: Rows) -> None:
    rows[13]["body"]["chances"] = [0.6, 0.5]


def count_too_early(history: Rows, rows: Rows) -> None:
    row(rows, "event", {"event": {"kind": "unit", "episode": 2, "reward": 0.4}})


def count_twice(history: Rows, rows: Rows) -> None:
    row(rows, "event", {"event": {"kind": "unit", "episode": 1, "reward": 0.4}})


def count_another_reward(history: Rows, rows: Rows) -> None:
    rows[8]["body"]["event"]["reward"] = 0.5


def number_wrongly(history: Rows, rows: Rows) -> None:
    rows[13]["body"]["number"] = 7


def leave_a_gap(history: Rows, rows: Rows) -> None:
    del rows[10]


def write_as_a_former_writer(history: Rows, rows: Rows) -> None:
    history[4]["process"] = "A.1"


def go_back_in_time(history: Rows, rows: Rows) -> None:
    rows[6]["at"] = "2025-01-01"


def raise_in_the_plant(history: Rows, rows: Rows) -> None:
    history.append({"what": "raised", "plant": "c", "words": "decide: KeyError"})


CASES: list[tuple[str, Callable[[Rows, Rows], None]]] = [
    ("lost", lose),
    ("lost", lose_of_client),
    ("duplicated", duplicate),
    ("duplicated", duplicate_reward),
    ("changed answer", change),
    ("changed answer", change_written),
    ("changed answer", refuse_later),
    ("flip", flip),
    ("flip", give_up),
    ("late", decide_late),
    ("control", decide_by_agent_too_early),
    ("control", decide_by_another_version),
    ("control", decide_by_legacy_at_a_level_of_the_agent),
    ("propensity", change_propensities),
    ("order", count_too_early),
    ("order", count_twice),
    ("reward", count_another_reward),
    ("order", number_wrongly),
    ("gap", leave_a_gap),
    ("two writers", write_as_a_former_writer),
    ("time", go_back_in_time),
    ("raised", raise_in_the_plant),
]


@pytest.mark.parametrize(("kind", "broken"), CASES, ids=[work.__name__ for _, work in CASES])
def test_what_must_not_happen_is_found(kind: str, broken: Callable[[Rows, Rows], None]) -> None:
    history, rows = in_order()
    broken(history, rows)
    assert kind in {item.kind for item in judged(history, rows).wrong}


def test_what_was_lost_with_a_spool_is_known_to_be_lost() -> None:
    history, rows = in_order()
    rows.pop()
    history[-1]["at"] = 5.0
    lost: dict[str, Any] = {"what": "lost", "plant": "c", "at": 6.0}
    assert [item.kind for item in judged(history, rows).wrong] == ["lost"]
    assert judged([*history, lost], rows).wrong == []
    arrived = {"what": "flushed", "plant": "c", "at": 5.5}
    assert [item.kind for item in judged([*history, arrived, lost], rows).wrong] == ["lost"]  # it had arrived before
    killed = {"what": "killed", "plant": "c", "at": 6.0}
    assert [item.kind for item in judged([*history, killed], rows).wrong] == ["lost"]  # the spool had it
    history[-1]["durable"] = False
    assert judged([*history, killed], rows).wrong == []


def test_a_reward_that_is_missing_may_be_said_to_be_missing_again() -> None:
    history, rows = in_order()
    row(rows, "episode", {"id": "g"}, "episode g")
    row(rows, "decision", decision("g", 4, "d", "dose", "1-dose-2"), "g.d")
    row(rows, "closed", {"episode": "g", "missing": ["d"]}, "g.close")  # given up by an operator
    row(rows, "results", {"items": [{"episode": "g", "decision": "d", "reward": None}]}, "g.stand-in")
    assert "duplicated" not in {item.kind for item in judged(history, rows).wrong}
    row(rows, "results", {"items": [{"episode": "g", "decision": "d", "reward": 4.0}]}, "g.p")
    assert "duplicated" in {item.kind for item in judged(history, rows).wrong}
