"""Candidate policies by kind (greedy, planned, capped, stepped), made from fitted models.

A level is planned by the recursion if every level below it is in the scope or has a legacy known in every state (propensity
`{policy: uniform}`). Otherwise its reward model decides, which has the legacy's continuation built in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aegis.agents.model_fit import FittedModels
from aegis.errors import PolicyError, SettingError, check_choice, finite_number, whole_number
from aegis.planning import Greedy, Integration, Planned, Rule, Thompson, plan_policy
from aegis.policies import Capped, Floored, Hybrid, Legacy, Logged, StatedIncumbent, Uniform, check_cap
from aegis.problem import Policy, Problem, Scope
from aegis.rng import stream


@dataclass(frozen=True, slots=True)
class CandidateSettings:
    """The kind of candidate policy that `learn` makes.

    Parameters
    ----------
    kind
        'greedy' plans with the posterior mean. 'planned' is a mixture of posterior draws, one of which acts in each episode.
        'capped' raises no action's probability more than `cap` times. 'stepped' leaves a share 1 - step of the decisions to the
        incumbent and is greedy in the others.
    cap
        W of a capped candidate.
    particles, seed
        Number of draws of a planned candidate, and their seed.
    integration
        How it plans through unknown contexts; None lets the number of levels decide.
    step
        The share of decisions that a stepped candidate takes over.

    Raises
    ------
    SettingError
        If a value is not allowed.

    Notes
    -----
    On logs of the five worlds a greedy candidate earns as much as a planned one or a little more, and costs far less to ask.
    """

    kind: str = "greedy"
    cap: float = 2.0
    particles: int = 16
    seed: int = 1
    integration: Integration | None = None
    step: float = 0.3

    def __post_init__(self) -> None:
        check_choice(self.kind, CANDIDATES, "kind of candidate")
        check_cap(self.cap)
        whole_number("the number of particles of a candidate", self.particles)
        finite_number("the step (the share of decisions that a stepped candidate takes over)", self.step, above=0.0, high=1.0)


def check_carry_over(problem: Problem, scope: Scope, settings: CandidateSettings) -> None:
    """Raise SettingError if the candidate would plan a problem in which decisions affect later ones outside their subtree."""
    if problem.carry_over == "within" and settings.kind != "capped" and plannable_levels(problem, scope):
        raise SettingError(
            f"a '{settings.kind}' candidate plans as if a decision affected only its own subtree; this problem says 'carry_over: "
            "within'. Learn kind 'capped', which weighs each decision by what it earns itself while the legacy goes on after it"
        )


def make_candidate(problem: Problem, fitted: FittedModels, scope: Scope, settings: CandidateSettings) -> Policy:
    """Return the candidate of a kind: it acts at the levels of `scope`, the legacy elsewhere."""
    return CANDIDATES[settings.kind](problem, fitted, scope, settings)


def acting_legacy(problem: Problem, scope: Scope) -> Policy:
    """Return the legacy at the levels outside the scope: the known one if all of it is known, else what the log says."""
    outside = [name for name in problem.names if name not in scope]
    known = all(_legacy_is_uniform(problem, name) for name in outside)
    return uniform_legacy(problem) if known else Logged(problem)


def plannable_levels(problem: Problem, scope: Scope) -> Scope:
    """Return the levels of a scope below which every level is in the scope or has a legacy known in every state."""
    plannable: list[str] = []
    for name in reversed(problem.names):
        if name in scope:
            plannable.append(name)
        elif not _legacy_is_uniform(problem, name):
            break
    return Scope(plannable)


def uniform_legacy(problem: Problem) -> Legacy:
    """Return the legacy that chooses uniformly among the available actions of every level."""
    return Legacy(problem, {name: Uniform() for name in problem.names})


def _planned(problem: Problem, fitted: FittedModels, scope: Scope, settings: CandidateSettings) -> Policy:
    return _by_recursion(problem, fitted, scope, settings, Thompson(settings.particles))


def _greedy(problem: Problem, fitted: FittedModels, scope: Scope, settings: CandidateSettings) -> Policy:
    return _by_recursion(problem, fitted, scope, settings, Greedy())


def _capped(problem: Problem, fitted: FittedModels, scope: Scope, settings: CandidateSettings) -> Policy:
    """Return `argmax sum pi r^` subject to `pi <= W mu` at every level of the scope."""
    for name in sorted(scope):
        propensity = problem.level(name).propensity
        if problem.level(name).actions.continuous:
            raise PolicyError(
                f"level '{name}': a capped candidate needs the legacy's probabilities of all actions, and an interval has a "
                "density instead; learn kind 'greedy' (--kind greedy), and a wider 'bandwidth' if it is too far off; or "
                "give the action a 'grid' and log the probability of each of its points"
            )
        if propensity is None or not propensity.full:
            planned = problem.carry_over == "within" and plannable_levels(problem, scope)
            other = "" if planned else "learn kind 'greedy' (--kind greedy), which needs no probabilities; or "
            raise PolicyError(
                f"level '{name}': a capped candidate needs the legacy's probabilities of all actions, the log has that of the "
                f"action taken only; {other}log one column per action (propensity 'columns'), or "
                "declare 'shares', 'policy: uniform' or 'base' with 'epsilon' if one of these is what was done"
            )
    return Capped(problem, fitted.rewards, acting_legacy(problem, Scope()), settings.cap, scope)


def _stepped(problem: Problem, fitted: FittedModels, scope: Scope, settings: CandidateSettings) -> Policy:
    """Return `(1 - s) mu + s target` at every level of the scope: the target is the greedy policy, mu the incumbent."""
    target = _greedy(problem, fitted, scope, settings)
    return Floored(problem, target, StatedIncumbent(problem), 1.0 - settings.step, scope)


def _by_recursion(problem: Problem, fitted: FittedModels, scope: Scope, settings: CandidateSettings, rule: Rule) -> Policy:
    inner = plannable_levels(problem, scope)
    best = Capped(problem, fitted.rewards, uniform_legacy(problem), math.inf, scope)
    new: Policy = best
    if inner:
        planned = plan_from(fitted, inner, settings, rule)
        new = planned if inner == scope else Hybrid(problem, inner, planned, best)
    return new if scope == Scope(problem.names) else Hybrid(problem, scope, new, acting_legacy(problem, scope))


def plan_from(fitted: FittedModels, scope: Scope, settings: CandidateSettings, rule: Rule) -> Planned:
    """Return the policy that a rule plans from the fitted belief for the plannable levels of a scope."""
    problem = fitted.belief.problem
    legacy = None if scope == Scope(problem.names) else uniform_legacy(problem)
    return plan_policy(
        fitted.belief, rule, stream(settings.seed, "learn", settings.kind), scope, legacy, integration=settings.integration
    )


def _legacy_is_uniform(problem: Problem, level: str) -> bool:
    propensity = problem.level(level).propensity
    return propensity is not None and propensity.policy == "uniform"


CandidateMaker = Callable[[Problem, FittedModels, Scope, CandidateSettings], Policy]
CANDIDATES: Mapping[str, CandidateMaker] = {"planned": _planned, "greedy": _greedy, "capped": _capped, "stepped": _stepped}
