"""Routes that only read: levels, certificates, events, ledger, health, metrics, the stream for the page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from aegis.service.auth import require_permission
from aegis.service.gate_problem import comparators_by_level, sends_incumbent
from aegis.service.http.admission import ShareRoute
from aegis.service.http_errors import StoreUnavailable
from aegis.service.live_state import EVENT
from aegis.service.routes.base import Reader, answers, service_of

router = APIRouter(prefix="/v1", tags=["read"], route_class=ShareRoute)
may_read = require_permission("read")
PULSE = 1.0  # seconds between two looks of a stream
QUIET = 15.0  # seconds after which a stream says that it is still there


async def _read(request: Request, what: str) -> Response:
    model = await service_of(request).models.read(what)
    return Response(model.body, media_type="application/json")


@router.get("/gate", response_model=dict[str, Any], responses=answers(503))
async def gate(request: Request, _: Reader) -> Response:
    """Return who controls what, why, and what happens next: everything that the page shows."""
    return await _read(request, "gate")


@router.get("/problem", responses=answers(503))
def problem(request: Request, _: Reader) -> dict[str, Any]:
    """Return the levels with their actions and contexts, over whom gains are, and how rewards are reported."""
    live = service_of(request).live
    comparators = comparators_by_level(live.problem)
    return {
        "levels": [
            {
                "level": level.name,
                "actions": list(level.actions.values),
                "context": [{"name": item.name, "kind": item.kind, "values": list(item.values)} for item in level.context],
                "masked": level.masked,
                "incumbent": "sent" if sends_incumbent(level) else "stated" if level.incumbent is not None else None,
                "comparator": comparators[level.name],
            }
            for level in live.problem.levels
        ],
        "reward": {name: getattr(live.problem.reward, name) for name in ("per", "range", "unit", "goal")},
        "legacy": "uniform" if not live.columns else "sent",
        "outcome": None if live.problem.outcome is None else live.problem.outcome.name,
        "guards": [guard.column for guard in live.problem.guards],
    }


@router.get("/levels", response_model=list[dict[str, Any]], responses=answers(503))
async def levels(request: Request, _: Reader) -> Response:
    """Return every level, outermost first: who controls it, and who challenges that."""
    return await _read(request, "levels")


@router.get("/certificates", response_model=list[dict[str, Any]], responses=answers(503))
async def certificates(request: Request, _: Reader) -> Response:
    """Return what was certified of every policy that was put in control."""
    return await _read(request, "certificates")


@router.get("/ledger", response_model=dict[str, Any], responses=answers(503))
async def ledger(request: Request, _: Reader) -> Response:
    """Return the risk that was promised, what is spent of it, and on what."""
    return await _read(request, "ledger")


@router.get("/events", responses=answers(422, 503))
def events(
    request: Request,
    _: Reader,
    after: Annotated[int, Query(ge=0, le=2**62, description="The number of the last record that you know.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[dict[str, Any]]:
    """Return events of the gate after a record, oldest first, with everything that they carry."""
    records = service_of(request).live.journal.events(after, EVENT, limit)
    about = ("seq", "at", "hash", "caller")
    return [{**{name: getattr(item, name) for name in about}, **item.body["event"]} for item in records]


@router.get("/head", response_model=dict[str, Any], responses=answers(503))
async def head(request: Request, _: Reader) -> Response:
    """Return the newest record that this process has written: kept elsewhere, it shows later whether records were cut off."""
    return await _read(request, "head")


@router.get("/health", responses={503: {"description": "Not the writer, or the store cannot be written."}})
async def health(request: Request) -> JSONResponse:
    """Say whether the gate answers; open to all, for load balancers."""
    # A coroutine that takes no lock: it answers while a write hangs, and while all threads are busy.
    service = service_of(request)
    failure = service.live.failure
    health = {"writer": service.live.started, "store": failure, "counting": service.counting.failure}
    return JSONResponse(health, 200 if failure is None else 503)


@router.get("/metrics", response_class=PlainTextResponse, responses=answers(503))
def metrics(request: Request, _: Reader) -> Response:
    """Return numbers for Prometheus."""
    service = service_of(request)
    return Response(
        service.metrics.text(service.reading, service.counting), media_type="text/plain; version=0.0.4; charset=utf-8"
    )


@router.get("/stream", response_class=StreamingResponse, responses=answers(503))
async def stream(request: Request, _: Reader) -> StreamingResponse:
    """Send what the page shows, again whenever something has changed (server-sent events)."""
    return StreamingResponse(_changes(request), media_type="text/event-stream")


async def _changes(request: Request) -> AsyncIterator[bytes]:
    service, shown, quiet = service_of(request), None, 0.0
    while not service.ending() and await _may_read(request):
        quiet += PULSE
        try:
            model = await service.models.read("gate") if service.live.resumed else None
        except StoreUnavailable:
            return  # a write hangs: the page says that it is not connected, and asks again
        if model is not None and model is not shown:
            shown, quiet = model, 0.0
            yield model.event
        elif quiet >= QUIET:
            quiet = 0.0
            yield b": still here\n\n"
        await asyncio.sleep(PULSE)


async def _may_read(request: Request) -> bool:
    """Say whether the listener may still read: a token may be revoked. If the store is away, the next request gets an error."""
    try:
        await may_read(request)
    except (HTTPException, StoreUnavailable):
        return False
    return True
