"""The problem as a live gate logs it: exact probabilities of all actions, beside those of legacy and incumbent."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from aegis.agents import uniform_legacy
from aegis.errors import SettingError
from aegis.ope import Comparator, describe_comparator, reward_measure
from aegis.policies import FullColumns
from aegis.problem import Incumbent, Level, Policy, Problem, Propensity, Scope
from aegis.service.client.names import ALLOWED, is_name

SENT = "as the control system sends it with each decision"


def live_problem(problem: Problem) -> Problem:
    """Return the problem with one propensity column per action at every level; SettingError if no gate can serve it.

    An incumbent that a log would hold in columns of its own (`base`, `columns`) gets one column per action here, too: the control
    system sends its probabilities with each decision. An incumbent that is one action or a rule stays as it is.
    """
    if problem.cluster is not None:
        raise SettingError(
            f"a live gate counts episodes one by one; in this problem they depend on each other within '{problem.cluster_name}'. "
            "Log them and certify from the log (aegis certify), whose units are clusters"
        )
    wrong = next((level.name for level in problem.levels if not is_name(level.name)), None)
    if wrong is not None:
        raise SettingError(f"no gate can serve a level that is called {wrong!r}: {ALLOWED}")
    reward_measure(problem)  # refuses a reward without a range
    reward = replace(problem.reward, closed=None)  # an episode is counted once everything is there
    return replace(problem, levels=tuple(_exact(level) for level in problem.levels), reward=reward)


def legacy_columns(problem: Problem) -> dict[str, tuple[str, ...]]:
    """Return by level the columns that hold the legacy's probabilities; none if the problem file says that it draws uniformly."""
    if all(level.propensity is not None and level.propensity.policy == "uniform" for level in problem.levels):
        return {}
    return {level.name: _columns("legacy", level) for level in problem.levels}


def live_legacy(problem: Problem) -> Policy:
    """Return the legacy: as the problem file says, or as it is sent with each decision."""
    columns = legacy_columns(problem)
    return FullColumns(problem, columns) if columns else uniform_legacy(problem)


def sends_incumbent(level: Level) -> bool:
    """Say whether the control system sends the incumbent of a level of a live problem with each decision."""
    return level.incumbent is not None and bool(level.incumbent.columns)


def uniform_rates(problem: Problem) -> dict[str, float]:
    """Return by level the rate of uniform exploration around the incumbent, where the problem file declares that.

    There the incumbent's probabilities follow from the legacy's.
    """
    rates: dict[str, float] = {}
    for level in problem.levels:
        logged, own = level.propensity, level.comparator
        if logged is None or own is None or logged.base is None or own.base != logged.base:
            continue
        if logged.epsilon is not None and logged.epsilon < 1.0:  # at rate 1 the legacy says nothing about the incumbent
            rates[level.name] = logged.epsilon
    return rates


def comparators_by_level(problem: Problem, moving: Collection[str] = ()) -> dict[str, str]:
    """Return in words, by level of a live problem, who a challenger of the legacy is compared with.

    moving: levels at which the legacy's probabilities move.
    """
    comparator = Comparator.of(problem)
    words = {level.name: SENT for level in problem.levels if sends_incumbent(level)}
    shown = replace(comparator, words={**comparator.words, **words})
    return {name: describe_comparator(problem, shown, Scope(name), moving) for name in problem.names}


def _exact(level: Level) -> Level:
    level = replace(level, incumbent=_incumbent(level))
    logged = level.propensity
    if logged is not None and logged.columns:
        return replace(level, propensity=Propensity(columns=logged.columns))
    if logged is not None and logged.policy == "uniform":
        return level
    return replace(level, propensity=Propensity(columns=_columns("p", level)))


def _incumbent(level: Level) -> Incumbent | None:
    """Return the incumbent of a level without the columns of a log, with what is promised of its ratios to the legacy."""
    own = level.comparator
    if own is None or own.logged:
        return own
    rate = level.exploration
    if rate == 1.0:
        rate = None
    stated = replace(own, epsilon=rate, max_ratio=level.ratio_bound if rate is None else None)
    return replace(stated, base=None, columns=_columns("incumbent", level)) if own.log_columns else stated


def _columns(prefix: str, level: Level) -> tuple[str, ...]:
    return tuple(f"{prefix}_{level.name}_{place}" for place in range(level.actions.count))
