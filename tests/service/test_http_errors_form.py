"""What does not have the right form is refused with the field and what was expected, without the values that were sent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from service_cases import dose, key, make_live, make_service, post, recipe, records, served

from aegis.handover import ACTIONS
from aegis.service.app import Service
from aegis.service.client.names import SIGNS
from aegis.service.http_errors import describe_validation_errors
from aegis.service.schemas import Ask, Say
from aegis.service.store.database import Database

LOST = "Input should be a finite number"


@pytest.fixture
def service(file_database: Database) -> Service:
    """Return the service of a gate."""
    return make_service(make_live(file_database))


@pytest.fixture
def client(service: Service) -> Iterator[httpx.Client]:
    """Return a client of it, with an episode that is going on."""
    with served(service) as found:
        for where, body in (("", {"id": "e"}), ("/e/decisions", recipe()), ("/e/decisions", dose())):
            assert post(found, f"/v1/episodes{where}", body).status_code == 200
        yield found


def told(client: httpx.Client, where: str, content: str) -> dict[str, str]:
    """Send text as it is, and return by field why it was refused."""
    headers = {"idempotency-key": key(), "content-type": "application/json"}
    answer = client.post(where, content=content, headers=headers)
    assert answer.status_code == 422, answer.text
    detail = answer.json()["detail"]
    return {"": detail} if isinstance(detail, str) else {item["where"]: item["why"] for item in detail}


@pytest.mark.parametrize("number", ["NaN", "-1e999"])
def test_numbers_that_are_not_finite(client: httpx.Client, number: str) -> None:
    asked = '{"level":"dose","context":{"temperature":%s},"legacy":{"distribution":[0.5,%s,0.2],"epsilon":%s}}'
    found = told(client, "/v1/episodes/e/decisions", asked % (number, number, number))
    assert list(found) == ["body.context.temperature", "body.legacy.distribution.1", "body.legacy.epsilon"]
    assert all(LOST in why for why in found.values())
    items = '{"items":[{"episode":"e","decision":"d","reward":%s,"guards":{"scrap":%s}}]}'
    found = told(client, "/v1/results", items % (number, number))
    assert list(found) == ["body.items.0.reward", "body.items.0.guards.scrap"] and all(LOST in why for why in found.values())
    assert LOST in told(client, "/v1/episodes", f'{{"id":"f","time":{number}}}')["body.time"]


WRONG = {
    '{"level":"dose","context":{"temperature":%s}}' % ("1" * 400): {"body.context.temperature": "less than or equal to 1"},
    '{"level":"dose","context":{"temperature":null}}': {"body.context.temperature": "Input should be a valid number"},
    '{"level":"dose","context":{"temperature":[1,"secret"]}}': {"body.context.temperature.1": "Input should be a valid number"},
    '{"level":"dose","context":[1]}': {"body.context": "Input should be a valid dictionary"},
    '{"level":"dose","legacy":{"distribution":[true]}}': {"body.legacy.distribution.0": "Input should be a valid number"},
    '{"level":"dose","available":["secret"]}': {"body.available.0": "Input should be a valid boolean"},
    '{"level":"se/cret","id":""}': {"body.level": "a name has letters of any language", "body.id": "at least 1 character"},
    '{"contexts":{}}': {"body.level": "Field required", "body.contexts": "Extra inputs are not permitted"},
    '{"level":"dose","context":{"temperature":01}}': {"body": "JSON decode error"},
    "[1]": {"body": "Input should be a valid dictionary"},
    "": {"body": "Field required"},
}


@pytest.mark.parametrize("name", ["a\\b", "a\nb", ".a", " a"])
def test_a_name_that_does_not_fit_is_answered_in_words(client: httpx.Client, name: str) -> None:
    for where, content, field in (
        ("/v1/episodes", json.dumps({"id": name}), "body.id"),
        ("/v1/episodes/e/decisions", json.dumps({"level": "dose", "id": name}), "body.id"),
        (f"/v1/episodes/{quote(name)}/close", "{}", "path.episode"),
    ):
        assert told(client, where, content) == {field: f"a name has {SIGNS}"}
    refused = post(client, "/v1/episodes", {}, "a b")
    assert refused.json()["detail"] == [{"where": "header.Idempotency-Key", "why": "expected signs of ASCII, without blanks"}]


def test_a_path_that_does_not_exist_says_what_there_is(client: httpx.Client) -> None:
    slash = post(client, "/v1/episodes/a%2Fb/close", {})
    assert (slash.status_code, slash.json()["code"]) == (404, "not-found")
    assert "/v1/episodes/ID/" in slash.json()["detail"] and "no slash" in slash.json()["detail"]
    assert "/v1/openapi.json" in client.get("/v1/episode").json()["detail"]


def test_other_things_that_do_not_fit(service: Service, client: httpx.Client) -> None:
    last = service.live.journal.last
    for content, expected in WRONG.items():
        found = told(client, "/v1/episodes/e/decisions", content)
        assert list(found) == list(expected), content
        assert all(words in found[where] and "secret" not in found[where] for where, words in expected.items()), found
    assert service.live.journal.last == last


def test_what_does_not_fit_the_problem_is_told_as_it_looks_in_json(client: httpx.Client) -> None:
    for place, (context, found) in enumerate(((True, "true"), ("warm", '"warm"'), ([1], "[1]"))):
        answer = post(client, "/v1/episodes/e/decisions", dose(id=f"x{place}", context={"temperature": context}))
        assert answer.json()["detail"] == f"context: 'temperature': a finite number, found {found}"
    long = post(client, "/v1/episodes/e/decisions", dose(id="d2", context={"temperature": "x" * 190}))
    assert long.json()["detail"].endswith("xxx...")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["level", "context", "int", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(body=st.dictionaries(st.sampled_from(["level", "context", "legacy", "available", "id", "y"]), JSON, max_size=4))
def test_every_misfit_names_a_field_and_no_internals(body: dict[str, Any]) -> None:
    try:
        Ask.model_validate(body)
    except ValidationError as error:
        errors = [{**item, "loc": ("body", *item["loc"])} for item in error.errors()]
        found = describe_validation_errors(errors, body)
        assert found
        for item in found:
            first, *steps = item["where"].split(".")
            assert first == "body"
            if steps:
                assert steps[0] in Ask.model_fields or steps[0] in body
            assert item["why"]


# ---- operators ---------------------------------------------------------------------------------------------------------------


def test_what_no_gate_can_do_is_told_with_what_it_can(service: Service, client: httpx.Client) -> None:
    last = service.live.journal.last
    for body, *words in (
        ({"action": "stop", "why": "to see"}, "action", *ACTIONS, "stop"),
        ({"action": "", "why": "to see"}, "action", *ACTIONS),
        ({"action": "pause", "why": ""}, "why"),
        ({"action": "pause", "why": " \n\t"}, "why"),
        ({"action": "approve", "why": "to see", "level": "doze"}, "level", "recipe", "dose", "doze"),
        ({"action": "revert", "why": "to see"}, "level", "recipe", "dose"),
        ({"action": "pause", "why": "to see", "level": "doze"}, "level", "recipe", "dose"),
    ):
        answer = post(client, "/v1/operator", body)
        assert answer.status_code == 422, answer.text
        assert all(word in answer.json()["detail"] for word in words), answer.text
    assert service.live.journal.last == last
    assert post(client, "/v1/operator", {"action": "approve", "why": "to see", "level": "dose"}).status_code == 409
    assert post(client, "/v1/operator", {"action": "pause", "why": "to see"}).status_code == 200
    assert [item.body["event"]["kind"] for item in records(service.live, "event")] == ["operator", "paused"]


def test_what_an_operator_may_say_is_described() -> None:
    described = Say.model_json_schema()["properties"]
    assert described["action"]["enum"] == list(ACTIONS)
    assert re.search(described["why"]["pattern"], "to see")
    assert not re.search(described["why"]["pattern"], " \n")
