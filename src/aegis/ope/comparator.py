"""The policy that a candidate is compared with, level by level, and what is known of it beforehand.

Three policies take part: the candidate pi, the incumbent mu that acts if nothing is handed over, and the logger nu that wrote
the log. A gain over nu contains the gain of no longer exploring, which the incumbent has without any candidate. So gains are
over mu at the levels in scope, wherever mu is stated; elsewhere mu is nu (theory section 12).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aegis.errors import RefusedError
from aegis.policies import Capped, Floored, Hybrid, Logged, Mixture, StatedIncumbent, incumbent_misfit, stated_levels
from aegis.problem import Array, Batch, Incumbent, Policy, Problem, Scope

LOG_WRITER_WORDS = "the policy that wrote the log, exploration included"
AVERAGE_WORDS = "the average of the log, which several policies wrote, or one that changed"
# What a result compares with, as far as it is known.
AGAINST_INCUMBENT, AGAINST_LOG, AGAINST_AVERAGE = "incumbent", "log", "average of the log"
INCUMBENT_IMPOSSIBLE = "incumbent-impossible"  # of a stated incumbent that the log contradicts
# What to do about an incumbent that cannot have acted as the log says.
INCUMBENT_FIX = "correct 'incumbent' in the problem file, or the propensities"


@dataclass(frozen=True, slots=True)
class Comparator:
    """Who a candidate is compared with.

    policy: answers for mu; None if that is the logger at every level. levels: where it is stated. ratios: by level whose whole
    distribution is logged the largest mu / nu, from the design or declared, which every row is checked for. promised: the same
    by level of which only the probability of the action taken is logged. It can be checked at those actions alone, so that no
    bound rests on it. products: by level the largest product of these over one episode. rates: by level epsilon of
    `nu = (1 - epsilon) mu + epsilon q`. words: by level who it is. others: whether levels outside the scope are corrected to the
    incumbent too; otherwise they act as in the log.
    """

    policy: Policy | None = None
    levels: Scope = field(default_factory=Scope)
    ratios: Mapping[str, float] = field(default_factory=dict)
    products: Mapping[str, float] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    others: bool = False
    promised: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, problem: Problem, stated: Policy | None = None, others: bool = False, name: str = "") -> Comparator:
        """Return the comparator that a problem states; `stated`: a policy that acts at every level instead, and its name."""
        if stated is not None:
            words = dict.fromkeys(problem.names, f"the policy '{name}'" if name else "the policy that was given")
            return cls(stated, Scope(problem.names), words=words, others=others)
        levels = stated_levels(problem)
        own = {level.name: level for level in problem.levels if level.name in levels}
        bounds = {name: level.ratio_bound for name, level in own.items() if level.ratio_bound is not None}
        whole = {name for name, level in own.items() if level.propensity is None or level.propensity.full}
        return cls(
            policy=StatedIncumbent(problem) if levels else None,
            levels=levels,
            ratios={name: bound for name, bound in bounds.items() if name in whole},
            products={
                name: level.comparator.max_product
                for name, level in own.items()
                if level.comparator is not None and level.comparator.max_product is not None
            },
            rates={name: level.exploration for name, level in own.items() if level.exploration is not None},
            words={level.name: level.comparator.words for level in problem.levels if level.comparator is not None},
            others=others,
            promised={name: bound for name, bound in bounds.items() if name not in whole},
        )

    def plain(self) -> dict[str, Any]:
        """Return the stated incumbents as plain data, by level; empty if candidates are compared with the logger."""
        if not isinstance(self.policy, StatedIncumbent):
            return {}
        own = {name: self.policy.problem.level(name).comparator for name in sorted(self.levels)}
        return {name: item.plain() for name, item in own.items() if item is not None}

    @classmethod
    def restore(cls, stated: Mapping[str, Any], problem: Problem) -> Comparator:
        """Return the comparator of the levels that `plain` names, for the same problem."""
        if not stated:
            return cls()
        own = {name: Incumbent(**{**item, "columns": tuple(item.get("columns", ()))}) for name, item in stated.items()}
        levels = tuple(replace(level, incumbent=own.get(level.name, level.incumbent)) for level in problem.levels)
        return replace(cls.of(replace(problem, levels=levels)), levels=Scope(own))

    def at(self, level: str) -> Comparator:
        """Return the comparator of one level alone; elsewhere candidates act beside the policies that are in control."""
        if level not in self.levels:
            return Comparator(words={name: text for name, text in self.words.items() if name == level})
        return replace(self, levels=Scope(level))

    def stated(self, scope: Scope) -> bool:
        """Say whether the comparator differs from the logger at a level of a scope."""
        return bool(self.levels & scope)

    def compared(self, scope: Scope) -> Scope:
        """Return the levels whose ratios enter a gain: those in scope, and others if they are corrected."""
        return Scope(scope | self.levels) if self.others else scope

    def ratio(self, scope: Scope) -> float | None:
        """Return the largest product of mu / nu along a path through a scope; None if it is not known for sure at a level."""
        stated = self.levels & scope
        if any(name not in self.ratios for name in stated):
            return None
        return math.prod(self.ratios[name] for name in stated)

    def check(self, level: str, batch: Batch, taken: Array, full: Array | None) -> None:
        """Raise RefusedError, naming the row, where logged actions cannot have the logged probabilities under this incumbent.

        taken `[n]`, full `[n, A]` or None: mu of the decisions of a level.
        """
        most = self.ratios.get(level, self.promised.get(level))
        misfit = incumbent_misfit(level, batch, taken, full, most)
        if misfit is not None:
            raise RefusedError(incumbent_message(level, batch, *misfit), INCUMBENT_IMPOSSIBLE, INCUMBENT_FIX)


def incumbent_message(level: str, batch: Batch, decision: int, why: str) -> str:
    """Return the message of a decision that an incumbent does not fit."""
    row = int(batch.first_rows(level)[decision])
    return (
        f"{batch.where(row)}, level '{level}': under the stated incumbent the logged action cannot have the logged probability: "
        f"{why}"
    )


LOGGER_COMPARATOR = Comparator()  # candidates are compared with the policy that wrote the log


def describe_comparator(problem: Problem, comparator: Comparator, scope: Scope, several: Collection[str] = ()) -> str:
    """Return who a candidate is compared with at a scope, for a sentence; several: levels that several policies logged."""
    names = [name for name in problem.names if name in scope]
    stated = [name for name in names if name in comparator.levels]
    logged = [name for name in names if name not in comparator.levels]
    wrote = AVERAGE_WORDS if any(name in several for name in logged) else LOG_WRITER_WORDS
    if not stated:
        declared = all(name in comparator.words for name in logged)
        return f"the incumbent, which is {wrote}" if declared and wrote == LOG_WRITER_WORDS else wrote
    words = {name: comparator.words.get(name, "") for name in stated}
    same = len(set(words.values())) == 1
    who = next(iter(words.values())) if same else "; ".join(f"'{name}': {text}" for name, text in words.items())
    if not logged:
        return f"the incumbent ({who})"
    return f"the incumbent at {_quoted(stated)} ({who}) and {wrote}, at {_quoted(logged)}"


def comparator_kind(comparator: Comparator, scope: Scope, several: Collection[str] = ()) -> str:
    """Return whether a scope is compared with the incumbent at every level, with the log, or with an average of policies.

    several: levels that several policies logged, or one that changed. There the log is no single policy,
    even if it is declared to be one.
    """
    logged = scope - comparator.levels
    if logged & set(several):
        return AGAINST_AVERAGE
    return AGAINST_INCUMBENT if all(name in comparator.words for name in logged) else AGAINST_LOG


def differs_by_exploration(comparator: Comparator, scope: Scope, several: Collection[str] = ()) -> bool:
    """Say whether the log is known to differ from a stated incumbent by its exploration alone."""
    stated = comparator.levels & comparator.compared(scope)
    return all(name in comparator.rates for name in stated) and not scope & set(several)


def describe_other_levels(problem: Problem, comparator: Comparator, scope: Scope) -> str:
    """Return how the levels outside a scope act while a candidate acts in it, for a sentence; empty if there are none."""
    outside = [name for name in problem.names if name not in scope]
    if not outside:
        return ""
    if comparator.others and all(name in comparator.levels for name in outside):
        return "while the incumbent acts at the other levels"
    explored = any(name in comparator.levels for name in outside)
    return f"while the other levels act as in the log{', exploration included' if explored else ''}"


def _quoted(names: Sequence[str]) -> str:
    return " and ".join(f"'{name}'" for name in names)


@dataclass(frozen=True, slots=True)
class Closeness:
    """How close a candidate stays to its comparator at a level, by construction.

    cap: pi <= cap mu; infinite without one. step: pi >= (1 - step) mu; 1 without one. variation: T_max, the largest total
    variation between the two.
    """

    cap: float = math.inf
    step: float = 1.0
    variation: float = 1.0


def closeness_to(policy: Policy, level: str, comparator: Comparator) -> Closeness:
    """Return how close a policy stays to its comparator at a level; what a kind of policy does not promise is not assumed."""
    stated = level in comparator.levels
    if isinstance(policy, Mixture):
        parts = [closeness_to(member, level, comparator) for member in policy.policies]
        return Closeness(*(max(getattr(part, name) for part in parts) for name in ("cap", "step", "variation")))
    if isinstance(policy, Hybrid):
        return closeness_to(policy.new if level in policy.scope else policy.legacy, level, comparator)
    if isinstance(policy, Floored) and level in policy.levels:
        new, legacy = closeness_to(policy.new, level, comparator), closeness_to(policy.legacy, level, comparator)
        own = policy.share
        if own in (0.0, 1.0):  # nothing times an infinite cap is nothing
            return legacy if own else new
        return Closeness(
            *((1.0 - own) * getattr(new, name) + own * getattr(legacy, name) for name in ("cap", "step", "variation"))
        )
    if isinstance(policy, Floored):
        return closeness_to(policy.new, level, comparator)
    if isinstance(policy, StatedIncumbent):
        return Closeness(1.0, 0.0, 0.0) if _is_stated_by_problem(comparator) else Closeness()
    if isinstance(policy, Logged):
        return _logger_closeness(level, comparator) if stated else Closeness(1.0, 0.0, 0.0)
    if isinstance(policy, Capped):
        return _capped_closeness(policy, level, comparator)
    return Closeness()


def _is_stated_by_problem(comparator: Comparator) -> bool:
    """Say whether the comparator is the incumbent that the problem states, and not a policy that was given."""
    return comparator.policy is None or isinstance(comparator.policy, StatedIncumbent)


def _logger_closeness(level: str, comparator: Comparator) -> Closeness:
    """Return how close the logger is to a stated incumbent: it draws a share 1 - epsilon of its actions from it."""
    rate = comparator.rates.get(level)
    return Closeness() if rate is None else Closeness(step=rate, variation=rate)


def _capped_closeness(policy: Capped, level: str, comparator: Comparator) -> Closeness:
    if level not in policy.levels:
        return closeness_to(policy.legacy, level, comparator)
    if level not in comparator.levels or (isinstance(policy.legacy, StatedIncumbent) and _is_stated_by_problem(comparator)):
        return Closeness(cap=policy.limit, variation=1.0 - 1.0 / policy.limit)
    if isinstance(policy.legacy, Logged) and level in comparator.rates:
        return Closeness(variation=capped_variation(policy.limit, comparator.rates[level]))
    return Closeness()


def capped_variation(cap: float, epsilon: float) -> float:
    """Return the largest total variation from mu of a policy pi <= cap nu, where `nu = (1 - epsilon) mu + epsilon q`.

    pi can place up to `cap epsilon` of its mass where only q explores. What is left covers mu as thinly as its cap allows.
    """
    if math.isinf(cap) or cap * epsilon >= 1.0:
        return 1.0
    if cap * (1.0 - epsilon) < 1.0:
        return cap * epsilon
    return 1.0 - (1.0 - cap * epsilon) / (cap * (1.0 - epsilon))
