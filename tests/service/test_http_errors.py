"""Errors of the live gate: each has the status of its answer, and an answer is always proper text."""

from __future__ import annotations

import json

import pytest

from aegis.errors import AegisError
from aegis.service.http_errors import (
    Conflict,
    LateRequest,
    NotFound,
    NotWriter,
    ServiceError,
    StoreDamaged,
    StoreUnavailable,
    WrongRequest,
    error_answer,
)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (WrongRequest("x"), 422),
        (NotFound("x"), 404),
        (Conflict("x"), 409),
        (LateRequest("x", "e"), 409),
        (StoreUnavailable("x"), 503),
        (NotWriter("x"), 503),
        (StoreDamaged("x"), 500),
    ],
)
def test_statuses(error: ServiceError, status: int) -> None:
    assert isinstance(error, AegisError)
    assert (str(error), error.status) == ("x", status)


def test_an_answer_is_ascii_even_if_the_request_was_no_text() -> None:
    answer = error_answer("found '\ud800' and 'ä'", 422)
    assert bytes(answer.body).isascii()
    assert json.loads(bytes(answer.body)) == {"detail": "found '\ud800' and 'ä'"}
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(("status", "retry"), [(422, None), (409, None), (429, "1"), (503, "1")])
def test_a_request_that_may_work_later_says_when(status: int, retry: str | None) -> None:
    assert error_answer("x", status).headers.get("retry-after") == retry
