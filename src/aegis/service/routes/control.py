"""Routes that change something: episodes, decisions and results of control systems, actions of operators."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from aegis.service.http.admission import ShareRoute
from aegis.service.routes.base import Controller, EpisodeName, Key, OperatorToken, answers, service_of
from aegis.service.schemas import (
    Accepted,
    Answer,
    Ask,
    Close,
    Closed,
    Done,
    Opened,
    OpenEpisode,
    Overrule,
    Replace,
    Replaced,
    Reports,
    Say,
)

router = APIRouter(prefix="/v1", tags=["control"], route_class=ShareRoute)


@router.post("/episodes", response_model=Opened, responses=answers(409, 422, 503))
def open_episode(request: Request, body: OpenEpisode, key: Key, token: Controller) -> Any:
    """Open an episode."""
    return service_of(request).live.open_episode(key, body.id, body.time, caller=token.name or None)


@router.post("/episodes/{episode}/decisions", response_model=Answer, responses=answers(404, 409, 422, 503))
def decide(request: Request, episode: EpisodeName, body: Ask, key: Key, token: Controller) -> Any:
    """Ask what is to be done at a decision."""
    service = service_of(request)
    answer = service.live.decide(key, episode, body, caller=token.name or None)
    service.metrics.decisions.labels(answer["level"], answer["by"]).inc()
    return answer


@router.post("/episodes/{episode}/overruled", response_model=Answer, responses=answers(404, 409, 422, 503))
def overrule(request: Request, episode: EpisodeName, body: Overrule, key: Key, token: Controller) -> Any:
    """Say that the legacy's own action was used, since the gate did not answer in time."""
    return service_of(request).live.overrule(key, episode, body.ask, body.used, body.explored, caller=token.name or None)


@router.post("/episodes/{episode}/replaced", response_model=Replaced, responses=answers(404, 409, 422, 503))
def replace(request: Request, episode: EpisodeName, body: Replace, key: Key, token: Controller) -> Any:
    """Say that an interlock or a person replaced the action of a decision. The episode goes on."""
    return service_of(request).live.replace(key, episode, body.decision, body.used, body.why, caller=token.name or None)


@router.post("/results", response_model=Accepted, responses=answers(404, 409, 422, 503))
def report(request: Request, body: Reports, key: Key, token: Controller) -> Any:
    """Report results of decisions: one or many, late, out of order, or twice."""
    return service_of(request).live.report(key, body.items, caller=token.name or None)


@router.post("/episodes/{episode}/close", response_model=Closed, responses=answers(404, 409, 422, 503))
def close(request: Request, episode: EpisodeName, body: Close, key: Key, token: Controller) -> Any:
    """Close an episode: it takes no more decisions. Rewards may still come, unless it is abandoned."""
    return service_of(request).live.close(key, episode, body.abandoned, body.incomplete, caller=token.name or None)


operator_router = APIRouter(prefix="/v1", tags=["operate"], route_class=ShareRoute)


@operator_router.post("/operator", response_model=Done, responses=answers(409, 422, 503))
def say(request: Request, body: Say, key: Key, token: OperatorToken) -> Any:
    """Do what an operator wants, and keep who wanted it, and why."""
    who = token.name or "an operator on this machine"
    return service_of(request).live.say(key, body.action, who, body.why, body.level, body.challenge, caller=token.name or None)
