"""The problem class: a nested contextual causal bandit (the paper's Definitions 1 and 2), and the roles of its columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from aegis.errors import ProblemError, did_you_mean, whole_number
from aegis.problem.graph import Graph, backdoor_admissible, complete_graph
from aegis.problem.level import Level
from aegis.problem.variables import Guard, Reward, Variable, check_unique

RoleKind = Literal[
    "id", "context", "action", "available", "propensity", "incumbent", "base", "outcome", "reward", "closed", "guard"
]

SCOPE_SEPARATOR = " + "  # between the levels in the name of a scope


@dataclass(frozen=True, slots=True)
class ColumnRole:
    """A column in one role; `words` say which; `depth` counts levels from the outside, 0 for what belongs to no level."""

    column: str
    kind: RoleKind
    words: str
    depth: int = 0


def check_roles(roles: Iterable[ColumnRole], names: Iterable[str]) -> None:
    """Raise ProblemError if two roles share a column and may not, or two variables a name.

    A reward among the contexts would leak into every policy, a propensity shared by two levels would be divided by twice, an id
    that is a reward would cut episodes apart by their results: all of that reads well and gives wrong numbers.
    """
    taken: dict[str, list[ColumnRole]] = {}
    for role in roles:
        for other in taken.setdefault(role.column, []):
            if not can_share_column(other, role):
                raise ProblemError(
                    f"'{role.column}' is both {other.words} and {role.words}; each column has one role: name another column, or "
                    "log a copy under a name of its own if both are meant"
                )
        taken[role.column].append(role)
    for name, count in Counter(names).items():
        if count > 1:
            raise ProblemError(f"two variables are called '{name}'; each variable has a name of its own")


def can_share_column(one: ColumnRole, other: ColumnRole) -> bool:
    """Return whether two roles may be played by one column.

    Ids, time among them, only say which rows belong together, and a controller may look at one. So it may at a mask and at
    the action it meant to take; two levels may have a mask in common; what an inner controller means to do may be what the
    level above decided. A guard may watch the outcome, an action, or a context that the decisions above it bring about.
    """
    pair = frozenset((one.kind, other.kind))
    if pair == {"propensity", "incumbent"}:  # the incumbent's probabilities may be those that were logged
        return one.depth == other.depth
    if pair == {"base", "action"}:
        base, action = (one, other) if one.kind == "base" else (other, one)
        return base.depth > action.depth
    if pair == {"guard", "context"}:
        return max(one.depth, other.depth) > 0
    return pair in _SHARED


_SHARED: frozenset[frozenset[RoleKind]] = frozenset(
    frozenset(kinds)
    for kinds in (
        ("id", "id"),
        ("id", "context"),
        ("available", "available"),
        ("available", "context"),
        ("base", "context"),
        ("guard", "outcome"),
        ("guard", "action"),
    )
)


def _level_roles(level: Level, depth: int) -> list[ColumnRole]:
    logged = level.propensity
    columns: list[tuple[str | None, RoleKind, str]] = [(level.decision, "id", "the decision id")]
    columns += [(column, "context", "a context") for variable in level.context for column in variable.columns]
    columns.append((level.actions.column, "action", "the action"))
    columns += [(column, "available", "an action mask") for column in level.available]
    if logged is not None:
        columns += [(column, "propensity", "a propensity") for column in (logged.column, *logged.columns)]
        columns.append((logged.base, "base", "the base action"))
    if level.incumbent is not None:
        columns += [(column, "incumbent", "a probability of the incumbent") for column in level.incumbent.columns]
        if logged is None or level.incumbent.base != logged.base:
            columns.append((level.incumbent.base, "base", "the incumbent's action"))
    return [
        ColumnRole(column=column, kind=kind, words=f"{words} of level '{level.name}'", depth=depth)
        for column, kind, words in columns
        if column is not None
    ]


class Scope(frozenset[str]):
    """A set of level names at which a new policy acts (the paper's intervention scope).

    Parameters
    ----------
    names
        One name or several.
    """

    __slots__ = ()

    def __new__(cls, names: Iterable[str] = ()) -> Scope:
        """Accept one name or several."""
        return super().__new__(cls, (names,) if isinstance(names, str) else names)

    def __repr__(self) -> str:
        return f"Scope({{{', '.join(repr(name) for name in sorted(self))}}})"


@dataclass(frozen=True, slots=True)
class Backdoor:
    """The outcome of the backdoor check at one level (the paper's Assumption 3)."""

    level: str
    admissible: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A nested contextual causal bandit: levels, causal graph, reward, and the columns that tie a log together.

    `graph` is the completed graph. Level index 1 is the innermost.

    Parameters
    ----------
    levels
        Outermost first.
    reward
        Column, range and goal of the reward.
    outcome
        The variable between the innermost action and the reward, if there is one.
    parents
        Parents by variable name. A variable that is not named has every earlier variable as a parent, which is always an I-map.
    latents
        The children of each unobserved variable.
    guards
        Columns that must not get worse.
    episode
        The columns of the episode id.
    cluster
        The column, or the columns whose values together are one id, that groups dependent episodes.
    time
        The column of the time, for drift checks and splits in time.
    carry_over
        `within` if earlier decisions of an episode may affect later rewards.
    cluster_most
        The largest number of episodes that a cluster can have; certificates are then about totals of clusters.

    Raises
    ------
    ProblemError
        If the parts do not fit together; GraphError if the graph is wrong.
    """

    levels: tuple[Level, ...]
    reward: Reward = field(default_factory=Reward)
    outcome: Variable | None = None
    parents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    latents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    guards: tuple[Guard, ...] = ()
    episode: tuple[str, ...] = ("episode",)
    cluster: str | tuple[str, ...] | None = None
    time: str | None = None
    carry_over: Literal["none", "within"] = "none"
    cluster_most: int | None = None
    graph: Graph = field(init=False)

    def __post_init__(self) -> None:
        if not self.levels:
            raise ProblemError("a problem needs at least one level")
        names = [level.name for level in self.levels]
        check_unique(tuple(names), "names of levels")
        for name in ("episode", "decision"):
            if name in names and not (name == "decision" and name == names[-1]):
                raise ProblemError(
                    f"a level cannot be called '{name}': reward 'per: {name}' has a meaning of its own; rename the level"
                )
        if not self.episode:
            raise ProblemError("'episode' names at least one column")
        check_unique(self.episode, "'episode'")
        if self.reward.per not in ("decision", "episode", *names):
            allowed = ", ".join(["decision", "episode", *names])
            raise ProblemError(
                f"reward 'per' is one of {allowed}; found '{self.reward.per}'{did_you_mean(self.reward.per, names)}"
            )
        check_unique(tuple(guard.column for guard in self.guards), "guards (keep the stricter of two)")
        self._check_means()
        self._check_cluster()
        check_roles(self.roles, [variable.name for variable in self._all_variables()])
        graph = complete_graph(self.levels, self.outcome, self.reward.column, self.parents, self.latents)
        object.__setattr__(self, "graph", graph)

    @property
    def roles(self) -> tuple[ColumnRole, ...]:
        """Return every role of every column that is named."""
        outcome = () if self.outcome is None else self.outcome.columns
        columns: tuple[tuple[Iterable[str | None], RoleKind, str], ...] = (
            (self.episode, "id", "the episode id"),
            (self.cluster_columns, "id", "the cluster"),
            ((self.time,), "id", "the time"),
            (outcome, "outcome", "the outcome"),
            ((self.reward.column,), "reward", "the reward"),
            ((self.reward.closed,), "closed", "the flag that says whether the reward is final"),
            ((guard.column for guard in self.guards), "guard", "a guard"),
        )
        own = [ColumnRole(column, kind, words) for names, kind, words in columns for column in names if column is not None]
        inside = [role for depth, level in enumerate(self.levels) for role in _level_roles(level, depth)]
        return (*[role for role in own if role.kind == "id"], *inside, *[role for role in own if role.kind != "id"])

    def _check_means(self) -> None:
        for level in self.levels:
            if level.mean_range is None or self.reward.range is None:
                continue
            (low, high), (least, most) = level.mean_range, self.reward.range
            if low < least or high > most:
                raise ProblemError(
                    f"level '{level.name}': 'mean_range' is about means of rewards and lies within their range [{least:g}, "
                    f"{most:g}], found [{low:g}, {high:g}]"
                )

    @property
    def cluster_columns(self) -> tuple[str, ...]:
        """The columns of which the id of a cluster is made; empty without clusters."""
        if self.cluster is None:
            return ()
        return (self.cluster,) if isinstance(self.cluster, str) else self.cluster

    @property
    def cluster_name(self) -> str:
        """What messages call a cluster: its column, or its columns; empty without clusters."""
        return ", ".join(self.cluster_columns)

    def _check_cluster(self) -> None:
        if self.cluster is not None and not isinstance(self.cluster, str):
            if not self.cluster:
                raise ProblemError("'cluster' names at least one column; leave it out if episodes are independent")
            check_unique(self.cluster, "'cluster'")
            object.__setattr__(self, "cluster", self.cluster[0] if len(self.cluster) == 1 else tuple(self.cluster))
        if self.cluster_most is None:
            return
        if self.cluster is None:
            raise ProblemError("cluster: 'most' is the largest number of episodes in a cluster; name its 'column' as well")
        what = f"cluster '{self.cluster_name}': 'most', the largest number of episodes that a cluster can have,"
        whole_number(what, self.cluster_most, error=ProblemError)

    # ---- levels ----------------------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """Level names, outermost first."""
        return tuple(level.name for level in self.levels)

    @property
    def innermost(self) -> Level:
        """The fastest level, index 1."""
        return self.levels[-1]

    @property
    def outermost(self) -> Level:
        """The slowest level, index L."""
        return self.levels[0]

    def level(self, name: str) -> Level:
        """Return a level by name."""
        for level in self.levels:
            if level.name == name:
                return level
        raise ProblemError(f"there is no level '{name}'{did_you_mean(name, self.names)}; levels: {', '.join(self.names)}")

    def index(self, name: str) -> int:
        """Return the index of a level, 1 for the innermost (the paper's l)."""
        return len(self.levels) - self.names.index(self.level(name).name)

    def above(self, name: str) -> tuple[Level, ...]:
        """Return the levels outside `name`, outermost first."""
        return self.levels[: len(self.levels) - self.index(name)]

    def child(self, name: str) -> Level | None:
        """Return the level directly inside `name`, or None for the innermost."""
        index = self.index(name)
        return None if index == 1 else self.levels[len(self.levels) - index + 1]

    def wrong_by(self, names: Iterable[str] | None = None) -> dict[str, float]:
        """Return by level, outermost first, the declared factors by which propensities may be wrong; no entry without."""
        inside = self.scope(names)
        declared = {level.name: level.propensity.wrong_by for level in self.levels if level.propensity is not None}
        return {name: factor for name, factor in declared.items() if factor is not None and name in inside}

    def scope(self, names: Iterable[str] | None = None) -> Scope:
        """Return a checked scope; all levels if `names` is None."""
        if names is None:
            return Scope(self.names)
        scope = Scope(names)
        for name in sorted(scope):
            self.level(name)
        return scope

    # ---- variables -------------------------------------------------------------------------------------------------

    @property
    def variables(self) -> dict[str, Variable]:
        """All variables by name in the order in which they come about: contexts, actions, outcome, reward."""
        return {variable.name: variable for variable in self._all_variables()}

    def _all_variables(self) -> list[Variable]:
        """Return all variables, also those that share a name."""
        variables = [variable for level in self.levels for variable in (*level.context, level.actions.variable)]
        return [*variables, *([] if self.outcome is None else [self.outcome]), Variable(self.reward.column)]

    def visible(self, level: str) -> dict[str, Variable]:
        """Return what a policy may look at when it decides at `level`: contexts at and above it, actions above it."""
        outer = [variable for spec in self.above(level) for variable in (*spec.context, spec.actions.variable)]
        return {variable.name: variable for variable in (*outer, *self.level(level).context)}

    def level_of(self, variable: str) -> Level:
        """Return the level a variable belongs to; outcome and reward belong to the innermost."""
        for level in self.levels:
            if variable == level.actions.column or variable in [v.name for v in level.context]:
                return level
        if variable == self.reward.column or (self.outcome is not None and variable == self.outcome.name):
            return self.innermost
        known = self.graph.parents
        raise ProblemError(f"there is no variable '{variable}'{did_you_mean(variable, known)}; variables: {', '.join(known)}")

    def mechanisms(self, scope: Iterable[str] | None = None) -> tuple[str, ...]:
        """Return the learnable mechanisms of a scope in causal order: the paper's Phi_I (Definition 2).

        Contexts below the outermost level of the scope, then outcome and reward. Without a scope: Phi, all of them.
        """
        inside = self.scope(scope)
        if not inside:
            return ()
        top = max(self.index(name) for name in inside)
        contexts = {v.name for level in self.levels if self.index(level.name) < top for v in level.context}
        wanted = contexts | {self.reward.column} | ({self.outcome.name} if self.outcome else set())
        return tuple(name for name in self.graph.order if name in wanted)

    # ---- causal checks ---------------------------------------------------------------------------------------------

    def backdoor(self, level: str) -> Backdoor:
        """Check Assumption 3 at a level: do the observed parents of the action block every backdoor path to the reward?

        Latent variables may be shared within one level; a latent that acts on several levels is outside the problem
        class and is refused with its name.
        """
        action = self.level(level).actions.column
        for latent, children in self.graph.latents.items():
            touched = sorted({self.level_of(child).name for child in children}, key=self.index)
            if len(touched) > 1:
                return Backdoor(
                    level,
                    False,
                    f"the latent '{latent}' acts on several levels ({', '.join(touched)}): confounding across levels needs "
                    "other means of identification (instruments, proxies); measure it and add it to a context",
                )
        full = self.graph.with_latents()
        observed = self.graph.parents[action]
        if backdoor_admissible(full, action, self.reward.column, observed):
            return Backdoor(level, True, f"the observed parents of '{action}' block every backdoor path to the reward")
        hidden = sorted(u for u in self.graph.latents if u in full[action])
        why = f"the unobserved {', '.join(hidden)} acts on the action and on the reward" if hidden else "a path stays open"
        return Backdoor(
            level,
            False,
            f"'{action}' is confounded with '{self.reward.column}': {why}; log what the controller looked at",
        )
