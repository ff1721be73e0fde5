"""Episodes, decisions and results over HTTP: what is answered, once, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from service_cases import (
    ALL,
    LEGACY,
    count_all,
    counting_here,
    dose,
    key,
    make_live,
    make_service,
    play,
    post,
    recipe,
    records,
    result,
    said,
    served,
    started,
)

from aegis.problem import parse_problem
from aegis.service.app import Service
from aegis.service.http_errors import Conflict
from aegis.service.live_state import EPISODE
from aegis.service.schemas import Ask
from aegis.service.store.database import Database
from aegis.service.store.journal import JournalEntry


@pytest.fixture
def service(database: Database) -> Service:
    """Return the service of a gate on either kind of store."""
    return make_service(make_live(database))


@pytest.fixture
def client(service: Service) -> Iterator[httpx.Client]:
    """Return a client of it."""
    with served(service) as found:
        yield found


@pytest.fixture
def quick_service(file_database: Database) -> Service:
    """Return the service of a gate on SQLite, where one kind of store is enough."""
    return make_service(make_live(file_database))


@pytest.fixture
def quick(quick_service: Service) -> Iterator[httpx.Client]:
    """Return a client of it."""
    with served(quick_service) as found:
        yield found


def begun(client: httpx.Client, name: str = "e") -> str:
    """Open an episode with its recipe decided, and return the address of its decisions."""
    assert post(client, "/v1/episodes", {"id": name}).status_code == 200
    assert post(client, f"/v1/episodes/{name}/decisions", recipe()).status_code == 200
    return f"/v1/episodes/{name}/decisions"


# ---- what is answered --------------------------------------------------------------------------------------------------------


def test_an_episode_from_its_opening_to_its_end(service: Service, client: httpx.Client) -> None:
    opened = post(client, "/v1/episodes", {"id": "e"})
    assert opened.json()["episode"] == "e"
    outer = post(client, "/v1/episodes/e/decisions", recipe()).json()
    assert (outer["level"], outer["decision"], outer["by"], outer["version"]) == ("recipe", "r", "legacy", "legacy")
    assert outer["action"] == ["slow", "fast", "boost"][outer["index"]]
    assert outer["propensity"] == pytest.approx(LEGACY["distribution"][outer["index"]])
    inner = post(client, "/v1/episodes/e/decisions", dose()).json()
    assert inner["action"] == [-1.0, 0.0, 1.0][inner["index"]]
    taken = post(client, "/v1/results", {"items": [result("e")]}).json()
    assert (taken["accepted"], taken["late"]) == (1, False)
    assert post(client, "/v1/episodes/e/close", {}).json()["missing"] == 0
    tree = service.live.state.trees["e"]
    assert (tree.number, tree.closed, tree.settled(service.live.problem)) == (1, True, True)
    assert [item.kind for item in records(service.live)] == [
        *("opened", "writer", "episode", "keyed", "decision", "decision", "results", "closed")
    ]


def test_the_answer_is_what_the_journal_says(service: Service, client: httpx.Client) -> None:
    path = begun(client)
    answers = [post(client, path, dose(id=f"d{place}")).json() for place in range(10)]
    written = {item.body["id"]: item.body for item in records(service.live, "decision")}
    for answer in answers:
        body = written[answer["decision"]]
        assert (answer["index"], answer["by"]) == (body["action"], body["by"])
        assert answer["propensity"] == body["chances"][body["action"]]


def test_the_same_key_gets_the_same_answer_and_is_done_once(service: Service, client: httpx.Client) -> None:
    path = begun(client)
    sent: list[tuple[str, Any]] = [
        ("/v1/episodes", {"id": "f"}),
        (path, {**dose(), "id": None}),
        (path, dose(id="d2")),
        ("/v1/results", {"items": [result("e", "d2")]}),
        ("/v1/episodes/e/overruled", {"ask": dose(id="d3"), "used": 1.0}),
        ("/v1/episodes/e/close", {}),
        ("/v1/operator", {"action": "shadow", "why": "to see"}),
    ]
    first = {}
    for place, (where, body) in enumerate(sent):
        first[place] = post(client, where, body, f"again-{place}")
        assert first[place].status_code == 200, first[place].text
    last = service.live.journal.last
    for place, (where, body) in enumerate(sent):
        again = post(client, where, body, f"again-{place}")
        assert (again.status_code, again.json()) == (200, first[place].json())
    assert service.live.journal.last == last


def test_another_request_under_a_key_is_a_conflict(client: httpx.Client) -> None:
    path = begun(client)
    assert post(client, path, dose(), "one").status_code == 200
    for where, body in (
        (path, dose(id="d2")),
        (path, dose(context={"temperature": 21.0})),
        ("/v1/results", {"items": [result("e")]}),
        ("/v1/episodes/e/close", {}),
        ("/v1/operator", {"action": "shadow", "why": "to see"}),
    ):
        answer = post(client, where, body, "one")
        assert answer.status_code == 409
        assert "one" in said(answer)


def test_an_episode_is_opened_once(service: Service, client: httpx.Client) -> None:
    opened = post(client, "/v1/episodes", {"id": "e"}, "first")
    assert opened.status_code == 200
    last = service.live.journal.last
    again = post(client, "/v1/episodes", {"id": "e"}, "first")
    assert (again.status_code, again.json()) == (200, opened.json())
    other = post(client, "/v1/episodes", {"id": "f"}, "first")
    assert (other.status_code, "'first'" in said(other)) == (409, True)
    unnamed = post(client, "/v1/episodes", {}, "first")
    assert (unnamed.status_code, "'first'" in said(unnamed)) == (409, True)
    second = post(client, "/v1/episodes", {"id": "e"}, "second")
    assert (second.status_code, said(second)) == (409, "episode 'e' was opened before")
    assert service.live.journal.last == last
    for where, body in (("/v1/episodes/e/decisions", recipe()), ("/v1/results", {"items": [result("e")]})):
        taken = post(client, where, body, "first")
        assert (taken.status_code, "'first'" in said(taken)) == (409, True), taken.text
    assert list(service.live.state.trees) == ["e"]
    made = post(client, "/v1/episodes", {}, "mine").json()
    assert post(client, "/v1/episodes", {}, "mine").json() == made
    assert post(client, "/v1/episodes", {}, "yours").json()["episode"] != made["episode"]
    assert post(client, "/v1/episodes", {"id": made["episode"]}, "theirs").status_code == 409


def test_an_opened_episode_is_known_by_its_key_after_a_restart_and_when_it_was_counted(file_database: Database) -> None:
    with started(file_database) as live:
        opened = live.open_episode("mine", "e")
        live.decide(key(), "e", Ask(**recipe()))
        live.close(key(), "e", abandoned=True)
        count_all(counting_here(live))
        assert live.state.trees == {}
    with started(file_database) as live:
        assert live.open_episode("mine", "e") == opened
        with pytest.raises(Conflict, match="episode 'e' was opened before"):
            live.open_episode("yours", "e")


def test_a_key_is_for_one_time_of_an_episode(file_database: Database) -> None:
    with served(make_service(make_live(file_database, parse_problem(WHOLE)))) as client:
        assert post(client, "/v1/episodes", {"id": "e", "time": "2026-01-01"}, "one").status_code == 200
        assert post(client, "/v1/episodes", {"id": "e", "time": "2026-01-01"}, "one").status_code == 200
        answer = post(client, "/v1/episodes", {"id": "e", "time": "2026-01-02"}, "one")
        assert (answer.status_code, "another request" in said(answer)) == (409, True)


def test_journals_without_the_keys_of_callers_go_on(file_database: Database) -> None:
    with started(file_database) as live:  # an episode as earlier releases have written it
        live.journal.append([JournalEntry(EPISODE, {"id": "old", "time": None}, None, "episode old", "digest")])
    with started(file_database) as live:
        assert live.decide(key(), "old", Ask(**recipe()))["episode"] == "old"
        with pytest.raises(Conflict, match="episode 'old' was opened before"):
            live.open_episode(key(), "old")
        play(live, "new")
        assert live.state.started == 2


def test_no_key_of_a_caller_is_one_of_the_gates_own(quick_service: Service, quick: httpx.Client) -> None:
    begun(quick)
    post(quick, "/v1/episodes/e/close", {"abandoned": True})
    own = [item.key for item in records(quick_service.live) if item.key is not None and " " in item.key]
    assert own == ["episode e"]
    for taken in (*own, "abandoned e"):
        answer = post(quick, "/v1/episodes", {"id": "f"}, taken)
        assert (answer.status_code, "dempotency" in said(answer)) == (422, True)


def test_results_come_late_out_of_order_twice_and_in_batches(service: Service, client: httpx.Client) -> None:
    path, other = begun(client), begun(client, "f")
    for place in range(4):
        assert post(client, path, dose(id=f"d{place}")).status_code == 200
    assert post(client, other, dose(id="d0")).status_code == 200
    assert post(client, "/v1/episodes/e/close", {}).status_code == 200
    batch = [result("f", "d0"), result("e", "d3", 1.0), result("e", "d1", 2.0)]
    assert post(client, "/v1/results", {"items": batch}).json()["accepted"] == 3
    assert post(client, "/v1/results", {"items": [result("e", "d3", 1.0), result("e", "d0", 3.0)]}).status_code == 200
    assert post(client, "/v1/results", {"items": [{"episode": "e", "decision": "d2", "missing": True}]}).status_code == 200
    tree = service.live.state.trees["e"]
    assert {name: item.reward for name, item in tree.results.items()} == {"d3": 1.0, "d1": 2.0, "d0": 3.0, "d2": None}
    assert tree.settled(service.live.problem)
    changed = post(client, "/v1/results", {"items": [result("e", "d3", 1.5)]})
    assert changed.status_code == 409
    assert "d3" in said(changed)


def test_results_are_taken_all_or_none(service: Service, client: httpx.Client) -> None:
    path = begun(client)
    assert post(client, path, dose()).status_code == 200
    last = service.live.journal.last
    for wrong, status in (
        (result("e", "nobody"), 404),
        (result("nowhere"), 404),
        (result("e", reward=11.0), 422),
        (result("e", "r"), 422),
    ):
        answer = post(client, "/v1/results", {"items": [result("e"), wrong]})
        assert (answer.status_code, said(answer).startswith("item 1: ")) == (status, True), answer.text
    assert service.live.journal.last == last
    assert service.live.state.trees["e"].results == {}


def test_two_results_of_one_decision_in_a_batch_agree(quick_service: Service, quick: httpx.Client) -> None:
    path = begun(quick)
    assert post(quick, path, dose()).status_code == 200
    answer = post(quick, "/v1/results", {"items": [result("e", reward=1.0), result("e", reward=2.0)]})
    assert answer.status_code == 409
    assert "item 1" in said(answer)
    assert quick_service.live.state.trees["e"].results == {}
    assert post(quick, "/v1/results", {"items": [result("e", reward=1.0), result("e", reward=1.0)]}).status_code == 200


def test_an_abandoned_episode_has_its_rewards_missing(quick_service: Service, quick: httpx.Client) -> None:
    path = begun(quick)
    for place in range(3):
        assert post(quick, path, dose(id=f"d{place}")).status_code == 200
    assert post(quick, "/v1/results", {"items": [result("e", "d1")]}).status_code == 200
    assert post(quick, "/v1/episodes/e/close", {}).json()["missing"] == 0
    assert not quick_service.live.state.settled(1)
    assert post(quick, "/v1/episodes/e/close", {"abandoned": True}).json()["missing"] == 2
    (tree,) = quick_service.live.state.settled(1)
    assert {name: item.reward for name, item in tree.results.items()} == {"d0": None, "d1": 4.0, "d2": None}


def test_an_episode_without_decisions_leaves_nothing_behind(quick_service: Service, quick: httpx.Client) -> None:
    assert post(quick, "/v1/episodes", {"id": "e"}).status_code == 200
    assert post(quick, "/v1/episodes/e/close", {}).status_code == 200
    assert quick_service.live.state.trees == {}
    assert post(quick, "/v1/episodes/e/decisions", recipe()).status_code == 409
    begun(quick, "f")
    assert quick_service.live.state.trees["f"].number == 1


# ---- overruled decisions -----------------------------------------------------------------------------------------------------


def test_an_overruled_decision_is_what_was_done(quick_service: Service, quick: httpx.Client) -> None:
    path = begun(quick)
    asked = post(quick, path, dose()).json()
    used = next(value for value in (-1.0, 0.0, 1.0) if value != asked["action"])
    answer = post(quick, "/v1/episodes/e/overruled", {"ask": dose(), "used": used, "explored": True}).json()
    assert (answer["action"], answer["by"]) == (used, "legacy")
    never = post(quick, "/v1/episodes/e/overruled", {"ask": dose(id="d2"), "used": 1.0, "explored": True}).json()
    assert never["propensity"] == pytest.approx(0.2)
    tree = quick_service.live.state.trees["e"]
    assert [(item.id, item.overruled) for item in tree.decisions.values()] == [("r", False), ("d", True), ("d2", True)]
    assert tree.arm == "agent"  # the legacy acted at its own level, with its own probabilities: that is evidence


def test_an_action_that_was_not_drawn_is_no_evidence(quick_service: Service, quick: httpx.Client) -> None:
    begun(quick)
    assert post(quick, "/v1/episodes/e/overruled", {"ask": dose(), "used": 1.0, "explored": False}).status_code == 200
    assert quick_service.live.state.trees["e"].arm == "mixed"


def test_what_followed_cannot_be_overruled(quick: httpx.Client) -> None:
    path = begun(quick)
    assert post(quick, path, dose()).status_code == 200
    assert post(quick, "/v1/results", {"items": [result("e")]}).status_code == 200
    for ask, used in ((dose(), 1.0), (recipe(), "fast"), (dose(context={"temperature": 1.0}), 1.0)):
        assert post(quick, "/v1/episodes/e/overruled", {"ask": ask, "used": used}).status_code == 409
    assert post(quick, "/v1/episodes/e/overruled", {"ask": recipe(id="r2"), "used": "fast"}).status_code == 409
    closed = recipe(available=[True, False, True], legacy={"distribution": [0.5, 0, 0.5]}, id="r3")
    assert post(quick, "/v1/episodes", {"id": "f"}).status_code == 200
    wrong = post(quick, "/v1/episodes/f/overruled", {"ask": closed, "used": "fast"})
    assert (wrong.status_code, "used" in said(wrong)) == (422, True)


# ---- what is refused ---------------------------------------------------------------------------------------------------------

WRONG = {
    "an unknown level": (dose(level="doze"), "level"),
    "no level": ({name: value for name, value in dose().items() if name != "level"}, "level"),
    "a context that is missing": (dose(context={}), "temperature"),
    "a context that is not known": (dose(context={"temperature": 1.0, "pressure": 2.0}), "pressure"),
    "a context that is text": (dose(context={"temperature": "warm"}), "temperature"),
    "a context that is true": (dose(context={"temperature": True}), "temperature"),
    "a context that is a list": (dose(context={"temperature": [1.0]}), "temperature"),
    "a context that is null": (dose(context={"temperature": None}), "context"),
    "a huge context": (dose(context={"temperature": 10**400}), "context"),
    "a distribution that is short": (dose(legacy={"distribution": [0.5, 0.5]}), "legacy.distribution"),
    "log-probabilities": (dose(legacy={"distribution": [-0.7, -1.2, -1.6]}), "legacy.distribution"),
    "densities": (dose(legacy={"distribution": [1.5, 0.3, 0.2]}), "legacy.distribution"),
    "probabilities that do not sum to one": (dose(legacy={"distribution": [0.5, 0.3, 0.1]}), "legacy.distribution"),
    "a distribution of text": (dose(legacy={"distribution": ["0.5", "0.3", "0.2"]}), "legacy.distribution"),
    "no legacy": (dose(legacy=None), "legacy"),
    "an empty legacy": (dose(legacy={}), "legacy"),
    "both kinds of legacy": (dose(legacy={**LEGACY, "action": 1.0, "epsilon": 0.1}), "legacy"),
    "an epsilon beside a distribution": (dose(legacy={**LEGACY, "epsilon": 0.1}), "legacy.epsilon"),
    "no epsilon": (dose(legacy={"action": 1.0}), "legacy.epsilon"),
    "an epsilon of 0": (dose(legacy={"action": 1.0, "epsilon": 0.0}), "legacy.epsilon"),
    "an epsilon above 1": (dose(legacy={"action": 1.0, "epsilon": 1.5}), "legacy.epsilon"),
    "an action of the legacy that does not exist": (dose(legacy={"action": 7.0, "epsilon": 0.1}), "legacy.action"),
    "a taken action that does not exist": (dose(legacy={**LEGACY, "taken": "up"}), "legacy.taken"),
    "a taken action that the legacy never takes": (dose(legacy={"distribution": [0, 0.5, 0.5], "taken": -1.0}), "legacy.taken"),
    "a mask where there is none": (dose(available=ALL), "available"),
    "a misspelt field": (dose(contexts={}), "contexts"),
    "a parent that does not exist": (dose(parent="nobody"), "parent"),
    "a parent of the outermost level": (recipe(id="x", parent="r"), "parent"),
    "an id with a slash": (dose(id="a/b"), "id"),
    "an id that is empty": (dose(id=""), "id"),
    "an id that is long": (dose(id="x" * 121), "id"),
}
MASKED = {
    "no mask": (recipe(available=None), "available"),
    "a short mask": (recipe(available=[True, True]), "available"),
    "a mask of numbers": (recipe(available=[1, 1, 1]), "available"),
    "nothing available": (recipe(available=[False] * 3), "available"),
    "a masked action with probability": (recipe(available=[False, True, True]), "legacy.distribution"),
    "a masked action of the legacy": (
        recipe(available=[False, True, True], legacy={"action": "slow", "epsilon": 0.1}),
        "legacy.action",
    ),
    "a category that does not exist": (recipe(context={"task": "medium"}), "task"),
    "a category that is a number": (recipe(context={"task": 1}), "task"),
}


def test_every_wrong_question_is_refused_and_its_field_named(quick_service: Service, quick: httpx.Client) -> None:
    path = begun(quick)
    assert post(quick, path, dose(id="inner")).status_code == 200
    assert post(quick, "/v1/episodes", {"id": "f"}).status_code == 200
    last = quick_service.live.journal.last
    asked = [(path, what, body, named) for what, (body, named) in WRONG.items()]
    asked += [("/v1/episodes/f/decisions", what, body, named) for what, (body, named) in MASKED.items()]
    asked += [(path, "a parent of the same level", dose(parent="inner"), "parent")]
    asked += [("/v1/episodes/f/decisions", "no parent yet", dose(), "parent")]
    for where, what, body, named in asked:
        answer = post(quick, where, body)
        assert 400 <= answer.status_code < 500, (what, answer.text)
        assert named in said(answer), (what, said(answer))
        used = post(quick, where.replace("decisions", "overruled"), {"ask": body, "used": 1.0})
        assert 400 <= used.status_code < 500, (what, used.text)
    assert quick_service.live.journal.last == last


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_none_are_refused(quick_service: Service, quick: httpx.Client, number: str) -> None:
    path = begun(quick)
    assert post(quick, path, dose()).status_code == 200
    last = quick_service.live.journal.last
    bodies = [
        (path, '{"level":"dose","context":{"temperature":%s},"legacy":{"distribution":[0.5,0.3,0.2]}}', "temperature"),
        (path, '{"level":"dose","context":{"temperature":1},"legacy":{"distribution":[%s,0.3,0.2]}}', "distribution"),
        (path, '{"level":"dose","context":{"temperature":1},"legacy":{"action":1,"epsilon":%s}}', "epsilon"),
        ("/v1/results", '{"items":[{"episode":"e","decision":"d","reward":%s,"guards":{"scrap":0.5}}]}', "reward"),
        ("/v1/results", '{"items":[{"episode":"e","decision":"d","reward":1,"guards":{"scrap":%s}}]}', "scrap"),
    ]
    for where, body, named in bodies:
        headers = {"idempotency-key": key(), "content-type": "application/json"}
        answer = quick.post(where, content=body % number, headers=headers)
        assert answer.status_code == 422, answer.text
        assert named in said(answer)
    assert quick_service.live.journal.last == last


def test_results_that_do_not_fit_are_refused(quick_service: Service, quick: httpx.Client) -> None:
    path = begun(quick)
    assert post(quick, path, dose()).status_code == 200
    last = quick_service.live.journal.last
    for item, named in (
        (result("e", reward=10.5), "reward"),
        (result("e", reward=-0.1), "reward"),
        (result("e", reward=None), "reward"),
        (result("e", reward="4"), "reward"),
        (result("e", missing=True), "missing"),
        (result("e", guards={}), "scrap"),
        (result("e", guards={"scrap": 2.0}), "scrap"),
        (result("e", guards={"scrap": 0.5, "noise": 0.1}), "noise"),
        (result("e", outcome=1.0), "outcome"),
        (result("e", extra=1), "extra"),
    ):
        answer = post(quick, "/v1/results", {"items": [item]})
        assert (answer.status_code, named in said(answer)) == (422, True), answer.text
    assert post(quick, "/v1/results", {"items": []}).status_code == 422
    assert quick_service.live.journal.last == last


def test_a_closed_episode_takes_no_more_decisions(quick: httpx.Client) -> None:
    path = begun(quick)
    assert post(quick, "/v1/episodes/e/close", {}).status_code == 200
    for where, body in ((path, dose()), ("/v1/episodes/e/overruled", {"ask": dose(), "used": 1.0}), ("/v1/episodes/e/close", {})):
        answer = post(quick, where, body)
        assert (answer.status_code, "closed" in said(answer)) == (409, True)


def test_what_is_not_there_is_not_found(quick: httpx.Client) -> None:
    for where, body in (
        ("/v1/episodes/nowhere/decisions", recipe()),
        ("/v1/episodes/nowhere/overruled", {"ask": recipe(), "used": "fast"}),
        ("/v1/episodes/nowhere/close", {}),
        ("/v1/results", {"items": [result("nowhere")]}),
    ):
        answer = post(quick, where, body)
        assert (answer.status_code, "nowhere" in said(answer)) == (404, True)


def test_one_decision_where_the_problem_has_one(quick: httpx.Client) -> None:
    path = begun(quick)
    for where, body in ((path, recipe(id="r2")), ("/v1/episodes/e/overruled", {"ask": recipe(id="r2"), "used": "fast"})):
        answer = post(quick, where, body)
        assert (answer.status_code, "recipe" in said(answer)) == (409, True)
    assert post(quick, path, dose()).status_code == 200
    assert post(quick, path, dose()).status_code == 409
    assert post(quick, path, dose(id="d2")).status_code == 200


def test_a_key_is_needed(quick: httpx.Client) -> None:
    for name in (None, "", "a b", "x" * 101):
        headers = {} if name is None else {"idempotency-key": name}
        answer = quick.post("/v1/episodes", json={"id": "e"}, headers=headers)
        assert (answer.status_code, "dempotency" in said(answer)) == (422, True)


def test_bodies_that_are_not_json_are_refused(quick: httpx.Client) -> None:
    for content in (b"", b"{", b"\xff", b"[1]", b"null", b'"text"', b"[" * 100_000, b"9" * 5000):
        headers = {"idempotency-key": key(), "content-type": "application/json"}
        answer = quick.post("/v1/episodes", content=content, headers=headers)
        assert 400 <= answer.status_code < 500, (content[:20], answer.text)


def test_text_that_is_no_unicode_is_refused(quick: httpx.Client) -> None:
    path = begun(quick)
    for body in (
        b'{"level":"dose","context":{"\\ud800":1}}',
        b'{"level":"dose","context":{"temperature":"\\udfff"}}',
        b'{"level":"dose","\\ud800":1}',
        b'{"level":"dose","context":{"temperature":1},"legacy":{"action":"\\ud800","epsilon":0.1}}',
    ):
        headers = {"idempotency-key": key(), "content-type": "application/json"}
        answer = quick.post(path, content=body, headers=headers)
        assert answer.status_code == 422, answer.text


# ---- other problems ----------------------------------------------------------------------------------------------------------

WHOLE = """
episode: batch
time: started_at
reward: {column: margin, range: [0, 10], per: episode}
levels:
  - name: dose
    decision: dose_id
    context: [{name: state, columns: [s1, s2]}]
    action: {column: dose, values: [1, 2, 3]}
    propensity: {policy: uniform}
"""


def test_rewards_of_whole_episodes_times_vectors_and_a_known_legacy(file_database: Database) -> None:
    service = make_service(make_live(file_database, parse_problem(WHOLE)))
    ask = {"level": "dose", "id": "d", "context": {"state": [1.0, 2]}}
    with served(service) as client:
        assert "time" in said(post(client, "/v1/episodes", {"id": "e"}))
        assert post(client, "/v1/episodes", {"id": "e", "time": "2026-01-01"}).status_code == 200
        for wrong in ({"state": [1.0]}, {"state": 1.0}, {"state": [1.0, "x"]}):
            assert "state" in said(post(client, "/v1/episodes/e/decisions", {**ask, "context": wrong}))
        answer = post(client, "/v1/episodes/e/decisions", ask).json()
        assert answer["propensity"] == pytest.approx(1 / 3)
        assert "legacy" in said(post(client, "/v1/episodes/e/decisions", {**ask, "id": "x", "legacy": LEGACY}))
        named = post(client, "/v1/results", {"items": [{"episode": "e", "decision": "d", "reward": 1.0}]})
        assert (named.status_code, "decision" in said(named)) == (422, True)
        assert post(client, "/v1/results", {"items": [{"episode": "e", "reward": 1.0}]}).status_code == 200
        assert post(client, "/v1/episodes/e/close", {}).status_code == 200
        assert service.live.state.settled(1)
    with served(make_service(make_live(file_database, parse_problem(WHOLE)))) as client:
        assert post(client, "/v1/episodes", {"id": "e", "time": "2026-01-02"}).status_code == 409
