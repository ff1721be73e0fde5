"""The state of a live gate: what its journal adds up to, record by record."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from pydantic import TypeAdapter

from aegis.handover import (
    AGENT,
    BEFORE,
    MIXED,
    Event,
    Flipped,
    Frozen,
    GateOpened,
    GateState,
    Restarted,
    Reverted,
    UnitCounted,
    apply_event,
    draw_arm,
    event_from_plain,
    replay_events,
)
from aegis.problem import Problem
from aegis.service.http_errors import StoreDamaged
from aegis.service.live_episodes import DecisionResult, LiveDecision, LiveEpisode
from aegis.service.store.blocks import BlockBuffer, BlockMark
from aegis.service.store.journal import JournalRecord

# kinds of records
OPENED, WRITER, EPISODE, DECISION, OVERRULED, RESULTS, LATE, CLOSED, EVENT = (
    *("opened", "writer", "episode", "decision", "overruled", "results", "late", "closed", "event"),
)

KEYED = "keyed"  # under which key an episode was opened; it changes nothing
REPLACED = "replaced"  # an interlock or a person replaced the action of a decision
SNAPSHOT = "snapshot"  # what the writer knew at an earlier record was stored
CUT = "cut"  # an episode that was closed took decisions that are not known here
DECISIONS = TypeAdapter(LiveDecision)  # reads them from the bodies of records
OnCounted = Callable[[LiveEpisode, UnitCounted], None]
OnEvent = Callable[[Event, JournalRecord], None]
OnChange = Callable[[LiveEpisode], None]


@dataclass(frozen=True, slots=True)
class CountingDelay:
    """The episode that counting waits for. missing: rewards that have not come. behind: settled episodes that wait for it."""

    episode: str
    since: str
    closed: bool
    missing: int
    behind: int


@dataclass(frozen=True, slots=True)
class ChallengerSeal:
    """Digests of a challenger. piece: of what was stored. code: of its answers and files at the freeze, if it is code."""

    piece: str
    code: str | None = None


@dataclass(slots=True)
class LiveState:
    """The state. gate: None before the gate was opened. trees: episodes that are not counted yet, by id.

    numbers: their ids by number. going: those that are not settled, in the order of their latest requests. started: how many
    episodes have a number. changed: flips of each level since the legacy had it last. sealed: seals of stored challengers, by
    challenge. silent: episodes counted since the last reward, or since the gate was resumed. writer: the last one. snapshot: the
    record that the newest snapshot is of. blocks: where the stored blocks of counted episodes end. uncovered: counted episodes
    after them, None if they are not kept. on_counted, on_event: called with every episode that is counted, and with every event.
    on_change: called before an episode changes or goes.
    """

    problem: Problem
    seed: int = 0
    gate: GateState | None = None
    trees: dict[str, LiveEpisode] = field(default_factory=dict)
    numbers: dict[int, str] = field(default_factory=dict)
    going: OrderedDict[str, LiveEpisode] = field(default_factory=OrderedDict)
    started: int = 0
    changed: dict[str, int] = field(default_factory=dict)
    sealed: dict[str, ChallengerSeal] = field(default_factory=dict)
    silent: int = 0
    writer: str | None = None
    snapshot: int = 0
    blocks: BlockMark = field(default_factory=BlockMark)
    uncovered: BlockBuffer | None = None
    on_counted: OnCounted | None = None
    on_event: OnEvent | None = None
    on_change: OnChange | None = None

    @property
    def opened(self) -> GateState:
        """Return the gate; StoreDamaged before it was opened."""
        if self.gate is None:
            raise StoreDamaged("the journal of a gate begins with 'opened'")
        return self.gate

    def apply(self, record: JournalRecord) -> None:
        """Go on by one record."""
        body, kind = record.body, record.kind
        if kind == OPENED:
            event = event_from_plain(body["event"])
            if self.gate is not None or not isinstance(event, GateOpened):
                raise StoreDamaged(f"record {record.seq}: a gate is opened once, before anything else")
            self.gate, self.seed = replay_events([event]), int(body["seed"])
        elif kind == WRITER:
            self.writer = str(body["writer"])
        elif kind == EPISODE:
            tree = self.trees[body["id"]] = LiveEpisode(body["id"], record.at, body.get("time"), owner=record.caller)
            self._heard(tree, record.at)
        elif kind in (DECISION, OVERRULED):
            self._decision(body, record.at)
        elif kind == RESULTS:
            for item in body["items"]:
                tree = self._changing(item["episode"])
                tree.results[item["decision"]] = DecisionResult(item["reward"], item["outcome"], item["guards"])
                self._heard(tree, record.at)
        elif kind == REPLACED:
            tree = self._changing(body["episode"])
            if body["replaced"]:
                tree.replace_action(body["decision"], body["index"])
            self._heard(tree, record.at)
        elif kind == CLOSED:
            self._closed(body, record.at)
        elif kind == CUT:
            self._changing(body["episode"]).cut_off()
        elif kind == SNAPSHOT and int(body["at"]) > self.snapshot:  # one that was made slowly may come after a newer one
            self.snapshot, self.blocks = int(body["at"]), BlockMark(*body["blocks"])
            if self.uncovered is not None:
                self.uncovered.drop(self.blocks.last)
        elif kind == EVENT:
            self._event(event_from_plain(body["event"]), record)

    # ---- episodes ----------------------------------------------------------------------------------------------------------

    def _changing(self, episode: str) -> LiveEpisode:
        """Return an episode that is about to change."""
        tree = self.trees[episode]
        if self.on_change is not None:
            self.on_change(tree)
        return tree

    def take_up(self, trees: Sequence[LiveEpisode]) -> None:
        """Know the episodes of a snapshot, in their order."""
        self.trees = {tree.id: tree for tree in trees}
        self.numbers = {tree.number: tree.id for tree in trees if tree.number is not None}
        going = sorted((tree for tree in trees if not tree.settled(self.problem)), key=lambda tree: tree.last)
        self.going = OrderedDict((tree.id, tree) for tree in going)

    def _heard(self, tree: LiveEpisode, at: str) -> None:
        """Take note of a request about an episode. `going` is kept up here, so that no reader has to walk all episodes."""
        tree.last, tree.heard = at, time.monotonic()
        if tree.settled(self.problem):
            self.going.pop(tree.id, None)
        else:
            self.going[tree.id] = tree
            self.going.move_to_end(tree.id)

    def _decision(self, body: Mapping[str, Any], at: str) -> None:
        tree = self._changing(body["episode"])
        if tree.number is None:
            tree.number, tree.arm, tree.policies = int(body["number"]), body["arm"], body["policies"]
            self.numbers[tree.number] = tree.id
            self.started = tree.number
        # The first journals do not say 'drawn'. What was mixed there was not drawn as logged.
        tree.decisions[body["id"]] = DECISIONS.validate_python({"drawn": not body.get("mixed", False), **body})
        if body.get("mixed"):
            tree.arm = MIXED
        self._heard(tree, at)

    def _closed(self, body: Mapping[str, Any], at: str) -> None:
        tree = self._changing(body["episode"])
        tree.closed = True
        if body.get("incomplete"):
            tree.cut_off()
        for name in body["missing"]:
            tree.results.setdefault(name, DecisionResult(None))
        self._heard(tree, at)
        if tree.number is None:  # nothing was decided in it
            del self.trees[tree.id]
            self.going.pop(tree.id, None)

    def starting(self) -> tuple[int, str, dict[str, str]]:
        """Return number, arm and policies in control of an episode that takes its first decision now."""
        gate, number = self.opened, self.started + 1
        arm = draw_arm(gate.settings, gate, self.seed, number)
        policies = {item.level: item.challenge for item in gate.deployed}
        if arm == BEFORE:
            latest = max(gate.deployed, key=lambda item: item.since).level
            before = {item.level: item.challenge for item in gate.retired if item.level == latest}
            policies = {name: held for name, held in policies.items() if name != latest} | before
        return number, arm, policies if arm in (AGENT, BEFORE) else {}

    def settled(self, most: int) -> list[LiveEpisode]:
        """Return the next episodes to be counted, in the order in which they started: up to the first that is still going on."""
        first = self.opened.episode + 1
        numbers = takewhile(lambda number: number in self.numbers, range(first, first + most))
        trees = (self.trees[self.numbers[number]] for number in numbers)
        return list(takewhile(lambda tree: tree.settled(self.problem), trees))

    def waiting(self) -> int:
        """Return how many episodes are settled and not counted yet."""
        return len(self.trees) - len(self.going)

    def quiet(self, limit: float) -> LiveEpisode | None:
        """Return an episode that is not settled and that no request was about since `limit`; None if there is no such episode.

        limit: by `time.monotonic`.
        """
        tree = next(iter(self.going.values()), None)
        return tree if tree is not None and tree.heard <= limit else None

    def holding(self) -> CountingDelay | None:
        """Return what counting waits for; None if the next episode can be counted, or none has started."""
        tree = self.trees.get(self.numbers.get(self.opened.episode + 1, ""))
        if tree is None or tree.settled(self.problem):
            return None
        return CountingDelay(tree.id, tree.at, tree.closed, len(tree.missing(self.problem)), self.waiting())

    def holding_seconds(self) -> float:
        """Return the age of the episode that holds up others, since this process knows it; 0 if none does.

        A clock that is set does not change it.
        """
        delay = self.holding()
        return 0.0 if delay is None or not delay.behind else time.monotonic() - self.trees[delay.episode].known

    def _give_back(self, level: str) -> None:
        """Let the legacy decide at a level at once, in episodes that are going on as well; those are no evidence then."""
        for tree in self.trees.values():
            if level in tree.policies:
                self._changing(tree.id)
                tree.policies = {name: held for name, held in tree.policies.items() if name != level}
                tree.arm = MIXED

    # ---- the gate ----------------------------------------------------------------------------------------------------------

    def _event(self, event: Event, record: JournalRecord) -> None:
        self.gate = apply_event(self.opened, event)
        if isinstance(event, Frozen):
            self.sealed |= seals_of_freeze(event, record.body)
        if isinstance(event, Flipped):
            self.changed[event.level] = self.changed.get(event.level, 0) + 1
        if isinstance(event, Reverted):
            self.changed.pop(event.level, None)
            self._give_back(event.level)
        if isinstance(event, Restarted):
            self.silent = 0
        if isinstance(event, UnitCounted):
            self.silent = 0 if event.reward is not None else self.silent + 1
            tree = self._changing(self.numbers.pop(event.episode))
            del self.trees[tree.id]
            self.going.pop(tree.id, None)
            if self.uncovered is not None:
                self.uncovered.add(tree)
            if self.on_counted is not None:
                self.on_counted(tree, event)
        if self.on_event is not None:
            self.on_event(event, record)


KEPT_KEY = "kept"  # beside the event of a freeze: digests of the stored challengers, by challenge


def seals_of_freeze(event: Frozen, body: Mapping[str, Any]) -> dict[str, ChallengerSeal]:
    """Return the seals of a freeze, by challenge. body: of its record."""
    return {item.name: ChallengerSeal(body[KEPT_KEY][item.name], item.seal) for item in event.challenges}
