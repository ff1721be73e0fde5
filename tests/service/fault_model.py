"""The model of a gate by which a fault campaign is judged: what plants saw, beside the rows of the journal.

It shares no code with the service. A history is a list of plain records, each with `what` it is:

- answer: of the gate to a request of a plant under a key, with `process`, `path`, `body`, `status`, `answer`, `sent`, `got`
- unanswered: the same without an answer
- open, decide, report, close: calls of `aegis.Client` that returned; `durable` if the spool had them by then
- raised: an exception in the plant
- flushed: everything that a client was asked to deliver has arrived; refused: except for this
- killed: the plant's process; lost: its spool was deleted or damaged
- clock: a wall clock was stepped
"""

from __future__ import annotations

import itertools
import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Item = Mapping[str, Any]
ALLOWANCE = 0.02  # seconds beyond its timeout, and beyond bare timers of the same process, that a decision may take
WAITS = 3  # of a decision: to be kept, for the gate, to be kept again; each may be as late as a bare timer
CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class Wrong:
    """Something that must not happen. kind: what it is a case of."""

    kind: str
    words: str


@dataclass(slots=True)
class ModelEpisode:
    """An episode by its rows."""

    number: int | None = None
    policies: dict[str, str] = field(default_factory=dict)
    decisions: dict[str, Item] = field(default_factory=dict)
    rewards: dict[str, float | None] = field(default_factory=dict)
    late: dict[str, float | None] = field(default_factory=dict)  # reported after it was counted, without any effect
    closed: bool = False
    counted: bool = False


@dataclass(slots=True)
class Verdict:
    """What a campaign showed: what was wrong, and counts."""

    wrong: list[Wrong] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, words: str) -> None:
        """Take note of something wrong."""
        self.wrong.append(Wrong(kind, words))


def judge_history(history: Sequence[Item], rows: Sequence[Item], low: float, high: float, innermost: str) -> Verdict:
    """Return what is wrong with a history and its journal. low, high: of the reward. rows: in order, bodies as plain data."""
    verdict = Verdict()
    episodes = JournalModel(verdict, low, high, innermost).follow(rows)
    _judge_answers(verdict, history, rows, episodes)
    _judge_writers(verdict, history, rows)
    _judge_clients(verdict, history, rows, episodes)
    _judge_deadlines(verdict, history)
    return verdict


# ---- the journal -------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class JournalModel:
    """Follows the rows of a journal, and takes note of what no gate may write."""

    verdict: Verdict
    low: float
    high: float
    innermost: str
    episodes: dict[str, ModelEpisode] = field(default_factory=dict)
    _by_number: dict[int, str] = field(default_factory=dict)
    _keys: set[str] = field(default_factory=set)
    _frozen: set[str] = field(default_factory=set)
    _certified: set[tuple[str, str]] = field(default_factory=set)
    _control: dict[str, tuple[str, int]] = field(default_factory=dict)  # by level: challenge, since
    _before: dict[str, str] = field(default_factory=dict)  # by level: the challenge that an upgrade replaced
    _counted: int = 0
    _unjudged: bool = False

    def follow(self, rows: Iterable[Item]) -> dict[str, ModelEpisode]:
        """Follow all rows; return the episodes."""
        work = {
            "episode": self._episode,
            "decision": self._decision,
            "overruled": self._overruled,
            "results": self._results,
            "late": self._late,
            "closed": self._close,
            "event": self._event,
        }
        for place, row in enumerate(rows, 1):
            if row["seq"] != place:
                self.verdict.add("gap", f"record {place} is missing, {row['seq']} is there")
                break
            if row["key"] is not None and row["key"] in self._keys:
                self.verdict.add("duplicated", f"key {row['key']} twice")
            self._keys.add(row["key"])
            if row["kind"] in work:
                work[row["kind"]](row["body"])
        self.verdict.counts["rows"] += len(self._keys)
        return self.episodes

    def _episode(self, body: Item) -> None:
        if body["id"] in self.episodes:
            self.verdict.add("duplicated", f"episode {body['id']} opened twice")
        self.episodes[body["id"]] = ModelEpisode()

    def _decision(self, body: Item) -> None:
        episode, name = self.episodes[body["episode"]], body["id"]
        if name in episode.decisions:
            self.verdict.add("duplicated", f"decision {body['episode']}/{name} twice")
        self._begin(episode, body)
        self._judge_control(episode, body)
        episode.decisions[name] = body
        self.verdict.counts["decisions"] += 1
        self.verdict.counts["decisions by agents"] += body["by"] == "agent"

    def _overruled(self, body: Item) -> None:
        episode, name = self.episodes[body["episode"]], body["id"]
        if episode.decisions.get(name, {}).get("overruled"):
            self.verdict.add("duplicated", f"decision {body['episode']}/{name} overruled twice")
        self._begin(episode, body)
        if body["by"] != "legacy":
            self.verdict.add("control", f"{body['episode']}/{name} was overruled by {body['by']}")
        episode.decisions[name] = body
        self.verdict.counts["overruled"] += 1

    def _begin(self, episode: ModelEpisode, body: Item) -> None:
        """Judge what belongs to every decision, and number and policies of an episode with its first one."""
        name = f"{body['episode']}/{body['id']}"
        if min(body["chances"]) < 0.0 or abs(sum(body["chances"]) - 1.0) > CLOSE or body["chances"][body["action"]] <= 0.0:
            self.verdict.add("propensity", f"{name}: {body['chances']} of action {body['action']}")
        if episode.counted or episode.closed:
            self.verdict.add("order", f"{name} was decided after its episode was closed")
        if episode.number is not None:
            if body["number"] != episode.number:
                self.verdict.add("order", f"{name} is in episode {body['number']}, which was {episode.number}")
            return
        episode.number, expected = body["number"], len(self._by_number) + 1
        if episode.number != expected:
            self.verdict.add("order", f"{name} begins episode {episode.number}, {expected} is next")
        self._by_number[expected] = body["episode"]
        episode.policies = dict(body["policies"])
        control = {level: challenge for level, (challenge, _) in self._control.items()}
        if episode.policies not in self._possible(control):
            self.verdict.add("control", f"episode {expected} has {episode.policies}, in control are {control}")

    def _possible(self, control: dict[str, str]) -> list[dict[str, str]]:
        """Return which policies an episode may have: those in control, none if it is held back, or those before the last flip."""
        if not control:
            return [{}]
        latest = max(self._control, key=lambda level: self._control[level][1])
        before = {level: challenge for level, challenge in control.items() if level != latest}
        if latest in self._before:
            before[latest] = self._before[latest]
        return [control, {}, before]

    def _judge_control(self, episode: ModelEpisode, body: Item) -> None:
        held = episode.policies.get(body["level"])
        expected = ("legacy", "legacy") if held is None else ("agent", held)
        if (body["by"], body["version"]) != expected:
            name = f"{body['episode']}/{body['id']} at {body['level']}"
            self.verdict.add("control", f"{name} is by {body['by']} {body['version']}, not by {expected[0]} {expected[1]}")
        if held is None and list(body["chances"]) != list(body["legacy"]):
            self.verdict.add("control", f"{body['episode']}/{body['id']}: the legacy's probabilities are not those it stated")

    def _results(self, body: Item) -> None:
        for item in body["items"]:
            episode, name = self.episodes[item["episode"]], item["decision"]
            again = name in episode.rewards and episode.rewards[name] is None and item["reward"] is None
            if name in episode.rewards and not again:  # that a reward is missing may be said again: a close may have said so
                self.verdict.add("duplicated", f"the reward of {item['episode']}/{name} twice")
            elif name not in episode.decisions:
                self.verdict.add("order", f"the reward of {item['episode']}/{name} came before its decision")
            episode.rewards[name] = item["reward"]
            self.verdict.counts["rewards"] += 1

    def _late(self, body: Item) -> None:
        for item in body["items"]:
            episode, name = self.episodes[item["episode"]], item["decision"]
            if name in episode.late:
                self.verdict.add("duplicated", f"the late reward of {item['episode']}/{name} twice")
            if not episode.counted and not (episode.closed and episode.number is None):
                self.verdict.add("order", f"the reward of {item['episode']}/{name} is late before its episode was counted")
            episode.late[name] = item["reward"]
            self.verdict.counts["late rewards"] += 1

    def _close(self, body: Item) -> None:
        episode = self.episodes[body["episode"]]
        episode.closed = True
        for name in body["missing"]:
            episode.rewards.setdefault(name, None)

    def _event(self, body: Item) -> None:
        event = body["event"]
        kind = event["kind"]
        if kind == "unit":
            self._unit(event)
        elif kind == "frozen":
            self._frozen |= {item["name"] for item in event["challenges"]}
            self.verdict.counts["freezes"] += 1
        elif kind == "certified":
            if event["challenge"] not in self._frozen:
                self.verdict.add("flip", f"challenge {event['challenge']} was certified, and is not open")
            self._certified.add((event["level"], event["challenge"]))
        elif kind == "flip":
            self._flip(event)
        elif kind in ("restarted", "reverted"):
            self._frozen, self._certified = set(), set()
            self.verdict.counts[kind] += 1
            if kind == "reverted":
                self._give_back(event["level"])
        elif kind == "paused":
            self._unjudged = "cannot be judged" in event["why"]
            self.verdict.counts["paused"] += 1

    def _flip(self, event: Item) -> None:
        level, challenge = event["level"], event["challenge"]
        if (level, challenge) not in self._certified:
            self.verdict.add("flip", f"level {level} was handed over to {challenge} without its certificate")
        self._before.pop(level, None)
        if level in self._control:
            self._before[level] = self._control[level][0]
        self._control[level] = challenge, event["since"]
        self._frozen, self._certified = set(), set()
        self.verdict.counts["flips"] += 1

    def _give_back(self, level: str) -> None:
        self._control.pop(level, None)
        self._before.pop(level, None)
        for episode in self.episodes.values():
            if not episode.counted:
                episode.policies.pop(level, None)

    def _unit(self, event: Item) -> None:
        self._counted += 1
        if event["episode"] != self._counted:
            self.verdict.add("order", f"episode {event['episode']} is counted, {self._counted} is next")
            return
        name = self._by_number.get(self._counted)
        if name is None:
            self.verdict.add("order", f"episode {self._counted} is counted and has not begun")
            return
        episode = self.episodes[name]
        episode.counted = True
        inner = [one for one, item in episode.decisions.items() if item["level"] == self.innermost]
        if not episode.closed or any(one not in episode.rewards for one in inner):
            self.verdict.add("order", f"episode {self._counted} ({name}) was counted before it was settled")
            return
        rewards = [episode.rewards[one] for one in inner]
        numbers = [reward for reward in rewards if reward is not None]
        whole = bool(numbers) and len(numbers) == len(rewards) and not self._unjudged
        mean = (sum(numbers) / len(numbers) - self.low) / (self.high - self.low) if whole else None
        wrong = event["reward"] is not None if mean is None else event["reward"] is None or abs(event["reward"] - mean) > CLOSE
        if wrong and not self._unjudged:
            self.verdict.add("reward", f"episode {self._counted} ({name}) earned {mean}, counted is {event['reward']}")
        self.verdict.counts["counted"] += 1


# ---- what plants saw ---------------------------------------------------------------------------------------------------------


def _judge_answers(verdict: Verdict, history: Sequence[Item], rows: Sequence[Item], episodes: Mapping[str, ModelEpisode]) -> None:
    """Judge what was answered to requests under keys: it is there, once, as it was answered, and every time the same."""
    by_key = {row["key"]: row for row in rows if row["key"] is not None}
    seen: dict[str, Any] = {}
    for item in history:
        if item["what"] != "answer" or item["path"] == "/v1/operator":
            continue
        key, good = item["key"], item["status"] < 300
        shown = item["answer"] if good else f"refused ({item['status']}): {item['answer']}"
        if key in seen and seen[key] != shown:
            verdict.add("changed answer", f"{key}: {seen[key]} and then {shown}")
        if not good:
            if key not in seen:
                verdict.counts["refused"] += 1
            continue
        if key not in seen:
            verdict.counts["acknowledged"] += 1
            if key not in by_key:
                verdict.add("lost", f"{item['path']} under {key} was answered {shown}")
            elif not _same(item, by_key[key]):
                verdict.add("changed answer", f"{key}: {shown}, the journal has {json.dumps(by_key[key]['body'])[:400]}")
        seen[key] = shown


def _same(item: Item, row: Item) -> bool:
    """Say whether a row holds what was answered to a request."""
    path, answer, body, row_body = item["path"], item["answer"], item["body"], row["body"]
    if path == "/v1/episodes":
        return bool(row["kind"] == "keyed" and row_body["episode"] == answer["episode"])
    if path == "/v1/results":
        sent = [(one["episode"], one["decision"], one.get("reward")) for one in body["items"]]
        written = [(one["episode"], one["decision"], one["reward"]) for one in row_body["items"]]
        return row["kind"] in ("results", "late") and sent == written and answer["accepted"] == len(sent)
    if path.endswith("/close"):
        return bool(row["kind"] == "closed" and row_body["episode"] == answer["episode"])
    if path.endswith("/decisions"):
        return bool(row["kind"] == "decision" and _same_decision(answer["decision"], answer, row_body))
    return True


def _same_decision(name: str, answer: Item, body: Item) -> bool:
    return (name, answer["index"], answer["propensity"], answer["by"]) == (
        *(body["id"], body["action"], body["chances"][body["action"]], body["by"]),
    )


def _judge_writers(verdict: Verdict, history: Sequence[Item], rows: Sequence[Item]) -> None:
    """Judge that one process wrote at a time, and that its times go on."""
    writers = [(row["seq"], row["body"]["writer"]) for row in rows if row["kind"] == "writer"]
    starts, by_key = [seq for seq, _ in writers], {row["key"]: row for row in rows if row["key"] is not None}
    attempts = Counter(item["key"] for item in history if item["what"] in ("answer", "unanswered"))
    process_of: dict[str, str] = {}
    writer_of: dict[str, str] = {}
    for item in history:
        fresh = item["what"] == "answer" and item["status"] < 300 and item.get("process") and attempts[item["key"]] == 1
        if not fresh or item["key"] not in by_key:
            continue
        place = bisect_right(starts, by_key[item["key"]]["seq"]) - 1
        writer = writers[place][1] if place >= 0 else "none"
        if process_of.setdefault(writer, item["process"]) != item["process"]:
            verdict.add("two writers", f"{item['key']} by {item['process']}, while {process_of[writer]} was the writer")
        if writer_of.setdefault(item["process"], writer) != writer:
            verdict.add("two writers", f"{item['key']} of {item['process']} is in the time of another writer")
    verdict.counts["writers"] += len(writers)
    verdict.counts["takeovers"] += sum(one[1] != other[1] for one, other in itertools.pairwise(writers))
    steps = sum(item["what"] == "clock" for item in history)
    tenures = [bisect_right(starts, row["seq"]) for row in rows]
    names = ["", *(name for _, name in writers)]
    back = sum(
        one["at"] > other["at"] and names[a] == names[b]
        for (one, a), (other, b) in itertools.pairwise(zip(rows, tenures, strict=True))
    )
    if back > steps:
        verdict.add("time", f"times go back {back} times within the time of a writer, clocks were stepped {steps} times")


@dataclass(slots=True)
class Interruptions:
    """What happened to the spool of a plant."""

    flushed: list[float] = field(default_factory=list)
    killed: list[float] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)

    def excused(self, at: float, durable: bool) -> bool:
        """Say whether a request may be lost: the spool was, or the process that had it in memory, before it arrived."""
        arrived = next((moment for moment in self.flushed if moment >= at), float("inf"))
        return any(at <= moment <= arrived for moment in (self.lost if durable else [*self.lost, *self.killed]))


def _judge_clients(verdict: Verdict, history: Sequence[Item], rows: Sequence[Item], episodes: Mapping[str, ModelEpisode]) -> None:
    """Judge what `aegis.Client` answered and took: it is in the journal, unless it was refused or its spool was lost."""
    plants: dict[str, Interruptions] = defaultdict(Interruptions)
    refused: set[tuple[str, str, str]] = set()  # path's end, episode, decision
    for item in history:
        if item["what"] in ("flushed", "killed", "lost"):
            getattr(plants[item["plant"]], item["what"]).append(item["at"])
        if item["what"] == "raised":
            verdict.add("raised", f"{item['plant']}: {item['words']}")
        if item["what"] == "refused":
            verdict.counts["refused by the gate"] += 1
            names = [one.get("decision", "") for one in item["body"].get("items", [])] or [
                item["body"].get("ask", {}).get("id", "")
            ]
            refused |= {(item["path"].rpartition("/")[2], item["episode"], name or "") for name in names}
    answered = {(row["body"]["episode"], row["body"]["id"]): row["body"] for row in rows if row["kind"] == "decision"}
    for item in history:
        if item["what"] not in ("open", "decide", "report", "close"):
            continue
        if item["what"] == "decide" and item["by"] != "fallback":
            verdict.counts["acknowledged"] += 1
            row = answered.get((item["episode"], item["id"]))
            if row is None:
                verdict.add("lost", f"decision {item['episode']}/{item['id']} was answered by {item['by']}")
            elif not _same_decision(item["id"], item, row):
                verdict.add("changed answer", f"{item['episode']}/{item['id']}: {dict(item)}, the journal has {dict(row)}")
            continue
        there = _arrived(item, episodes, refused)
        if there:
            verdict.counts["acknowledged"] += 1
        elif plants[item["plant"]].excused(item["at"], item["durable"]):
            verdict.counts["lost with their spool"] += 1
        else:
            verdict.add("lost", f"{item['what']} of {item['plant']}: {dict(item)}")


def _arrived(item: Item, episodes: Mapping[str, ModelEpisode], refused: set[tuple[str, str, str]]) -> bool:
    """Say whether a request of a client is in the journal, or was refused."""
    episode = episodes.get(item["episode"])
    if item["what"] == "open":
        return episode is not None or ("episodes", item["episode"], "") in refused
    if item["what"] == "close":
        return ("close", item["episode"], "") in refused or (episode is not None and episode.closed)
    if item["what"] == "decide":
        if ("overruled", item["episode"], item["id"]) in refused:
            return True
        row = None if episode is None else episode.decisions.get(item["id"])
        return row is not None and bool(row.get("overruled")) and row["action"] == item["index"]
    if ("results", item["episode"], item["decision"]) in refused:
        return True
    reported = [] if episode is None else [rewards.get(item["decision"]) for rewards in (episode.rewards, episode.late)]
    return item["reward"] in reported


def _judge_deadlines(verdict: Verdict, history: Sequence[Item]) -> None:
    """Judge that every decision of a client was there in time. timer: by how much a bare timer was late beside it."""
    for item in history:
        if item["what"] == "decide":
            over = item["seconds"] - item["timeout"]
            verdict.counts["client decisions"] += 1
            verdict.counts["fallbacks"] += item["by"] == "fallback"
            if over > ALLOWANCE + WAITS * item["timer"]:
                verdict.add("late", f"{item['episode']}/{item['id']}: {over:.3f} s, a bare timer {item['timer']:.3f} s")


def overruns(history: Sequence[Item]) -> tuple[list[float], list[float]]:
    """Return the seconds by which decisions of clients exceeded their timeout, and by which bare timers beside them were late."""
    decisions = [item["seconds"] - item["timeout"] for item in history if item["what"] == "decide"]
    late = [item["over"] for item in history if item["what"] == "timer"]
    count = sum(item["count"] for item in history if item["what"] == "ticks")
    return decisions, late + [0.0] * max(0, count - len(late))
