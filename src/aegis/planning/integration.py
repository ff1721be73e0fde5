"""Expectations over contexts that are not yet known: nodes and weights under a drawn belief.

Methods: closed (contexts at their mean), quadrature (Gauss-Hermite nodes, enumerated categories), Monte Carlo, and point.
The default effort depends on the number of levels.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from aegis.errors import SettingError, check_choice
from aegis.mechanisms import MechanismDraw, Theta
from aegis.planning.states import States
from aegis.problem import AnyArray, Array, Problem, Variable
from aegis.rng import stream

Method = Literal["auto", "closed", "quadrature", "monte_carlo", "point"]

MOST_NODES = 256  # numpy's rule overflows a little beyond

MOST_POINTS = 10**6  # of a tensor rule over all contexts of a level


@dataclass(frozen=True, slots=True)
class Integration:
    """How to integrate over contexts that are not yet known.

    Parameters
    ----------
    method
        `auto` chooses by the problem.
    nodes
        Gauss-Hermite nodes per number; a kink such as |c| needs 32 or more.
    samples
        Monte-Carlo draws.
    seed
        Of the common random numbers.

    Raises
    ------
    SettingError
        If a value is not allowed.
    """

    method: Method = "auto"
    nodes: int = 32
    samples: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.method, get_args(Method), "integration method")
        if not 1 <= self.nodes <= MOST_NODES or self.samples < 1:
            raise SettingError(
                f"integration takes 1 to {MOST_NODES} nodes and at least one sample, found {self.nodes} and {self.samples}"
            )

    def extend(self, problem: Problem, theta: Theta, level: str, states: States, method: Method) -> tuple[States, Array]:
        """Return the states extended by the contexts of `level`: n * Q states, nodes varying fastest, weights `[S, n, Q]`.

        A context without a mechanism is left out: nothing in the drawn model depends on it.
        """
        variables = _unknown(problem, theta, level)
        if method in ("closed", "point") or not variables:
            for variable in variables:
                states = states.with_variable(variable.name, _representative(theta.functions[variable.name], variable, states))
            return states, np.ones((1, states.count, 1))
        if method == "monte_carlo":
            return self._sampled(variables, theta, level, states)
        self.points(problem, theta, level, method)  # refuses a rule that would not fit into memory
        return self._nodes(variables, theta, states)

    def points(self, problem: Problem, theta: Theta, level: str, method: Method) -> int:
        """Return Q, how many states `extend` makes of each one."""
        variables = _unknown(problem, theta, level)
        if method in ("closed", "point") or not variables:
            return 1
        if method == "monte_carlo":
            return self.samples
        count = math.prod(v.width if v.kind == "categorical" else self.nodes**v.width for v in variables)
        if count > MOST_POINTS:
            raise SettingError(
                f"level '{level}': quadrature with {self.nodes} nodes needs {count} points, at most {MOST_POINTS} are allowed; "
                "use fewer nodes, or 'monte_carlo' for vectors"
            )
        return count

    def _nodes(self, variables: list[Variable], theta: Theta, states: States) -> tuple[States, Array]:
        count = states.count
        weights = np.ones((1, count, 1))
        for variable in variables:
            function = theta.functions[variable.name]
            mean = function.mean(states.rows, states.count)
            values: AnyArray
            if variable.kind == "categorical":
                points, values = variable.width, np.tile(np.arange(variable.width), states.count)[None]
                chances = mean
            else:
                grid, mass = _hermite(self.nodes, mean.shape[-1])
                points = len(mass)
                spread = mean[:, :, None, :] + function.sd[:, None, None, :] * grid
                values = spread.reshape(len(mean), states.count * points, mean.shape[-1])
                values = values if variable.kind == "vector" else values[..., 0]
                chances = np.broadcast_to(mass, (1, states.count, points))
            states = states.repeat(points).with_variable(variable.name, values)
            per_node = weights.reshape(len(weights), -1, 1) * chances
            weights = per_node.reshape(len(per_node), count, weights.shape[-1] * points)
        return states, weights

    def _sampled(self, variables: list[Variable], theta: Theta, level: str, states: States) -> tuple[States, Array]:
        count = states.count
        states = states.repeat(self.samples)
        for variable in variables:
            function = theta.functions[variable.name]
            rng = stream(self.seed, "integration", level, variable.name)
            mean = function.mean(states.rows, states.count)
            if variable.kind == "categorical":
                uniform = np.tile(rng.random(self.samples), count)[None, :, None]
                values = np.minimum((mean.cumsum(axis=-1) <= uniform).sum(axis=-1), variable.width - 1)
            else:
                normal = np.tile(_antithetic(rng, self.samples, mean.shape[-1]), (count, 1))
                noisy = mean + function.sd[:, None, :] * normal
                values = noisy if variable.kind == "vector" else noisy[..., 0]
            states = states.with_variable(variable.name, values)
        return states, np.full((1, count, self.samples), 1.0 / self.samples)


def _unknown(problem: Problem, theta: Theta, level: str) -> list[Variable]:
    """Return the contexts of a level that are to be integrated over, parents before children."""
    context = {variable.name: variable for variable in problem.level(level).context}
    return [context[name] for name in problem.graph.order if name in context and name in theta.functions]


def _representative(function: MechanismDraw, variable: Variable, states: States) -> AnyArray:
    mean = function.mean(states.rows, states.count)
    if variable.kind == "categorical":
        return np.argmax(mean, axis=-1)
    return mean if variable.kind == "vector" else mean[..., 0]


@functools.lru_cache(maxsize=32)
def _hermite(nodes: int, dimensions: int) -> tuple[Array, Array]:
    """Return the tensor Gauss-Hermite rule for N(0, I): nodes `[Q, d]`, weights `[Q]`."""
    points, mass = np.polynomial.hermite_e.hermegauss(nodes)
    mass = mass / mass.sum()
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*[points] * dimensions, indexing="ij")], axis=-1)
    weights = np.prod(np.stack([axis.ravel() for axis in np.meshgrid(*[mass] * dimensions, indexing="ij")]), axis=0)
    grid.flags.writeable = weights.flags.writeable = False  # shared by all callers
    return grid, weights


def _antithetic(rng: np.random.Generator, count: int, dimensions: int) -> Array:
    """Return normal draws `[count, d]` in pairs of opposite sign, so that odd moments vanish."""
    half = rng.standard_normal(((count + 1) // 2, dimensions))
    return np.concatenate([half, -half])[:count]


# Each further level multiplies the hypothetical decisions below it by its nodes or samples. With three levels and more, fewer of
# them keep planning quick; on the plant eight nodes choose what thirty-two do, at a fiftieth of the cost.
FINE = Integration(nodes=32, samples=256)

COARSE = Integration(nodes=8, samples=64)  # of problems with more levels than MOST_FINE

MOST_FINE = 2  # the largest number of levels that is integrated finely


def default_integration(problem: Problem) -> Integration:
    """Return the integration that suits the number of levels."""
    return FINE if len(problem.levels) <= MOST_FINE else COARSE
