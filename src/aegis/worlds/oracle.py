"""The truth about a world: values of policies and of optimal control, by backward induction with numerical integration.

Shares nothing with planning and weighting: it uses the world's equations alone and transcribes each way of drawing anew, so
that it can judge both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr, ndtri

from aegis.errors import SettingError, whole_number
from aegis.policies import (
    Epsilon,
    Function,
    Gaussian,
    Hybrid,
    Legacy,
    LevelRule,
    Logged,
    Uniform,
    linear_predictor,
    probability_taken,
    refuse_undecided,
)
from aegis.problem import AnyArray, Array, Batch, Level, Policy, Rows, Scope, augmented_context, hypothetical_batch
from aegis.worlds.base import World

Nodes = tuple[Array, Array]  # numbers and weights, [n, k]; weights sum to one

INSIDE = 10  # nodes of a window

ACROSS = 64  # nodes of a whole interval


def interval_nodes(policy: Policy, level: Level, batch: Batch, fineness: int = 1) -> Nodes | None:
    """Return nodes of what a policy takes from an interval, `[n, k]`; None if it chooses points and acts in their windows."""
    if isinstance(policy, Hybrid):
        return interval_nodes(policy.new if level.name in policy.scope else policy.legacy, level, batch, fineness)
    if isinstance(policy, Legacy):
        rows = augmented_context(policy.problem, batch, level.name)
        return _rule_nodes(policy.rules[level.name], level, rows, len(batch), fineness)
    if isinstance(policy, Function):
        centres = policy.centres(level.name, batch)
        return None if centres is None else window_nodes(level, centres, fineness)
    return None


def window_nodes(level: Level, centres: Array, fineness: int = 1) -> Nodes:
    """Return nodes of a uniform draw within the bandwidth of each centre `[n]`, cut to the interval."""
    low, high = level.actions.limits
    reach = float(level.actions.bandwidth or 0.0)
    start = np.where(centres - reach < low, low, centres - reach)
    stop = np.where(centres + reach > high, high, centres + reach)
    nodes, weights = np.polynomial.legendre.leggauss(INSIDE * fineness)
    middle, half = (start + stop) / 2, (stop - start) / 2
    return middle[:, None] + half[:, None] * nodes, np.tile(weights / 2, (centres.size, 1))


def _rule_nodes(rule: LevelRule, level: Level, rows: Rows, count: int, fineness: int) -> Nodes:
    low, high = level.actions.limits
    if isinstance(rule, Uniform):
        nodes, weights = np.polynomial.legendre.leggauss(ACROSS * fineness)
        return np.tile((low + high) / 2 + (high - low) / 2 * nodes, (count, 1)), np.tile(weights / 2, (count, 1))
    if isinstance(rule, Gaussian):
        return _gaussian_rule_nodes(rule, level, rows, count, fineness)
    if isinstance(rule, Epsilon):
        base, free = (_rule_nodes(part, level, rows, count, fineness) for part in (rule.rule, Uniform()))
        share = rule.epsilon
        return np.hstack([base[0], free[0]]), np.hstack([(1 - share) * base[1], share * free[1]])
    # Any other rule chooses points: nodes of all windows, weighted by the probabilities of their points.
    chances = rule.probabilities(level, rows, count)
    some = np.flatnonzero(chances.any(axis=0))
    values, weights = window_nodes(level, level.actions.numbers[some], fineness)
    return np.tile(values.ravel(), (count, 1)), (chances[:, some, None] * weights[None]).reshape(count, -1)


def _gaussian_rule_nodes(rule: Gaussian, level: Level, rows: Rows, count: int, fineness: int) -> Nodes:
    """Return equal shares of the probability inside, at their middles; if it clips, also the ends with what lies beyond."""
    low, high = level.actions.limits
    mean = linear_predictor(rule.weights, rule.intercept, rows, count, f"level '{level.name}'")
    first, last = ndtr((low - mean) / rule.sd), ndtr((high - mean) / rule.sd)
    nodes, weights = np.polynomial.legendre.leggauss(ACROSS * fineness)
    shares = first[:, None] + (last - first)[:, None] * (nodes + 1) / 2
    inside = np.clip(mean[:, None] + rule.sd * ndtri(shares), low, high)
    if rule.ends == "cut":
        return inside, np.tile(weights / 2, (count, 1))
    ends = np.tile([low, high], (count, 1))
    chances = np.column_stack([first, 1.0 - last])
    return np.hstack([inside, ends]), np.hstack([(last - first)[:, None] * weights / 2, chances])


# Innermost decisions x actions x particles worked on at once: a few arrays of 16 MB.
_AT_ONCE = 1 << 21


@dataclass(frozen=True, slots=True)
class BackwardInduction:
    """The backward recursion over levels; position 0 is the outermost level.

    known: contexts and actions above a decision, `[n]` by variable name. chosen: the action indices above, `[n]` by level name.
    Values come per particle of the behaviour, `[S, n]`, with S = 1 where it no longer acts.
    """

    world: World
    scope: Scope
    behaviour: Policy
    fineness: int

    @classmethod
    def of(cls, world: World, scope: Iterable[str] | None, behaviour: Policy | None, fineness: int) -> BackwardInduction:
        """Return the recursion; SettingError if a level is neither controlled nor has a behaviour."""
        whole_number("oracle: 'fineness'", fineness)
        inside = world.problem.scope(scope)
        left = [name for name in world.problem.names if name not in inside]
        if left and behaviour is None:
            raise SettingError(f"oracle: no policy acts at {', '.join(left)}; give a behaviour policy or a scope with all levels")
        if inside and behaviour is not None and behaviour.weights.size > 1:
            raise SettingError("oracle: beside a controller the other levels have a policy of one particle, found a mixture")
        return cls(world, inside, behaviour or Logged(world.problem), fineness)

    @property
    def weights(self) -> Array:
        """The behaviour's particle weights `[S]`."""
        return np.asarray(self.behaviour.weights, dtype=np.float64)

    def value(self, position: int, known: Rows, chosen: Mapping[str, AnyArray], count: int) -> Array:
        """Return the expected reward `[S or 1, n]` below each of `count` rows, before the contexts at `position` are seen."""
        level = self.world.problem.names[position]
        if self._controlled_from(position):
            # Only what enters the equations matters here: rows that agree on that share their value.
            known, inverse, rows = _distinct(known, self.world.matters(level), count)
            return self._value(position, known, {}, rows)[:, inverse]
        return self._value(position, known, chosen, count)

    def _value(self, position: int, known: Rows, chosen: Mapping[str, AnyArray], count: int) -> Array:
        level = self.world.problem.names[position]
        piece = max(_AT_ONCE // (self._below(position) * self.weights.size), 1)
        if count > piece:
            parts = [slice(start, min(start + piece, count)) for start in range(0, count, piece)]
            values = [self._value(position, _rows(known, part), _rows(chosen, part), part.stop - part.start) for part in parts]
            return np.concatenate(values, axis=1)
        # Laws and mean rewards follow from what enters the equations: computed once for rows that agree on that.
        distinct, inverse, rows = _distinct(known, self.world.matters(level), count)
        context, weights = self.world.context_law(level, distinct, rows, self.fineness)
        nodes = weights.shape[1]
        rewards: Array | None = None
        drawn = self.world.problem.levels[position].actions.continuous and level not in self.scope
        if position + 1 == len(self.world.problem.levels) and not drawn:
            rewards = self._rewards(_crossed(distinct, context, nodes), weights.size)
            rewards = rewards.reshape(*weights.shape, -1)[inverse].reshape(1, count * nodes, -1)
        context = {name: values[inverse] for name, values in context.items()}
        chosen = {name: np.repeat(index, nodes) for name, index in chosen.items()}
        each = self._decided(position, _crossed(known, context, nodes), chosen, count * nodes, rewards)
        return np.einsum("snk,nk->sn", each.reshape(each.shape[0], count, nodes), weights[inverse])

    def _decided(self, position: int, known: Rows, chosen: Mapping[str, AnyArray], count: int, rewards: Array | None) -> Array:
        """Return `[S or 1, n]`: contexts seen, the action now taken by the controller or the behaviour."""
        level = self.world.problem.names[position]
        if level in self.scope:
            values = self._actions(position, known, chosen, count) if rewards is None else rewards
            best = self._choice(level, values, known)
            return np.take_along_axis(values, best[None, :, None], axis=2)[:, :, 0]
        spec = self.world.problem.level(level)
        if spec.actions.continuous:
            return self._on_interval(spec, known, chosen, count)
        masks = {
            outer: mask
            for outer in self.world.problem.names[: position + 1]
            if (mask := self.world.available(outer, known)) is not None
        }
        full = self.behaviour.full(level, hypothetical_batch(self.world.problem, level, count, known, chosen, masks))
        values = self._actions(position, known, chosen, count) if rewards is None else rewards
        return np.einsum("sna,sna->sn", full, np.broadcast_to(values, full.shape))

    def _on_interval(self, spec: Level, known: Rows, chosen: Mapping[str, AnyArray], count: int) -> Array:
        """Return `[S or 1, n]` where the behaviour acts on an interval: by points and their windows, or as it draws itself."""
        if spec is not self.world.problem.innermost:
            raise SettingError(f"oracle: only the innermost level of a world may have an interval, found '{spec.name}'")
        batch = hypothetical_batch(self.world.problem, spec.name, count, known, chosen)
        nodes = interval_nodes(self.behaviour, spec, batch, self.fineness)
        if nodes is None:
            full, rewards = self.behaviour.full(spec.name, batch), self._rewards(known, count)
            return np.einsum("sna,na->sn", full, rewards)
        values, weights = nodes
        rows = {name: np.repeat(column, values.shape[1], axis=0) for name, column in known.items()}
        earned = self.world.mean_reward({**rows, spec.actions.column: values.ravel()}).reshape(values.shape)
        return np.asarray(np.sum(earned * weights, axis=1)[None])

    def best(self, position: int, known: Rows, chosen: Mapping[str, AnyArray], count: int) -> AnyArray:
        """Return the best action `[n]` of a controlled level for states given with their contexts."""
        level = self.world.problem.names[position]
        inside = self._below(position + 1) if position + 1 < len(self.world.problem.names) else 1
        piece = max(_AT_ONCE // (inside * self.world.problem.level(level).actions.count), 1)
        choices = []
        for start in range(0, count, piece):
            part = slice(start, min(start + piece, count))
            rows = _rows(known, part)
            values = self._actions(position, rows, _rows(chosen, part), part.stop - start)
            choices.append(self._choice(level, values, rows))
        return np.concatenate(choices)

    def _choice(self, level: str, values: Array, known: Rows) -> AnyArray:
        """Return the available action `[n]` that is best; values `[1, n, A]`."""
        mask = self.world.available(level, known)
        return np.argmax(values[0] if mask is None else np.where(mask, values[0], -np.inf), axis=1)

    def _actions(self, position: int, known: Rows, chosen: Mapping[str, AnyArray], count: int) -> Array:
        """Return the value of every action, `[S or 1, n, A]`."""
        spec = self.world.problem.levels[position]
        if position + 1 == len(self.world.problem.levels):
            return self._rewards(known, count)[None]
        actions = spec.actions.count
        index = np.tile(np.arange(actions), count)
        rows = {name: np.repeat(values, actions, axis=0) for name, values in known.items()}
        rows[spec.actions.column] = spec.actions.as_rows(index)
        after = {name: np.repeat(values, actions) for name, values in chosen.items()} | {spec.name: index}
        values = self.value(position + 1, rows, after, count * actions)
        return values.reshape(values.shape[0], count, actions)

    def _rewards(self, known: Rows, count: int) -> Array:
        """Return the mean reward `[n, A]` of every innermost action; of a point of an interval the mean over its window."""
        actions = self.world.problem.innermost.actions
        if actions.continuous:
            values, weights = window_nodes(self.world.problem.innermost, actions.numbers, self.fineness)
            repeated = {name: np.repeat(column, values.size, axis=0) for name, column in known.items()}
            repeated[actions.column] = np.tile(values.ravel(), count)
            earned = self.world.mean_reward(repeated).reshape(count, *values.shape)
            return np.asarray(np.einsum("nak,ak->na", earned, weights))
        rows = {name: np.repeat(values, actions.count, axis=0) for name, values in known.items()}
        rows[actions.column] = actions.as_rows(np.tile(np.arange(actions.count), count))
        return self.world.mean_reward(rows).reshape(count, actions.count)

    def _controlled_from(self, position: int) -> bool:
        return all(name in self.scope for name in self.world.problem.names[position:])

    def _below(self, position: int) -> int:
        """Return how many states one row above `position` opens up: nodes x actions of every level from there on.

        A level that is fully controlled from the next one on collapses to few distinct rows, or is split again there.
        """
        total = 1
        for name in self.world.problem.names[position:]:
            actions = self.world.problem.level(name).actions
            total *= self._nodes(name) * actions.count * (INSIDE * self.fineness if actions.continuous else 1)
        return total

    def _nodes(self, level: str) -> int:
        """Return the number of quadrature nodes at a level, by asking for one row with every variable at 0."""
        known: Rows = {}
        for outer in self.world.problem.above(level):
            for variable in (*outer.context, outer.actions.variable):
                shape = (1, variable.width) if variable.kind == "vector" else (1,)
                known[variable.name] = np.zeros(shape, dtype=np.int32 if variable.kind == "categorical" else np.float64)
        return int(self.world.context_law(level, known, 1, self.fineness)[1].shape[1])


def _rows(values: Mapping[str, AnyArray], part: slice) -> Rows:
    return {name: array[part] for name, array in values.items()}


def _crossed(known: Rows, context: Rows, nodes: int) -> Rows:
    """Return every row of `known` `[n]` with each of its nodes `[n, k]`, as `[n * k]`."""
    rows = {name: np.repeat(values, nodes, axis=0) for name, values in known.items()}
    return rows | {name: values.reshape(-1, *values.shape[2:]) for name, values in context.items()}


def _distinct(known: Rows, names: tuple[str, ...], count: int) -> tuple[Rows, AnyArray, int]:
    """Return the distinct rows of the named variables, each row's place among them, and how many there are."""
    columns = [known[name].reshape(count, -1) for name in names]
    if not columns:
        return {}, np.zeros(count, dtype=np.int64), 1
    _, first, inverse = np.unique(np.hstack(columns), axis=0, return_index=True, return_inverse=True)
    return {name: known[name][first] for name in names}, inverse.reshape(-1), first.size


def true_value(world: World, policy: Policy, fineness: int = 1) -> float:
    """Return the nested-mean reward per innermost decision under `policy`.

    Parameters
    ----------
    world
        The world, whose equations are known.
    policy
        The policy that acts. The value of a mixture is the average over its particles: one of them acts in each episode.
    fineness
        Multiplies the number of quadrature nodes of every context.

    Returns
    -------
    float
        Relative accuracy 1e-4 for policies that vary smoothly with the contexts. For jumps inside a context's range raise
        `fineness`.
    """
    return oracle_value(world, (), policy, fineness)


def oracle_value(world: World, scope: Iterable[str] | None = None, behaviour: Policy | None = None, fineness: int = 1) -> float:
    """Return the best nested-mean reward per innermost decision that a controller can reach.

    The controller knows the true equations and sees contexts and actions, never latent variables.

    Parameters
    ----------
    world
        The world, whose equations are known.
    scope
        The controlled levels, all by default.
    behaviour
        The policy of the other levels, of one particle.
    fineness
        Multiplies the number of quadrature nodes of every context.

    Returns
    -------
    float
        The optimal value.

    Raises
    ------
    SettingError
        If a level is neither controlled nor has a behaviour.
    """
    solver = BackwardInduction.of(world, scope, behaviour, fineness)
    values = solver.value(0, {}, {}, 1)[:, 0]
    return float(solver.weights @ np.broadcast_to(values, solver.weights.shape))


@dataclass(frozen=True, slots=True)
class OraclePolicy:
    """The optimal controller of a world; it has as many particles as the behaviour.

    Parameters
    ----------
    world
        The world, whose equations are known.
    scope
        The controlled levels, all by default.
    behaviour
        The policy of the other levels, of one particle.
    fineness
        Multiplies the number of quadrature nodes of every context.
    """

    world: World
    scope: Scope | None = None
    behaviour: Policy | None = None
    fineness: int = 1
    solver: BackwardInduction = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        solver = BackwardInduction.of(self.world, self.scope, self.behaviour, self.fineness)
        object.__setattr__(self, "scope", solver.scope)
        object.__setattr__(self, "solver", solver)

    @property
    def weights(self) -> Array:
        """Return `[S]`."""
        return self.solver.weights

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[S, n, A]`: one for the best action at a controlled level."""
        solver, problem = self.solver, self.world.problem
        if level not in solver.scope:
            return solver.behaviour.full(level, batch)
        known = augmented_context(problem, batch, level)
        above = batch.ancestors(level)
        chosen = {outer.name: batch.levels[outer.name].action[above[outer.name]] for outer in problem.above(level)}
        position = problem.names.index(level)
        best = solver.best(position, known, chosen, len(batch.levels[level]))
        single = (np.arange(problem.level(level).actions.count) == best[:, None]).astype(np.float64)
        return np.broadcast_to(single, (self.weights.size, *single.shape))

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[S, n]`."""
        refuse_undecided(level, batch.levels[level])
        return probability_taken(self.full(level, batch), self.world.problem.level(level), batch.levels[level])
