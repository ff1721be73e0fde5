"""What checks share: tolerance of declared errors of propensities, and thinning of long logs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from audit_cases import audited, logged, stopped, with_propensities

from aegis.audit.check import EXACT_CODES, Thinning, soften
from aegis.problem import Batch, Problem, Propensity


def declared(problem: Problem, *names: str, factor: float = 2.0) -> Problem:
    """Return the problem with propensities declared as estimated, within a factor, at some levels."""

    def of(given: Propensity | None) -> Propensity | None:
        return None if given is None else replace(given, estimated=True, wrong_by=factor)

    levels = [replace(level, propensity=of(level.propensity)) if level.name in names else level for level in problem.levels]
    return replace(problem, levels=tuple(levels))


@cache
def wrongly_logged(**factors: float) -> tuple[Problem, Batch]:
    """Return a log in which every other action of some levels is recorded as likelier than it was, by a factor."""
    problem, batch = logged("additive", "uniform", 500, 5)
    for name, factor in factors.items():
        full = batch.levels[name].mu_full
        assert full is not None
        batch = with_propensities(batch, name, full * np.where(np.arange(full.shape[1]) % 2, factor, 1.0))
    return problem, batch


def test_wrong_propensities_refuse_without_a_declared_factor_and_warn_with_one() -> None:
    problem, batch = wrongly_logged(inner=1.4)
    assert "miscalibrated-propensities" in audited(problem, batch).codes("refused")
    found = audited(declared(problem, "inner"), batch)
    assert not found.refused and found.verdict == "fit with warnings"
    (item,) = [item for item in found.findings if item.code == "miscalibrated-propensities"]
    assert item.severity == "warning" and item.level == "inner"
    assert "does not refuse" in item.message and "may be wrong by a factor of up to 2" in item.message
    (told,) = [item for item in found.findings if item.code == "estimated-propensities"]
    assert told.severity == "warning" and "not checked" in told.message


def test_other_levels_are_tested_as_ever() -> None:
    problem, batch = wrongly_logged(inner=1.4, meta=4.0)
    found = audited(declared(problem, "inner"), batch)
    grave = {item.level: item.severity for item in found.findings if item.code == "miscalibrated-propensities"}
    assert grave == {"inner": "warning", "meta": "refused"}


def test_carry_over_and_sizes_that_follow_actions_only_warn() -> None:
    problem, batch = logged("additive", "uniform", 500, 7)
    short = stopped(batch, "inner", batch.levels["inner"].action >= problem.level("inner").actions.count // 2)
    assert "size-follows-action" in audited(problem, short).codes("refused")
    found = audited(declared(problem, "inner"), short)
    assert "size-follows-action" in found.codes("warning") and "size-follows-action" not in found.codes("refused")


def test_sizes_that_follow_rewards_refuse_as_ever() -> None:
    problem, batch = logged("additive", "uniform", 500, 8)
    assert batch.reward is not None
    short = stopped(batch, "inner", batch.reward > np.quantile(batch.reward, 0.8))
    for asked in (problem, declared(problem, "inner")):
        assert "size-follows-reward" in audited(asked, short).codes("refused")


def test_without_a_declared_factor_nothing_changes() -> None:
    problem, batch = wrongly_logged(inner=1.4)
    assert all(soften(problem, item) is item for item in audited(problem, batch).findings)
    assert "size-follows-reward" not in EXACT_CODES and "duplicated-episodes" not in EXACT_CODES


def test_thinning_looks_at_all_and_then_at_some() -> None:
    thinning = Thinning(100)
    wanted = [thinning.wants(60) for _ in range(66)]
    assert wanted[:2] == [True, True] and [place for place, want in enumerate(wanted) if want][2:] == [31, 63]
