"""Compare: what other estimators and bounds say of a candidate, on the very units that `certify` uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

from aegis.audit import PROPENSITIES_MOVE
from aegis.certificate import (
    COMPARE,
    REFUSED,
    Candidate,
    Certificate,
    LearnedPolicy,
    LevelResult,
    LookTerms,
    Request,
    issue_certificate,
    scopes_of,
)
from aegis.comparison.bounds import (
    BoundCase,
    BoundCollection,
    certified_bounds,
    declared_weight_limit,
    evidence_bounds,
    unmet_by_estimates,
)
from aegis.comparison.comparison import Comparison, ComparisonSettings
from aegis.comparison.direct_method import ActionPredictions, fit_action_predictions, why_not_modelled
from aegis.comparison.estimators import incumbent_estimate, legacy_estimate, list_estimates
from aegis.comparison.published_bounds import (
    adaptive_posterior,
    candidate_posterior,
    estimate_of_algorithm_2,
    gain_bounds,
    hyper_prior,
    learn_posterior,
    matched_bound,
    on_policy_bound,
    split_posterior,
    value_bounds,
)
from aegis.comparison.scope_choice import ScopeCandidates
from aegis.comparison.unit_series import (
    CertifiedLog,
    PeakFunctions,
    SeriesFunctions,
    UnitSeries,
    basic_series,
    gather_series,
    largest_weight,
    model_series,
    particle_series,
)
from aegis.errors import RefusedError
from aegis.logs import Source, Split
from aegis.ope import Comparator, Measure, RewardModels, reward_measure, unit_word, views_in_pieces
from aegis.problem import Policy, Scope

MODELLED_METHODS = ("direct method", "doubly robust", "SWITCH")

COMPARISON_NOTES = (
    "Every bound holds at its own risk: the largest, picked after looking, is no certificate. 'aegis certify' issues one.",
    "Seeing these numbers is a result on these data: what is chosen because of them needs fresh data.",
)


def compare(
    source: Source,
    candidate: Policy | LearnedPolicy | Candidate,
    *,
    scope: Iterable[str] | None = None,
    delta: float = 0.05,
    settings: ComparisonSettings | None = None,
    incumbent: Policy | Candidate | None = None,
    acting: Policy | Candidate | None = None,
    fresh: bool = False,
    ledger: str | Path | bool | None = None,
    report: Callable[[int], None] | None = None,
) -> Comparison:
    """Return estimates and bounds by many methods for one candidate at one scope (all of its levels if None).

    All are made from the units that `certify` certifies on, at the risk it gives to each of its claims. settings: thresholds and
    declarations. incumbent: as in `certify`. acting: the policy that acts outside the scope after deployment, if several versions
    of it wrote the log: adds the published bound for such logs, with the full product of ratios. fresh: as in `certify`. ledger:
    its folder; None for the user's own; False for none, as in a study by simulation. A comparison is no certificate and may
    always be made. It is written down as a result: a certificate for a request that was not registered before is refused from
    then on. Raises RefusedError where an assumption fails: numbers without their assumptions are not shown.
    """
    chosen, problem = settings or ComparisonSettings(), source.problem
    own = Candidate.of(candidate)
    levels = problem.scope(own.levels(problem) if scope is None else scope)
    request = Request.of(problem, own, [levels], delta, fresh=fresh, incumbent=incumbent)
    certificate = issue_certificate(source, request, LookTerms(ledger, COMPARE), report=report)
    comparator = request.comparator
    result = certificate.level(*levels)
    if result.verdict == REFUSED:
        raise RefusedError(f"nothing is compared, because no certificate could be issued: {result.reason}")
    stated = [] if incumbent is None else [Candidate.of(incumbent)]
    measure, log = reward_measure(problem), CertifiedLog.of(source, [own, *stated], fresh, _moving(certificate))
    scopes = ScopeCandidates.of(problem, scopes_of(problem, None, own.levels(problem)), measure)
    found = BoundCollection()
    reason = why_not_modelled(problem, own, levels, log.sample)
    modelled = None if reason else fit_action_predictions(problem, own, levels, measure, log.prior)
    for method in MODELLED_METHODS if reason else ():
        found.lacks(method, str(reason))
    units, prior = _units(log, own, levels, measure, scopes, chosen, modelled, comparator)
    share = next(test.delta for test in result.tests if test.what == "gain")
    seen = max(found_in.peaks["weight"] for found_in in (units, prior) if found_in is not None)
    limit = declared_weight_limit(problem, own, levels, chosen.largest_weight).against(seen)
    ratio = comparator.ratio(levels)
    case = BoundCase(units, prior, own.policy.weights, limit, share, _split_words(log), chosen.seed, ratio)
    ours = certified_bounds(result, found)
    evidence_bounds(case, found)
    _published(case, log, levels, measure, chosen, found)
    _adaptive(case, source, own, acting, levels, measure, chosen, fresh, _moving(certificate), found)
    found.unmet(unmet_by_estimates(problem, levels))
    found.bounds[:0] = ours  # a certificate heeds what was declared of them
    listed = list_estimates(problem, measure, units, chosen, modelled, found)
    return Comparison(
        own.name,
        tuple(name for name in problem.names if name in levels),
        problem.reward.unit,
        problem.reward.goal,
        unit_word(problem),
        units.count,
        0 if prior is None else prior.count,
        delta,
        share,
        result.verdict,
        legacy_estimate(measure, units),
        listed,
        tuple(item.shown(measure) for item in found.bounds),
        scopes.choices(case),
        tuple(found.missing),
        (*COMPARISON_NOTES, *_unreached(result), _looks(ledger, request, own, fresh, incumbent is not None)),
        asdict(chosen),
        result.comparator,
        incumbent_estimate(measure, units) if comparator.stated(levels) else None,
    )


def _units(
    log: CertifiedLog,
    candidate: Candidate,
    scope: Scope,
    measure: Measure,
    scopes: ScopeCandidates,
    settings: ComparisonSettings,
    modelled: ActionPredictions | None,
    comparator: Comparator,
) -> tuple[UnitSeries, UnitSeries | None]:
    """Return the series of certified and of prior units."""
    problem, policy = log.problem, candidate.policy
    always: SeriesFunctions = {
        **basic_series(scope, measure, settings.clip),
        **particle_series(scope, measure),
        **scopes.series(),
    }
    weight: PeakFunctions = {"weight": lambda view: largest_weight(view, scope)}
    series = always if modelled is None else {**always, **model_series(scope, measure, modelled, settings.switch)}
    models = RewardModels() if modelled is None else modelled.base
    views = views_in_pieces(problem, policy, models, log.batches(), comparator)
    units = gather_series(problem, views, series, {**weight, **scopes.peaks()})
    if log.prior is None:
        return units, None
    return units, gather_series(problem, views_in_pieces(problem, policy, models, [log.prior], comparator), always, weight)


def _published(
    case: BoundCase, log: CertifiedLog, scope: Scope, measure: Measure, settings: ComparisonSettings, found: BoundCollection
) -> None:
    candidate = candidate_posterior(case)
    value_bounds(case, candidate, found)
    matched_bound(case, candidate, found)
    gain_bounds(case, candidate, found)
    estimate_of_algorithm_2(case, candidate, found)
    if not settings.posterior:
        on_policy_bound(case, {}, "Q = p0, no divergence", found)
        for method in ("PRISM, data-free p0", "PRISM, posterior Q"):
            found.lacks(method, "its divergence needs beliefs that are learned from the log: ask for the posterior")
        return
    if not isinstance(log.split, Split):
        for method in ("PRISM, data-free p0", "PRISM, posterior Q"):
            found.lacks(
                method, "propensities move, so that its beliefs are learned from the earliest units: name a 'time' column"
            )
        return
    learned = learn_posterior(log, log.split, scope, settings)
    value_bounds(case, hyper_prior(case, candidate, learned), found)
    value_bounds(case, split_posterior(case, log, scope, measure, learned, settings), found)
    words = "p0 = the hyper-prior, Q = the posterior after all units"
    on_policy_bound(case, learned.posterior_from_hyper, words, found)


def _adaptive(
    case: BoundCase,
    source: Source,
    candidate: Candidate,
    acting: Policy | Candidate | None,
    scope: Scope,
    measure: Measure,
    settings: ComparisonSettings,
    fresh: bool,
    moving: int | None,
    found: BoundCollection,
) -> None:
    if acting is None:
        if scope != Scope(source.problem.names):
            found.lacks("PRISM, adaptive", "it needs the policy that will act outside the scope (--acting)")
        return
    outside = acting if isinstance(acting, Candidate) else Candidate.of(acting)
    posterior = adaptive_posterior(source, candidate, outside, scope, measure, settings, fresh, moving)
    value_bounds(case, posterior, found)


def _moving(certificate: Certificate) -> int | None:
    """Return how many units a log has whose propensities move or follow earlier rewards; None of any other log."""
    if PROPENSITIES_MOVE not in [item["code"] for item in certificate.findings]:
        return None
    figures = certificate.diagnostics["audit"]
    return int(figures.get("clusters", figures["episodes"]))


def _split_words(log: CertifiedLog) -> str:
    split = log.split
    if not isinstance(split, Split):
        return f"the first {len(split.ids)} units, in the order of the log"
    how = "by a hash of their ids" if split.kind == "hash" else f"in time, before {split.cut}"
    return f"a share alpha = {split.fraction:g} of the units, taken {how}"


def _unreached(result: LevelResult) -> list[str]:
    """Return a note where the incumbent acts and the log never does."""
    if not result.unreached:
        return []
    return [
        f"{100 * result.unreached:.2g} % of the incumbent's probability lies on actions that the log never takes. It counts as "
        "earning the most there, in every gain and in its value: gains come out smaller than they are (incumbent-unreached)."
    ]


def _looks(ledger: str | Path | bool | None, request: Request, own: Candidate, fresh: bool, given: bool) -> str:
    """Return what the ledger allows from now on, with the one request that is the same as this comparison."""
    if ledger is False:
        return "Nothing was written into the ledger of looks."
    scopes = " ".join(f"--scope {name}" for name in request.named(request.scopes[0]))
    more = f"{' --fresh' if fresh else ''}{' with the same --incumbent' if given else ''}"
    return (
        "This comparison is written into the ledger as a result on these data. Requests that were registered before it can still "
        f"be certified. If it is the first result, so can this one: aegis certify --policy {own.reference or own.name} {scopes}"
        f"{more}, that is gain and value by method auto, without --gain-only, --method, --by or --others. Any other request is "
        "refused (chosen-after-results)."
    )
