"""Reading and writing `problem.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from aegis.errors import ProblemError
from aegis.files import write_text
from aegis.problem.level import Level, Propensity
from aegis.problem.problem import Guard, Problem, Reward
from aegis.problem.strict_yaml import explain, read_yaml, write_yaml
from aegis.problem.variables import Actions, Value, Variable


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Variable(_Section):
    name: str | None = None
    column: str | None = None
    columns: list[str] | None = Field(default=None, min_length=1)
    values: list[Value] | None = None

    def build(self, where: str) -> Variable:
        if (self.column is None) == (self.columns is None):
            raise ProblemError(f"{where}: give 'column' (one number or category) or 'columns' (a vector)")
        if self.columns is not None:
            if self.values is not None:
                raise ProblemError(f"{where}: a vector has no 'values'")
            if self.name is None:
                raise ProblemError(f"{where}: a vector of columns needs a 'name'")
            return Variable(self.name, "vector", tuple(self.columns))
        column = str(self.column)
        if self.name is not None and self.name != column:
            raise ProblemError(f"{where}: a single column is called by its column name; 'name' is for vectors")
        if self.values is None:
            return Variable(column)
        return Variable(column, "categorical", values=tuple(self.values))


class _Grid(_Section):
    low: float
    high: float
    points: int


class _Action(_Section):
    column: str
    values: list[Value] | None = None
    grid: _Grid | None = None

    def build(self, where: str) -> Actions:
        if (self.values is None) == (self.grid is None):
            raise ProblemError(f"{where}: action '{self.column}' needs either 'values' or a 'grid' (low, high, points)")
        if self.grid is not None:
            return Actions.grid(self.column, self.grid.low, self.grid.high, self.grid.points)
        return Actions.of(self.column, tuple(self.values or ()))


class _Propensity(_Section):
    column: str | None = None
    columns: list[str] = Field(default_factory=list)
    policy: str | None = None
    base: str | None = None
    epsilon: float | None = None


class _Level(_Section):
    name: str
    decision: str | None = None
    context: list[str | _Variable] = Field(default_factory=list)
    action: _Action
    available: list[str] = Field(default_factory=list)
    propensity: _Propensity | None = None
    margin: float = 0.0

    def build(self) -> Level:
        where = f"level '{self.name}'"
        context = tuple(Variable(c) if isinstance(c, str) else c.build(f"{where}, context") for c in self.context)
        given = self.propensity
        propensity = None
        if given is not None:
            propensity = Propensity(given.column, tuple(given.columns), given.policy, given.base, given.epsilon)
        actions = self.action.build(where)
        return Level(self.name, actions, context, propensity, self.decision, tuple(self.available), self.margin)


class _Reward(_Section):
    column: str
    range: list[float] | None = Field(default=None, min_length=2, max_length=2)
    unit: str = ""
    goal: Literal["maximise", "minimise"] = "maximise"
    per: str = "decision"


class _Guard(_Section):
    column: str
    range: list[float] = Field(min_length=2, max_length=2)
    max_worsening: float
    goal: Literal["maximise", "minimise"] = "minimise"


class _File(_Section):
    episode: str | list[str]
    cluster: str | None = None
    time: str | None = None
    carry_over: Literal["none", "within"] = "none"
    reward: _Reward
    guards: list[_Guard] = Field(default_factory=list)
    outcome: _Variable | None = None
    levels: list[_Level]
    graph: dict[str, list[str]] = Field(default_factory=dict)
    latents: dict[str, list[str]] = Field(default_factory=dict)

    def build(self) -> Problem:
        reward, limits = self.reward, self.reward.range
        return Problem(
            levels=tuple(level.build() for level in self.levels),
            reward=Reward(
                reward.column, None if limits is None else (limits[0], limits[1]), reward.unit, reward.goal, reward.per
            ),
            outcome=None if self.outcome is None else self.outcome.build("outcome"),
            parents={name: tuple(parents) for name, parents in self.graph.items()},
            latents={name: tuple(children) for name, children in self.latents.items()},
            guards=tuple(Guard(g.column, (g.range[0], g.range[1]), g.max_worsening, g.goal) for g in self.guards),
            episode=(self.episode,) if isinstance(self.episode, str) else tuple(self.episode),
            cluster=self.cluster,
            time=self.time,
            carry_over=self.carry_over,
        )


# Which keys are allowed where, for the suggestion in an unknown-key message.
_SECTIONS: dict[str, type[_Section]] = {
    "reward": _Reward, "guards": _Guard, "outcome": _Variable, "levels": _Level, "action": _Action, "grid": _Grid,
    "propensity": _Propensity, "context": _Variable,
}  # fmt: skip


def load_problem(path: str | Path) -> Problem:
    """Read a problem file; errors name the file and the place in it."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ProblemError(
            f"cannot read {path}: it is not UTF-8 text ({error.reason}, byte {error.start}); save it as UTF-8"
        ) from error
    except OSError as error:
        raise ProblemError(f"cannot read {path}: {error.strerror or error}") from error
    return parse_problem(text, str(path))


def parse_problem(text: str, source: str = "problem") -> Problem:
    """Build a problem from YAML text; `source` names it in error messages."""
    content = read_yaml(text, source)
    if not isinstance(content, dict):
        found = "an empty file" if content is None else type(content).__name__
        raise ProblemError(
            f"{source}: expected a mapping with 'episode', 'reward' and 'levels', found {found}; see docs/problem.md"
        )
    try:
        return _File.model_validate(content).build()
    except ValidationError as error:
        raise ProblemError("\n".join(f"{source}: {line}" for line in explain(error, content, _File, _SECTIONS))) from None
    except ProblemError as error:
        raise type(error)(f"{source}: {error}") from None


def save_problem(problem: Problem, path: str | Path) -> None:
    """Write a problem file that `load_problem` reads back as the same problem."""
    write_text(path, write_yaml(dump_problem(problem)))


def dump_problem(problem: Problem) -> dict[str, Any]:
    """Return the problem as plain data, the content of its YAML file; defaults are left out."""
    content: dict[str, Any] = {"episode": problem.episode[0] if len(problem.episode) == 1 else list(problem.episode)}
    if problem.cluster is not None:
        content["cluster"] = problem.cluster
    if problem.time is not None:
        content["time"] = problem.time
    if problem.carry_over != "none":
        content["carry_over"] = problem.carry_over
    reward = problem.reward
    content["reward"] = {"column": reward.column}
    if reward.range is not None:
        content["reward"]["range"] = [float(limit) for limit in reward.range]
    if reward.unit:
        content["reward"]["unit"] = reward.unit
    content["reward"] |= {"goal": reward.goal, "per": reward.per}
    if problem.guards:
        content["guards"] = [
            {"column": g.column, "range": [float(v) for v in g.range], "max_worsening": float(g.max_worsening), "goal": g.goal}
            for g in problem.guards
        ]
    if problem.outcome is not None:
        content["outcome"] = _dump_variable(problem.outcome)
    content["levels"] = [_dump_level(level) for level in problem.levels]
    if problem.parents:
        content["graph"] = {name: list(parents) for name, parents in problem.parents.items()}
    if problem.latents:
        content["latents"] = {name: list(children) for name, children in problem.latents.items()}
    return content


def _dump_variable(variable: Variable) -> dict[str, Any]:
    if variable.kind == "vector":
        return {"name": variable.name, "columns": list(variable.columns)}
    if variable.kind == "categorical":
        return {"column": variable.name, "values": [_plain(value) for value in variable.values]}
    return {"column": variable.name}


def _dump_level(level: Level) -> dict[str, Any]:
    content: dict[str, Any] = {"name": level.name}
    if level.decision is not None:
        content["decision"] = level.decision
    content["context"] = [v.name if v.kind == "real" else _dump_variable(v) for v in level.context]
    action: dict[str, Any] = {"column": level.actions.column}
    if level.actions.kind == "grid":
        numbers = level.actions.numbers
        action["grid"] = {"low": float(numbers[0]), "high": float(numbers[-1]), "points": level.actions.count}
    else:
        action["values"] = [_plain(value) for value in level.actions.values]
    content["action"] = action
    if level.available:
        content["available"] = list(level.available)
    if level.propensity is not None:
        given = level.propensity
        fields = {"column": given.column, "columns": list(given.columns), "policy": given.policy, "base": given.base}
        content["propensity"] = {key: value for key, value in fields.items() if value}
        if given.epsilon is not None:
            content["propensity"]["epsilon"] = float(given.epsilon)
    if level.margin:
        content["margin"] = float(level.margin)
    return content


def _plain(value: Any) -> Any:
    """Return Python's own number for a numpy scalar, which YAML cannot write."""
    return value.item() if isinstance(value, np.generic) else value
