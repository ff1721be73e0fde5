"""What measures of bounds share: divergences, unit values of draws with weights cut, and the largest weight of a design."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from aegis.errors import SettingError
from aegis.mechanisms import Belief
from aegis.ope import CandidateView, Measure, ParticlePolicy, RewardModels
from aegis.policies import Epsilon, Legacy, Uniform
from aegis.problem import Array, Batch, Policy, Problem, Scope

Share = Annotated[float, Field(gt=0, lt=1)]

Rate = Annotated[float, Field(ge=0, le=1)]


def divergence(q: Belief, p: Belief, scope: Scope) -> float:
    """Return KL(Q || p) over the mechanisms of a scope."""
    wanted = q.problem.mechanisms(scope)
    return float(sum(m.kl(q.states[name], p.states[name]) for name, m in q.mechanisms.items() if name in wanted))


def particle_views(problem: Problem, batch: Batch, policy: Policy) -> list[CandidateView]:
    """Return episodes seen through every particle of a policy, each as if it acted alone; the policy is asked once."""
    view = CandidateView(problem, batch, policy, RewardModels())
    return [CandidateView(problem, batch, ParticlePolicy(view, n), RewardModels()) for n in range(policy.weights.size)]


def draw_values(views: Sequence[CandidateView], scope: Scope, measure: Measure, cut: float = math.inf) -> Array:
    """Return unit values `[E, N]` of the particles of a policy: nested means of weight times scaled reward.

    cut: no weight of a reward is above that (truncated importance weights).
    """
    return np.stack([_cut_values(view, scope, measure, cut) for view in views], axis=1)


def _cut_values(view: CandidateView, scope: Scope, measure: Measure, cut: float) -> Array:
    def nodes() -> Array:
        return np.asarray(np.minimum(view.node_weights(scope), cut) * view.observed(measure).low)

    return view.series(("cut value", scope, measure, cut), nodes, view.level)


def logged_means(problem: Problem, batch: Batch, measure: Measure) -> Array:
    """Return the scaled mean rewards `[E]` of episodes as they came."""
    view = CandidateView(problem, batch, None, RewardModels())  # type: ignore[arg-type]  # no policy is asked
    return view.below(measure, None).low


def largest_weight(problem: Problem, legacy: Policy, scope: Scope) -> float:
    """Return sup pi/mu over a scope, as the design of the legacy fixes it beforehand, for any policy pi.

    At a level where the legacy explores uniformly over m actions with probability eps, no action is rarer than eps/m, so that no
    weight is above m/eps. SettingError where the legacy leaves actions out.
    """
    rules = legacy.rules if isinstance(legacy, Legacy) else {}
    limits = []
    for name in scope:
        rule, actions = rules.get(name), problem.level(name).actions.count
        explored = 1.0 if isinstance(rule, Uniform) else rule.epsilon if isinstance(rule, Epsilon) else 0.0
        if explored <= 0:
            raise SettingError(
                f"level '{name}': the legacy does not explore all actions: no overlap is known, and weights have no limit; "
                "name a legacy with epsilon above 0"
            )
        limits.append(actions / explored)
    return math.prod(limits)
