"""Whom gains of a validation are over, the incumbent or the logger, and the incumbent as it acts on a plant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from aegis.certificate.comparator import Comparator, compared_with, others_act
from aegis.errors import SettingError, choose
from aegis.policies import Legacy, StatedIncumbent, known_incumbent, stated_levels, without_exploration
from aegis.problem import Incumbent, Policy, Problem, Scope
from aegis.validation.acting import acting

COMPARATORS = ("incumbent", "logger")  # whom gains may be over


def compared_problem(problem: Problem, legacy: Policy, comparator: str = "incumbent") -> Problem:
    """Return the problem that logs of a legacy are certified with.

    comparator: 'incumbent', who acts if nothing is handed over: what the problem states, else a legacy of rules without its
    exploration, else the logger. 'logger', the policy that wrote the log, exploration included.
    """
    choose(comparator, COMPARATORS, "comparator")
    if comparator == "incumbent":
        return known_incumbent(problem, legacy)
    logged = Incumbent(policy="logged")
    stated = stated_levels(problem)
    return replace(
        problem,
        levels=tuple(replace(level, incumbent=logged) if level.name in stated else level for level in problem.levels),
    )


def acting_incumbent(problem: Problem, legacy: Policy) -> Policy | None:
    """Return who acts if nothing is handed over, as a policy that can be run; None if that is the logger at every level.

    Raises SettingError where the incumbent is known by columns of a log only: it cannot act, so that no truth can be found.
    """
    levels = stated_levels(problem)
    if not levels:
        return None
    known = [problem.level(name) for name in sorted(levels)]
    columns = [level.name for level in known if level.comparator is not None and level.comparator.log_columns]
    if columns and isinstance(legacy, Legacy):
        return without_exploration(legacy)
    if columns:
        raise SettingError(
            f"the incumbent at '{columns[0]}' is known by columns of the log, which cannot act on the plant; state it as a rule "
            "under 'policy', or compare with the logger (comparator 'logger')"
        )
    return acting(StatedIncumbent(problem), legacy)


def compared_words(problem: Problem, scope: Iterable[str], others: str = "log") -> str:
    """Return over whom gains at a scope are, for a sentence."""
    comparator, levels = Comparator.of(problem, others=others == "incumbent"), Scope(scope)
    return ", ".join(
        part for part in (compared_with(problem, comparator, levels), others_act(problem, comparator, levels)) if part
    )
