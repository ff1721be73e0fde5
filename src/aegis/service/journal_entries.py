"""Journal entries: the record that each request leads to, with the action that is drawn, or the reason for a refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from aegis.policies import StatedIncumbent, path_full
from aegis.problem import Batch, Level, LevelTable, Policy, Problem
from aegis.rng import stream
from aegis.service import schemas as check
from aegis.service.gate_problem import sends_incumbent
from aegis.service.http_errors import Conflict, LateRequest, NotFound, ServiceError, WrongRequest
from aegis.service.live_episodes import DecisionResult, LiveDecision, LiveEpisode, legacy_extra_columns
from aegis.service.live_state import CLOSED, DECISION, EPISODE, LATE, OVERRULED, RESULTS, LiveState
from aegis.service.schemas import Ask, Legacy, Report
from aegis.service.store.journal import JournalEntry


def decision_probabilities(
    problem: Problem, policy: Policy, path: Sequence[LiveDecision], asked: LiveDecision, columns: Mapping[str, Sequence[str]]
) -> tuple[float, ...]:
    """Return a policy's probabilities at a decision below `path`. columns: in which the policy finds the legacy's."""
    found = path_full(policy, asked.level, _known_batch(problem, path, asked, columns))[0]
    return tuple(found.tolist())


def draw_action(chances: Sequence[float], seed: int, number: int, place: int) -> int:
    """Return the action drawn at the `place`-th decision of an episode: the same again if the same is asked again."""
    edges = np.cumsum(chances)
    point = stream(seed, "live decision", number, place).random() * edges[-1]
    found = int(np.searchsorted(edges, point, side="right"))
    return min(found, int(np.flatnonzero(np.asarray(chances) > 0)[-1]))


def _known_batch(
    problem: Problem, path: Sequence[LiveDecision], asked: LiveDecision, columns: Mapping[str, Sequence[str]]
) -> Batch:
    """Return what is known when a decision is taken, as a batch of one path."""
    levels: dict[str, LevelTable] = {}
    decisions = [*path, asked]
    for place, spec in enumerate(problem.levels):
        if place >= len(decisions):
            levels[spec.name] = LevelTable.undecided([0], {})  # nothing is known below; columns have a row per innermost one
            continue
        item = decisions[place]
        kinds = {variable.name: np.int32 if variable.kind == "categorical" else np.float64 for variable in spec.context}
        context: dict[str, Any] = {name: np.array([item.context[name]], dtype=kind) for name, kind in kinds.items()}
        available = None if item.available is None else np.array([item.available])
        table = LevelTable.undecided([0], context, available)
        if item.incumbent is not None:
            table = replace(table, incumbent=np.array([item.incumbent]))
        if item is not asked:
            full = np.array([item.chances])
            table = table.decided([item.action], full[:, item.action], full)
        levels[spec.name] = table
    return Batch(np.array(["now"]), levels, extra=legacy_extra_columns([decisions], columns))


@dataclass(frozen=True, slots=True)
class EntryFactory:
    """Makes entries. columns: in which policies find what the legacy would do, none if that is known without being sent.

    policy: finds the policy of a challenge. known: says whether there ever was an episode. rates: by level the rate of uniform
    exploration from which the incumbent follows, where the problem file declares one.
    """

    problem: Problem
    state: LiveState
    columns: Mapping[str, Sequence[str]]
    policy: Callable[[str], Policy]
    known: Callable[[str], bool]
    rates: Mapping[str, float] = field(default_factory=dict)

    def episode(self, name: str, time: str | float | None) -> JournalEntry:
        """Open an episode."""
        column = self.problem.time
        if (column is None) != (time is None):
            expected = "this problem has no time column; leave it out" if column is None else f"say when it started ('{column}')"
            raise WrongRequest(f"time: {expected}")
        return JournalEntry(EPISODE, {"id": name, "time": time})

    def decision(self, episode: str, ask: Ask) -> JournalEntry:
        """Answer a decision."""
        tree, level, path = self._asked(episode, ask)
        name = ask.id or f"{level.name}-{len(tree.decisions) + 1}"
        if name in tree.decisions:
            raise Conflict(f"episode '{episode}' has a decision '{name}' already; one decision is asked for once")
        self._room(tree, level, path)
        item, first = self._item(tree, level, path, ask, name), self._first(tree)
        held = first["policies"].get(level.name)
        taken = None if ask.legacy is None else ask.legacy.taken
        if held is None:
            by, chances = "legacy", item.legacy
        else:
            by, chances = "agent", decision_probabilities(self.problem, self.policy(held), path, item, self.columns)
        if held is None and taken is not None:
            action = _taken(level, taken, item.legacy, "legacy.taken")
        else:
            action = draw_action(chances, self.state.seed, first["number"], len(tree.decisions))
        body = {**_body(tree, item, chances, action, by), "version": held or "legacy", **first}
        return JournalEntry(DECISION, body, first["number"])

    def overruled(self, episode: str, ask: Ask, used: Any, explored: bool) -> JournalEntry:
        """Take note that the legacy's own action was used; the decision is added if it never arrived.

        explored: it was drawn with the legacy's probabilities; otherwise the episode is no evidence of anything.
        """
        tree, level, path = self._asked(episode, ask)
        name = ask.id or f"{level.name}-{len(tree.decisions) + 1}"
        item, first, before = self._item(tree, level, path, ask, name), self._first(tree), tree.decisions.get(name)
        if before is None:
            self._room(tree, level, path)
        else:
            if (before.level, before.parent, dict(before.context)) != (item.level, item.parent, dict(item.context)):
                raise Conflict(f"episode '{episode}': decision '{name}' was asked for in another context")
            if name in tree.results or any(other.parent == name for other in tree.decisions.values()):
                raise Conflict(f"episode '{episode}': what followed from decision '{name}' was written already")
        action = _taken(level, used, item.legacy, "used")
        mixed = level.name in first["policies"] or not explored
        body = {
            **_body(tree, item, item.legacy, action, "legacy"),
            "version": "legacy",
            "overruled": True,
            "mixed": mixed,
            "drawn": explored,
            **first,
        }
        return JournalEntry(OVERRULED, body, first["number"])

    def results(self, items: Sequence[Report]) -> JournalEntry:
        """Take note of what came of decisions, all of them or none."""
        found: list[dict[str, Any]] = []
        late: list[dict[str, Any]] = []
        here: dict[tuple[str, str], DecisionResult] = {}
        for place, item in enumerate(items):
            try:
                tree, target = self._reported(item)
                result = check.result_of(self.problem, item)
                before = here.setdefault((item.episode, target), result)
                if tree is not None and before == result:
                    before = tree.results.get(target, result)
                if before != result:
                    raise Conflict(
                        f"another result of decision '{target}' of episode '{item.episode}' was reported before, or here"
                    )
            except ServiceError as error:
                raise type(error)(f"item {place}: {error}") from None
            body = {"reward": result.reward, "outcome": result.outcome, "guards": dict(result.guards)}
            (late if tree is None else found).append({"episode": item.episode, "decision": target, **body})
        if late and found:
            raise Conflict(f"episode '{late[0]['episode']}' has been counted already: report late results by themselves")
        return JournalEntry(LATE if late else RESULTS, {"items": late or found})

    def closed(self, episode: str, abandoned: bool, incomplete: bool = False) -> JournalEntry:
        """Close an episode. abandoned: rewards that have not come are missing for good. incomplete: decisions were not told."""
        tree = self._found(episode, late=incomplete)
        if tree.closed and not (abandoned or incomplete):
            raise Conflict(f"episode '{episode}' is closed already")
        missing = tree.missing(self.problem) if abandoned else []
        return JournalEntry(
            CLOSED, {"episode": episode, "missing": missing, "abandoned": abandoned, "incomplete": incomplete}, tree.number
        )

    # ---- helpers -----------------------------------------------------------------------------------------------------------

    def _found(self, episode: str, late: bool = True) -> LiveEpisode:
        """Return an episode that was not counted yet. late: what is said about it would have changed what was counted."""
        tree = self.state.trees.get(episode)
        if tree is not None:
            return tree
        if self.known(episode):
            why = f"episode '{episode}' has been counted already"
            raise LateRequest(why, episode) if late else Conflict(why)
        raise NotFound(f"there is no episode '{episode}'; open it first")

    def _asked(self, episode: str, ask: Ask) -> tuple[LiveEpisode, Level, list[LiveDecision]]:
        """Return the episode, the level and the path above a decision that is asked for."""
        tree, level = self._found(episode), check.level_of(self.problem, ask.level)
        if tree.closed:
            raise LateRequest(f"episode '{episode}' is closed: it takes no more decisions", episode)
        place = self.problem.names.index(level.name)
        if place == 0:
            if ask.parent is not None:
                raise WrongRequest(f"parent: '{level.name}' is the outermost level; leave it out")
            return tree, level, []
        outer = self.problem.names[place - 1]
        if ask.parent is None:
            above = [item for item in tree.decisions.values() if item.level == outer]
            if len(above) != 1:
                raise WrongRequest(
                    f"parent: name the decision of level '{outer}' that this one belongs to; there are {len(above)}"
                )
            return tree, level, tree.path(above[0].id)
        if ask.parent not in tree.decisions or tree.decisions[ask.parent].level != outer:
            raise WrongRequest(f"parent: '{ask.parent}' is no decision of level '{outer}' in episode '{episode}'")
        return tree, level, tree.path(ask.parent)

    def _room(self, tree: LiveEpisode, level: Level, path: Sequence[LiveDecision]) -> None:
        """Raise Conflict if a level has its one decision already."""
        parent = path[-1].id if path else None
        if level.decision is None and level is not self.problem.innermost and tree.below(parent, level.name):
            each = "per episode" if parent is None else "below each parent"
            raise Conflict(
                f"level '{level.name}' has one decision {each} in this problem; give it a 'decision' id in the problem file to "
                "allow more"
            )

    def _first(self, tree: LiveEpisode) -> dict[str, Any]:
        """Return what is settled with the first decision of an episode: its number, who acts, and which policies."""
        if tree.number is not None:
            return {"number": tree.number, "arm": tree.arm, "policies": dict(tree.policies)}
        number, arm, policies = self.state.starting()
        return {"number": number, "arm": arm, "policies": policies}

    def _item(self, tree: LiveEpisode, level: Level, path: Sequence[LiveDecision], ask: Ask, name: str) -> LiveDecision:
        """Return the decision before anybody has taken it."""
        context, mask = check.context_of(level, ask.context), check.mask_of(level, ask.available)
        legacy = self._legacy(level, ask.legacy, mask)
        if ask.legacy is not None and ask.legacy.taken is not None:
            _taken(level, ask.legacy.taken, legacy, "legacy.taken")  # also where it is not used: what is sent is right
        own = self._sent_incumbent(level, ask.legacy, legacy, mask)
        parent = path[-1].id if path else None
        item = LiveDecision(name, level.name, parent, context, mask, legacy, legacy, -1, "", incumbent=own)
        self._check_incumbent(level, path, item, ask.legacy)
        return item

    def _sent_incumbent(
        self, level: Level, sent: Legacy | None, legacy: tuple[float, ...], mask: tuple[bool, ...] | None
    ) -> tuple[float, ...] | None:
        """Return the incumbent's probabilities at a decision; None at a level where the control system does not send them."""
        given = None if sent is None else sent.incumbent
        if not sends_incumbent(level):
            if given is not None:
                raise WrongRequest(f"legacy.incumbent: {_not_sent(level)}; leave it out")
            return None
        if sent is not None and sent.action is not None:
            if given is not None:
                raise WrongRequest("legacy.incumbent: 'action' is what the incumbent means to take; leave one of the two out")
            return check.certain(level, check.action_of(level, sent.action, "legacy.action"), mask, "legacy.action")
        if given is not None:
            return check.incumbent_of(level, given, mask)
        if level.name in self.rates:
            return check.incumbent_below(legacy, self.rates[level.name], mask)
        beside = "" if not self.columns else " beside 'distribution'; or send 'action' with 'epsilon' instead of both"
        raise WrongRequest(
            f"legacy.incumbent: gains at level '{level.name}' are over the incumbent, the legacy without its exploration: send "
            f"its action, or one probability for each of the {level.actions.count} actions{beside}"
        )

    def _check_incumbent(self, level: Level, path: Sequence[LiveDecision], item: LiveDecision, sent: Legacy | None) -> None:
        """Raise WrongRequest if incumbent and legacy contradict each other by what the problem file says."""
        own, stated = item.incumbent, level.incumbent
        if stated is None or stated.logged or level.ratio_bound is None:
            return
        if own is None:
            own = decision_probabilities(self.problem, StatedIncumbent(self.problem), path, item, self.columns)
        check.check_ratios(level, own, item.legacy, _where(sent))

    def _legacy(self, level: Level, told: Legacy | None, mask: tuple[bool, ...] | None) -> tuple[float, ...]:
        """Return the legacy's probabilities at a decision."""
        if not self.columns:
            opened = mask or (True,) * level.actions.count
            known = tuple(can / sum(opened) for can in opened)
            if told is not None and told.distribution is not None:
                self._same(known, check.distribution_of(level, told.distribution, mask))
            elif told is not None and (told.action is not None or told.epsilon is not None):
                raise WrongRequest("legacy.action: the problem file says that the legacy draws uniformly; leave it out")
            return known
        if told is None or (told.distribution is None) == (told.action is None):
            raise WrongRequest(
                "legacy: say what the legacy would do, either its 'distribution' over the actions, or its 'action' with the rate "
                "'epsilon' at which it explores"
            )
        if told.distribution is not None:
            if told.epsilon is not None:
                raise WrongRequest("legacy.epsilon: belongs to 'action'; a distribution has its exploration in it")
            return check.distribution_of(level, told.distribution, mask)
        if told.epsilon is None:
            raise WrongRequest("legacy.epsilon: say at which rate the legacy explores beside its action")
        return check.legacy_of_action(level, told.action, told.epsilon, mask)

    @staticmethod
    def _same(known: Sequence[float], told: Sequence[float]) -> None:
        if max(abs(one - other) for one, other in zip(known, told, strict=True)) > check.SUM_TOLERANCE:
            raise WrongRequest("legacy.distribution: the problem file says that the legacy draws uniformly, this is another one")

    def _reported(self, item: Report) -> tuple[LiveEpisode | None, str]:
        """Return the episode of a result and the decision it belongs to; no episode if that has been counted already."""
        tree, per, target = self.state.trees.get(item.episode), self.problem.reward.per, item.decision or ""
        if tree is None:
            if not self.known(item.episode):
                raise NotFound(f"there is no episode '{item.episode}'")
            return None, target
        if per == "episode":
            if target:
                raise WrongRequest("decision: in this problem a reward belongs to the whole episode; leave it out")
            return tree, ""
        level = self.problem.innermost.name if per == "decision" else per
        if target not in tree.decisions:
            raise NotFound(f"episode '{item.episode}' has no decision '{target}'")
        if tree.decisions[target].level != level:
            raise WrongRequest(f"decision: rewards belong to decisions of level '{level}', '{target}' is none")
        return tree, target


def _taken(level: Level, given: Any, legacy: Sequence[float], where: str) -> int:
    """Return the action that the legacy took itself."""
    action = check.action_of(level, given, where)
    if legacy[action] <= 0.0:
        raise WrongRequest(f"{where}: the legacy says that it never takes {check.shown(given)} here: its probability is 0")
    return action


def _where(sent: Legacy | None) -> str:
    """Return the field from which the incumbent, or what it is compared with, was taken."""
    for name, where in (("incumbent", "incumbent"), ("distribution", "distribution"), ("action", "epsilon")):
        if sent is not None and getattr(sent, name) is not None:
            return f"legacy.{where}"
    return "legacy"


def _not_sent(level: Level) -> str:
    """Return why the incumbent of a level is not sent with each decision."""
    if level.incumbent is None:
        return (
            f"the problem file states no incumbent at level '{level.name}', so that gains are over the policy that writes the "
            f"log, exploration included; state one there ('incumbent: {{base: COLUMN}}')"
        )
    return f"the problem file states the incumbent of level '{level.name}' ({level.incumbent.words})"


def _body(tree: LiveEpisode, item: LiveDecision, chances: Sequence[float], action: int, by: str) -> dict[str, Any]:
    return {
        "episode": tree.id,
        "id": item.id,
        "level": item.level,
        "parent": item.parent,
        "context": dict(item.context),
        "available": None if item.available is None else list(item.available),
        "legacy": list(item.legacy),
        "chances": list(chances),
        "action": action,
        "by": by,
        **({} if item.incumbent is None else {"incumbent": list(item.incumbent)}),
    }
