"""The causal graph: parents per variable, latent confounders, default parents, d-separation and the backdoor criterion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from aegis.errors import GraphError, check_choice
from aegis.problem.level import Level
from aegis.problem.variables import Variable


@dataclass(frozen=True, slots=True)
class Graph:
    """A directed acyclic graph over named variables.

    `parents[x]` are the observed parents of x; `latents[u]` are the children of the unobserved variable u; `order` are the
    observed variables, parents before children.
    """

    parents: Mapping[str, tuple[str, ...]]
    latents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    order: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for child, parents in self.parents.items():
            for parent in parents:
                check_choice(parent, self.parents, f"parent of '{child}' in the graph", GraphError)
            if len(set(parents)) != len(parents):
                raise GraphError(f"graph: '{child}' lists a parent twice: {list(parents)}")
        for latent, children in self.latents.items():
            if latent in self.parents:
                raise GraphError(f"latents: '{latent}' is also the name of an observed variable")
            for child in children:
                check_choice(child, self.parents, f"child of the latent '{latent}'", GraphError)
        object.__setattr__(self, "order", topological(self.parents))

    def with_latents(self) -> dict[str, tuple[str, ...]]:
        """Return parents with latent variables as ordinary, parentless nodes."""
        full = {name: list(parents) for name, parents in self.parents.items()}
        for latent, children in self.latents.items():
            full[latent] = []
            for child in children:
                full[child].append(latent)
        return {name: tuple(parents) for name, parents in full.items()}


def topological(parents: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the nodes with parents before children, ties in the order given; raise GraphError on a cycle."""
    order: dict[str, None] = {}

    def visit(node: str, path: tuple[str, ...]) -> None:
        if node in path:
            cycle = [*path[path.index(node) :], node]
            raise GraphError(
                f"graph: there is a cycle: {' <- '.join(cycle)}; a cause cannot depend on its effect; "
                "a variable that is not listed under 'graph' has every earlier variable as a parent"
            )
        if node not in order:
            for parent in parents[node]:
                visit(parent, (*path, node))
            order[node] = None

    for node in parents:
        visit(node, ())
    return tuple(order)


def ancestors(parents: Mapping[str, tuple[str, ...]], nodes: Iterable[str]) -> set[str]:
    """Return `nodes` and everything above them."""
    above: set[str] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node not in above:
            above.add(node)
            stack.extend(parents[node])
    return above


def d_separated(parents: Mapping[str, tuple[str, ...]], x: str, y: str, conditions: Iterable[str]) -> bool:
    """Return whether `conditions` d-separates x and y.

    Moral-graph criterion (Lauritzen et al. 1990): in the subgraph of ancestors of all nodes involved, marry parents,
    drop directions, remove `conditions`; x and y are d-separated if and only if no path is left. x and y are two variables
    outside `conditions`.
    """
    blocked = set(conditions)
    relevant = ancestors(parents, {x, y} | blocked)
    linked: dict[str, set[str]] = {node: set() for node in relevant}
    for node in relevant:
        family = [*parents[node], node]
        for a in family:
            linked[a].update(b for b in family if b != a)
    reached = {x}
    stack = [x]
    while stack:
        for other in linked[stack.pop()]:
            if other == y:
                return False
            if other not in reached and other not in blocked:
                reached.add(other)
                stack.append(other)
    return True


def backdoor_admissible(parents: Mapping[str, tuple[str, ...]], action: str, target: str, adjustment: Iterable[str]) -> bool:
    """Return whether `adjustment` satisfies the backdoor criterion (Pearl 2000) for the effect of `action` on `target`.

    No member may descend from the action, and every path that enters the action must be blocked. The target is no member.
    """
    adjust = set(adjustment)
    if any(action in ancestors(parents, [node]) for node in adjust):
        return False
    without_effects = {node: tuple(parent for parent in above if parent != action) for node, above in parents.items()}
    return d_separated(without_effects, action, target, adjust)


def complete_graph(
    levels: tuple[Level, ...],
    outcome: Variable | None,
    reward: str,
    declared: Mapping[str, tuple[str, ...]],
    latents: Mapping[str, tuple[str, ...]],
) -> Graph:
    """Return the graph with `declared` parents where there are any, and every earlier variable as a parent elsewhere.

    The complete graph is always an I-map. Outermost contexts have no parents unless some are given among themselves
    (the paper's Definition 1: they are exogenous). Raises GraphError for an unknown name, a cycle or a parent that comes later.
    """
    ranks = _ranks(levels, outcome, reward)
    for child, parents in declared.items():
        check_choice(child, ranks, "variable in the graph", GraphError)
        for parent in parents:
            _check_edge(ranks, child, parent)
    names = tuple(ranks)
    complete = {name: names[:position] if ranks[name] > (0, 0) else () for position, name in enumerate(names)}
    return Graph(
        {name: tuple(declared.get(name, default)) for name, default in complete.items()},
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
    if parent not in ranks or ranks[parent] <= ranks[child]:  # Graph names an unknown parent
        return
    if ranks[child] == (0, 0):
        raise GraphError(f"graph: '{child}' is an outermost context, which is exogenous; remove its parent '{parent}'")
    raise GraphError(
        f"graph: '{parent}' comes after '{child}' and cannot be its parent; a parent is a context or action of an "
        "outer level, or an earlier variable of the same level"
    )
