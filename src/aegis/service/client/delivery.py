"""The delivery thread of a client: it sends what is in the spool, in order, and sets aside what the gate refuses."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from aegis.service.client.counters import REMEDIES, UNABLE, UNAUTHORISED
from aegis.service.client.fallback import ProblemFacts
from aegis.service.client.spool import CLOSE, RESULTS, STANDS_IN, NewParcel, Parcel, Spool
from aegis.service.client.transport import GateAway, GateConnection, GateRefusal

log = logging.getLogger("aegis.client")


@dataclass(slots=True)
class DeliveryThread:
    """A thread that delivers. retry: seconds after which a gate that was away is asked again. urgent: the episode of a caller
    that waits."""

    spool: Spool
    line: GateConnection
    retry: float
    facts: ProblemFacts
    urgent: str = ""
    work: threading.Event = field(default_factory=threading.Event, init=False)
    answered: threading.Event = field(default_factory=threading.Event, init=False)  # a delivery has arrived since it was cleared
    failure: GateAway | None = field(default=None, init=False)  # why the last delivery did not arrive, None if it did
    _going: bool = field(default=True, init=False)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name="aegis-deliver", daemon=True)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """End the thread, in the middle of a delivery if need be: what was not confirmed is still in the spool."""
        self._going = False
        self.work.set()
        self.line.cut()
        self._thread.join(seconds)
        self.line.hang_up()

    def _run(self) -> None:
        learned = False
        while self._going:
            try:
                parcel = self.spool.first(self.urgent)
                if parcel is None:
                    self.work.wait(self.retry)
                    self.work.clear()
                    continue
                if not learned:
                    self._learn()
                    learned = True
                self._deliver(parcel)
                self.failure = None
                self.answered.set()
            except GateAway as error:
                if error.reason == UNAUTHORISED and (self.failure is None or self.failure.reason != UNAUTHORISED):
                    log.warning("deliveries wait in the spool (%s): %s; %s", UNAUTHORISED, error, REMEDIES[UNAUTHORISED])
                self.failure = error
                self._rest()
            except Exception:
                if not self._going:
                    return
                log.exception("a delivery to the gate failed; it is tried again")
                self._rest()

    def _rest(self) -> None:
        if self._going:
            time.sleep(min(self.retry, 0.2))

    def _learn(self) -> None:
        """Ask the gate which actions each level has; GateAway if it does not say so."""
        try:
            facts = ProblemFacts.from_answer(self.line.ask("GET", "/v1/problem"))
        except GateRefusal as error:  # that says nothing about what is to be delivered
            raise GateAway(f"{error.status}: {error}", UNAUTHORISED if error.unauthorised else UNABLE) from error
        except (KeyError, TypeError) as error:
            raise GateAway(f"what answers does not describe a gate: {error}", UNABLE) from error
        if facts != self.facts:
            self.facts = facts
            try:
                self.spool.learn("problem", asdict(facts))
            except sqlite3.Error as error:
                log.error("the actions of the levels cannot be kept: %s", error)

    def _deliver(self, parcel: Parcel) -> None:
        """Deliver a request, or set it aside."""
        parcel = self._completed(parcel)
        try:
            self.line.ask("POST", parcel.path, parcel.body, parcel.key)
        except GateRefusal as error:
            if error.unauthorised:  # a token may be put right
                raise GateAway(f"{error.status}: {error}", UNAUTHORISED) from error
            self._refused(parcel, f"{error.status}: {error}")
            return
        self.spool.arrived(parcel, self._after(parcel))

    def _completed(self, parcel: Parcel) -> Parcel:
        """Return a request with what was not known before: the value of an action, whether decisions were refused."""
        body = dict(parcel.body)
        if parcel.path.endswith("/overruled") and "index" in body:
            place = body.pop("index")
            values = self.facts.actions.get(body["ask"]["level"], [])
            body["used"] = values[place] if place < len(values) else None
        if parcel.path.endswith(CLOSE):
            cut = self.spool.is_incomplete(parcel.episode)
            lost = cut or any(_hides_decisions(item.path) for item in self.spool.refused(parcel.episode))
            body["incomplete"] = lost or bool(body.get("incomplete"))
            body["abandoned"] = cut or bool(body.get("abandoned"))  # a lost result would hold up all other episodes
        return replace(parcel, body=body)

    def _refused(self, parcel: Parcel, why: str) -> None:
        if parcel.path == RESULTS and parcel.key.endswith(STANDS_IN):
            self.spool.arrived(parcel)  # there is another result by now, or no such decision
            return
        items = parcel.body.get("items", [])
        if parcel.path == RESULTS and len(items) > 1:  # all or none: a wrong one must not take the others along
            singly: list[NewParcel] = [
                (RESULTS, f"{parcel.key}-{i}", {"items": [item]}, parcel.episode) for i, item in enumerate(items)
            ]
            self.spool.arrived(parcel, singly)
            return
        log.warning("the gate refuses %s of episode '%s' (Client.refused): %s", parcel.path, parcel.episode, why)
        more = [] if parcel.path != RESULTS or self.spool.going(parcel.episode) else [_missing_report(parcel.key, items[0])]
        self.spool.refuse(parcel, why, more)

    def _after(self, parcel: Parcel) -> list[NewParcel]:
        """Return the requests that follow one: at the end of an episode, that refused rewards will not come."""
        if not parcel.path.endswith(CLOSE):
            return []
        wrong = [item for item in self.spool.refused(parcel.episode) if item.path == RESULTS]
        return [_missing_report(f"{parcel.key}-{i}", item.body["items"][0]) for i, item in enumerate(wrong)]


def _hides_decisions(path: str) -> bool:
    """Say whether the gate does not know all decisions of an episode if it refuses a request.

    An episode is refused if it was opened before by a client with another spool: what that decided is not known here.
    """
    return path == "/v1/episodes" or "/decisions" in path or path.endswith(("/overruled", "/replaced"))


def _missing_report(key: str, item: Mapping[str, Any]) -> NewParcel:
    """Return the report that stands in for a refused one: the episode would hold up all others. It counts as the worst."""
    about = {name: item[name] for name in ("episode", "decision") if name in item}
    return RESULTS, f"{key}{STANDS_IN}", {"items": [{**about, "missing": True}]}, str(item["episode"])
