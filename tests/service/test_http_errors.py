"""Errors of the live gate: each has the status of its answer, and an answer is always proper text."""

from __future__ import annotations

import json

import pytest
from service_cases import bearer, make_live, make_service, post, served

from aegis.errors import AegisError
from aegis.service.auth import make_token
from aegis.service.http_errors import (
    Conflict,
    LateRequest,
    NotAllowed,
    NotFound,
    NotWriter,
    ServiceError,
    StoreDamaged,
    StoreUnavailable,
    WrongRequest,
    error_answer,
)
from aegis.service.store.database import Database


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (WrongRequest("x"), 422, "does-not-fit"),
        (NotAllowed("x"), 403, "another-controller"),
        (NotFound("x"), 404, "not-found"),
        (Conflict("x"), 409, "conflict"),
        (LateRequest("x", "e"), 409, "late"),
        (StoreUnavailable("x"), 503, "unavailable"),
        (NotWriter("x"), 503, "not-writer"),
        (StoreDamaged("x"), 500, "store-damaged"),
    ],
)
def test_statuses_and_codes(error: ServiceError, status: int, code: str) -> None:
    assert isinstance(error, AegisError)
    assert (str(error), error.status) == ("x", status)
    assert json.loads(bytes(error_answer(str(error), error.status, error.code).body)) == {"detail": "x", "code": code}


def test_every_refusal_over_http_has_a_code(file_database: Database) -> None:
    tokens = {role: bearer(make_token(file_database, role, role)) for role in ("viewer", "controller")}
    with served(make_service(make_live(file_database), hosts=("127.0.0.1",))) as client:
        for answer, status, code in (
            (client.get("/v1/gate"), 401, "unauthorised"),
            (post(client, "/v1/episodes", {}, **tokens["viewer"]), 403, "not-allowed"),
            (post(client, "/v1/episodes", {"ids": 1}, **tokens["controller"]), 422, "does-not-fit"),
            (post(client, "/v1/episodes/e/close", {}, **tokens["controller"]), 404, "not-found"),
            (client.get("/nowhere"), 404, "not-found"),
            (client.put("/v1/gate"), 405, "no-such-method"),
            (client.get("/v1/gate", headers={"host": "elsewhere"}), 421, "wrong-host"),
        ):
            assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
        assert client.get("/v1/gate").headers["www-authenticate"] == "Bearer"


def test_an_answer_is_ascii_even_if_the_request_was_no_text() -> None:
    answer = error_answer("found '\ud800' and 'ä'", 422)
    assert bytes(answer.body).isascii()
    assert json.loads(bytes(answer.body)) == {"detail": "found '\ud800' and 'ä'", "code": "does-not-fit"}
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(("status", "retry"), [(422, None), (409, None), (429, "1"), (503, "1")])
def test_a_request_that_may_work_later_says_when(status: int, retry: str | None) -> None:
    assert error_answer("x", status).headers.get("retry-after") == retry
