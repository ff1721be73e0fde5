"""Completing a problem: every variable has parents that come before it."""

from __future__ import annotations

from collections.abc import Mapping

from aegis.errors import GraphError, nearest
from aegis.problem.graph import Graph
from aegis.problem.level import Level
from aegis.problem.variables import Variable


def complete_graph(
    levels: tuple[Level, ...],
    outcome: Variable | None,
    reward: str,
    given: Mapping[str, tuple[str, ...]],
    latents: Mapping[str, tuple[str, ...]],
) -> Graph:
    """Return the graph with `given` parents where there are any, and every earlier variable as a parent elsewhere.

    The complete graph is always an I-map. Outermost contexts have no parents unless some are given among themselves
    (the paper's Definition 1: they are exogenous). Raises GraphError for an unknown name, a cycle or a parent that comes later.
    """
    ranks = _ranks(levels, outcome, reward)
    for name in given:
        if name not in ranks:
            raise GraphError(f"graph: unknown variable '{name}'{nearest(name, ranks)}; variables: {', '.join(ranks)}")
    for child, parents in given.items():
        for parent in parents:
            _check_edge(ranks, child, parent)
    names = tuple(ranks)
    complete = {name: names[:position] if ranks[name] > (0, 0) else () for position, name in enumerate(names)}
    return Graph(
        {name: tuple(given.get(name, default)) for name, default in complete.items()},
        {name: tuple(children) for name, children in latents.items()},
    )


def _ranks(levels: tuple[Level, ...], outcome: Variable | None, reward: str) -> dict[str, tuple[int, int]]:
    """Place every variable in time: level from the outside in, then context, action, outcome, reward."""
    ranks: dict[str, tuple[int, int]] = {}
    for depth, level in enumerate(levels):
        for variable in level.context:
            ranks[variable.name] = (depth, 0)
        ranks[level.actions.column] = (depth, 1)
    if outcome is not None:
        ranks[outcome.name] = (len(levels) - 1, 2)
    ranks[reward] = (len(levels) - 1, 3)
    return ranks


def _check_edge(ranks: Mapping[str, tuple[int, int]], child: str, parent: str) -> None:
    if parent not in ranks:
        return  # Graph names it among the parents of its child
    if ranks[parent] <= ranks[child]:
        return
    if ranks[child] == (0, 0):
        raise GraphError(f"graph: '{child}' is an outermost context, which is exogenous; remove its parent '{parent}'")
    raise GraphError(
        f"graph: '{parent}' comes after '{child}' and cannot be its parent; a parent is a context or action of an "
        "outer level, or an earlier variable of the same level"
    )
