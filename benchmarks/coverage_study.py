"""Coverage by replication: simulate a log, learn a candidate, certify it, and see whether a bound ever exceeds the truth.

A bound violates if it exceeds the truth minus two standard errors. Rates of violations come with a binomial test against
the promised risk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aegis.certificate import CLAIMED_QUANTITIES, Candidate, ClaimEvidence, Request, UnitSplit, scan_log
from aegis.errors import ModelError, RefusedError, SettingError
from aegis.ope import CandidateView, reward_measure
from aegis.problem import Batch, Guard, Level, Policy, Problem, Propensity, Scope
from aegis.rng import stream
from aegis.validation import (
    ORACLE_EPISODES,
    TRUTH_ERRORS,
    Oracle,
    Truth,
    acting_incumbent,
    crossing,
    excess_p_value,
    problem_with_comparator,
    wealth_path,
)
from aegis.worlds import World

METHODS = ("auto", "robust", "plain")  # by which a certificate may be computed

WEALTH_TOLERANCE = 1e-5  # how far two ways of adding up one log wealth may lie apart, by rounding of sums

CLUSTER = "household"

MOST_REPEATS = 3

SHORTFALL = "shortfall"  # the guard of a guarded study


# From a problem, the episodes of the prior side and a seed to a candidate and the sides it was learned with.
Learner = Callable[[Problem, Batch, int], tuple[Candidate, UnitSplit]]


@dataclass(frozen=True, slots=True)
class Study:
    """What is replicated. learner(problem, log, run): a candidate, and the sides of the log it leaves to certify on.

    comparator: whom gains are over, the 'incumbent' (the legacy without its exploration) or the 'logger'. others: how levels
    outside a scope act, as in the 'log' or as the 'incumbent'. rated: whether the problem states how much the legacy explores,
    which bounds mu / nu.

    known_gain: the candidate's true gain at every scope in reward units where it is known beforehand, such as 0. clustered:
    every episode is repeated one to three times under new ids and the copies make one cluster: utterly dependent episodes,
    so that evidence which took episodes for independent units would be far too strong. totals: the largest size of clusters is
    declared, and gains are sums over a cluster divided by it. taken_only: the log holds the probability of the action taken
    only. guarded: what rewards fall short of the best is a guard as well, whose true gain is that of the reward. what: claims.
    """

    world: World
    legacy: str
    learner: Learner
    episodes: int
    delta: float = 0.05
    methods: tuple[str, ...] = METHODS
    scopes: tuple[tuple[str, ...], ...] | None = None
    oracle_episodes: int = ORACLE_EPISODES
    known_gain: float | None = None
    clustered: bool = False
    seed: int = 1
    comparator: str = "incumbent"
    others: str = "log"
    rated: bool = True
    totals: bool = False
    taken_only: bool = False
    guarded: bool = False
    what: tuple[str, ...] = CLAIMED_QUANTITIES

    def __post_init__(self) -> None:
        if self.totals and (not self.clustered or "value" in self.what):
            raise SettingError("totals are of clusters, and of gains only")
        if self.episodes < 2 or self.oracle_episodes < 2:
            raise SettingError(f"a study has two episodes or more, found {self.episodes} and {self.oracle_episodes}")

    @property
    def problem(self) -> Problem:
        """Return the problem that is certified: the world's, with the incumbents, clusters and guards of the study."""
        problem = problem_with_comparator(self.world.problem, self.world.legacy(self.legacy), self.comparator)
        if not self.rated:
            problem = replace(problem, levels=tuple(_unrated(level) for level in problem.levels))
        if self.taken_only:
            problem = replace(problem, levels=tuple(_taken_only(level) for level in problem.levels))
        if self.clustered:
            problem = replace(problem, cluster=CLUSTER, cluster_most=MOST_REPEATS if self.totals else None)
        if self.guarded:
            low, high = reward_measure(problem).low, reward_measure(problem).high
            problem = replace(problem, guards=(Guard(SHORTFALL, (0.0, high - low), 0.0),))
        return problem

    @property
    def share(self) -> float:
        """Return what a total of a cluster is on average, as a share of the gain of one episode."""
        return (1 + MOST_REPEATS) / 2 / MOST_REPEATS if self.totals else 1.0

    def oracle(self) -> Oracle:
        """Return who knows the truth about candidates."""
        legacy = self.world.legacy(self.legacy)
        incumbent = acting_incumbent(self.problem, legacy)
        return Oracle(
            self.world, legacy, self.oracle_episodes, incumbent=incumbent, others=incumbent is not None and self.others != "log"
        )

    def log(self, legacy: Policy, run: int) -> Batch:
        """Return the log of a run."""
        seed = int(stream(self.seed, "coverage", run).integers(2**62))
        batch = self.world.episodes(0, self.episodes, legacy, seed)
        if self.taken_only:
            batch = replace(batch, levels={name: replace(table, mu_full=None) for name, table in batch.levels.items()})
        if self.guarded and batch.reward is not None:
            batch = replace(batch, guards={SHORTFALL: reward_measure(self.world.problem).high - batch.reward})
        return repeat_episodes(batch, stream(self.seed, "repeats", run)) if self.clustered else batch


@dataclass(frozen=True, slots=True)
class ClaimOutcome:
    """One claim in one run, scaled to rewards in [0, 1].

    bound: at the end, at risk delta for this claim alone. alone, shared: did it ever exceed the truth on the way, at risk
    delta, and at the share of delta that the certificate gives it? moved: the mean of |w - u|, u the comparator's ratio (1 where
    that is the logger): how far the candidate goes.
    """

    run: int
    method: str
    scope: tuple[str, ...]
    what: str
    truth: float
    bound: float
    alone: bool
    shared: bool
    units: int
    moved: float


def coverage(study: Study, runs: Sequence[int], report: Callable[[int], None] | None = None) -> list[ClaimOutcome]:
    """Return the outcomes of the runs with these numbers; a run's outcome depends on nothing but the study and its number.

    report: receives the number of each run when it is done.
    """
    oracle = study.oracle()
    outcomes: list[ClaimOutcome] = []
    for run in runs:
        outcomes += replicate(study, oracle, run)
        if report is not None:
            report(run)
    return outcomes


def replicate(study: Study, oracle: Oracle, run: int) -> list[ClaimOutcome]:
    """Return the outcomes of one run, one for each method and claim."""
    problem, log = study.problem, study.log(oracle.legacy, run)
    candidate, sides = study.learner(problem, log, run)
    truths: dict[Scope, Truth] = {}
    outcomes = []
    for method in study.methods:
        request = Request.of(problem, candidate, study.scopes, study.delta, method, study.what, others=study.others)
        collected = scan_log(request, iter([log]), sides)
        certified = log.take_episodes(collected.sides.certified(problem, log))
        view = CandidateView(problem, certified, candidate.policy, collected.models[0], request.comparator)
        for item in collected.evidence:
            scope = item.claim.scope
            if scope not in truths:
                truths[scope] = _truth(study, oracle, candidate, scope)
            against = view.against(scope)
            moved = view.node_weights(scope) - (1.0 if against is None else against.node_weights(scope))
            truth = study.share * _scaled(item, truths[scope])
            outcomes.append(_outcome(study, run, method, item, view, truth, float(np.abs(moved).mean())))
    return outcomes


def repeat_episodes(batch: Batch, rng: np.random.Generator) -> Batch:
    """Return every episode one to three times in a row, with new ids; the copies of one make a cluster."""
    times = rng.integers(1, MOST_REPEATS + 1, len(batch))
    copies = batch.take_episodes(np.repeat(np.arange(len(batch)), times))
    return replace(copies, episode=np.arange(len(copies), dtype=np.int64), cluster=np.repeat(batch.episode, times))


def _unrated(level: Level) -> Level:
    """Return a level whose incumbent is stated without how much the logger explores around it."""
    own = level.incumbent
    return level if own is None or own.logged else replace(level, incumbent=replace(own, epsilon=None))


def _taken_only(level: Level) -> Level:
    """Return a level whose log holds the probability of the action taken only."""
    return replace(level, propensity=Propensity(column=f"{level.name}_propensity"))


def _truth(study: Study, oracle: Oracle, candidate: Candidate, scope: Scope) -> Truth:
    if study.known_gain is None:
        return oracle.truth(candidate.policy, scope)
    return Truth(value=oracle.compared_value(scope) + study.known_gain, gain=study.known_gain, error=0.0, gain_error=0.0)


def _scaled(item: ClaimEvidence, truth: Truth) -> float:
    """Return the scaled truth of a claim, lowered by the doubt about it."""
    measure = item.claim.measure
    if item.claim.what == "value":
        return float(measure.scaled(np.array([truth.value]))[0]) - TRUTH_ERRORS * truth.error / measure.width
    better = truth.gain if measure.guard or measure.goal == "maximise" else -truth.gain  # a guard falls as the reward grows
    return better / measure.width - TRUTH_ERRORS * truth.gain_error / measure.width


def _outcome(
    study: Study, run: int, method: str, item: ClaimEvidence, view: CandidateView, truth: float, moved: float
) -> ClaimOutcome:
    claim, blend = item.claim, item.blend
    low, high = claim.bracket
    path = wealth_path(item, view, truth)
    if blend is None or not path.size:
        return ClaimOutcome(
            run=run,
            method=method,
            scope=_ordered(study, claim.scope),
            what=claim.what,
            truth=truth,
            bound=low,
            alone=False,
            shared=False,
            units=0,
            moved=moved,
        )
    final = blend.log_wealth(truth)
    if not abs(path[-1] - final) <= WEALTH_TOLERANCE * max(1.0, abs(final), blend.count):
        raise ModelError(f"run {run}: the path ends at a log wealth of {path[-1]}, the certificate has {final}")
    alone = crossing(path, study.delta) is not None
    shared = crossing(path, claim.delta) is not None
    try:
        bound = blend.lower(study.delta, low, high)
    except RefusedError:  # certify refuses evidence for more than is possible; the path above has counted it
        bound = high
    return ClaimOutcome(
        run=run,
        method=method,
        scope=_ordered(study, claim.scope),
        what=claim.what,
        truth=truth,
        bound=bound,
        alone=alone,
        shared=shared,
        units=blend.count,
        moved=moved,
    )


def _ordered(study: Study, scope: Scope) -> tuple[str, ...]:
    return tuple(name for name in study.world.problem.names if name in scope)


@dataclass(frozen=True, slots=True)
class ViolationRate:
    """How often one claim was violated.

    p_value: of a one-sided binomial test that the rate is at most delta; small means the promise is broken. bound, truth:
    medians over the runs, scaled. moved: mean of |w - 1|.
    """

    method: str
    scope: tuple[str, ...]
    what: str
    runs: int
    violations: int
    p_value: float
    bound: float
    truth: float
    units: float
    moved: float

    @property
    def share(self) -> float:
        """Return the share of runs in which the bound ever exceeded the truth."""
        return self.violations / self.runs

    def plain(self) -> dict[str, Any]:
        """Return plain data, rounded."""
        return {
            "method": self.method,
            "scope": list(self.scope),
            "what": self.what,
            "runs": self.runs,
            "violations": self.violations,
            "p_value": round(self.p_value, 4),
            "median_bound": round(self.bound, 4),
            "median_truth": round(self.truth, 4),
            "units": round(self.units, 1),
            "moved": round(self.moved, 3),
        }


def violation_rates(outcomes: Sequence[ClaimOutcome], delta: float) -> list[ViolationRate]:
    """Return the rate of each claim at risk delta on its own, in the order in which claims first appear."""
    groups: dict[tuple[str, tuple[str, ...], str], list[ClaimOutcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.method, outcome.scope, outcome.what), []).append(outcome)
    rates = []
    for (method, scope, what), members in groups.items():
        violations = sum(member.alone for member in members)
        bound, truth, units, moved = np.array([[m.bound, m.truth, m.units, m.moved] for m in members]).T
        rates.append(
            ViolationRate(
                method=method,
                scope=scope,
                what=what,
                runs=len(members),
                violations=violations,
                p_value=excess_p_value(violations, len(members), delta),
                bound=float(np.median(bound)),
                truth=float(np.median(truth)),
                units=float(units.mean()),
                moved=float(moved.mean()),
            )
        )
    return rates


def joint_violations(outcomes: Sequence[ClaimOutcome]) -> dict[str, tuple[int, int]]:
    """Return by method in how many runs any claim was violated at its share of delta, and the number of runs."""
    violated: dict[str, dict[int, bool]] = {}
    for outcome in outcomes:
        runs = violated.setdefault(outcome.method, {})
        runs[outcome.run] = runs.get(outcome.run, False) or outcome.shared
    return {method: (sum(runs.values()), len(runs)) for method, runs in violated.items()}
