"""Parameters, roles and error answers that all routes share."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Header, Path, Request

from aegis.service.auth import Token, require_permission
from aegis.service.client.names import LONGEST_NAME, NAME
from aegis.service.schemas import ErrorAnswer

# No spaces: keys with one are the gate's own.
Key = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=100,
        pattern=r"^[\x21-\x7e]+$",
        description="A name of this request, chosen by you: sent again, it gets the same answer and is not done twice.",
    ),
]
EpisodeName = Annotated[str, Path(min_length=1, max_length=LONGEST_NAME, pattern=NAME)]
Reader = Annotated[Token, Depends(require_permission("read"))]
Controller = Annotated[Token, Depends(require_permission("control"))]
OperatorToken = Annotated[Token, Depends(require_permission("operate"))]


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the errors that a route may answer with, for its description."""
    words = {
        400: "It cannot be read as JSON.",
        401: "No token, or one that is not known.",
        403: "The role of the token does not allow it, or the episode belongs to another controller.",
        404: "There is no such episode or decision.",
        409: "It contradicts what was written before.",
        413: "The body is too large.",
        421: "The service is not called by this name.",
        422: "It does not fit the form, or the problem.",
        429: "Too many requests.",
        503: "The store does not answer, or another process is the writer: nothing was done, try again.",
    }
    usual = (401, 403, 413, 421, 429) if 409 not in statuses else (400, 401, 403, 413, 421, 429)
    return {status: {"model": ErrorAnswer, "description": words[status]} for status in (*usual, *statuses)}


def service_of(request: Request) -> Any:
    """Return the service that a request is for."""
    return request.app.state.service
