"""Errors of the live gate, each with the HTTP status of its answer."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from aegis.errors import AegisError


class ServiceError(AegisError):
    """Base of these errors. status: of the HTTP answer."""

    status = 500


class WrongRequest(ServiceError):
    """A request does not fit the problem."""

    status = 422


class NotFound(ServiceError):
    """There is no such episode or decision."""

    status = 404


class Conflict(ServiceError):
    """A request contradicts the journal: another request under one key, another reward, a closed episode."""

    status = 409


class LateRequest(Conflict):
    """A request about an episode that is closed or counted: a decision, or that not all of them are known."""

    def __init__(self, why: str, episode: str) -> None:
        super().__init__(why)
        self.episode = episode


class StoreUnavailable(ServiceError):
    """The store does not answer, or another process writes to it: nothing was acknowledged, try again."""

    status = 503


class NotWriter(StoreUnavailable):
    """Another process is the writer of this gate."""


class StoreDamaged(ServiceError):
    """The store holds something that no gate has written."""


def error_answer(detail: Any, status: int) -> Response:
    """Return an error as an answer in plain ASCII: what was sent, and is named in it, may not be proper text."""
    headers = {"retry-after": "1"} if status in (429, 503) else None
    return Response(json.dumps({"detail": detail}), status, headers, "application/json")
