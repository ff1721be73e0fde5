"""The assumptions of a certificate in words, and how far AEGIS checked each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aegis.audit import Finding
from aegis.certificate.candidate import Candidate
from aegis.certificate.certificate import Assumption
from aegis.ope import Measure
from aegis.problem import Problem, Scope

# What was found about the probabilities of one level, which says nothing about those of another.
_OF_LEVEL = ("miscalibrated-propensities", "doubtful-propensities", "actions-held")


def list_assumptions(
    problem: Problem, candidates: Sequence[Candidate], scopes: Sequence[Scope], measure: Measure, findings: Sequence[Finding]
) -> tuple[Assumption, ...]:
    """Return the assumptions of a certificate; findings: of the audit, which say what was noticed."""
    levels = [name for name in problem.names if any(name in scope for scope in scopes)]
    codes = {item.code for item in findings if item.code not in _OF_LEVEL or item.level is None or item.level in levels}
    clipped = "; rewards outside are clipped, the claim is about the clipped reward" if measure.clip else ""
    return (
        *_propensities(problem, levels, codes),
        _interference(problem, codes),
        _counts(problem, codes),
        Assumption(
            "stationarity",
            "The plant goes on as it was in the log; if it drifted, the claim is about the average over the log.",
            "first half against second half: " + ("drift found" if any("drift" in code for code in codes) else "no drift found"),
        ),
        Assumption(
            "reward-range",
            f"'{measure.column}' lies in [{measure.low:g}, {measure.high:g}] {measure.unit}".rstrip() + f", as declared{clipped};"
            f" it belongs to a {problem.reward.per}.",
            "checked on every row; the range itself is declared",
        ),
        *_means(problem, scopes, measure),
        *_intervals(problem, levels),
        *(
            Assumption(
                "fixed-policy",
                f"{candidate.name} was fixed without looking at the certified units, and it is what will be deployed.",
                _fixed_by(candidate),
            )
            for candidate in candidates
        ),
        Assumption(
            "confounding",
            "Nothing unobserved acts on both the controller's choice and the reward beyond what the propensities account for.",
            "by declaration: true if the propensities are conditional on all the controller used; hidden causes pass every test",
        ),
        *(
            Assumption(
                "policy-code",
                f"{candidate.name} is code, which a certificate cannot hold; the code that was certified is what will be "
                "deployed.",
                "by declaration; verifying compares digests of its file and of its probabilities on the certified rows",
            )
            for candidate in candidates
            if candidate.is_code
        ),
    )


def _fixed_by(candidate: Candidate) -> str:
    """Return how far it is known that a candidate was fixed without the certified units."""
    if not candidate.record:
        return "by declaration: taken to be fixed before this log was seen; no training record says what it was made from"
    if candidate.unlearned:
        return "the policy records a share of 0: it is that of the hyper-prior and has learned nothing from the log"
    return "the policy records its split; only the other side is certified"


def _propensities(problem: Problem, levels: Sequence[str], codes: set[str]) -> Iterator[Assumption]:
    against = _against(bool(codes & {"miscalibrated-propensities", "actions-held"}), "doubtful-propensities" in codes)
    wrong_by = problem.wrong_by(levels)
    exact = ", ".join(f"'{name}'" for name in levels if name not in wrong_by)
    if exact:
        yield Assumption(
            "propensities",
            f"The logged probabilities at {exact} are those with which the controller chose, given all it used.",
            "tested by betting, per action in slices of one and two contexts, and against the actions of earlier episodes: "
            + against,
        )
    for name, factor in wrong_by.items():
        yield Assumption(
            "propensities-wrong-by",
            f"Recorded propensities of level '{name}' may be wrong by a factor of up to {factor:g} in either direction, given "
            "all that the controller used. They were not fitted to the certified units (for --method plain they may be).",
            f"declared by the user, not checked; tests that take propensities as exact only warn: {against}",
        )


def _interference(problem: Problem, codes: set[str]) -> Assumption:
    between = (
        f"tested between an episode and the next one: {_against('episodes-interfere' in codes)}; among up to 20 neighbours and "
        f"within clusters: {_against(bool(codes & {'neighbours-interfere', 'cluster-interferes'}))}; effects on episodes further "
        "off were not tested"
    )
    if "order-unknown" in codes:
        between = "not tested between episodes, whose order is not known"
    elif "episodes-not-compared" in codes:
        noticed = bool(codes & {"episodes-interfere", "neighbours-interfere", "cluster-interferes"})
        between = (
            f"tested between episodes in part: {_against(noticed)}; not tested on the rewards of later episodes where the "
            "controller reacts to other episodes"
        )
    if problem.carry_over == "within":
        return Assumption(
            "carry-over",
            "Decisions may affect later ones of the same episode, not other episodes.",
            "allowed for within episodes: every earlier decision, by ids or times, is in the weight; " + between,
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
        f"{siblings}; {between}",
    )


def _counts(problem: Problem, codes: set[str]) -> Assumption:
    if problem.cluster_most is not None:
        return Assumption(
            "cluster-size",
            f"A '{problem.cluster_name}' has at most {problem.cluster_most} episodes; the claim is about totals.",
            "checked on every cluster",
        )
    if problem.cluster is not None:
        return Assumption(
            "cluster-size",
            f"How many episodes a '{problem.cluster_name}' has does not depend on what happened in them.",
            "tested: " + _against(any("cluster" in code for code in codes)),
        )
    noticed = codes & {"size-follows-action", "size-follows-reward", "actions-held", "duplicated-episodes"}
    return Assumption(
        "counts",
        "Episodes are independent; how many decisions lie below one depends only on what was decided above them.",
        "partly tested: " + _against(bool(noticed)),
    )


def _against(noticed: bool, doubtful: bool = False) -> str:
    if noticed:
        return "evidence against"
    return "some evidence against, too little to refuse" if doubtful else "no evidence against"


def _means(problem: Problem, scopes: Sequence[Scope], measure: Measure) -> Iterator[Assumption]:
    for level in problem.levels:
        if level.mean_range is not None and any(set(scope) == {level.name} for scope in scopes):
            low, high = level.mean_range
            yield Assumption(
                "mean-range",
                f"The mean of '{measure.column}' below a decision of level '{level.name}' lies in [{low:g}, {high:g}] "
                f"{measure.unit}".rstrip()
                + ", under every policy.",
                "checked on every decision; the range itself is declared",
            )


def _intervals(problem: Problem, levels: Sequence[str]) -> Iterator[Assumption]:
    """Yield what holds where actions are an interval: what is deployed is smoothed, and what exact actions would rest on."""
    for name in levels:
        actions = problem.level(name).actions
        if not actions.continuous:
            continue
        yield Assumption(
            "smoothed",
            f"At level '{name}' a candidate that chooses a '{actions.column}' acts uniformly within {actions.bandwidth:g} of "
            "it, cut to the interval, and not exactly there; logged propensities are densities, at atoms probabilities.",
            "the bounds are about the smoothed policy: deploy that one; densities were tested on cells of the interval",
        )
        if actions.lipschitz is not None:
            yield Assumption(
                "lipschitz",
                f"The mean reward changes by at most {actions.lipschitz:g} per unit of '{actions.column}', under every "
                "policy at the other levels.",
                "declared by the user, not checked; only what is said of exact actions rests on it",
            )
