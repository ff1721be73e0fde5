"""Your own policy as a Python callable, stored by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from aegis.errors import AegisError, PolicyError
from aegis.policies.base import (
    bad_distribution,
    draw_from_points,
    draw_numbers,
    exact_actions,
    number_in_window,
    open_actions,
    probability_taken,
    set_fields,
    storable_members,
    table_of,
)
from aegis.problem import Array, Batch, Bools, Level, Policy, Problem, Rows, Scope, State, augmented_context, window_density

UserFunction = Callable[[Level, Rows], Any]


@dataclass(frozen=True, slots=True, init=False)
class Function:
    """Your own policy as a callable `function(level, rows) -> [n, A]`.

    Where actions are an interval the answer is a distribution over its points, or one number a* per row, `[n]`, anywhere in the
    interval. Either way the policy is the smoothed one, which acts uniformly in a window around its choice.

    Parameters
    ----------
    problem
        The problem that the policy acts on.
    function
        Receives the level and the augmented context by variable name. It returns one distribution per row, which sums to one
        within 1e-6 and is 0 on unavailable actions. Without any context, one distribution `[A]` serves all rows.
    levels
        Where the function acts, all by default.
    legacy
        The policy of the other levels, whose particles are kept. Without one the other levels cannot be asked.
    name
        The name "module:object" that is stored; by default the callable's own.

    Raises
    ------
    PolicyError
        If `function` is not callable.
    """

    kind: ClassVar[str] = "function"
    problem: Problem
    function: UserFunction
    levels: Scope
    legacy: Policy | None
    name: str | None

    def __init__(
        self,
        problem: Problem,
        function: UserFunction,
        levels: Iterable[str] | None = None,
        legacy: Policy | None = None,
        name: str | None = None,
    ) -> None:
        if not callable(function):
            raise PolicyError(f"a function policy needs a callable function(level, rows), found {function!r}")
        set_fields(self, problem=problem, function=function, levels=problem.scope(levels), legacy=legacy, name=name)

    @classmethod
    def named(cls, problem: Problem, name: str, levels: Iterable[str] | None = None, legacy: Policy | None = None) -> Function:
        """Return the policy of the callable called "module:object"."""
        return cls(problem=problem, function=load_callable(name), levels=levels, legacy=legacy, name=name)

    @property
    def windowed(self) -> frozenset[str]:
        """Return the levels at which it acts, on an interval, in windows around the numbers it chooses."""
        return frozenset(self.levels)

    @property
    def weights(self) -> Array:
        """Return `[S]`."""
        return np.ones(1) if self.legacy is None else self.legacy.weights

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[S, n, A]`."""
        if level not in self.levels:
            return self._legacy(level).full(level, batch)
        spec, table = self.problem.level(level), table_of(batch, level)
        rows = augmented_context(self.problem, batch, level)
        mask = open_actions(table.available, len(table), spec.actions.count, f"level '{level}'")
        answer = self._asked(spec, rows, level)
        if spec.actions.continuous and np.ndim(answer) < 2:
            raise PolicyError(
                f"{self._label(level)} gives numbers of an interval, not probabilities of its points, which are needed here"
            )
        if not rows and np.ndim(answer) == 1:  # nothing to look at: one distribution serves every decision
            answer = np.tile(answer, (len(table), 1))
        return np.repeat(_distributions(answer, mask, self._label(level))[None], self.weights.size, axis=0)

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[S, n]`."""
        if level not in self.levels:
            return self._legacy(level).taken(level, batch)
        spec, table = self.problem.level(level), table_of(batch, level)
        centres = self.centres(level, batch)
        if centres is not None:
            densities = window_density(spec.actions, centres, exact_actions(level, table))
            return np.repeat(densities[None], self.weights.size, axis=0)
        return probability_taken(self.full(level, batch), spec, table)

    def centres(self, level: str, batch: Batch) -> Array | None:
        """Return the number a* `[n]` that the function chose in each row of an interval; None if it answers by probabilities."""
        spec, table = self.problem.level(level), table_of(batch, level)
        if level not in self.levels or not spec.actions.continuous:
            return None
        answer = self._asked(spec, augmented_context(self.problem, batch, level), level)
        return _numbers(answer, spec, len(table), self._label(level)) if np.ndim(answer) < 2 else None

    def drawn(self, level: str, batch: Batch, uniform: Array) -> Array:
        """Return the number `[S, n]` taken from an interval for uniform numbers `[n]`."""
        spec = self.problem.level(level)
        if level not in self.levels:
            return draw_numbers(self._legacy(level), spec, batch, uniform)
        centres = self.centres(level, batch)
        if centres is None:
            return draw_from_points(spec.actions, self.full(level, batch), uniform)
        return np.repeat(number_in_window(spec.actions, centres, uniform)[None], self.weights.size, axis=0)

    def state(self) -> State:
        """Return the name of the callable, never its code; PolicyError if it cannot be found again by a name."""
        settings = {"function": self.name or callable_name(self.function), "levels": sorted(self.levels)}
        return State(self.kind, settings, members=storable_members(legacy=self.legacy))

    @classmethod
    def restore(cls, state: State, problem: Problem) -> Function:
        """Build the policy from its state; this imports the module named there."""
        legacy = state.policy("legacy") if "legacy" in state.members else None
        return cls.named(problem, state.setting("function"), state.setting("levels"), legacy)

    def _legacy(self, level: str) -> Policy:
        self.problem.level(level)
        if self.legacy is None:
            levels = ", ".join(sorted(self.levels))
            raise PolicyError(f"level '{level}': this policy acts at {levels} only; give it a 'legacy' for the other levels")
        return self.legacy

    def _asked(self, spec: Level, rows: Rows, level: str) -> Any:
        """Return what the user's function answers; what it raises becomes a PolicyError that says where."""
        try:
            return self.function(spec, rows)
        except AegisError:
            raise
        except Exception as error:
            raise PolicyError(f"{self._label(level)} raised {type(error).__name__}: {error}") from error

    def _label(self, level: str) -> str:
        name = self.name or getattr(self.function, "__name__", type(self.function).__name__)
        return f"level '{level}': policy '{name}'"


def load_callable(name: str) -> UserFunction:
    """Return the callable called "module:object"; PolicyError if there is none."""
    module, separator, path = name.partition(":")
    if not (module and separator and path):
        raise PolicyError(f"a callable is named 'module:object', for example 'plant.control:dose'; found '{name}'")
    try:
        target: Any = importlib.import_module(module)
    except Exception as error:  # the user's module may raise anything while it is imported
        raise PolicyError(f"cannot import the module '{module}' of '{name}': {type(error).__name__}: {error}") from error
    for part in path.split("."):
        if not hasattr(target, part):
            raise PolicyError(f"the module '{module}' has no '{path}'; check the name after the colon in '{name}'")
        target = getattr(target, part)
    if not callable(target):
        raise PolicyError(f"'{name}' is a {type(target).__name__}, not a callable function(level, rows)")
    function: UserFunction = target
    return function


def callable_name(function: UserFunction) -> str:
    """Return the "module:object" under which a callable is found again; PolicyError with the reason if there is none."""
    module, path = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    name = f"{module}:{path}"
    findable = module and path and module != "__main__" and "<" not in path  # as in <lambda> and <locals>
    if not findable or load_callable(name) is not function:
        raise PolicyError(
            f"{path or repr(function)} cannot be stored: a policy folder holds names, never code, and it is not found again by "
            "its name; define it at the top of a module that can be imported and give it as 'module:object'"
        )
    return name


def _array(answer: Any, label: str, what: str) -> Array:
    try:
        return np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise PolicyError(f"{label} did not return {what}: {error}") from error


def _numbers(answer: Any, spec: Level, count: int, label: str) -> Array:
    """Return a user's numbers `[n]`, all inside the interval; PolicyError naming the first that is not."""
    low, high = spec.actions.limits
    values = _array(answer, label, "numbers")
    if values.ndim == 0:
        values = np.full(count, values)
    if values.shape != (count,):
        raise PolicyError(
            f"{label} returned shape {list(values.shape)}, expected one number per row, [{count}], or probabilities of the "
            f"points, [{count}, {spec.actions.count}]"
        )
    wrong = ~((values >= low) & (values <= high))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise PolicyError(
            f"{label}, row {row}: returned {values[row]}, which is not in the interval [{low:g}, {high:g}] ({int(wrong.sum())} "
            "bad rows); choose what can be done, for example by np.clip"
        )
    return values


def _distributions(answer: Any, mask: Bools, label: str) -> Array:
    """Return a user's answer as distributions `[n, A]`, scaled to sum to exactly one; PolicyError naming the first bad row."""
    values = _array(answer, label, "an array of probabilities")
    if values.shape != mask.shape:
        raise PolicyError(f"{label} returned shape {list(values.shape)}, expected [n, A] = {list(mask.shape)}")
    wrong = bad_distribution(values, mask)
    if wrong is not None:
        (row,), expected = wrong
        raise PolicyError(f"{label}, row {row}: returned {values[row].tolist()}; {expected}")
    return values / values.sum(axis=1, keepdims=True)
