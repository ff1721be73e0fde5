"""Open episodes: decisions below decisions, their results, and the batch that closed episodes make."""

from __future__ import annotations

import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from aegis.handover import AGENT, MIXED, OVERRULED
from aegis.problem import Array, Batch, Level, LevelTable, Problem, Variable
from aegis.service.gate_problem import sends_incumbent


@dataclass(frozen=True, slots=True)
class LiveDecision:
    """A decision that was answered. context: by variable, numbers or codes. legacy, chances, incumbent: of all actions.

    by: 'agent' or 'legacy'. overruled: the plant did something else, since the gate did not answer in time. drawn: with these
    chances, as far as the gate knows. incumbent: None at a level where the control system does not send it. replaced: by an
    interlock or a person. used: the action they used, None if it is not one of the level.
    """

    id: str
    level: str
    parent: str | None
    context: Mapping[str, Any]
    available: tuple[bool, ...] | None
    legacy: tuple[float, ...]
    chances: tuple[float, ...]
    action: int
    by: str
    overruled: bool = False
    drawn: bool = True
    incumbent: tuple[float, ...] | None = None
    replaced: bool = False
    used: int | None = None


@dataclass(frozen=True, slots=True)
class DecisionResult:
    """The outcome of a decision; reward None: it is missing for good."""

    reward: float | None
    outcome: Any = None
    guards: Mapping[str, float] = field(default_factory=dict)


def rewarded_level(problem: Problem) -> str | None:
    """Return the level whose decisions get rewards; None if whole episodes do."""
    per = problem.reward.per
    return None if per == "episode" else problem.innermost.name if per == "decision" else per


@dataclass(slots=True)
class LiveEpisode:
    """An episode. number: in the order of first decisions, None before. arm: who acts. last: time of the latest request about it.

    policies: challenges by level, of those in control when it started. results: by decision; that of the whole episode under an
    empty id. cut: not all of its decisions are known. owner: the caller that opened it, None if any controller may write to it.
    known, heard: when this process got to know it, and the latest request about it, by a clock that is never set.
    """

    id: str
    at: str
    time: Any = None
    number: int | None = None
    arm: str = "agent"
    policies: Mapping[str, str] = field(default_factory=dict)
    decisions: dict[str, LiveDecision] = field(default_factory=dict)
    results: dict[str, DecisionResult] = field(default_factory=dict)
    closed: bool = False
    last: str = ""
    cut: bool = False
    owner: str | None = None
    known: float = field(default_factory=clock.monotonic, compare=False, repr=False)
    heard: float = field(default_factory=clock.monotonic, compare=False, repr=False)

    def cut_off(self) -> None:
        """Take note that not all of its decisions are known: it is no evidence."""
        self.cut, self.arm = True, MIXED

    def replace_action(self, decision: str, used: int | None) -> None:
        """Take note that the action of a decision was replaced: the episode counts at its worst."""
        self.decisions[decision] = replace(self.decisions[decision], replaced=True, used=used)
        if self.arm == AGENT:
            self.arm = OVERRULED

    @property
    def replaced(self) -> bool:
        """Whether an interlock or a person replaced an action in it."""
        return any(item.replaced for item in self.decisions.values())

    @property
    def gap(self) -> bool:
        """Whether what was done in it is not known, or was not drawn with the probabilities that are logged."""
        return self.cut or not all(item.drawn and not item.replaced for item in self.decisions.values())

    def who(self) -> str:
        """Return who acted: 'agent' if a policy had a level, 'legacy' if none had, 'mixed' if it cannot be said."""
        return MIXED if self.arm == MIXED else "agent" if self.policies else "legacy"

    def below(self, parent: str | None, level: str) -> list[LiveDecision]:
        """Return the decisions of a level below another one, in the order in which they were asked for."""
        return [item for item in self.decisions.values() if item.parent == parent and item.level == level]

    def path(self, decision: str | None) -> list[LiveDecision]:
        """Return the decisions from the outermost one down to one of them."""
        path: list[LiveDecision] = []
        while decision is not None:
            path.insert(0, self.decisions[decision])
            decision = path[0].parent
        return path

    def rewarded(self, problem: Problem) -> list[str]:
        """Return the decisions that get a reward, or an empty id for the episode as a whole."""
        level = rewarded_level(problem)
        return [""] if level is None else [item.id for item in self.decisions.values() if item.level == level]

    def missing(self, problem: Problem) -> list[str]:
        """Return the decisions whose reward has not come and was not reported as missing."""
        return [name for name in self.rewarded(problem) if name not in self.results]

    def settled(self, problem: Problem) -> bool:
        """Say whether nothing more can come: it is closed, and every reward is there or known to be missing."""
        return self.closed and not self.missing(problem)

    def whole(self, problem: Problem) -> bool:
        """Say whether every decision above the innermost level has one below it."""
        inner = dict(zip(problem.names, problem.names[1:], strict=False))
        return bool(self.decisions) and all(
            item.level not in inner or self.below(item.id, inner[item.level]) for item in self.decisions.values()
        )


def episodes_to_batch(problem: Problem, trees: Sequence[LiveEpisode], columns: Mapping[str, Sequence[str]]) -> Batch:
    """Return whole episodes as a batch. columns: into which the legacy's probabilities go, by level; none if empty."""
    levels: dict[str, LevelTable] = {}
    above: list[tuple[LiveEpisode, LiveDecision | None]] = [(tree, None) for tree in trees]
    for spec in problem.levels:
        below = [
            (place, tree, item)
            for place, (tree, parent) in enumerate(above)
            for item in tree.below(None if parent is None else parent.id, spec.name)
        ]
        levels[spec.name] = _table(spec, [(place, item) for place, _, item in below])
        above = [(tree, item) for _, tree, item in below]
    rows = [(tree, tree.path(item.id)) for tree, item in above if item is not None]
    results = [_result(problem, tree, path) for tree, path in rows]
    reward = np.array([np.nan if item.reward is None else item.reward for item in results])
    time = None if problem.time is None else np.array([tree.time for tree in trees])
    return Batch(
        episode=np.array([tree.id for tree in trees]),
        levels=levels,
        reward=reward,
        observed=np.isfinite(reward),
        outcome=_outcomes(problem.outcome, results),
        guards={guard.column: np.array([item.guards.get(guard.column, np.nan) for item in results]) for guard in problem.guards},
        time=time,
        extra=legacy_extra_columns([path for _, path in rows], columns),
    )


def legacy_extra_columns(paths: Sequence[Sequence[LiveDecision]], columns: Mapping[str, Sequence[str]]) -> dict[str, Array]:
    """Return the legacy's probabilities as columns, one value per innermost decision; a level not reached yet has none."""
    extra: dict[str, Array] = {}
    for place, names in enumerate(columns.values()):
        values = np.array([path[place].legacy for path in paths if place < len(path)]).reshape(-1, len(names))
        if len(values) == len(paths):
            extra |= {column: values[:, action] for action, column in enumerate(names)}
    return extra


def _table(level: Level, rows: Sequence[tuple[int, LiveDecision]]) -> LevelTable:
    items = [item for _, item in rows]
    action = np.array([item.action for item in items], dtype=np.int32)
    full = np.array([item.chances for item in items])
    available = np.array([item.available for item in items], dtype=np.bool_) if level.masked else None
    context = {
        variable.name: np.array(
            [item.context[variable.name] for item in items],
            dtype=np.int32 if variable.kind == "categorical" else np.float64,
        )
        for variable in level.context
    }
    taken = full[np.arange(len(items)), action] if items else np.zeros(0)
    parent = np.array([place for place, _ in rows], dtype=np.int32)
    return LevelTable(parent, context, action, taken, full, available, incumbent=_incumbents(level, items))


def _incumbents(level: Level, items: Sequence[LiveDecision]) -> Array | None:
    """Return the incumbent's probabilities `[n, A]` of decisions; None at a level where they are not sent."""
    if not sends_incumbent(level):
        return None
    return np.array([item.incumbent for item in items], dtype=np.float64).reshape(len(items), level.actions.count)


def _result(problem: Problem, tree: LiveEpisode, path: Sequence[LiveDecision]) -> DecisionResult:
    level = rewarded_level(problem)
    owner = "" if level is None else next(item.id for item in path if item.level == level)
    return tree.results.get(owner, DecisionResult(None))


def _outcomes(outcome: Variable | None, results: Sequence[DecisionResult]) -> Any:
    if outcome is None:
        return None
    if outcome.kind == "categorical":
        return np.array([-1 if item.outcome is None else item.outcome for item in results], dtype=np.int32)
    empty: Any = np.nan if outcome.kind == "real" else [np.nan] * len(outcome.columns)
    return np.array([empty if item.outcome is None else item.outcome for item in results], dtype=np.float64)
