"""Journal entries: the record that each request leads to, with the action that is drawn, or the reason for a refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from aegis.policies import StatedIncumbent, path_full
from aegis.problem import Batch, Level, LevelTable, Policy, Problem
from aegis.rng import stream
from aegis.service.http_errors import Conflict, LateRequest, NotFound, ServiceError, WrongRequest
from aegis.service.live_episodes import DecisionResult, LiveDecision, LiveEpisode, legacy_extra_columns, rewarded_level
from aegis.service.live_state import CLOSED, DECISION, EPISODE, LATE, OVERRULED, REPLACED, RESULTS, LiveState
from aegis.service.request_checks import (
    LegacyChecks,
    check_context,
    check_mask,
    check_ratios,
    check_result,
    check_taken,
    find_action,
    find_level,
)
from aegis.service.schemas import Ask, Report
from aegis.service.store.journal import JournalEntry


def decision_probabilities(
    problem: Problem, policy: Policy, path: Sequence[LiveDecision], item: LiveDecision, columns: Mapping[str, Sequence[str]]
) -> tuple[float, ...]:
    """Return a policy's probabilities at a decision below `path`. columns: in which the policy finds the legacy's."""
    return tuple(path_full(policy, item.level, _known_batch(problem, path, item, columns))[0].tolist())


def draw_action(chances: Sequence[float], seed: int, number: int, place: int) -> int:
    """Return the action drawn at the `place`-th decision of an episode: the same again if the same is asked again."""
    edges = np.cumsum(chances)
    point = stream(seed, "live decision", number, place).random() * edges[-1]
    action = int(np.searchsorted(edges, point, side="right"))
    return min(action, int(np.flatnonzero(np.asarray(chances) > 0)[-1]))


def _known_batch(
    problem: Problem, path: Sequence[LiveDecision], item: LiveDecision, columns: Mapping[str, Sequence[str]]
) -> Batch:
    """Return what is known when a decision is taken, as a batch of one path."""
    levels: dict[str, LevelTable] = {}
    decisions = [*path, item]
    for place, spec in enumerate(problem.levels):
        if place >= len(decisions):
            levels[spec.name] = LevelTable.undecided([0], {})  # nothing is known below; columns have a row per innermost one
            continue
        decision = decisions[place]
        kinds = {variable.name: np.int32 if variable.kind == "categorical" else np.float64 for variable in spec.context}
        context: dict[str, Any] = {name: np.array([decision.context[name]], dtype=kind) for name, kind in kinds.items()}
        available = None if decision.available is None else np.array([decision.available])
        table = LevelTable.undecided([0], context, available)
        if decision.incumbent is not None:
            table = replace(table, incumbent=np.array([decision.incumbent]))
        if decision is not item:
            full = np.array([decision.chances])
            action = decision.action if decision.used is None else decision.used  # what the levels below have to do with
            table = table.decided([action], full[:, action], full)
        levels[spec.name] = table
    return Batch(np.array(["now"]), levels, extra=legacy_extra_columns([decisions], columns))


DECISION_FIELDS = ("id", "level", "parent", "context", "available", "legacy", "chances", "action", "by")  # of a record


@dataclass(frozen=True, slots=True)
class EntryFactory:
    """Makes entries. columns: in which policies find what the legacy would do, none if that is known without being sent.

    policy: finds the policy of a challenge. known: says whether there ever was an episode. counted_decision: finds a decision of
    an episode that was counted, by the ids of both.
    """

    problem: Problem
    state: LiveState
    columns: Mapping[str, Sequence[str]]
    legacy_checks: LegacyChecks
    policy: Callable[[str], Policy]
    known: Callable[[str], bool]
    counted_decision: Callable[[str, str], LiveDecision | None]

    def episode(self, name: str, time: str | float | None) -> JournalEntry:
        """Open an episode."""
        column = self.problem.time
        if (column is None) != (time is None):
            expected = "this problem has no time column; leave it out" if column is None else f"say when it started ('{column}')"
            raise WrongRequest(f"time: {expected}")
        return JournalEntry(EPISODE, {"id": name, "time": time})

    def decision(self, episode: str, ask: Ask) -> JournalEntry:
        """Answer a decision."""
        try:
            tree, level, path = self._path(episode, ask)
        except LateRequest:
            self._refuse_repeated(episode, ask)
            raise
        name = ask.id or f"{level.name}-{len(tree.decisions) + 1}"
        if name in tree.decisions:
            raise Conflict(f"episode '{episode}' has a decision '{name}' already; one decision is asked for once")
        self._check_single(tree, level, path)
        item, start = self._undecided(level, path, ask, name), self._start(tree)
        challenge, taken = start["policies"].get(level.name), None if ask.legacy is None else ask.legacy.taken
        if challenge is not None:
            chances = decision_probabilities(self.problem, self.policy(challenge), path, item, self.columns)
            item = replace(item, chances=chances, by="agent")
        if challenge is None and taken is not None:
            action = check_taken(level, taken, item.legacy, "legacy.taken")
        else:
            action = draw_action(item.chances, self.state.seed, start["number"], len(tree.decisions))
        body = {**_body(episode, replace(item, action=action)), "version": challenge or "legacy", **start}
        return JournalEntry(DECISION, body, start["number"])

    def overruled(self, episode: str, ask: Ask, used: Any, explored: bool) -> JournalEntry:
        """Take note that the legacy's own action was used; the decision is added if it never arrived.

        explored: it was drawn with the legacy's probabilities; otherwise the episode is no evidence of anything.
        """
        tree, level, path = self._path(episode, ask)
        name = ask.id or f"{level.name}-{len(tree.decisions) + 1}"
        item, start, before = self._undecided(level, path, ask, name), self._start(tree), tree.decisions.get(name)
        if before is None:
            self._check_single(tree, level, path)
        else:
            if (before.level, before.parent, dict(before.context)) != (item.level, item.parent, dict(item.context)):
                raise Conflict(f"episode '{episode}': decision '{name}' was asked for in another context")
            if before.replaced:
                raise Conflict(f"episode '{episode}': the action of decision '{name}' was replaced already")
            if name in tree.results or any(other.parent == name for other in tree.decisions.values()):
                raise Conflict(f"episode '{episode}': what followed from decision '{name}' was written already")
        item = replace(item, action=check_taken(level, used, item.legacy, "used"))
        mixed = level.name in start["policies"] or not explored
        more = {"version": "legacy", "overruled": True, "mixed": mixed, "drawn": explored}
        return JournalEntry(OVERRULED, {**_body(episode, item), **more, **start}, start["number"])

    def replaced(self, episode: str, decision: str, used: Any, why: str | None) -> JournalEntry:
        """Take note that an interlock or a person replaced the action of a decision; the same action again changes nothing."""
        tree = self._uncounted(episode)
        if tree.closed:
            raise LateRequest(f"episode '{episode}' is closed: say what was replaced before you close it", episode)
        item = tree.decisions.get(decision)
        if item is None:
            raise NotFound(f"episode '{episode}' has no decision '{decision}': ask for it first")
        level = find_level(self.problem, item.level)
        try:
            index = find_action(level, used, "used")
        except WrongRequest:  # interlocks do what no controller may
            index = None
        same = index is not None and index == (item.used if item.replaced else item.action)
        if not same and item.replaced:
            raise Conflict(f"episode '{episode}': the action of decision '{decision}' was replaced before, by another one")
        if not same and (decision in tree.results or "" in tree.results):
            why_not = f"the result of decision '{decision}' was reported already: say what was replaced before you report"
            raise LateRequest(f"episode '{episode}': {why_not}", episode)
        body = {"episode": episode, "decision": decision, "used": used, "index": index, "replaced": not same, "why": why}
        return JournalEntry(REPLACED, body, tree.number)

    def results(self, items: Sequence[Report]) -> JournalEntry:
        """Take note of results of decisions, all of them or none."""
        bodies: dict[str, list[dict[str, Any]]] = {RESULTS: [], LATE: []}
        here: dict[tuple[str, str], DecisionResult] = {}
        for place, item in enumerate(items):
            try:
                tree, target = self._target(item)
                result = check_result(self.problem, item)
                before = here.setdefault((item.episode, target), result)
                if tree is not None and before == result:
                    before = tree.results.get(target, result)
                if before != result:
                    raise Conflict(
                        f"another result of decision '{target}' of episode '{item.episode}' was reported before, or here"
                    )
            except ServiceError as error:
                raise type(error)(f"item {place}: {error}") from None
            bodies[LATE if tree is None else RESULTS].append({"episode": item.episode, "decision": target, **asdict(result)})
        late = bodies[LATE]
        if late and bodies[RESULTS]:
            raise Conflict(f"episode '{late[0]['episode']}' has been counted already: report late results by themselves")
        kind = LATE if late else RESULTS
        return JournalEntry(kind, {"items": bodies[kind]})

    def closed(self, episode: str, abandoned: bool, incomplete: bool = False) -> JournalEntry:
        """Close an episode. abandoned: rewards that have not come are missing for good. incomplete: decisions are not known."""
        tree = self._uncounted(episode, late=incomplete)
        if tree.closed and not (abandoned or incomplete):
            raise Conflict(f"episode '{episode}' is closed already")
        missing = tree.missing(self.problem) if abandoned else []
        body = {"episode": episode, "missing": missing, "abandoned": abandoned, "incomplete": incomplete}
        return JournalEntry(CLOSED, body, tree.number)

    # ---- helpers -----------------------------------------------------------------------------------------------------------

    def _uncounted(self, episode: str, late: bool = True) -> LiveEpisode:
        """Return an episode that was not counted yet. late: the request would have changed what was counted."""
        tree = self.state.trees.get(episode)
        if tree is not None:
            return tree
        if self.known(episode):
            why = f"episode '{episode}' has been counted already"
            raise LateRequest(why, episode) if late else Conflict(why)
        raise NotFound(f"there is no episode '{episode}'; open it first")

    def _path(self, episode: str, ask: Ask) -> tuple[LiveEpisode, Level, list[LiveDecision]]:
        """Return the episode, the level and the path above a decision that is asked for."""
        tree, level = self._uncounted(episode), find_level(self.problem, ask.level)
        if tree.closed:
            raise LateRequest(f"episode '{episode}' is closed: it takes no more decisions", episode)
        place = self.problem.names.index(level.name)
        if place == 0:
            if ask.parent is not None:
                raise WrongRequest(f"parent: '{level.name}' is the outermost level; leave it out")
            return tree, level, []
        outer = self.problem.names[place - 1]
        above = [item.id for item in tree.decisions.values() if item.level == outer]
        if ask.parent is None and len(above) != 1:
            raise WrongRequest(f"parent: name the decision of level '{outer}' that this one belongs to; there are {len(above)}")
        if ask.parent is not None and ask.parent not in above:
            raise WrongRequest(f"parent: '{ask.parent}' is no decision of level '{outer}' in episode '{episode}'")
        return tree, level, tree.path(ask.parent or above[0])

    def _refuse_repeated(self, episode: str, ask: Ask) -> None:
        """Raise Conflict if a late question is one that was asked before: a copy that was under way for long changes nothing.

        A late note that the legacy's action was used instead is no such copy: it says what was done.
        """
        tree, name = self.state.trees.get(episode), ask.id or ""
        known = self.counted_decision(episode, name) if tree is None else tree.decisions.get(name)
        if known is None or known.level != ask.level or ask.parent not in (None, known.parent):
            return
        with suppress(WrongRequest):
            if check_context(find_level(self.problem, ask.level), ask.context) == dict(known.context):
                raise Conflict(f"episode '{episode}' is closed, and its decision '{ask.id}' is known: it was asked for before")

    def _check_single(self, tree: LiveEpisode, level: Level, path: Sequence[LiveDecision]) -> None:
        """Raise Conflict if a level has its one decision already."""
        parent = path[-1].id if path else None
        if level.decision is None and level is not self.problem.innermost and tree.below(parent, level.name):
            each = "per episode" if parent is None else "below each parent"
            raise Conflict(
                f"level '{level.name}' has one decision {each} in this problem; give it a 'decision' id in the problem file to "
                "allow more"
            )

    def _start(self, tree: LiveEpisode) -> dict[str, Any]:
        """Return what is settled with the first decision of an episode: its number, who acts, and which policies."""
        if tree.number is not None:
            return {"number": tree.number, "arm": tree.arm, "policies": dict(tree.policies)}
        number, arm, policies = self.state.starting()
        return {"number": number, "arm": arm, "policies": policies}

    def _undecided(self, level: Level, path: Sequence[LiveDecision], ask: Ask, name: str) -> LiveDecision:
        """Return a decision of the legacy before its action is known."""
        context, mask = check_context(level, ask.context), check_mask(level, ask.available)
        legacy = self.legacy_checks.legacy(level, ask.legacy, mask)
        if ask.legacy is not None and ask.legacy.taken is not None:
            check_taken(level, ask.legacy.taken, legacy, "legacy.taken")  # also where it is not used: what is sent is right
        item = LiveDecision(
            id=name,
            level=level.name,
            parent=path[-1].id if path else None,
            context=context,
            available=mask,
            legacy=legacy,
            chances=legacy,
            action=-1,
            by="legacy",
            incumbent=self.legacy_checks.incumbent(level, ask.legacy, legacy, mask),
        )
        if level.incumbent is not None and not level.incumbent.logged and level.ratio_bound is not None:
            own = item.incumbent
            if own is None:
                own = decision_probabilities(self.problem, StatedIncumbent(self.problem), path, item, self.columns)
            check_ratios(level, own, legacy, ask.legacy)
        return item

    def _target(self, item: Report) -> tuple[LiveEpisode | None, str]:
        """Return the episode of a result and the decision it belongs to; no episode if that has been counted already."""
        tree, level, target = self.state.trees.get(item.episode), rewarded_level(self.problem), item.decision or ""
        if tree is None:
            if not self.known(item.episode):
                raise NotFound(f"there is no episode '{item.episode}'")
            return None, target
        if level is None:
            if target:
                raise WrongRequest("decision: in this problem a reward belongs to the whole episode; leave it out")
            return tree, ""
        if target not in tree.decisions:
            raise NotFound(f"episode '{item.episode}' has no decision '{target}'")
        if tree.decisions[target].level != level:
            raise WrongRequest(f"decision: rewards belong to decisions of level '{level}', '{target}' is none")
        return tree, target


def _body(episode: str, item: LiveDecision) -> dict[str, Any]:
    incumbent = {} if item.incumbent is None else {"incumbent": item.incumbent}
    return {"episode": episode, **{name: getattr(item, name) for name in DECISION_FIELDS}, **incumbent}
