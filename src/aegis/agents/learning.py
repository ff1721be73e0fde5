"""Learning a candidate policy from the prior side of a log, with a plug-in value and a record for its folder."""

from __future__ import annotations

import contextlib
import math
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aegis.agents.candidate_kinds import CandidateSettings, check_carry_over, make_candidate, plan_from, plannable_levels
from aegis.agents.model_fit import FitProgress, FittedModels, fit_mechanisms, observed_episode_means
from aegis.audit import PROPENSITIES_MOVE, Finding, check_incumbent, logger_findings
from aegis.errors import PolicyError, SettingError
from aegis.files import json_digest
from aegis.logs import Source, Split, learning_record
from aegis.mechanisms import LevelRewards, ModelSettings
from aegis.planning import Greedy
from aegis.policies import StatedIncumbent, path_full, stated_levels
from aegis.problem import Array, Batch, Policy, Problem, Scope, dump_problem
from aegis.version import __version__

FEW_EPISODES = 20  # episodes of the prior side below which what was learned is mostly the prior
PLUG_IN_EPISODES = 100  # episodes of the prior side on which the plug-in value is taken
UNLEARNED = (
    "a share of 0 was learned from: the policy is that of the hyper-prior and has learned nothing from the log; all units are "
    "left to certify on"
)
WHOLE = 1.0 - 2.0**-20  # a share that leaves nothing to certify on
NOT_BY_HASH = "'aegis certify' will refuse the policy on this log"
NEEDS_TIME = ". Propensities follow time or earlier rewards: name a 'time' column, so that either is learned with a split in time"
PLUG_IN_NOTE = "plug-in estimate from the data that was learned from: not a certificate"


@dataclass(frozen=True, slots=True)
class Learned:
    """A learned candidate.

    Parameters
    ----------
    policy, scope
        The candidate policy, and the levels at which it acts.
    split, fitted
        The split of the log, and the models that were fitted to its prior side.
    plug_in
        The model's estimate of the candidate's value on the prior side, in logged units; not a certificate. nan if nothing was
        learned.
    record
        Plain data for the folder of the policy.
    """

    policy: Policy
    scope: Scope
    split: Split
    fitted: FittedModels
    plug_in: float
    record: dict[str, Any] = field(default_factory=dict)

    @property
    def rewards(self) -> LevelRewards:
        """Return the reward models, the control variates of a certificate."""
        return self.fitted.rewards


def learn(
    source: Source,
    split: Split | float | None = None,
    settings: CandidateSettings | None = None,
    scope: Iterable[str] | None = None,
    models: Mapping[str, ModelSettings] | None = None,
    report: FitProgress | None = None,
) -> Learned:
    """Fit models to the prior side of a log and return a candidate policy.

    Parameters
    ----------
    source
        The log.
    split
        The part of the log to learn from; the rest is left for the certificate. A number is a share of the episodes, None half of
        them: by hash, or in time if propensities move or follow earlier rewards and the problem names a time. With 0 nothing is
        learned: the candidate is that of the hyper-prior, and all units are left.
    settings
        The kind of candidate.
    scope
        The levels at which the candidate acts; None for all.
    models
        Models to compare for each mechanism; the likeliest is kept.
    report
        Called with the pass and the episodes so far.

    Returns
    -------
    Learned
        The candidate, its models and a record of its making.

    Raises
    ------
    LogError
        If the prior side is empty, has no rewards, or a mechanism has no complete row.
    SettingError
        If the scope is empty, or the candidate would plan a problem with carry-over.
    PolicyError
        If a capped candidate cannot be made from this log.
    RefusedError
        If the stated incumbent does not fit a row of the log.
    """
    chosen, problem = settings or CandidateSettings(), source.problem
    controlled = problem.scope(scope)
    if not controlled:
        raise SettingError(f"a candidate acts somewhere: name at least one level of {', '.join(problem.names)}")
    check_carry_over(problem, controlled, chosen)
    placed, warnings = _placed(source, split)
    _check_log(source, placed, controlled, chosen)
    fitted = fit_mechanisms(source, placed, controlled, models, report)
    policy = make_candidate(problem, fitted, controlled, chosen)
    if placed.unlearned:
        record = {**_record(source, placed, fitted, controlled, chosen, None, 0), "incumbent_plug_in_value": None}
        return Learned(policy, controlled, placed, fitted, math.nan, record)
    judged = _first_episodes(source, placed)
    level = next(name for name in problem.names if name in controlled)
    values = _model_values(problem, fitted, controlled, chosen, level, judged)
    value = plug_in_value(policy, level, values, judged)
    record = _record(source, placed, fitted, controlled, chosen, value, len(judged))
    record["warnings"] += warnings
    record["incumbent_plug_in_value"] = None
    with contextlib.suppress(PolicyError):  # it is not stated for some of these decisions
        if level in stated_levels(problem):
            record["incumbent_plug_in_value"] = plug_in_value(StatedIncumbent(problem), level, values, judged)
    return Learned(policy, controlled, placed, fitted, value, record)


def plug_in_value(policy: Policy, level: str, values: Array, batch: Batch) -> float:
    """Return what a policy earns in the logged contexts of a level if its actions are worth `values` `[n, A]`.

    An optimistic figure of a candidate: the model that chose the actions also judges them.
    """
    chances = path_full(policy, level, batch)
    return float(np.nanmean(observed_episode_means(batch, level, np.einsum("na,na->n", chances, values))))


def _placed(source: Source, split: Split | float | None) -> tuple[Split, list[str]]:
    """Return the split to learn with, and what to know where propensities move: nothing learned by hash can be certified."""
    wanted = split if isinstance(split, Split) else Split(fraction=0.5 if split is None else split)
    if wanted.kind == "time" or wanted.fraction >= WHOLE or wanted.unlearned:
        return source.with_cut(wanted), []
    moving = next((item for item in _loggers(source) if item.code == PROPENSITIES_MOVE), None)
    if moving is None:
        return wanted, []
    if isinstance(split, Split) or source.problem.time is None:
        return wanted, [f"{moving.message}; {NOT_BY_HASH}: {moving.fix}"]
    return source.with_cut(Split("time", fraction=wanted.fraction)), [
        f"{moving.message}. The policy was learned with a split in time"
    ]


def _loggers(source: Source, split: Split | None = None) -> list[Finding]:
    """Return what the propensities of a log look like, or of the prior side of a split."""
    return logger_findings(source.problem, source.batches(side=None if split is None else "prior", split=split))


def _check_log(source: Source, split: Split, scope: Scope, settings: CandidateSettings) -> None:
    """Raise RefusedError where the stated incumbent does not fit a row of the prior side, PolicyError where no cap can be set.

    A cap over logged probabilities needs one policy that wrote them: capped by several in turn, a candidate is not one policy.
    """
    problem, capped = source.problem, settings.kind == "capped"
    if not capped and not stated_levels(problem):
        return
    if stated_levels(problem) and not split.unlearned:
        for batch in source.batches(side="prior", split=split):
            check_incumbent(problem, batch)
    findings = _loggers(source, None if split.unlearned else split) if capped else []
    moves = any(item.code == PROPENSITIES_MOVE for item in findings)
    for item in findings:
        if item.level in scope:
            known = item.level in stated_levels(problem)
            raise PolicyError(
                f"{item.message}; a capped candidate would follow them, and deployed it would not be one policy: "
                + ("" if known else "state the incumbent ('incumbent' in the problem file), then ")
                + "learn kind 'stepped' (--kind stepped), which stays close to the stated incumbent; or kind 'greedy'"
                + (NEEDS_TIME if moves and problem.time is None else "")
            )


def _model_values(
    problem: Problem, fitted: FittedModels, scope: Scope, settings: CandidateSettings, level: str, batch: Batch
) -> Array:
    """Return the expected reward of every action at a level, `[n, A]`, in logged units.

    By the recursion under the posterior mean where that level is planned; else by its reward model, which supposes that the
    legacy goes on below.
    """
    inner = plannable_levels(problem, scope)
    if settings.kind == "capped" or level not in inner:
        return fitted.rewards.predict(level, batch)
    sign = 1.0 if problem.reward.goal == "maximise" else -1.0
    return sign * plan_from(fitted, inner, settings, Greedy()).values(level, batch)[0]


def _first_episodes(source: Source, split: Split) -> Batch:
    """Return some episodes of the prior side, the first that come."""
    batch = next(source.batches(side="prior", split=split))
    return batch.take_episodes(np.arange(min(len(batch), PLUG_IN_EPISODES)))


def _record(
    source: Source,
    split: Split,
    fitted: FittedModels,
    scope: Scope,
    settings: CandidateSettings,
    value: float | None,
    judged: int,
) -> dict[str, Any]:
    problem = source.problem
    return {
        "kind": settings.kind,
        "scope": [name for name in problem.names if name in scope],
        "cap": settings.cap if settings.kind == "capped" else None,
        "particles": settings.particles if settings.kind == "planned" else None,
        "step": settings.step if settings.kind == "stepped" else None,
        "seed": settings.seed,
        "models": dict(fitted.models),
        "reward_models": dict(fitted.reward_models),
        "episodes": fitted.episodes,
        "decisions": fitted.decisions,
        "rewards_missing": fitted.rewards_missing,
        "legacy_value": None if math.isnan(fitted.legacy_value) else fitted.legacy_value,
        "plug_in_value": value,
        "plug_in_episodes": judged,
        "plug_in_note": PLUG_IN_NOTE,
        "warnings": _warnings(problem, fitted),
        "problem": json_digest(dump_problem(problem)),
        **learning_record(source, split),
        "versions": {"aegis": __version__, "numpy": np.__version__, "python": platform.python_version()},
    }


def _warnings(problem: Problem, fitted: FittedModels) -> list[str]:
    """Return warnings for users of the candidate."""
    warnings = []
    if fitted.episodes == 0:
        warnings.append(UNLEARNED)
    elif fitted.episodes < FEW_EPISODES:
        warnings.append(
            f"the prior side has {fitted.episodes} episodes only; below {FEW_EPISODES} a policy follows chance more "
            "than the log: "
            "give a longer log, or a larger fraction"
        )
    if problem.carry_over == "within":
        warnings.append(
            "carry_over is 'within': the reward models see what a decision earns below itself, not what it does to later "
            "decisions of the episode, so that the policy is short-sighted; a certificate still counts its true value"
        )
    return warnings
