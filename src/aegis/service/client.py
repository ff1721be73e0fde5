"""A small client for control systems: it asks the gate, and goes on with the legacy if the gate does not answer in time.

What the gate has not confirmed is kept in a file and delivered later, in order, each request under its own key: nothing is lost
and nothing is done twice. A decision is answered within `timeout` seconds, whatever happens to the gate.
"""

from __future__ import annotations

import json
import random
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aegis.errors import InputError
from aegis.service.spool import Spool
from aegis.service.wireless import Away, Line, Refused

PATIENCE = 10.0  # seconds that a delivery in the background may take
RETRY = 1.0  # seconds after which a gate that was away is asked again


@dataclass(frozen=True, slots=True)
class Choice:
    """What to do. by: 'agent', 'legacy', or 'fallback' if the gate did not answer in time. propensity: its probability."""

    id: str
    level: str
    action: Any
    propensity: float | None
    by: str


@dataclass(slots=True)
class Episode:
    """An episode at the gate."""

    client: Client
    id: str
    _count: int = field(default=0, init=False)

    def decide(
        self,
        level: str,
        context: Mapping[str, Any] | None = None,
        legacy: Mapping[str, Any] | None = None,
        parent: Choice | str | None = None,
        available: Sequence[bool] | None = None,
    ) -> Choice:
        """Return what to do at a decision.

        legacy: what the legacy would do, {'distribution': [...]} or {'action': a, 'epsilon': e}, each with 'taken' if it has
        drawn its action already. Raises InputError if the gate says that the question is wrong.
        """
        self._count += 1
        body: dict[str, Any] = {"level": level, "id": f"{level}-{self._count}", "context": dict(context or {})}
        if parent is not None:
            body["parent"] = parent.id if isinstance(parent, Choice) else parent
        if available is not None:
            body["available"] = list(available)
        if legacy is not None:
            body["legacy"] = dict(legacy)
        return self.client._decide(self.id, _plain(body))

    def report(self, choice: Choice | str | None, reward: float | None, **more: Any) -> None:
        """Report what came of a decision, or of the whole episode. reward None: it will never come. more: outcome, guards."""
        item: dict[str, Any] = {"episode": self.id, **more}
        if choice is not None:
            item["decision"] = choice.id if isinstance(choice, Choice) else choice
        item |= {"missing": True} if reward is None else {"reward": reward}
        self.client._send("/v1/results", {"items": [item]}, self.id)

    def report_all(self, results: Sequence[Mapping[str, Any]]) -> None:
        """Report several results at once; each has decision, reward, and outcome or guards where the problem has them."""
        items = [{"episode": self.id, **item} for item in results]
        self.client._send("/v1/results", {"items": items}, self.id)

    def close(self, abandoned: bool = False) -> None:
        """Close the episode: it takes no more decisions. abandoned: rewards that have not come will never come."""
        self.client._send(f"/v1/episodes/{self.id}/close", {"abandoned": abandoned}, self.id)


class Client:
    """A connection to a live gate. `with Client(...) as gate:` delivers what is left, for a while, when it ends."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8741",
        token: str | None = None,
        timeout: float = 0.5,
        spool: str | Path = "aegis-spool.sqlite",
        seed: int | None = None,
    ) -> None:
        self.timeout = timeout
        self.spool = Spool(spool)
        self._line, self._slow_line = Line(url, token, timeout), Line(url, token, PATIENCE)
        self._asking = ThreadPoolExecutor(1, "aegis-ask")
        self._random = random.Random(seed)
        self._actions: dict[str, list[Any]] = {}
        self._away_until = 0.0
        self._going = True
        self._work = threading.Event()
        self._delivering = threading.Thread(target=self._deliver, name="aegis-deliver", daemon=True)
        self._delivering.start()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open_episode(self, name: str | None = None, time: Any = None) -> Episode:
        """Open an episode."""
        chosen = name or uuid.uuid4().hex
        body = {"id": chosen} if time is None else {"id": chosen, "time": time}
        self._send("/v1/episodes", body, chosen)
        return Episode(self, chosen)

    @property
    def undelivered(self) -> int:
        """Return how many requests have not arrived yet."""
        return len(self.spool)

    def flush(self, seconds: float = PATIENCE) -> bool:
        """Wait until everything has arrived; say whether it has."""
        end = time.monotonic() + seconds
        while len(self.spool) and time.monotonic() < end:
            self._work.set()
            time.sleep(0.005)
        return not len(self.spool)

    def close(self, seconds: float = PATIENCE) -> None:
        """Deliver what is left, for a while; the rest is delivered by the next client with the same spool."""
        if not self._going:
            return
        self.flush(seconds)
        self._going = False
        self._work.set()
        self._slow_line.cut()
        self._delivering.join(PATIENCE)
        self._asking.shutdown(wait=False, cancel_futures=True)
        self._line.hang_up()
        self._slow_line.hang_up()
        self.spool.close()

    # ---- deciding ----------------------------------------------------------------------------------------------------------

    def _decide(self, episode: str, body: dict[str, Any]) -> Choice:
        end = time.monotonic() + self.timeout
        try:
            if time.monotonic() < self._away_until:
                raise Away("the gate was away a moment ago")
            self._arrived(episode, end)
            answer = self._ask(f"/v1/episodes/{episode}/decisions", body, end)
            return Choice(answer["decision"], answer["level"], answer["action"], answer["propensity"], answer["by"])
        except Refused as error:
            if error.status in (401, 403):  # a token that was revoked stops no plant
                self._away_until = time.monotonic() + RETRY
                return self._fall_back(episode, body)
            raise InputError(f"the gate refuses the decision '{body['id']}' ({error.status}): {error}") from error
        except (Away, TooLate):
            self._away_until = time.monotonic() + RETRY
            return self._fall_back(episode, body)

    def _arrived(self, episode: str, end: float) -> None:
        """Wait until what was said about an episode before has arrived; Away if that takes too long."""
        while self.spool.waits(episode):
            if time.monotonic() >= end:
                raise Away("earlier requests of this episode have not arrived yet")
            self._work.set()
            time.sleep(0.001)

    def _ask(self, path: str, body: dict[str, Any], end: float) -> dict[str, Any]:
        """Return the answer to a question, or raise TooLate at the end of its time; it may still arrive at the gate."""
        future: Future[Any] = self._asking.submit(self._line.ask, "POST", path, body, uuid.uuid4().hex)
        try:
            found: dict[str, Any] = future.result(max(0.0, end - time.monotonic()))
            return found
        except TooLate:
            future.cancel()
            self._line.cut()  # or the next question would wait behind this one
            raise

    def _fall_back(self, episode: str, body: dict[str, Any]) -> Choice:
        """Return the legacy's own action, and let the gate know later."""
        legacy, level = body.get("legacy") or {}, body["level"]
        used, chance, explored = self._own(level, legacy, body.get("available"))
        self._send(f"/v1/episodes/{episode}/overruled", {"ask": body, "used": used, "explored": explored}, episode)
        return Choice(body["id"], level, used, chance, "fallback")

    def _own(self, level: str, legacy: Mapping[str, Any], available: Sequence[bool] | None) -> tuple[Any, float | None, bool]:
        """Return an action of the legacy, its probability if it is known, and whether it was drawn as the legacy says."""
        if "taken" in legacy:
            return legacy["taken"], None, True
        actions = self._actions.get(level)
        if actions is None:
            if "action" in legacy:
                return legacy["action"], None, False
            raise InputError(
                f"the gate does not answer, and what the actions of level '{level}' are is not known yet: give the legacy's own "
                "action as 'taken', or call Client.learn_actions() while the gate answers"
            )
        if "distribution" in legacy:
            chances = list(legacy["distribution"])
        elif "action" in legacy:
            opened = list(available) if available is not None else [True] * len(actions)
            share = float(legacy["epsilon"]) / sum(opened)
            chances = [
                share * can + (1.0 - float(legacy["epsilon"])) * (a == legacy["action"])
                for a, can in zip(actions, opened, strict=True)
            ]
        else:
            opened = list(available) if available is not None else [True] * len(actions)
            chances = [can / sum(opened) for can in opened]
        place = self._random.choices(range(len(actions)), chances)[0]
        return actions[place], chances[place], True

    def learn_actions(self) -> None:
        """Ask the gate which actions each level has, so that the legacy's can be drawn without it. Away if it does not answer."""
        try:
            levels = self._slow_line.ask("GET", "/v1/problem")["levels"]
            self._actions = {item["level"]: item["actions"] for item in levels}
        except (KeyError, TypeError) as error:
            raise Away("what answers is not a gate") from error

    # ---- delivering --------------------------------------------------------------------------------------------------------

    def _send(self, path: str, body: dict[str, Any], episode: str) -> None:
        self.spool.put(path, uuid.uuid4().hex, _plain(body), episode)
        self._work.set()

    def _learn(self) -> None:
        try:
            self.learn_actions()
        except Refused as error:  # it says nothing about what is to be delivered
            raise Away(str(error)) from error

    def _deliver(self) -> None:
        while self._going:
            parcel = self.spool.first()
            if parcel is None:
                self._work.wait(RETRY)
                self._work.clear()
                continue
            try:
                if not self._actions:
                    self._learn()
                self._slow_line.ask("POST", parcel.path, parcel.body, parcel.key)
                self.spool.arrived(parcel)
                self._away_until = 0.0
            except Refused as error:
                if error.status in (401, 403):  # a token may be put right
                    time.sleep(RETRY)
                else:
                    self.spool.refuse(parcel, f"{error.status}: {error}")
            except Away:
                time.sleep(min(RETRY, 0.2))


def _plain(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body that can be sent; InputError if there is something in it that JSON has not."""
    try:
        found: dict[str, Any] = json.loads(json.dumps(body, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputError(f"this cannot be sent to the gate, plain finite numbers and text can: {error}") from error
    return found
