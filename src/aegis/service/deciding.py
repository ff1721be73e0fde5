"""Who decides, with which probabilities, and what is drawn from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from aegis.policies import path_full
from aegis.problem import Batch, LevelTable, Policy, Problem
from aegis.rng import stream
from aegis.service.trees import Decision, told


def chances_of(
    problem: Problem, policy: Policy, path: Sequence[Decision], asked: Decision, columns: Mapping[str, Sequence[str]]
) -> tuple[float, ...]:
    """Return a policy's probabilities at a decision below `path`. columns: in which the policy finds the legacy's."""
    found = path_full(policy, asked.level, _known(problem, path, asked, columns))[0]
    return tuple(found.tolist())


def drawn(chances: Sequence[float], seed: int, number: int, place: int) -> int:
    """Return the action drawn at the `place`-th decision of an episode: the same again if the same is asked again."""
    edges = np.cumsum(chances)
    point = stream(seed, "live decision", number, place).random() * edges[-1]
    found = int(np.searchsorted(edges, point, side="right"))
    return min(found, int(np.flatnonzero(np.asarray(chances) > 0)[-1]))


def _known(problem: Problem, path: Sequence[Decision], asked: Decision, columns: Mapping[str, Sequence[str]]) -> Batch:
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
    return Batch(np.array(["now"]), levels, extra=told([decisions], columns))
