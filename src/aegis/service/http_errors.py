"""Errors of the live gate, each with the HTTP status of its answer; and requests that do not have the right form."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from aegis.errors import AegisError
from aegis.service.client.names import NAME, SIGNS
from aegis.service.client.transport import ANOTHER_CONTROLLER

# What went wrong, by status; programs go by these words, which stay as they are.
CODES = {
    400: "not-json",
    401: "unauthorised",
    403: "not-allowed",
    404: "not-found",
    405: "no-such-method",
    409: "conflict",
    413: "too-large",
    421: "wrong-host",
    422: "does-not-fit",
    429: "too-many",
    503: "unavailable",
}


class ServiceError(AegisError):
    """Base of these errors. status: of the HTTP answer. code: what went wrong, for programs; one of the status if empty."""

    status = 500
    code = ""


class WrongRequest(ServiceError):
    """A request does not fit the problem."""

    status = 422


class NotFound(ServiceError):
    """There is no such episode or decision."""

    status = 404


class NotAllowed(ServiceError):
    """The episode belongs to another controller."""

    status = 403
    code = ANOTHER_CONTROLLER


class Conflict(ServiceError):
    """A request contradicts the journal: another request under one key, another reward, a closed episode."""

    status = 409


class LateRequest(Conflict):
    """A request about an episode that is closed or counted: a decision, or that not all of them are known."""

    code = "late"

    def __init__(self, why: str, episode: str) -> None:
        super().__init__(why)
        self.episode = episode


class StoreUnavailable(ServiceError):
    """The store does not answer, or another process writes to it: nothing was acknowledged, try again."""

    status = 503


class NotWriter(StoreUnavailable):
    """Another process is the writer of this gate."""

    code = "not-writer"


class StoreDamaged(ServiceError):
    """The store holds something that no gate has written."""

    code = "store-damaged"


def error_answer(detail: Any, status: int, code: str = "", headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as an answer in plain ASCII: what was sent, and is named in it, may not be proper text.

    code: for programs; that of the status if empty.
    """
    later = {"retry-after": "1"} if status in (429, 503) else {}
    body = {"detail": detail, "code": code or CODES.get(status, "error")}
    return Response(json.dumps(body), status, {**later, **(headers or {})}, "application/json")


def describe_validation_errors(errors: Sequence[Mapping[str, Any]], body: Any) -> list[dict[str, str]]:
    """Return by field why it does not have the right form: no values that were sent are among the words.

    Where several forms are allowed pydantic reports each of them; the one that got furthest is what was meant.
    """
    reasons: dict[tuple[str, ...], list[str]] = {}
    for error in errors:
        reasons.setdefault(_field_path(error, body), []).append(_reason(error))
    return [
        {"where": ".".join(place), "why": "; or: ".join(dict.fromkeys(messages))}
        for place, messages in reasons.items()
        if not any(len(other) > len(place) and other[: len(place)] == place for other in reasons)
    ]


def describe_unknown_path(path: str) -> str:
    """Return what to do about a path under which there is nothing."""
    if path.startswith("/v1/episodes/"):
        return (
            "there is nothing under this path; expected /v1/episodes/ID/ with decisions, overruled, replaced or close. An ID has "
            f"{SIGNS}"
        )
    return "there is nothing under this path; /v1/openapi.json describes what there is"


def _reason(error: Mapping[str, Any]) -> str:
    """Return why a field does not have the right form: in pydantic's words, but for patterns, which few can read."""
    if error["type"] != "string_pattern_mismatch":
        return str(error["msg"])
    return f"a name has {SIGNS}" if error["ctx"]["pattern"] == NAME else "expected signs of ASCII, without blanks"


def _field_path(error: Mapping[str, Any], body: Any) -> tuple[str, ...]:
    """Return the field, without the steps that are no fields but names of types that were tried."""
    first, *steps = error["loc"]
    if first != "body":
        return tuple(map(str, error["loc"]))
    path = [str(first)]
    for place, step in enumerate(steps):
        inside = step in body if isinstance(body, dict) else isinstance(body, list) and step in range(len(body))
        if inside:
            body = body[step]
        if inside or (error["type"] == "missing" and place == len(steps) - 1):
            path.append(str(step))
    return tuple(path)
