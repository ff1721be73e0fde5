"""A small client for control systems: it asks the gate, and falls back to the legacy if the gate does not answer in time.

What the gate has not confirmed is kept in a file and delivered later, in order, each request under its own key. A decision is
answered within `timeout` seconds, also if the gate is away or the file is locked, full or damaged: no call of the plant waits for
the network or the disk longer than that.
"""

from __future__ import annotations

import logging
import os
import random
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
from aegis.service.client.choices import ActionChoice, UnreportedChoice, read_choice, same_action
from aegis.service.client.counters import CLOSED, NO_ANSWER, REFUSED, SPOOL, UNABLE, UNAUTHORISED, ClientCounters, DecisionCounter
from aegis.service.client.delivery import DeliveryThread
from aegis.service.client.fallback import ProblemFacts, draw_legacy_action
from aegis.service.client.names import ALLOWED, LONGEST_NAME, is_name
from aegis.service.client.spool import RESULTS, STANDS_IN, KeptChoice, Refusal, Spool
from aegis.service.client.transport import GateAway, GateConnection, GateRefusal, make_tls_context, to_json_value

GRACE = 0.01  # seconds beyond its time that a decision may take to write down the legacy's action
SHARE = 0.25  # of the time of a decision in which it is written down before the gate is asked
PATIENCE = 10.0  # seconds that a delivery in the background may take
TICK = 0.002  # seconds in which nothing more is begun
MOST_WORDS = 1000  # of a reason
RETRY = 1.0  # seconds after which a gate that was away is asked again
log = logging.getLogger("aegis.client")
T = TypeVar("T")


@dataclass(slots=True)
class Episode:
    """An episode at the gate. choices: so far, also those from before a restart of the control system."""

    client: Client
    id: str
    choices: list[ActionChoice] = field(default_factory=list)
    _count: int = field(default=0, init=False)
    _times: int = 0  # that it was opened before
    _incomplete: bool = False
    _unseen: list[UnreportedChoice] = field(default_factory=list)  # asked for before a restart
    _reported: set[str] = field(default_factory=set)
    _overruled: dict[str, Any] = field(default_factory=dict, init=False)

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
        if not isinstance(level, str):
            raise InputError(f"'level' is the name of a level, found {level!r}")
        if available is not None and not hasattr(available, "__iter__"):
            raise InputError(f"'available' has one flag for each action, found {available!r}")
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
        self._report([item])

    def report_all(self, results: Sequence[Mapping[str, Any]]) -> None:
        """Report several results at once; each has decision, reward, and outcome or guards where the problem has them."""
        wrong = [item for item in results if not isinstance(item, Mapping)]
        if wrong and self.client.strict:
            raise InputError(f"a result is a mapping with 'decision' and 'reward', found {wrong[0]!r}")
        if wrong:
            log.error("episode '%s': %d results are no mappings and are left out, at first %r", self.id, len(wrong), wrong[0])
        self._report([{"episode": self.id, **item} for item in results if isinstance(item, Mapping)])

    def _report(self, items: Sequence[Mapping[str, Any]]) -> None:
        if items:
            self.client._send(RESULTS, {"items": list(items)}, self.id)
        for item in items:
            self._reported |= {str(item["decision"])} if item.get("decision") is not None else {one.id for one in self.choices}

    @property
    def unreported(self) -> list[UnreportedChoice]:
        """Return the choices without a result, also those whose answer was never seen; see `Client.unreported`."""
        open_ones = [UnreportedChoice(self.id, item.id, item.level, item) for item in self.choices]
        return self.client._rewarded([*self._unseen, *(item for item in open_ones if item.id not in self._reported)])

    def overrule(self, choice: ActionChoice | str, used: Any, why: str | None = None) -> None:
        """Say that an interlock or a person replaced the action of a choice, before its result is reported.

        The episode goes on; report its rewards and close it as usual. For challengers it counts at its worst. used: what was
        done instead, also if it is no action of the level, None if nothing was done; the action that was chosen changes nothing.
        The gate refuses what comes after the result, another action for the same choice, and a choice that it does not know
        (`Client.refused`): the episode is no evidence then. A strict client raises InputError for these.
        """
        name, value = (choice.id if isinstance(choice, ActionChoice) else str(choice)), to_json_value(used, self.client.strict)
        known = next((item for item in self.choices if item.id == name), None)
        same = known is not None and known.action is not None and same_action(known.action, value)
        if same and name not in self._overruled:
            return
        if name in self._overruled:
            if not same_action(self._overruled[name], value):
                self._refuse(f"decision '{name}' was overruled already, by {self._overruled[name]!r}: {value!r} is not kept")
            return
        if self.client.strict and (known is None or name in self._reported):
            why_not = "is not known here" if known is None else "has a result already"
            raise InputError(f"episode '{self.id}': decision '{name}' {why_not} and cannot be overruled")
        self._overruled[name] = value
        body = {"decision": name, "used": value} | ({} if why is None else {"why": str(why)[:MOST_WORDS]})
        self.client._send(f"{_path(self.id)}/replaced", body, self.id)

    def _refuse(self, why: str) -> None:
        if self.client.strict:
            raise InputError(f"episode '{self.id}': {why}")
        log.warning("episode '%s': %s", self.id, why)

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
    ca
        A file with the authorities that sign the gate's certificate; None for those that this machine trusts.
    certificate, key
        Files with the certificate of this control system and its key, for a gate that asks for one (`--tls-client-ca`).

    Raises
    ------
    SettingError
        If `url` is no address of a gate, or a file of certificates cannot be used.
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
        *,
        ca: str | Path | None = None,
        certificate: str | Path | None = None,
        key: str | Path | None = None,
    ) -> None:
        self.timeout, self.strict = timeout, strict
        tls = make_tls_context(url, ca, certificate, key)
        self._line = GateConnection(url, token, timeout, tls, guarded=True)
        known = problem if isinstance(problem, Problem) or problem is None else load_problem(problem)
        self.spool = Spool(spool)
        facts = ProblemFacts.of(known) if known is not None else _kept_facts(self.spool)
        self._asking = ThreadPoolExecutor(1, "aegis-ask")
        self._spooling = ThreadPoolExecutor(1, "aegis-spool")  # one thread: writes keep their order
        self._random = random.Random(seed)
        self._counter, self._away_until = DecisionCounter(), 0.0
        self._going, self._process, self._trouble = True, os.getpid(), ""
        self._delivering = DeliveryThread(self.spool, GateConnection(url, token, PATIENCE, tls), RETRY, facts)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open_episode(self, name: str | None = None, time: Any = None) -> Episode:
        """Open an episode, or go on with one that this control system opened before it was restarted.

        A name that the gate will refuse is a warning; a strict client raises InputError.
        """
        chosen = uuid.uuid4().hex if name is None or name == "" else str(name).encode(errors="backslashreplace").decode()
        if not is_name(chosen):
            words = f"{chosen[:LONGEST_NAME]!r} cannot be the id of an episode, and the gate will refuse it: {ALLOWED}"
            if self.strict:
                raise InputError(words)
            log.warning("%s", words)
        unknown: tuple[int, list[KeptChoice]] = (0, [])
        end = self._end()
        times, choices = self._spooled(end, unknown, self.spool.resume, chosen)
        if not times:
            self._send("/v1/episodes", {"id": chosen} if time is None else {"id": chosen, "time": time}, chosen, end=end)
        answered = [choice for choice in map(read_choice, choices) if choice is not None]
        unseen = [item for item in map(UnreportedChoice.of, choices) if not item.answered]
        for one in unseen:  # what was done there is not known
            item = {"episode": chosen, "decision": one.id, "missing": True}
            self._send(RESULTS, {"items": [item]}, chosen, STANDS_IN, end)
        return Episode(self, chosen, answered, times, bool(unseen), unseen, {item.id for item in choices if item.reported})

    def unreported(self) -> list[UnreportedChoice]:
        """Return the choices without a result, in all episodes that this control system opened and did not close.

        After a restart: what is still to be reported. A choice that is not `answered` was asked for before a crash, and what the
        plant did is not known; it is reported as missing when its episode is opened again. Where the client knows at which level
        rewards are reported, only choices of that level are listed. Nothing, with a warning, if the spool does not answer.
        """
        kept: list[KeptChoice] = self._spooled(self._end(), [], self.spool.choices)
        return self._rewarded([UnreportedChoice.of(item) for item in kept if not item.reported])

    def _rewarded(self, items: list[UnreportedChoice]) -> list[UnreportedChoice]:
        level = self._delivering.facts.rewarded
        return [item for item in items if not level or item.level == level]

    @property
    def fallbacks(self) -> int:
        """Return how many decisions the legacy has taken since this client was made."""
        return self._counter.fallbacks

    @property
    def counters(self) -> ClientCounters:
        """Return what was counted since this client was made."""
        return self._counter.shown(self.undelivered, len(self.refused))

    @property
    def undelivered(self) -> int:
        """Return how many requests have not arrived yet; one if the spool does not answer, or this client was closed."""
        return self._spooled(self._end(), 1, len, self.spool) if self._usable else 1

    @property
    def refused(self) -> list[Refusal]:
        """Return the requests that the gate refused, and why; none after `close`. Each was also logged as a warning."""
        return self._spooled(self._end(), [], self.spool.refused) if self._usable else []

    def flush(self, seconds: float = PATIENCE) -> bool:
        """Wait until everything has arrived; say whether it has."""
        end = time.monotonic() + seconds
        while left := self._spooled(max(end, self._end()), 1, len, self.spool):
            if time.monotonic() >= end:
                break
            self._delivering.work.set()
            time.sleep(0.005)
        return not left

    def close(self, seconds: float = PATIENCE) -> None:
        """Deliver what is left, for a while; the rest is delivered by the next client with the same spool.

        It takes at most `seconds` and three times the timeout. If another process locks the spool, the last writes go on in the
        background, and the process ends once they are written. All of them together wait for the lock 5 s at most after `close`;
        what the lock keeps out of the spool until then is lost if the process ends.
        """
        if not self._usable:
            return
        end = time.monotonic() + seconds
        self.flush(seconds)
        self._delivering.stop(max(self.timeout, end - time.monotonic()))
        self._asking.shutdown(wait=False, cancel_futures=True)
        self._line.hang_up()
        self.spool.end_waits()  # or the process would end after as many waits for a lock as there are writes
        self._spooled(self._end(), None, self.spool.close)
        self._going = False
        self._spooling.shutdown(wait=False)  # what waits for a lock is still written

    # ---- deciding ----------------------------------------------------------------------------------------------------------

    @property
    def _usable(self) -> bool:
        """Say whether its threads are there: it was not closed, and this process is not a fork of the one that made it."""
        return self._going and self._process == os.getpid()

    def _decide(self, episode: str, body: dict[str, Any]) -> ActionChoice:
        started = time.monotonic()
        end = started + self.timeout
        try:
            choice = self._request(episode, body, end)
            self._counter.answered()
            self._counter.by_gate += 1
        except GateRefusal as error:
            about = f"'{body['id']}' of episode '{episode}'"
            if error.unauthorised:  # a token that was revoked stops no plant
                choice = self._fall_back(episode, body, end, UNAUTHORISED, f"{error.status}: {error}")
            else:
                self._counter.answered()
                if self.strict:
                    raise InputError(f"the gate refuses the decision '{body['id']}' ({error.status}): {error}") from error
                log.warning("the gate refuses decision %s: %s", about, error)
                choice = self._fall_back(episode, body, end, REFUSED, str(error))
        except GateAway as error:
            choice = self._fall_back(episode, body, end, error.reason, str(error))
        self._keep(episode, body["id"], choice, self._grace(end))
        self._counter.took(time.monotonic() - started)
        return choice

    def _request(self, episode: str, body: dict[str, Any], end: float) -> ActionChoice:
        if not self._usable:
            raise GateAway("this client was closed, or belongs to another process", CLOSED)
        noted = end - (1.0 - SHARE) * self.timeout
        if self._delivering.answered.is_set():
            self._delivering.answered.clear()
            self._away_until = 0.0
        if time.monotonic() < self._away_until:
            self._keep(episode, body["id"], None, noted)
            raise GateAway("the gate was away a moment ago", self._counter.outage or NO_ANSWER)
        if self._spooled(noted, True, self.spool.begin, episode, body["id"]):
            self._wait_for_deliveries(episode, end)
        answer = self._ask(f"{_path(episode)}/decisions", body, end)
        try:
            fields = {name: answer[name] for name in ("level", "action", "propensity", "by", "index")}
            return ActionChoice(id=answer["decision"], **fields)
        except (KeyError, TypeError) as error:
            raise GateAway("what answers is not a gate", UNABLE) from error

    def _wait_for_deliveries(self, episode: str, end: float) -> None:
        """Wait until earlier requests about an episode have arrived; GateAway if that takes too long."""
        self._delivering.urgent = episode
        seen = False
        while (waits := self._spooled(end, None, self.spool.waits, episode)) is not False:
            seen = seen or waits is not None
            self._delivering.work.set()
            time.sleep(0.001)
            if time.monotonic() >= end - TICK:
                failure = self._delivering.failure
                if seen and failure is not None:
                    raise GateAway(str(failure), failure.reason)
                why = "earlier requests of this episode have not arrived yet" if seen else "the spool does not answer"
                raise GateAway(why, NO_ANSWER if seen else SPOOL)

    def _ask(self, path: str, body: dict[str, Any], end: float) -> Any:
        """Return the answer to a question, or raise GateAway at the end of its time; it may still arrive at the gate."""
        future: Future[Any] = self._asking.submit(self._line.ask, "POST", path, body, uuid.uuid4().hex)
        try:
            return future.result(max(0.0, end - time.monotonic()))
        except (TooLate, TimeoutError) as error:
            if not future.cancel():
                future.add_done_callback(self._late)
                self._line.cut()  # or the next question would wait behind this one
            raise GateAway(f"no answer within {self.timeout:g} s", NO_ANSWER) from error
        except RuntimeError as error:  # it was closed in another thread meanwhile
            raise GateAway(str(error), CLOSED) from error

    def _late(self, future: Future[Any]) -> None:
        if not future.cancelled() and future.exception() is None:
            self._counter.came_late()

    def _fall_back(self, episode: str, body: dict[str, Any], end: float, reason: str, why: str) -> ActionChoice:
        """Return the legacy's own action, and let the gate know later; end: when the plant needs it."""
        if reason == REFUSED:
            self._counter.reasons[REFUSED] += 1
        else:
            self._away_until = max(self._away_until, time.monotonic() + RETRY)
            self._counter.fell_back(reason, why, f"'{body['id']}' of episode '{episode}'")
        legacy, level = body.get("legacy") or {}, body["level"]
        own = draw_legacy_action(level, legacy, body.get("available"), self._delivering.facts, self._random)
        used = {"used": own.action} if own.action is not None else {"index": own.index}
        self._send(f"{_path(episode)}/overruled", {"ask": body, "explored": own.explored, **used}, episode, end=self._grace(end))
        if own.action is None:
            log.error("the gate was never there, and the actions of level '%s' are not known: give the client its problem", level)
        return ActionChoice(id=body["id"], level=level, action=own.action, propensity=own.chance, by="fallback", index=own.index)

    # ---- keeping -----------------------------------------------------------------------------------------------------------

    def _end(self) -> float:
        """Return when a call that begins now has taken its time."""
        return time.monotonic() + self.timeout

    def _spooled(self, end: float, otherwise: T, work: Callable[..., T], *args: Any) -> T:
        """Return what a use of the spool returns, `otherwise` if it fails or takes longer: it is still done then, in order."""
        if not self._usable:
            log.error(
                "this client was closed, or belongs to another process: %s is not kept", getattr(work, "__name__", "a request")
            )
            return otherwise
        try:
            value = self._spooling.submit(work, *args).result(max(0.0, end - time.monotonic()))
        except (TooLate, TimeoutError):
            self._spool_fails("is slow; what was to be written is in memory until it is")
        except Exception as error:  # a spool stops no plant, however it fails
            self._spool_fails(f"cannot be used: {error}")
        else:
            self._trouble = ""
            return value
        return otherwise

    def _grace(self, end: float) -> float:
        """Return until when a decision waits for what it writes: not beyond its time if the spool does not work anyway."""
        return end if self._trouble else end + GRACE

    def _spool_fails(self, why: str) -> None:
        """Log what is wrong with the spool, once until it works again."""
        if why != self._trouble:
            log.error("the spool %s %s", self.spool.path, why)
        self._trouble = why

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
    return f"/v1/episodes/{quote(episode, safe='', errors='replace')}"


def _kept_facts(spool: Spool) -> ProblemFacts:
    """Return what the gate has said about the problem before; nothing if that cannot be read."""
    try:
        return ProblemFacts(**spool.fact("problem") or {"actions": {}})
    except Exception as error:  # a damaged spool stops no plant
        log.error("the spool %s does not say which actions there are: %s", spool.path, error)
        return ProblemFacts({})
