"""Routes that only read: levels, certificates, events, ledger, health, metrics, the stream for the page."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from aegis.service.gate_problem import comparators_by_level, sends_incumbent
from aegis.service.http_errors import NotWriter, StoreUnavailable
from aegis.service.live_state import EVENT
from aegis.service.routes.base import Reader, answers, service_of
from aegis.service.status import GateStatus

router = APIRouter(prefix="/v1", tags=["read"])
PULSE = 1.0  # seconds between two looks of a stream
QUIET = 15.0  # seconds after which a stream says that it is still there


@contextlib.contextmanager
def _status(request: Request) -> Iterator[GateStatus]:
    """Yield the status of the gate, which nothing changes meanwhile; NotWriter before it was opened."""
    service = service_of(request)
    with service.live.changed:
        if not service.live.resumed:
            raise NotWriter("the gate is not open yet in this process")
        yield service.reading


@router.get("/gate", responses=answers(503))
def gate(request: Request, _: Reader) -> dict[str, Any]:
    """Return who controls what, why, and what happens next: everything that the page shows."""
    return _shown(request)


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


@router.get("/levels", responses=answers(503))
def levels(request: Request, _: Reader) -> list[dict[str, Any]]:
    """Return every level, outermost first: who controls it, and who challenges that."""
    with _status(request) as status:
        return status.levels()


@router.get("/certificates", responses=answers(503))
def certificates(request: Request, _: Reader) -> list[dict[str, Any]]:
    """Return what was certified of every policy that was put in control."""
    with _status(request) as status:
        return list(status.certificates)


@router.get("/ledger", responses=answers(503))
def ledger(request: Request, _: Reader) -> dict[str, Any]:
    """Return the risk that was promised, what is spent of it, and on what."""
    with _status(request) as status:
        state = status.live.state.opened
        return {"delta": state.settings.delta, "spent": state.spent, "entries": list(status.ledger)}


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


@router.get("/head", responses=answers(503))
def head(request: Request, _: Reader) -> dict[str, Any]:
    """Return the newest record that this process has written: kept elsewhere, it shows later whether records were cut off."""
    with _status(request) as status:
        chain = status.live.journal.chain
        return {**chain.plain(), "keyed": chain.signer is not None}


@router.get("/health", responses={503: {"description": "Not the writer, or the store cannot be written."}})
def health(request: Request) -> JSONResponse:
    """Say whether the gate answers; open to all, for load balancers."""
    service = service_of(request)
    failure = service.live.failure
    health = {"writer": service.live.started, "store": failure, "counting": service.counting.failure}
    return JSONResponse(health, 200 if failure is None else 503)


@router.get("/metrics", response_class=PlainTextResponse, responses=answers(503))
def metrics(request: Request, _: Reader) -> Response:
    """Return numbers for Prometheus."""
    service = service_of(request)
    with service.live.changed:
        text = service.metrics.text(service.reading, service.counting)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/stream", response_class=StreamingResponse, responses=answers(503))
def stream(request: Request, _: Reader) -> StreamingResponse:
    """Send what the page shows, again whenever something has changed (server-sent events)."""
    return StreamingResponse(_changes(request), media_type="text/event-stream")


async def _changes(request: Request) -> AsyncIterator[str]:
    service, shown_until, quiet = service_of(request), -1, 0.0
    # In a thread: the store may be asked about the token, and all other requests would wait for it.
    while not service.ending() and await asyncio.to_thread(_may_read, request) and not await request.is_disconnected():
        last = service.live.journal.last
        if last != shown_until and service.live.resumed:
            shown_until, quiet = last, 0.0
            shown = await asyncio.to_thread(_shown, request)
            yield f"event: gate\ndata: {json.dumps(shown)}\n\n"
        elif quiet >= QUIET:
            quiet = 0.0
            yield ": still here\n\n"
        await asyncio.sleep(PULSE)
        quiet += PULSE


def _may_read(request: Request) -> bool:
    """Say whether the listener may still read: a token may be revoked. If the store is away, the next request gets an error."""
    try:
        request.app.state.access.caller(request, "read")
    except (HTTPException, StoreUnavailable):
        return False
    return True


def _shown(request: Request) -> dict[str, Any]:
    with _status(request) as status:
        return {**status.gate(), "counting": service_of(request).counting.failure}
