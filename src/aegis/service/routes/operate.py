"""For operators: approve, pause, resume, revert, and what a certified flip leads to."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from aegis.service.routes.common import Key, OperatorToken, answers, service_of
from aegis.service.wire import Done, Say

router = APIRouter(prefix="/v1", tags=["operate"])


@router.post("/operator", response_model=Done, responses=answers(409, 422, 503))
def say(request: Request, body: Say, key: Key, token: OperatorToken) -> Any:
    """Do what an operator says, and keep who said it, and why."""
    who = token.name or "an operator on this machine"
    return service_of(request).live.say(key, body.action, who, body.why, body.level, body.challenge)
