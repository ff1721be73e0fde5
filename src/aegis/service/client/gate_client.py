"""A small client for control systems: it asks the gate, and falls back to the legacy if the gate does not answer in time.

What the gate has not confirmed is kept in a file and delivered later, in order, each request under its own key. A decision is
answered within `timeout` seconds, also if the gate is away or the file is locked, full or damaged: no call of the plant waits for
the network or the disk longer than that.
"""

from __future__ import annotations

import logging
import random
import sqlite3
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from aegis.errors import InputError
from aegis.problem import Problem, load_problem
from aegis.service.client.fallback import ProblemFacts, draw_legacy_action
from aegis.service.client.spool import RESULTS, STANDS_IN, DeliveryThread, Refusal, Spool
from aegis.service.client.transport import GateAway, GateConnection, GateRefusal, to_json_value

GRACE = 0.01  # seconds beyond its time that a decision may take to write down the legacy's action
SHARE = 0.25  # of the time of a decision in which it is written down before the gate is asked
PATIENCE = 10.0  # seconds that a delivery in the background may take
RETRY = 1.0  # seconds after which a gate that was away is asked again
log = logging.getLogger("aegis.client")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ActionChoice:
    """What to do. by: 'agent', 'legacy', or 'fallback' if the gate did not help. propensity: its probability, None if not known.

    action: None only if the gate has never answered and the client has no problem file; then `index` says which one it is, in
    the order of the problem file.
    """

    id: str
    level: str
    action: Any
    propensity: float | None
    by: str
    index: int | None = None


@dataclass(slots=True)
class Episode:
    """An episode at the gate. choices: so far, also those from before a restart of the control system."""

    client: Client
    id: str
    choices: list[ActionChoice] = field(default_factory=list)
    _count: int = field(default=0, init=False)
    _times: int = 0  # that it was opened before
    _incomplete: bool = False

    def decide(
        self,
        level: str,
        context: Mapping[str, Any] | None = None,
        legacy: Mapping[str, Any] | None = None,
        parent: ActionChoice | str | None = None,
        available: Sequence[bool] | None = None,
    ) -> ActionChoice:
        """Return what to do at a decision.

        legacy: what the legacy would do, {'distribution': [...]} or {'action': a, 'epsilon': e}, each with 'taken' if it has
        drawn its action already. Where gains are over an incumbent that is sent with each decision, 'distribution' goes with
        'incumbent', the action it means to take or its probabilities; 'action' is what it means to take. InputError if the gate
        does not answer, or refuses the question, and `legacy` does not say what the legacy does; with a strict client also if
        the gate refuses the question.
        """
        for name, value in (("context", context), ("legacy", legacy)):
            if value is not None and not isinstance(value, Mapping):
                raise InputError(f"'{name}' is a mapping from names to values, found {value!r}")
        self._count += 1
        again = f"{self._times}." if self._times else ""
        body: dict[str, Any] = {"level": level, "id": f"{level}-{again}{self._count}", "context": dict(context or {})}
        if parent is not None:
            body["parent"] = parent.id if isinstance(parent, ActionChoice) else parent
        if available is not None:
            body["available"] = list(available)
        if legacy is not None:
            body["legacy"] = dict(legacy)
        choice = self.client._decide(self.id, to_json_value(body, self.client.strict))
        self.choices.append(choice)
        return choice

    def last(self, level: str) -> ActionChoice | None:
        """Return the latest choice at a level: after a restart, what was decided before it."""
        return next((choice for choice in reversed(self.choices) if choice.level == level), None)

    def report(self, choice: ActionChoice | str | None, reward: float | None, **more: Any) -> None:
        """Report the result of a decision, or of the whole episode. reward None: it will never come. more: outcome, guards."""
        item: dict[str, Any] = {"episode": self.id, **more}
        if choice is not None:
            item["decision"] = choice.id if isinstance(choice, ActionChoice) else choice
        item |= {"missing": True} if reward is None else {"reward": reward}
        self.client._send(RESULTS, {"items": [item]}, self.id)

    def report_all(self, results: Sequence[Mapping[str, Any]]) -> None:
        """Report several results at once; each has decision, reward, and outcome or guards where the problem has them."""
        self.client._send(RESULTS, {"items": [{"episode": self.id, **item} for item in results]}, self.id)

    def close(self, abandoned: bool = False, incomplete: bool = False) -> None:
        """Close the episode: it takes no more decisions. abandoned: rewards that have not come will never come.

        incomplete: it broke off, or the plant decided in it without the gate; it is no evidence then.
        """
        body = {"abandoned": abandoned, "incomplete": incomplete or self._incomplete}
        end = self.client._end()
        self.client._send(f"{_path(self.id)}/close", body, self.id, end=end)
        self.client._forget(self.id, end)


class Client:
    """Connect a control system to a live gate. `with Client(...) as gate:` delivers what is left, for a while, when it ends.

    Parameters
    ----------
    url
        The address of the gate.
    token
        A token of the role 'controller'; None for a gate on this machine without tokens.
    timeout
        Seconds within which a decision is answered, by the gate or by the legacy.
    spool
        A file of this control system alone. A client that opens it after a restart delivers the requests in it and goes on with
        open episodes.
    seed
        Of the legacy's draws while the gate is away; None for a random one.
    problem
        The problem, or its file, so that the actions of each level are known also if the gate is away at the start.
    strict
        Raise where the gate refuses a decision, for trying things out; otherwise the legacy acts.

    Raises
    ------
    SettingError
        If `url` is no address of a gate.
    OutputError
        If `spool` cannot be written.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8741",
        token: str | None = None,
        timeout: float = 0.5,
        spool: str | Path = "aegis-spool.sqlite",
        seed: int | None = None,
        problem: Problem | str | Path | None = None,
        strict: bool = False,
    ) -> None:
        self.timeout, self.strict, self.fallbacks = timeout, strict, 0
        self.spool, self._line = Spool(spool), GateConnection(url, token, timeout)
        known = problem if isinstance(problem, Problem) or problem is None else load_problem(problem)
        facts = ProblemFacts.of(known) if known is not None else ProblemFacts(**self.spool.fact("problem") or {"actions": {}})
        self._asking = ThreadPoolExecutor(1, "aegis-ask")
        self._spooling = ThreadPoolExecutor(1, "aegis-spool")  # one thread: writes keep their order
        self._random = random.Random(seed)
        self._away, self._away_until = False, 0.0
        self._going = True
        self._delivering = DeliveryThread(self.spool, GateConnection(url, token, PATIENCE), RETRY, facts)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open_episode(self, name: str | None = None, time: Any = None) -> Episode:
        """Open an episode, or go on with one that this control system opened before it was restarted."""
        chosen = name or uuid.uuid4().hex
        unknown: tuple[int, dict[str, dict[str, Any] | None]] = (0, {})
        end = self._end()
        times, choices = self._spooled(end, unknown, self.spool.resume, chosen)
        if not times:
            self._send("/v1/episodes", {"id": chosen} if time is None else {"id": chosen, "time": time}, chosen, end=end)
        for unanswered in (name for name, choice in choices.items() if choice is None):  # what was done there is not known
            item = {"episode": chosen, "decision": unanswered, "missing": True}
            self._send(RESULTS, {"items": [item]}, chosen, STANDS_IN, end)
        answered = [ActionChoice(**choice) for choice in choices.values() if choice is not None]
        return Episode(self, chosen, answered, times, len(answered) < len(choices))

    @property
    def undelivered(self) -> int:
        """Return how many requests have not arrived yet; at least one while the spool does not answer."""
        return self._spooled(self._end(), 1, len, self.spool)

    @property
    def refused(self) -> list[Refusal]:
        """Return the requests that the gate refused, and why. Each was also logged as a warning."""
        return self._spooled(self._end(), [], self.spool.refused)

    def flush(self, seconds: float = PATIENCE) -> bool:
        """Wait until everything has arrived; say whether it has."""
        end = time.monotonic() + seconds
        while (left := self._spooled(end, 1, len, self.spool)) and time.monotonic() < end:
            self._delivering.work.set()
            time.sleep(0.005)
        return not left

    def close(self, seconds: float = PATIENCE) -> None:
        """Deliver what is left, for a while; the rest is delivered by the next client with the same spool."""
        if not self._going:
            return
        self.flush(seconds)
        self._going = False
        self._delivering.stop(PATIENCE)
        self._asking.shutdown(wait=False, cancel_futures=True)
        self._line.hang_up()
        self._spooled(self._end(), None, self.spool.close)
        self._spooling.shutdown(wait=False, cancel_futures=True)

    # ---- deciding ----------------------------------------------------------------------------------------------------------

    def _decide(self, episode: str, body: dict[str, Any]) -> ActionChoice:
        end = self._end()
        self._keep(episode, body["id"], None, end - (1.0 - SHARE) * self.timeout)
        try:
            choice = self._request(episode, body, end)
        except GateRefusal as error:
            if error.status in (401, 403):  # a token that was revoked stops no plant
                self._away_until = time.monotonic() + RETRY
            elif self.strict:
                raise InputError(f"the gate refuses the decision '{body['id']}' ({error.status}): {error}") from error
            log.warning("the gate refuses decision '%s' of episode '%s': %s", body["id"], episode, error)
            choice = self._fall_back(episode, body, end)
        except (GateAway, TooLate) as error:
            level = logging.INFO if self._away else logging.WARNING  # the first of an outage is a warning
            self._away, self._away_until = True, time.monotonic() + RETRY
            reason = error or f"no answer within {self.timeout:g} s"
            log.log(level, "the legacy decides '%s' of episode '%s': %s", body["id"], episode, reason)
            choice = self._fall_back(episode, body, end)
        self._keep(episode, body["id"], choice, end + GRACE)
        return choice

    def _request(self, episode: str, body: dict[str, Any], end: float) -> ActionChoice:
        if self._delivering.answered.is_set():
            self._delivering.answered.clear()
            self._away_until = 0.0
        if time.monotonic() < self._away_until:
            raise GateAway("the gate was away a moment ago")
        self._wait_for_deliveries(episode, end)
        answer = self._ask(f"{_path(episode)}/decisions", body, end)
        try:
            fields = {name: answer[name] for name in ("level", "action", "propensity", "by", "index")}
            choice = ActionChoice(id=answer["decision"], **fields)
        except (KeyError, TypeError) as error:
            raise GateAway("what answers is not a gate") from error
        if self._away:
            self._away = False
            log.warning("the gate answers again, after %d decisions by the legacy so far", self.fallbacks)
        return choice

    def _wait_for_deliveries(self, episode: str, end: float) -> None:
        """Wait until earlier requests about an episode have arrived; GateAway if that takes too long."""
        self._delivering.urgent = episode
        while self._spooled(end, True, self.spool.waits, episode):
            if time.monotonic() >= end:
                raise GateAway("earlier requests of this episode have not arrived yet")
            self._delivering.work.set()
            time.sleep(0.001)

    def _ask(self, path: str, body: dict[str, Any], end: float) -> Any:
        """Return the answer to a question, or raise TooLate at the end of its time; it may still arrive at the gate."""
        future: Future[Any] = self._asking.submit(self._line.ask, "POST", path, body, uuid.uuid4().hex)
        try:
            return future.result(max(0.0, end - time.monotonic()))
        except TooLate:
            future.cancel()
            self._line.cut()  # or the next question would wait behind this one
            raise

    def _fall_back(self, episode: str, body: dict[str, Any], end: float) -> ActionChoice:
        """Return the legacy's own action, and let the gate know later; end: when the plant needs it."""
        self.fallbacks += 1
        legacy, level = body.get("legacy") or {}, body["level"]
        own = draw_legacy_action(level, legacy, body.get("available"), self._delivering.facts, self._random)
        used = {"used": own.action} if own.action is not None else {"index": own.index}
        self._send(f"{_path(episode)}/overruled", {"ask": body, "explored": own.explored, **used}, episode, end=end + GRACE)
        if own.action is None:
            log.error("the gate was never there, and the actions of level '%s' are not known: give the client its problem", level)
        return ActionChoice(id=body["id"], level=level, action=own.action, propensity=own.chance, by="fallback", index=own.index)

    # ---- keeping -----------------------------------------------------------------------------------------------------------

    def _end(self) -> float:
        """Return when a call that begins now has taken its time."""
        return time.monotonic() + self.timeout

    def _spooled(self, end: float, otherwise: T, work: Callable[..., T], *args: Any) -> T:
        """Return what a use of the spool returns, `otherwise` if it fails or takes longer: it is still done then, in order."""
        try:
            return self._spooling.submit(work, *args).result(max(0.0, end - time.monotonic()))
        except TooLate:
            log.warning("the spool %s is slow; what was to be written is in memory until it is", self.spool.path)
        except sqlite3.Error as error:
            log.error("the spool %s cannot be used: %s", self.spool.path, error)
        return otherwise

    def _send(self, path: str, body: dict[str, Any], episode: str, ends: str = "", end: float | None = None) -> None:
        content = to_json_value(body, self.strict)
        self._spooled(end or self._end(), None, self.spool.put, path, uuid.uuid4().hex + ends, content, episode)
        self._delivering.work.set()

    def _keep(self, episode: str, name: str, choice: ActionChoice | None, end: float) -> None:
        """Keep a choice for a restart."""
        self._spooled(end, None, self.spool.choose, episode, name, None if choice is None else asdict(choice))

    def _forget(self, episode: str, end: float) -> None:
        self._spooled(end, None, self.spool.forget, episode)


def _path(episode: str) -> str:
    """Return the path of an episode, also for a name that the gate will refuse."""
    return f"/v1/episodes/{quote(episode, safe='')}"
