"""A problem as plain data: the content of its YAML file."""

from __future__ import annotations

from typing import Any

import numpy as np

from aegis.problem.level import Level, Propensity
from aegis.problem.problem import Problem
from aegis.problem.reward import Reward
from aegis.problem.variables import Actions, Variable


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
