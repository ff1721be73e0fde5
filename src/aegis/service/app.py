"""The HTTP service: routes, middleware and the live gate, put together."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from aegis.errors import AegisError
from aegis.service.auth import AccessControl
from aegis.service.episode_counter import EpisodeCounter
from aegis.service.http.middleware import GuardMiddleware, RateLimit
from aegis.service.http_errors import (
    NotWriter,
    ServiceError,
    StoreUnavailable,
    describe_unknown_path,
    describe_validation_errors,
    error_answer,
)
from aegis.service.live_gate import LiveGate
from aegis.service.metrics import ServiceMetrics
from aegis.service.read_models import ReadModels
from aegis.service.routes import control, dashboard, monitoring
from aegis.service.snapshot_writer import EVERY, SnapshotWriter
from aegis.service.status import GateStatus
from aegis.version import __version__

LARGEST = 1_000_000  # bytes of a body
RATE = 2000.0  # requests of one caller per second
TRY = 1.0  # seconds between two looks at the lease and the store, and between two attempts to become the writer
log = logging.getLogger("aegis.service")


@dataclass(slots=True)
class Service:
    """A live gate and the parts that serve it. standby: wait until the present writer lets go, as often as that happens.

    snapshot_every: records from one snapshot to the next.
    """

    live: LiveGate
    counting: EpisodeCounter
    standby: bool = False
    rate: float = RATE
    hosts: Sequence[str] = ()
    snapshot_every: int = EVERY
    snapshots: SnapshotWriter = field(init=False)
    reading: GateStatus = field(init=False)
    models: ReadModels = field(init=False)
    metrics: ServiceMetrics = field(default_factory=ServiceMetrics, init=False)
    ending: Callable[[], bool] = field(default=lambda: False, init=False)  # whether the web server is about to end
    end: Callable[[], None] = field(default=lambda: None, init=False)  # lets the web server end
    demoted: bool = field(default=False, init=False)  # another process has taken over, and this one does not stand by
    _begun: bool = field(default=False, init=False)
    _stopping: threading.Event = field(default_factory=threading.Event, init=False)

    def __post_init__(self) -> None:
        self.reading = GateStatus(self.live)
        self.snapshots = SnapshotWriter(self.live, self.snapshot_every)
        self.models = ReadModels(self.reading, self.counting)

    def start(self) -> None:
        """Become the writer now, or in the background once the present one lets go. A second call does nothing.

        A service that cannot start is stopped. From then on a thread watches lease and store, and takes over again if this
        process was demoted and stands by.
        """
        if self._begun:
            return
        self._begun = True
        try:
            self._take_over()
        except BaseException as error:
            if not (self.standby and isinstance(error, NotWriter)):
                self.stop()
                raise
            log.info("another process is the writer of gate '%s': standing by", self.live.name)
        self.snapshots.start()
        self.live.watch()
        threading.Thread(target=self._watch, name="aegis-watch", daemon=True).start()

    def stop(self) -> None:
        """Finish what is being written, and let go."""
        self._stopping.set()
        self.live.recovery.set()
        self.counting.stop()
        self.snapshots.stop()
        self.live.stop()
        self.live.database.close()

    def _take_over(self) -> None:
        self.live.start()
        try:
            self.counting.start()
        except BaseException:
            self.live.stop()  # another process may be able to count
            raise
        log.info("writer of gate '%s' in %s", self.live.name, self.live.database.shown)

    def _stand_by(self) -> None:
        """Take over if the writer has let go; else follow what it writes, so that taking over is quick."""
        try:
            self._take_over()
        except NotWriter:
            self.live.follow()

    def _watch(self) -> None:
        """Look after lease and store until the service stops, whatever fails meanwhile; a failure that goes on is logged once."""
        logged, asked, since = set[type[Exception]](), False, 0.0
        while True:
            # A request that finds the store in doubt asks for a look at once; if that fails, for the next one in a while.
            self._stopping.wait(TRY) if asked else self.live.recovery.wait(TRY)
            if self._stopping.is_set():
                return
            asked = self.live.recovery.is_set()
            self.live.recovery.clear()
            try:
                if self.live.started:
                    self.live.check_store()
                elif self.standby:
                    self._stand_by()
                elif self.live.resumed:
                    raise NotWriter(f"another process has become the writer of gate '{self.live.name}'")
                if logged:
                    log.warning("gate '%s': the store works again, after %.0f s", self.live.name, time.monotonic() - since)
                logged.clear()
            except NotWriter as error:
                if not self.standby and not self._stopping.is_set():
                    self._end_demoted(error)
                    return
            except Exception as error:
                since = since if logged else time.monotonic()
                if type(error) not in logged:
                    logged.add(type(error))
                    self._log_failure(error)

    def _end_demoted(self, error: NotWriter) -> None:
        """Let the service end, since another process has taken over and this one does not stand by."""
        log.error("%s; this process ends: started with --standby it would wait for its turn", error)
        self.demoted = True
        self.end()

    def _log_failure(self, error: Exception) -> None:
        """Say in the log what the watch could not do."""
        if isinstance(error, StoreUnavailable):
            log.warning("gate '%s': %s", self.live.name, error)
        elif isinstance(error, AegisError):
            log.error("cannot take over gate '%s': %s", self.live.name, error)
        else:
            log.error("gate '%s' could not look after lease and store, and tries again", self.live.name, exc_info=error)


def make_app(service: Service) -> ASGIApp:
    """Return the application that a web server runs."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        with contextlib.suppress(StoreUnavailable):
            access.protected()  # so that controllers are known before strangers come
        try:
            yield
        finally:
            service.stop()

    app = FastAPI(
        title="AEGIS live gate",
        version=__version__,
        description="Asks for decisions, reports their results, reads who controls what and why. See docs/serve.md.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    access = AccessControl(service.live.database)
    app.state.service, app.state.access = service, access
    app.include_router(control.router)
    app.include_router(monitoring.router)
    app.include_router(control.operator_router)
    app.include_router(dashboard.router)
    app.add_exception_handler(ServiceError, _service_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    return GuardMiddleware(app, service.metrics, RateLimit(service.rate), LARGEST, access, service.hosts)


async def _service_error(_: Request, error: Exception) -> Response:
    service_error = error if isinstance(error, ServiceError) else ServiceError()
    return error_answer(str(error), service_error.status, service_error.code)


async def _http_error(request: Request, error: Exception) -> Response:
    """Answer what the framework, or a check of the caller, refuses."""
    http_error = error if isinstance(error, HTTPException) else HTTPException(500)
    unknown = http_error.status_code == 404 and "route" not in request.scope
    detail = describe_unknown_path(request.url.path) if unknown else http_error.detail
    return error_answer(detail, http_error.status_code, headers=http_error.headers)


async def _invalid(_: Request, error: Exception) -> Response:
    """Answer what does not have the right form, without sending back what was in it."""
    described = describe_validation_errors(error.errors(), error.body) if isinstance(error, RequestValidationError) else []
    return error_answer(described, 422)
