"""Routes for browsers: the dashboard, its files, and the session."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, HTTPException, Request
from fastapi import Path as PathParameter
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, select_autoescape
from starlette.requests import ClientDisconnect

from aegis.service.auth import SESSION_SECONDS, AccessControl, session_cookie
from aegis.service.http.admission import ShareRoute, run_in_share
from aegis.service.routes.base import service_of

router = APIRouter(include_in_schema=False, route_class=ShareRoute)
PAGES = Path(__file__).parents[1] / "pages"
MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@cache
def _environment() -> Environment:
    return Environment(loader=FileSystemLoader(PAGES), autoescape=select_autoescape())


@router.get("/")
def dashboard(request: Request) -> Response:
    """Return the dashboard, or the way in if a token is needed."""
    access: AccessControl = request.app.state.access
    session = request.cookies.get(session_cookie(request), "")
    role = "operator"
    if access.protected():
        try:
            role = access.caller(request, "read").role
        except HTTPException:
            return HTMLResponse(_environment().get_template("enter.html").render(wrong=False), 401)
    service = service_of(request)
    shown = {"gate": service.live.name, "role": role, "proof": access.proof(session), "protected": access.protected()}
    return HTMLResponse(_environment().get_template("gate.html").render(**shown))


@router.post("/enter")
async def enter(request: Request) -> Response:
    """Open a session for the holder of a token."""
    _from_here(request)
    access: AccessControl = request.app.state.access
    try:
        body = await request.body()
    except ClientDisconnect as error:  # it took too long
        raise HTTPException(400, "the form did not arrive") from error
    form = parse_qs(body.decode("utf-8", "replace"))
    secret = form.get("token", [""])[0].strip()
    if await run_in_share(access.token, secret) is None:
        return HTMLResponse(_environment().get_template("enter.html").render(wrong=True), 401)
    return _with_cookie(request, access.open_session(secret), int(SESSION_SECONDS))


def _with_cookie(request: Request, session: str, seconds: int) -> Response:
    """Return the way to the page, with the cookie of a session; 0 seconds delete it, which takes the same attributes."""
    answer = RedirectResponse("/", 303)
    secure = request.scope["scheme"] == "https"
    answer.set_cookie(
        session_cookie(request), session, max_age=seconds, path="/", httponly=True, samesite="strict", secure=secure
    )
    return answer


def _from_here(request: Request) -> None:
    """Refuse forms of other sites; browsers say where a request comes from."""
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise HTTPException(403, "this form is sent from the page of the gate itself")


@router.post("/leave")
def leave(request: Request) -> Response:
    """End a session."""
    _from_here(request)
    access: AccessControl = request.app.state.access
    access.close_session(request.cookies.get(session_cookie(request), ""))
    return _with_cookie(request, "", 0)


@router.get("/pages/{name}")
def asset(name: Annotated[str, PathParameter(pattern=r"^[a-z]+\.(css|js|svg)$")]) -> Response:
    """Return a file of the page."""
    path = PAGES / name
    if not path.is_file():
        raise HTTPException(404, "there is no such file")
    return Response(path.read_bytes(), media_type=MEDIA_TYPES[path.suffix])
