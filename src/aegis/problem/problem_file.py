"""Read and write `problem.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from aegis.errors import ProblemError
from aegis.files import write_text
from aegis.problem.incumbent import Incumbent
from aegis.problem.level import Level, Propensity
from aegis.problem.problem import Problem
from aegis.problem.reward import Guard, Reward
from aegis.problem.strict_yaml import explain_validation_error, read_yaml, write_yaml
from aegis.problem.variables import Actions, Value, Variable


def dump_problem(problem: Problem) -> dict[str, Any]:
    """Return the problem as plain data, the content of its YAML file; defaults are left out."""
    content: dict[str, Any] = {"episode": problem.episode[0] if len(problem.episode) == 1 else list(problem.episode)}
    if problem.cluster is not None:
        content["cluster"] = _dump_cluster(problem)
    if problem.time is not None:
        content["time"] = problem.time
    if problem.carry_over != "none":
        content["carry_over"] = problem.carry_over
    content["reward"] = _dump_reward(problem.reward)
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


def _dump_cluster(problem: Problem) -> Any:
    columns, most = list(problem.cluster_columns), problem.cluster_most
    if most is None:
        return columns[0] if len(columns) == 1 else columns
    named: dict[str, Any] = {"column": columns[0]} if len(columns) == 1 else {"columns": columns}
    return {**named, "most": int(most)}


def _dump_reward(reward: Reward) -> dict[str, Any]:
    content: dict[str, Any] = {"column": reward.column}
    if reward.range is not None:
        content["range"] = [float(limit) for limit in reward.range]
    if reward.unit:
        content["unit"] = reward.unit
    content |= {"goal": reward.goal, "per": reward.per}
    if reward.clip:
        content["clip"] = True
    if reward.closed is not None:
        content["closed"] = reward.closed
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
    elif level.actions.continuous:
        action |= _dump_interval(level.actions)
    else:
        action["values"] = [_plain(value) for value in level.actions.values]
    content["action"] = action
    if level.available:
        content["available"] = list(level.available)
    if level.propensity is not None:
        content["propensity"] = _dump_propensity(level.propensity)
    if level.incumbent is not None:
        content["incumbent"] = {name: _plain(value) for name, value in level.incumbent.plain().items()}
    if level.margin:
        content["margin"] = float(level.margin)
    if level.mean_range is not None:
        content["mean_range"] = [float(limit) for limit in level.mean_range]
    return content


def _dump_interval(actions: Actions) -> dict[str, Any]:
    content: dict[str, Any] = {"interval": list(actions.limits), "bandwidth": actions.bandwidth, "points": actions.count}
    if actions.atoms:
        content["atoms"] = list(actions.atoms)
    if actions.lipschitz is not None:
        content["lipschitz"] = float(actions.lipschitz)
    return content


def _dump_propensity(given: Propensity) -> dict[str, Any]:
    fields = {"column": given.column, "columns": list(given.columns), "policy": given.policy, "base": given.base}
    content: dict[str, Any] = {key: value for key, value in fields.items() if value}
    if given.shares:
        content["shares"] = [float(share) for share in given.shares]
    if given.epsilon is not None:
        content["epsilon"] = float(given.epsilon)
    if given.least is not None:
        content["least"] = float(given.least)
    if given.estimated:
        content["estimated"] = True
    if given.wrong_by is not None:
        content["wrong_by"] = float(given.wrong_by)
    if given.density:
        content["density"] = True
    return content


def _plain(value: Any) -> Any:
    """Return Python's own number for a numpy scalar, which YAML cannot write."""
    return value.item() if isinstance(value, np.generic) else value


DRAFT_HEADER = "# Drafted from "  # the first words of a draft that a log was made into


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
    interval: list[float] | None = Field(default=None, min_length=2, max_length=2)
    bandwidth: float | None = None
    points: int = 21
    atoms: list[float] = Field(default_factory=list)
    lipschitz: float | None = None

    def build(self, where: str) -> Actions:
        if sum(form is not None for form in (self.values, self.grid, self.interval)) != 1:
            raise ProblemError(
                f"{where}: action '{self.column}' needs either 'values' or a 'grid' (low, high, points), or an 'interval' with a "
                "'bandwidth'"
            )
        if self.interval is not None:
            return self._interval(where, self.interval)
        for key in ("bandwidth", "points", "atoms", "lipschitz"):
            if key in self.model_fields_set:
                raise ProblemError(f"{where}: '{key}' of action '{self.column}' belongs to an 'interval: [low, high]'")
        if self.grid is not None:
            return Actions.grid(self.column, self.grid.low, self.grid.high, self.grid.points)
        return Actions.of(self.column, tuple(self.values or ()))

    def _interval(self, where: str, limits: list[float]) -> Actions:
        if self.bandwidth is None:
            raise ProblemError(
                f"{where}: action '{self.column}' on an interval needs a 'bandwidth': who chooses a point acts uniformly within "
                "that distance of it"
            )
        return Actions.interval(self.column, limits[0], limits[1], self.bandwidth, self.points, tuple(self.atoms), self.lipschitz)


class _Propensity(_Section):
    column: str | None = None
    columns: list[str] = Field(default_factory=list)
    policy: str | None = None
    base: str | None = None
    epsilon: float | None = None
    least: float | None = None
    estimated: bool = False
    wrong_by: float | None = None
    density: bool = False
    shares: list[float] = Field(default_factory=list)

    def build(self, where: str) -> Propensity:
        forms = (self.column, tuple(self.columns), self.policy, self.base, self.epsilon)
        try:
            return Propensity(*forms, self.least, self.estimated, self.wrong_by, self.density, tuple(self.shares))
        except ProblemError as error:
            raise ProblemError(f"{where}: {error}") from None


class _Incumbent(_Section):
    base: str | None = None
    action: Value | None = None
    policy: str | dict[str, Any] | None = None
    columns: list[str] = Field(default_factory=list)
    epsilon: float | None = None
    max_ratio: float | None = None
    max_product: float | None = None

    def build(self, where: str) -> Incumbent:
        given = self.model_dump()
        try:
            return Incumbent(**{**given, "columns": tuple(self.columns)})
        except ProblemError as error:
            raise ProblemError(f"{where}: {error}") from None


class _Level(_Section):
    name: str
    decision: str | None = None
    context: list[str | _Variable] = Field(default_factory=list)
    action: _Action
    available: list[str] = Field(default_factory=list)
    propensity: _Propensity | None = None
    incumbent: _Incumbent | None = None
    margin: float = 0.0
    mean_range: list[float] | None = Field(default=None, min_length=2, max_length=2)

    def build(self) -> Level:
        where = f"level '{self.name}'"
        context = tuple(Variable(c) if isinstance(c, str) else c.build(f"{where}, context") for c in self.context)
        actions = self.action.build(where)
        propensity = None if self.propensity is None else self.propensity.build(where)
        means = None if self.mean_range is None else (self.mean_range[0], self.mean_range[1])
        return Level(
            name=self.name,
            actions=actions,
            context=context,
            propensity=propensity,
            decision=self.decision,
            available=tuple(self.available),
            margin=self.margin,
            mean_range=means,
            incumbent=None if self.incumbent is None else self.incumbent.build(where),
        )


class _Reward(_Section):
    column: str
    range: list[float] | None = Field(default=None, min_length=2, max_length=2)
    unit: str = ""
    goal: Literal["maximise", "minimise"] = "maximise"
    per: str = "decision"
    clip: bool = False
    closed: str | None = None

    def build(self) -> Reward:
        limits = None if self.range is None else (self.range[0], self.range[1])
        return Reward(self.column, limits, self.unit, self.goal, self.per, self.clip, self.closed)


class _Guard(_Section):
    column: str
    range: list[float] = Field(min_length=2, max_length=2)
    max_worsening: float
    goal: Literal["maximise", "minimise"] = "minimise"


class _Cluster(_Section):
    column: str | None = None
    columns: list[str] | None = Field(default=None, min_length=1)
    most: int | None = None

    def build(self) -> str | tuple[str, ...]:
        if self.column is not None and self.columns is not None:
            raise ProblemError("cluster: give either 'column' or 'columns' (together one id), not both")
        if self.column is None and self.columns is None:
            raise ProblemError("'cluster.column' is missing: name it, or 'columns' that are one id together")
        return tuple(self.columns) if self.column is None else self.column  # type: ignore[arg-type]


class _File(_Section):
    episode: str | list[str]
    cluster: str | list[str] | _Cluster | None = None
    time: str | None = None
    carry_over: Literal["none", "within"] = "none"
    reward: _Reward
    guards: list[_Guard] = Field(default_factory=list)
    outcome: _Variable | None = None
    levels: list[_Level]
    graph: dict[str, list[str]] = Field(default_factory=dict)
    latents: dict[str, list[str]] = Field(default_factory=dict)

    def build(self) -> Problem:
        most = self.cluster.most if isinstance(self.cluster, _Cluster) else None
        cluster = self.cluster.build() if isinstance(self.cluster, _Cluster) else self.cluster
        return Problem(
            levels=tuple(level.build() for level in self.levels),
            reward=self.reward.build(),
            outcome=None if self.outcome is None else self.outcome.build("outcome"),
            parents={name: tuple(parents) for name, parents in self.graph.items()},
            latents={name: tuple(children) for name, children in self.latents.items()},
            guards=tuple(Guard(g.column, (g.range[0], g.range[1]), g.max_worsening, g.goal) for g in self.guards),
            episode=(self.episode,) if isinstance(self.episode, str) else tuple(self.episode),
            cluster=tuple(cluster) if isinstance(cluster, list) else cluster,
            time=self.time,
            carry_over=self.carry_over,
            cluster_most=most,
        )


# Which keys are allowed where, for the suggestion in an unknown-key message.
_SECTIONS: dict[str, type[_Section]] = {
    "reward": _Reward, "guards": _Guard, "outcome": _Variable, "levels": _Level, "action": _Action, "grid": _Grid,
    "propensity": _Propensity, "incumbent": _Incumbent, "context": _Variable, "cluster": _Cluster,
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
        todo = f"; `aegis init LOG --out {path}` drafts one from a log" if isinstance(error, FileNotFoundError) else ""
        raise ProblemError(f"cannot read {path}: {error.strerror or error}{todo}") from error
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
        told = [*explain_validation_error(error, content, _File, _SECTIONS), *_unfinished(text, content, source)]
        raise ProblemError("\n".join(f"{source}: {line}" for line in told)) from None
    except ProblemError as error:
        raise type(error)(f"{source}: {error}") from None


def _unfinished(text: str, content: dict[str, object], source: str) -> list[str]:
    """Say what to do about a draft from which something is missing that the log did not tell."""
    missing = [name for name in ("reward", "levels") if name not in content]
    if not missing or not text.startswith(DRAFT_HEADER):
        return []
    return [
        f"this draft is not complete: answer the questions at its top, and fill in {' and '.join(missing)}; or draft it again, "
        f"naming the columns that the controller chose: aegis init LOG --action COLUMN --out {source} --force"
    ]


def save_problem(problem: Problem, path: str | Path) -> None:
    """Write a problem file that `load_problem` reads back as the same problem."""
    write_text(path, write_yaml(dump_problem(problem)))
