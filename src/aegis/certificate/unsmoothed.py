"""What a certificate says of a policy that takes exactly the number it chooses, where actions are an interval.

Certified is the smoothed policy, which acts uniformly in a window around a*. If the mean reward changes by at most L per unit of
action, taking a* itself earns at most L times the mean distance less. That distance is `(u^2 + v^2) / (2 (u + v))` in a window
that reaches u below and v above a*, which is at most half the larger of the two, and so at most h / 2: also where it is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aegis.certificate.certificate import REFUSED, LevelResult
from aegis.certificate.request import Request
from aegis.problem import Problem


def slack(problem: Problem, scope: Sequence[str]) -> float | None:
    """Return by how much exact actions may earn less than smoothed ones, in reward units; None if that is not known.

    It is not without an interval in scope, without `lipschitz` at one of them, where several decisions share a reward, and where
    rewards are clipped or clusters weighed by their totals.
    """
    chosen = [problem.level(name).actions for name in scope if problem.level(name).actions.continuous]
    shared = problem.carry_over != "none" or problem.reward.per == "episode" or problem.cluster_most is not None
    if not chosen or shared or problem.reward.clip or problem.guards or any(actions.lipschitz is None for actions in chosen):
        return None
    if problem.reward.per != "decision" and any(problem.index(problem.reward.per) > problem.index(name) for name in scope):
        return None
    return sum(float(actions.lipschitz or 0.0) * float(actions.bandwidth or 0.0) / 2 for actions in chosen)


def unsmoothed(request: Request, levels: Sequence[LevelResult]) -> list[dict[str, Any]]:
    """Return for each result what holds of exact actions, as plain data; only for policies that are known to act in windows."""
    found: list[dict[str, Any]] = []
    problem = request.problem
    windowed = {item.name: frozenset(getattr(item.policy, "windowed", ())) for item in request.candidates}
    for level in levels:
        less = slack(problem, level.scope)
        if less is None or level.verdict == REFUSED or not set(level.scope) <= windowed[level.candidate]:
            continue
        worse = less if problem.reward.goal == "maximise" else -less
        found.append(
            {
                "candidate": level.candidate,
                "scope": list(level.scope),
                "slack": less,
                "gain_lower": None if level.gain_lower is None else level.gain_lower - less,
                "value_lower": None if level.value_lower is None else level.value_lower - worse,
            }
        )
    return found
