"""The largest weight a candidate can have: from what was declared beforehand, never from the weights that were seen.

Weights that were seen, and the candidate's own caps, can contradict a declaration; a bound that relies on it then is no
certificate. The values of units do not show it: the mean of an episode may stay below the limit while its weights do not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from aegis.certificate.candidate import Candidate
from aegis.certificate.weights import reward_level
from aegis.problem import Level, Problem, Scope

ROUNDING = 1.0 + 1e-9  # weights are quotients


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound on the weight of every reward, infinite if nothing was promised; words say who promised it.

    broken: what contradicts it, in words; a bound that relies on the limit does not meet its conditions then.
    """

    weight: float
    words: str
    broken: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Say whether there is one."""
        return math.isfinite(self.weight)

    def against(self, observed: float) -> Limit:
        """Return the limit held against the largest weight that was observed."""
        if observed <= self.weight * ROUNDING:
            return self
        seen = f"a weight of {observed:.4g} was observed, above the largest that was declared, {self.weight:.4g}"
        return replace(self, broken=(*self.broken, seen))


def declared_limit(problem: Problem, candidate: Candidate, scope: Scope, asked: float | None = None) -> Limit:
    """Return the product over the levels in scope of the smaller of the candidate's cap and one over the least propensity.

    asked: what the user declares, which goes before all else, and which the candidate's caps may contradict. Where several
    decisions of one level lead to one reward the product has no end, and nothing is known.
    """
    if asked is not None:
        return Limit(asked, "declared by the user", _above(problem, candidate, scope, asked))
    per = reward_level(problem)
    if problem.carry_over != "none" or per is None or any(problem.index(per) > problem.index(name) for name in scope):
        return Limit(
            math.inf, "several decisions of one level lead to a reward, and the product of their ratios has no known end"
        )
    found = [_level_limit(candidate, problem.level(name)) for name in problem.names if name in scope]
    unknown = [limit.words for limit in found if not limit.known]
    if unknown:
        return Limit(math.inf, "; ".join(unknown))
    return Limit(math.prod(limit.weight for limit in found), "; ".join(limit.words for limit in found))


def _above(problem: Problem, candidate: Candidate, scope: Scope, asked: float) -> tuple[str, ...]:
    """Return that the candidate may have larger weights than was declared, if all its levels in scope are capped."""
    if not all(math.isfinite(candidate.cap(name)) for name in scope):
        return ()
    own = math.prod(_level_limit(candidate, problem.level(name)).weight for name in scope)
    if own <= asked * ROUNDING:
        return ()
    return (f"the candidate's own caps let its weights reach {own:.4g}, above the largest that was declared, {asked:.4g}",)


def _level_limit(candidate: Candidate, level: Level) -> Limit:
    cap, (least, source) = candidate.cap(level.name), _least(level)
    if cap <= least and math.isfinite(cap):
        return Limit(cap, f"'{level.name}': the candidate is capped at {cap:g} times the logged probability")
    if math.isfinite(least):
        return Limit(least, f"'{level.name}': {source}")
    return Limit(math.inf, f"'{level.name}': the candidate has no cap, and the problem file promises no least propensity")


def _least(level: Level) -> tuple[float, str]:
    """Return one over the least probability that the problem file promises every action, and in which words."""
    propensity, count = level.propensity, level.actions.count
    if propensity is None:
        return math.inf, ""
    if propensity.least is not None:
        return 1.0 / propensity.least, f"every action is promised a probability of {propensity.least:g}"
    if propensity.policy == "uniform":
        return float(count), f"the legacy is uniform over at most {count} actions"
    if propensity.shares:
        return 1.0 / min(propensity.shares), f"the legacy takes the rarest action with the fixed share {min(propensity.shares):g}"
    if propensity.epsilon is not None:
        return count / propensity.epsilon, f"the legacy explores {count} actions at rate {propensity.epsilon:g}"
    return math.inf, ""
