"""Delivers what is in a spool: in order, each request under its own key, and what the gate refuses is set aside, not lost."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from aegis.service.drawing import Facts
from aegis.service.spool import New, Parcel, Spool
from aegis.service.wireless import Away, Line, Refused

RESULTS = "/v1/results"
STANDS_IN = "-missing"  # ends the keys of reports that stand in for refused ones
log = logging.getLogger("aegis.client")


@dataclass(slots=True)
class Delivering:
    """A thread that delivers. retry: seconds after which a gate that was away is asked again. urgent: the episode that somebody
    waits for."""

    spool: Spool
    line: Line
    retry: float
    facts: Facts
    urgent: str = ""
    work: threading.Event = field(default_factory=threading.Event, init=False)
    answered: threading.Event = field(default_factory=threading.Event, init=False)  # a delivery has arrived since it was cleared
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

    def learn(self) -> None:
        """Ask the gate which actions each level has; Away if it does not answer, Refused if it does not tell."""
        try:
            found = Facts.told(self.line.ask("GET", "/v1/problem"))
        except (KeyError, TypeError) as error:
            raise Away("what answers is not a gate") from error
        if found != self.facts:
            self.facts = found
            self.spool.learn("problem", asdict(found))

    def _run(self) -> None:
        asked = False
        while self._going:
            try:
                parcel = self.spool.first(self.urgent)
                if parcel is None:
                    self.work.wait(self.retry)
                    self.work.clear()
                    continue
                if not asked:
                    self._learn()
                    asked = True
                self._deliver(parcel)
                self.answered.set()
            except Away:
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
        try:
            self.learn()
        except Refused as error:  # it says nothing about what is to be delivered
            raise Away(str(error)) from error
        except sqlite3.Error as error:
            log.error("the actions of the levels cannot be kept: %s", error)

    def _deliver(self, parcel: Parcel) -> None:
        """Deliver a request, or set it aside."""
        parcel = self._completed(parcel)
        try:
            self.line.ask("POST", parcel.path, parcel.body, parcel.key)
        except Refused as error:
            if error.status in (401, 403):  # a token may be put right
                raise Away(str(error)) from error
            self._refused(parcel, f"{error.status}: {error}")
            return
        self.spool.arrived(parcel, self._after(parcel))

    def _completed(self, parcel: Parcel) -> Parcel:
        """Return a request with what was not known when it was kept: the value of an action, whether decisions were refused."""
        body = dict(parcel.body)
        if parcel.path.endswith("/overruled") and "index" in body:
            place = body.pop("index")
            values = self.facts.actions.get(body["ask"]["level"], [])
            body["used"] = values[place] if place < len(values) else None
        if parcel.path.endswith("/close"):
            lost = any(
                "/decisions" in item.path or item.path.endswith("/overruled") for item in self.spool.refused(parcel.episode)
            )
            body["incomplete"] = lost or bool(body.get("incomplete"))
        return replace(parcel, body=body)

    def _refused(self, parcel: Parcel, why: str) -> None:
        if parcel.path == RESULTS and parcel.key.endswith(STANDS_IN):
            self.spool.arrived(parcel)  # there is another result by now, or no such decision
            return
        items = parcel.body.get("items", [])
        if parcel.path == RESULTS and len(items) > 1:  # all or none: so that one that is wrong does not take the others along
            singly: list[New] = [
                (RESULTS, f"{parcel.key}-{i}", {"items": [item]}, parcel.episode) for i, item in enumerate(items)
            ]
            self.spool.arrived(parcel, singly)
            return
        log.warning("the gate refuses %s of episode '%s' (Client.refused): %s", parcel.path, parcel.episode, why)
        more = [] if parcel.path != RESULTS or self.spool.going(parcel.episode) else [_missing(parcel.key, items[0])]
        self.spool.refuse(parcel, why, more)

    def _after(self, parcel: Parcel) -> list[New]:
        """Return what is to be said after a request: at the end of an episode, that refused rewards will not come."""
        if not parcel.path.endswith("/close"):
            return []
        wrong = [item for item in self.spool.refused(parcel.episode) if item.path == RESULTS]
        return [_missing(f"{parcel.key}-{i}", item.body["items"][0]) for i, item in enumerate(wrong)]


def _missing(key: str, item: Mapping[str, Any]) -> New:
    """Return the report that stands in for a refused one: the episode would hold up all others. It counts as the worst."""
    about = {name: item[name] for name in ("episode", "decision") if name in item}
    return RESULTS, f"{key}{STANDS_IN}", {"items": [{**about, "missing": True}]}, str(item["episode"])
