"""The problem of a gate's log for candidates that the gate did not test: agents have acted, and the incumbent is not they."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from aegis.policies import Legacy, known_incumbent
from aegis.problem import Batch, Incumbent, Level, Policy, Problem

OTHERS = "problem-others.yaml"


def as_logged(
    problem: Problem, handed: Collection[str], legacy: Mapping[str, Incumbent] | None = None, time: str | None = None
) -> Problem:
    """Return the problem of a gate without what its log does not keep. handed: levels at which not only the legacy has decided.

    What the problem promises of incumbent and legacy (`epsilon`, `max_ratio`, `max_product`) does not hold of other policies.
    legacy: by level, where a log holds what the legacy would have done: that is the incumbent where none is stated, not the
    average of legacy and agents. time: a column that tells the order of episodes, for a problem without a time.
    """
    if not handed:
        return problem
    levels = tuple(
        _unpromised(level, (legacy or {}).get(level.name)) if level.name in handed else level for level in problem.levels
    )
    return replace(problem, levels=levels, time=problem.time or time)


def run_as_logged(problem: Problem, legacy: Policy, handed: Collection[str], batch: Batch) -> Problem:
    """Return the problem of the log of a run: gains are over the incumbent that its gate compared with, if that is known."""
    rules = legacy.rules if isinstance(legacy, Legacy) else {}
    known = {name: Incumbent(policy=rule.describe()) for name, rule in rules.items()}
    numbered = len(problem.episode) == 1 and batch.episode.dtype.kind in "iu"
    counted = numbered and bool((batch.episode[1:] > batch.episode[:-1]).all())
    return as_logged(known_incumbent(problem, legacy), handed, known, problem.episode[0] if counted else None)


def _unpromised(level: Level, legacy: Incumbent | None) -> Level:
    own = level.comparator
    if own is None or own.logged:
        return level if legacy is None else replace(level, incumbent=legacy)
    if level.incumbent is None:  # the action that the log says was meant
        return level
    return replace(level, incumbent=replace(own, epsilon=None, max_ratio=None, max_product=None))
