"""The assumptions of a certificate in words, and how far AEGIS checked each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aegis.audit import Finding
from aegis.certificate.candidate import Candidate
from aegis.certificate.certificate import Assumption
from aegis.ope import Measure
from aegis.problem import Problem, Scope

# What was found about the probabilities of one level, which says nothing about those of another.
_OF_LEVEL = ("miscalibrated-propensities", "doubtful-propensities", "actions-held")

NO_TRAINING_RECORD = "by declaration: taken to be fixed before this log was seen; no training record says what it was made from"


def codes_about(findings: Iterable[Finding], scopes: Iterable[Scope]) -> list[str]:
    """Return the codes of the audit's findings, without those about probabilities of levels outside all scopes."""
    inside = {name for scope in scopes for name in scope}
    return [item.code for item in findings if item.code not in _OF_LEVEL or item.level is None or item.level in inside]


def list_assumptions(
    problem: Problem, candidates: Sequence[Candidate], scopes: Iterable[Scope], measures: Sequence[Measure], codes: Iterable[str]
) -> tuple[Assumption, ...]:
    """Return the assumptions of a certificate; codes: of the audit's findings, which say what was noticed."""
    noted = set(codes)
    levels = [name for name in problem.names if any(name in scope for scope in scopes)]
    return (
        *_propensities(problem, levels, noted),
        _interference(problem, noted),
        _counts(problem, noted),
        _stationarity(noted),
        _rewards(problem, measures[0]),
        *_means(problem, scopes, measures[0]),
        *_intervals(problem, levels),
        *_policies(candidates),
        Assumption(
            "confounding",
            "Nothing unobserved acts on both the controller's choice and the reward beyond what the propensities account for.",
            "by declaration: true if the propensities are conditional on all the controller used; hidden causes pass every test",
        ),
    )


def _propensities(problem: Problem, levels: Sequence[str], codes: set[str]) -> list[Assumption]:
    noticed = bool(codes & {"miscalibrated-propensities", "actions-held"})
    doubtful = "doubtful-propensities" in codes
    wrong_by = problem.wrong_by(levels)
    exact = [name for name in levels if name not in wrong_by]
    declared = [
        Assumption(
            "propensities-wrong-by",
            f"Recorded propensities of level '{name}' may be wrong by a factor of up to {factor:g} in either direction, given "
            "all that the controller used. They were not fitted to the certified units (for --method plain they may be).",
            f"declared by the user, not checked; tests that take propensities as exact only warn: {_against(noticed, doubtful)}",
        )
        for name, factor in wrong_by.items()
    ]
    if not exact:
        return declared
    return [
        Assumption(
            "propensities",
            f"The logged probabilities at {_listed(exact)} are those with which the controller chose, given all it used.",
            "tested by betting, per action in slices of one and two contexts, and against the actions of earlier episodes: "
            + _against(noticed, doubtful),
        ),
        *declared,
    ]


def _interference(problem: Problem, codes: set[str]) -> Assumption:
    if problem.carry_over == "within":
        return Assumption(
            "carry-over",
            "Decisions may affect later ones of the same episode, not other episodes.",
            "allowed for within episodes: every earlier decision, by ids or times, is in the weight; " + _between(codes),
        )
    siblings = _against("siblings-interfere" in codes)
    if "rewards-not-compared" in codes:
        siblings = (
            f"at most on earlier rewards, because the controller reacts to other decisions: {siblings}; not tested on later ones"
        )
    return Assumption(
        "carry-over",
        "A decision affects only what lies below it (carry_over: none).",
        "tested on siblings one and two apart, on all earlier siblings together, and from the last decision below an outer one "
        f"to the next outer one: {_against('carry-over' in codes)}; and on all decisions of an episode in any order: "
        f"{siblings}; {_between(codes)}",
    )


def _between(codes: set[str]) -> str:
    if "order-unknown" in codes:
        return "not tested between episodes, whose order is not known"
    if "episodes-not-compared" in codes:
        noticed = bool(codes & {"episodes-interfere", "neighbours-interfere", "cluster-interferes"})
        return (
            f"tested between episodes in part: {_against(noticed)}; not tested on the rewards of later episodes where the "
            "controller reacts to other episodes"
        )
    return (
        f"tested between an episode and the next one: {_against('episodes-interfere' in codes)}; among up to 20 neighbours and "
        f"within clusters: {_against(bool(codes & {'neighbours-interfere', 'cluster-interferes'}))}; effects on episodes further "
        "off were not tested"
    )


def _counts(problem: Problem, codes: set[str]) -> Assumption:
    if problem.cluster is not None:
        if problem.cluster_most is not None:
            return Assumption(
                "cluster-size",
                f"A '{problem.cluster_name}' has at most {problem.cluster_most} episodes; the claim is about totals.",
                "checked on every cluster",
            )
        return Assumption(
            "cluster-size",
            f"How many episodes a '{problem.cluster_name}' has does not depend on what happened in them.",
            "tested: " + _against(any("cluster" in code for code in codes)),
        )
    return Assumption(
        "counts",
        "Episodes are independent; how many decisions lie below one depends only on what was decided above them.",
        "partly tested: "
        + _against(bool(codes & {"size-follows-action", "size-follows-reward", "actions-held", "duplicated-episodes"})),
    )


def _against(noticed: bool, doubtful: bool = False) -> str:
    if noticed:
        return "evidence against"
    return "some evidence against, too little to refuse" if doubtful else "no evidence against"


def _stationarity(codes: set[str]) -> Assumption:
    return Assumption(
        "stationarity",
        "The plant goes on as it was in the log; if it drifted, the claim is about the average over the log.",
        "first half against second half: " + ("drift found" if any("drift" in code for code in codes) else "no drift found"),
    )


def _rewards(problem: Problem, measure: Measure) -> Assumption:
    clipped = "; rewards outside are clipped, the claim is about the clipped reward" if measure.clip else ""
    return Assumption(
        "reward-range",
        f"'{measure.column}' lies in [{measure.low:g}, {measure.high:g}] {measure.unit}".rstrip() + f", as declared{clipped}; it "
        f"belongs to a {problem.reward.per}.",
        "checked on every row; the range itself is declared",
    )


def _means(problem: Problem, scopes: Iterable[Scope], measure: Measure) -> list[Assumption]:
    assumptions = []
    for level in problem.levels:
        if level.mean_range is not None and any(set(scope) == {level.name} for scope in scopes):
            low, high = level.mean_range
            assumptions.append(
                Assumption(
                    "mean-range",
                    f"The mean of '{measure.column}' below a decision of level '{level.name}' lies in [{low:g}, {high:g}] "
                    f"{measure.unit}".rstrip()
                    + ", under every policy.",
                    "checked on every decision; the range itself is declared",
                )
            )
    return assumptions


def _intervals(problem: Problem, levels: Sequence[str]) -> list[Assumption]:
    """Return what holds where actions are an interval: what is deployed is smoothed, and what exact actions would rest on."""
    assumptions = []
    for name in levels:
        actions = problem.level(name).actions
        if not actions.continuous:
            continue
        assumptions.append(
            Assumption(
                "smoothed",
                f"At level '{name}' a candidate that chooses a '{actions.column}' acts uniformly within {actions.bandwidth:g} of "
                "it, cut to the interval, and not exactly there; logged propensities are densities, at atoms probabilities.",
                "the bounds are about the smoothed policy: deploy that one; densities were tested on cells of the interval",
            )
        )
        if actions.lipschitz is not None:
            assumptions.append(
                Assumption(
                    "lipschitz",
                    f"The mean reward changes by at most {actions.lipschitz:g} per unit of '{actions.column}', under every "
                    "policy at the other levels.",
                    "declared by the user, not checked; only what is said of exact actions rests on it",
                )
            )
    return assumptions


def _policies(candidates: Sequence[Candidate]) -> list[Assumption]:
    assumptions = []
    for candidate in candidates:
        learned = bool(candidate.record)
        assumptions.append(
            Assumption(
                "fixed-policy",
                f"{candidate.name} was fixed without looking at the certified units, and it is what will be deployed.",
                "the policy records its split; only the other side is certified" if learned else NO_TRAINING_RECORD,
            )
        )
    return assumptions


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
