"""Read and write `problem.yaml`."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from aegis.errors import ProblemError
from aegis.files import write_text
from aegis.problem.level import Incumbent, Level, Propensity
from aegis.problem.problem import Problem
from aegis.problem.strict_yaml import explain_validation_error, read_yaml, write_yaml
from aegis.problem.variables import Actions, Guard, Reward, Value, Variable

DRAFT_HEADER = "# Drafted from "  # the first words of a problem file that `init` drafted from a log

# ---- writing ---------------------------------------------------------------------------------------------------------


def dump_problem(problem: Problem) -> dict[str, Any]:
    """Return the problem as plain data, the content of its YAML file; defaults are left out."""
    return _without_empty(
        {
            "episode": _one_or_list(problem.episode),
            "cluster": _dump_cluster(problem),
            "time": problem.time,
            "carry_over": None if problem.carry_over == "none" else problem.carry_over,
            "reward": _dump_fields(problem.reward, always=("column", "goal", "per")),
            "guards": [_dump_fields(guard, always=("goal",)) for guard in problem.guards],
            "outcome": None if problem.outcome is None else _dump_variable(problem.outcome),
            "levels": [_dump_level(level) for level in problem.levels],
            "graph": {name: list(parents) for name, parents in problem.parents.items()},
            "latents": {name: list(children) for name, children in problem.latents.items()},
        }
    )


def _dump_cluster(problem: Problem) -> Any:
    if problem.cluster_most is None:
        return _one_or_list(problem.cluster_columns)
    named = _one_or_list(problem.cluster_columns)
    return {"column" if isinstance(named, str) else "columns": named, "most": int(problem.cluster_most)}


def _dump_variable(variable: Variable) -> dict[str, Any]:
    if variable.kind == "vector":
        return {"name": variable.name, "columns": list(variable.columns)}
    return _without_empty({"column": variable.name, "values": [_plain(value) for value in variable.values]})


def _dump_level(level: Level) -> dict[str, Any]:
    content = {
        "name": level.name,
        "decision": level.decision,
        "context": [v.name if v.kind == "real" else _dump_variable(v) for v in level.context],
        "action": _dump_actions(level.actions),
        "available": list(level.available),
        "propensity": None if level.propensity is None else _dump_fields(level.propensity),
        "incumbent": None if level.incumbent is None else {k: _plain(v) for k, v in level.incumbent.plain().items()},
        "margin": float(level.margin) or None,
        "mean_range": None if level.mean_range is None else [float(limit) for limit in level.mean_range],
    }
    return _without_empty(content, always="context")


def _dump_actions(actions: Actions) -> dict[str, Any]:
    content: dict[str, Any] = {"column": actions.column}
    if actions.kind == "grid":
        low, high = actions.limits
        content["grid"] = {"low": low, "high": high, "points": actions.count}
    elif actions.continuous:
        content |= {"interval": list(actions.limits), "bandwidth": actions.bandwidth, "points": actions.count}
        content |= {"atoms": list(actions.atoms), "lipschitz": None if actions.lipschitz is None else float(actions.lipschitz)}
    else:
        content["values"] = [_plain(value) for value in actions.values]
    return _without_empty(content)


def _dump_fields(item: Reward | Guard | Propensity, always: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from their defaults, and those named under `always`."""
    parts = {part.name: (getattr(item, part.name), part.default) for part in fields(item)}
    return {name: _as_float(value) for name, (value, default) in parts.items() if name in always or value != default}


def _as_float(value: Any) -> Any:
    """Return numbers as floats, tuples as lists."""
    if isinstance(value, tuple):
        return [_as_float(item) for item in value]
    return value if isinstance(value, str | bool) else float(value)


def _plain(value: Any) -> Any:
    """Return Python's own number for a numpy scalar, which YAML cannot write."""
    return value.item() if isinstance(value, np.generic) else value


def _one_or_list(names: tuple[str, ...]) -> str | list[str]:
    return names[0] if len(names) == 1 else list(names)


def _without_empty(content: dict[str, Any], always: str = "") -> dict[str, Any]:
    return {key: value for key, value in content.items() if key == always or value not in (None, [], {})}


# ---- reading ---------------------------------------------------------------------------------------------------------

# YAML has lists; the classes of a problem have tuples.
Texts = Annotated[tuple[str, ...], Field(strict=False)]
SomeTexts = Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
Numbers = Annotated[tuple[float, ...], Field(strict=False)]
Limits = Annotated[tuple[float, ...], Field(strict=False, min_length=2, max_length=2)]
Values = Annotated[tuple[Value, ...], Field(strict=False)]
Built = TypeVar("Built")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    def build_as(self, kind: type[Built], where: str = "") -> Built:
        """Return the object of a class with the same fields; its errors say where it stands."""
        try:
            return kind(**dict(self))
        except ProblemError as error:
            raise ProblemError(f"{where}: {error}" if where else str(error)) from None


class _Variable(_Section):
    name: str | None = None
    column: str | None = None
    columns: SomeTexts | None = None
    values: Values | None = None

    def build(self, where: str) -> Variable:
        if (self.column is None) == (self.columns is None):
            raise ProblemError(f"{where}: give 'column' (one number or category) or 'columns' (a vector)")
        if self.columns is not None:
            if self.values is not None:
                raise ProblemError(f"{where}: a vector has no 'values'")
            if self.name is None:
                raise ProblemError(f"{where}: a vector of columns needs a 'name'")
            return Variable(self.name, "vector", self.columns)
        column = str(self.column)
        if self.name is not None and self.name != column:
            raise ProblemError(f"{where}: a single column is called by its column name; 'name' is for vectors")
        return Variable(column) if self.values is None else Variable(column, "categorical", values=self.values)


class _Grid(_Section):
    low: float
    high: float
    points: int


class _Action(_Section):
    column: str
    values: Values | None = None
    grid: _Grid | None = None
    interval: Limits | None = None
    bandwidth: float | None = None
    points: int = 21
    atoms: Numbers = ()
    lipschitz: float | None = None

    def build(self, where: str) -> Actions:
        if sum(form is not None for form in (self.values, self.grid, self.interval)) != 1:
            raise ProblemError(
                f"{where}: action '{self.column}' needs either 'values' or a 'grid' (low, high, points), or an 'interval' with a "
                "'bandwidth'"
            )
        if self.interval is not None:
            low, high = self.interval
            return Actions.interval(self.column, low, high, self.bandwidth, self.points, self.atoms, self.lipschitz)
        for key in ("bandwidth", "points", "atoms", "lipschitz"):
            if key in self.model_fields_set:
                raise ProblemError(f"{where}: '{key}' of action '{self.column}' belongs to an 'interval: [low, high]'")
        if self.grid is not None:
            return Actions.grid(self.column, self.grid.low, self.grid.high, self.grid.points)
        return Actions.of(self.column, self.values or ())


class _Propensity(_Section):
    column: str | None = None
    columns: Texts = ()
    policy: str | None = None
    base: str | None = None
    epsilon: float | None = None
    least: float | None = None
    estimated: bool = False
    wrong_by: float | None = None
    density: bool = False
    shares: Numbers = ()


class _Incumbent(_Section):
    base: str | None = None
    action: Value | None = None
    policy: str | dict[str, Any] | None = None
    columns: Texts = ()
    epsilon: float | None = None
    max_ratio: float | None = None
    max_product: float | None = None


class _Level(_Section):
    name: str
    decision: str | None = None
    context: list[str | _Variable] = Field(default_factory=list)
    action: _Action
    available: Texts = ()
    propensity: _Propensity | None = None
    incumbent: _Incumbent | None = None
    margin: float = 0.0
    mean_range: Limits | None = None

    def build(self) -> Level:
        where = f"level '{self.name}'"
        return Level(
            name=self.name,
            actions=self.action.build(where),
            context=tuple(Variable(c) if isinstance(c, str) else c.build(f"{where}, context") for c in self.context),
            propensity=None if self.propensity is None else self.propensity.build_as(Propensity, where),
            decision=self.decision,
            available=self.available,
            margin=self.margin,
            mean_range=self.mean_range,  # type: ignore[arg-type]  # pydantic counts them
            incumbent=None if self.incumbent is None else self.incumbent.build_as(Incumbent, where),
        )


class _Reward(_Section):
    column: str
    range: Limits | None = None
    unit: str = ""
    goal: Literal["maximise", "minimise"] = "maximise"
    per: str = "decision"
    clip: bool = False
    closed: str | None = None


class _Guard(_Section):
    column: str
    range: Limits
    max_worsening: float
    goal: Literal["maximise", "minimise"] = "minimise"


class _Cluster(_Section):
    column: str | None = None
    columns: SomeTexts | None = None
    most: int | None = None

    def build(self) -> str | tuple[str, ...]:
        if (self.column is None) == (self.columns is None):
            raise ProblemError("cluster: give either 'column' or 'columns' (together one id)")
        return self.column or self.columns or ""


class _File(_Section):
    episode: str | Texts
    cluster: str | Texts | _Cluster | None = None
    time: str | None = None
    carry_over: Literal["none", "within"] = "none"
    reward: _Reward
    guards: list[_Guard] = Field(default_factory=list)
    outcome: _Variable | None = None
    levels: list[_Level]
    graph: dict[str, Texts] = Field(default_factory=dict)
    latents: dict[str, Texts] = Field(default_factory=dict)

    def build(self) -> Problem:
        return Problem(
            levels=tuple(level.build() for level in self.levels),
            reward=self.reward.build_as(Reward),
            outcome=None if self.outcome is None else self.outcome.build("outcome"),
            parents=self.graph,
            latents=self.latents,
            guards=tuple(guard.build_as(Guard) for guard in self.guards),
            episode=(self.episode,) if isinstance(self.episode, str) else self.episode,
            cluster=self.cluster.build() if isinstance(self.cluster, _Cluster) else self.cluster,
            time=self.time,
            carry_over=self.carry_over,
            cluster_most=self.cluster.most if isinstance(self.cluster, _Cluster) else None,
        )


# Which keys are allowed where, for the suggestion in an unknown-key message.
_SECTIONS: dict[str, type[_Section]] = {
    "reward": _Reward, "guards": _Guard, "outcome": _Variable, "levels": _Level, "action": _Action, "grid": _Grid,
    "propensity": _Propensity, "incumbent": _Incumbent, "context": _Variable, "cluster": _Cluster,
}  # fmt: skip


def load_problem(path: str | Path) -> Problem:
    """Read a problem file.

    Parameters
    ----------
    path
        The file `problem.yaml`; see docs/problem.md.

    Returns
    -------
    Problem
        The problem, checked.

    Raises
    ------
    ProblemError
        If the file cannot be read or is wrong; the message names the file, the key and what is allowed.
    """
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
        kind = "an empty file" if content is None else type(content).__name__
        raise ProblemError(
            f"{source}: expected a mapping with 'episode', 'reward' and 'levels', found {kind}; see docs/problem.md"
        )
    try:
        return _File.model_validate(content).build()
    except ValidationError as error:
        lines = [*explain_validation_error(error, content, _File, _SECTIONS), *_unfinished(text, content, source)]
        raise ProblemError("\n".join(f"{source}: {line}" for line in lines)) from None
    except ProblemError as error:
        raise type(error)(f"{source}: {error}") from None


def _unfinished(text: str, content: dict[str, object], source: str) -> list[str]:
    """Return what to do about a draft that lacks something the log does not show."""
    missing = [name for name in ("reward", "levels") if name not in content]
    if not missing or not text.startswith(DRAFT_HEADER):
        return []
    return [
        f"this draft is not complete: answer the questions at its top, and fill in {' and '.join(missing)}; or draft it again, "
        f"naming the columns that the controller chose: aegis init LOG --action COLUMN --out {source} --force"
    ]


def save_problem(problem: Problem, path: str | Path) -> None:
    """Write a problem file that `load_problem` reads back as the same problem.

    Parameters
    ----------
    problem
        The problem to write.
    path
        The file, which is replaced in one step.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    write_text(path, write_yaml(dump_problem(problem)))
