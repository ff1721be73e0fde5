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
from aegis.comparison.comparison import Comparison, ComparisonSettings, ScopeChoice
from aegis.comparison.direct_method import ActionPredictions, fit_action_predictions, why_not_modelled
from aegis.comparison.estimators import list_estimates, value_estimate
from aegis.comparison.published_bounds import add_published_bounds
from aegis.comparison.published_scopes import POSTERIOR_CHOICE, choose_by_posterior
from aegis.comparison.scope_choice import NamedScopes, choose_scopes, name_scopes, scope_series
from aegis.comparison.unit_series import (
    CertifiedLog,
    ComparedCandidate,
    PeakFunctions,
    UnitSeries,
    basic_series,
    gather_series,
    largest_weight,
    model_series,
    particle_series,
)
from aegis.errors import RefusedError
from aegis.logs import Source, Split
from aegis.ope import RewardModels, reward_measure, unit_word, views_in_pieces
from aegis.problem import Policy

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
    """Compare estimates and bounds by many methods for one candidate at one scope.

    All use the units that `certify` certifies on, at the risk that it gives to each of its claims. A comparison is no
    certificate and is always possible. The ledger records it as a result: `certify` refuses requests that were not registered
    before it.

    Parameters
    ----------
    source
        The log.
    candidate
        The policy to judge.
    scope
        The levels that are handed over. None: all levels of the candidate.
    delta
        The risk, as in `certify`.
    settings
        Thresholds and declarations.
    incumbent
        The comparator, as in `certify`.
    acting
        The policy that acts outside the scope after deployment, if several versions of it wrote the log. Adds the published
        bound for such logs, with the full product of ratios.
    fresh
        As in `certify`.
    ledger
        The folder of the ledger. None: the user's own. False: no ledger, as in a study by simulation.
    report
        Receives the number of rows read.

    Returns
    -------
    Comparison
        Estimates and bounds, each with the label that must accompany it.

    Raises
    ------
    RefusedError
        If an assumption fails.
    """
    chosen, problem, own = settings or ComparisonSettings(), source.problem, Candidate.of(candidate)
    levels = problem.scope(own.levels(problem) if scope is None else scope)
    request = Request.of(problem, own, [levels], delta, fresh=fresh, incumbent=incumbent)
    certificate = issue_certificate(source, request, LookTerms(ledger, COMPARE), report=report)
    result = certificate.level(*levels)
    if result.verdict == REFUSED:
        raise RefusedError(f"nothing is compared, because no certificate could be issued: {result.reason}")
    learned = [own] if incumbent is None else [own, Candidate.of(incumbent)]
    moving = _moving(certificate)
    compared = ComparedCandidate(
        candidate=own,
        scope=levels,
        log=CertifiedLog.of(source, learned, fresh, moving),
        measure=reward_measure(problem),
        comparator=request.comparator,
        settings=chosen,
        fresh=fresh,
        moving=moving,
    )
    outside = None if acting is None else Candidate.of(acting)
    looks = _looks(ledger, request, own, fresh, incumbent is not None)
    return _compare_methods(compared, result, outside, delta, (*COMPARISON_NOTES, *_unreached(result), looks))


def _compare_methods(
    compared: ComparedCandidate, result: LevelResult, outside: Candidate | None, delta: float, notes: tuple[str, ...]
) -> Comparison:
    """Return all estimates and bounds. result: of the certificate. outside: the policy that acts outside the scope."""
    problem, own, levels, measure = compared.problem, compared.candidate, compared.scope, compared.measure
    scopes = name_scopes(problem, scopes_of(problem, None, own.levels(problem)))
    collection = BoundCollection()
    reason = why_not_modelled(problem, own, levels, compared.log.sample)
    modelled = None if reason else fit_action_predictions(problem, own, levels, measure, compared.log.prior)
    for method in MODELLED_METHODS if reason else ():
        collection.lacks(method, str(reason))
    units, prior = _units(compared, scopes, modelled)
    largest = max(series.peaks["weight"] for series in (units, prior) if series is not None)
    case = BoundCase(
        units=units,
        prior=prior,
        weights=own.policy.weights,
        limit=declared_weight_limit(problem, own, levels, compared.settings.largest_weight).against(largest),
        delta=next(test.delta for test in result.tests if test.what == "gain"),
        split=_split_words(compared.log),
        seed=compared.settings.seed,
        measure=measure,
        ratio=compared.comparator.ratio(levels),
        unmet=unmet_by_estimates(problem, levels),
    )
    certified_bounds(result, measure, collection)
    evidence_bounds(case, collection)
    add_published_bounds(case, compared, outside, collection)
    return Comparison(
        candidate=own.name,
        scope=tuple(name for name in problem.names if name in levels),
        unit=problem.reward.unit,
        goal=problem.reward.goal,
        unit_word=unit_word(problem),
        units=units.count,
        prior_units=0 if prior is None else prior.count,
        delta=delta,
        each=case.delta,
        verdict=result.verdict,
        legacy=value_estimate("legacy", "legacy", measure, units),
        estimates=list_estimates(problem, measure, units, compared.settings, modelled, collection),
        bounds=tuple(collection.bounds),
        choices=(*choose_scopes(problem, scopes, case), *_posterior_choice(compared, scopes, case.delta, collection)),
        missing=tuple(collection.missing),
        notes=notes,
        settings=asdict(compared.settings),
        comparator=result.comparator,
        incumbent=value_estimate("incumbent", "compared best", measure, units) if compared.comparator.stated(levels) else None,
    )


def _posterior_choice(
    compared: ComparedCandidate, scopes: NamedScopes, delta: float, collection: BoundCollection
) -> tuple[ScopeChoice, ...]:
    """Return the published choice among the scopes by learned posteriors, if these are asked for and can be learned."""
    split = compared.log.split
    if len(scopes) < 2 or not compared.settings.posterior or not isinstance(split, Split):
        return ()
    choice, missing = choose_by_posterior(compared.log, split, scopes, delta, compared.settings)
    for scope, reason in missing.items():
        collection.lacks(f"{POSTERIOR_CHOICE} at {scope}", reason)
    return () if choice is None else (choice,)


def _units(
    compared: ComparedCandidate, scopes: NamedScopes, modelled: ActionPredictions | None
) -> tuple[UnitSeries, UnitSeries | None]:
    """Return the series of certified and of prior units."""
    problem, policy, scope, measure = compared.problem, compared.candidate.policy, compared.scope, compared.measure
    by_scope, peaks = scope_series(scopes, measure)
    always = {**basic_series(scope, measure, compared.settings.clip), **particle_series(scope, measure), **by_scope}
    weight: PeakFunctions = {"weight": lambda view: largest_weight(view, scope)}
    series = always if modelled is None else {**always, **model_series(scope, measure, modelled, compared.settings.switch)}
    models = RewardModels() if modelled is None else modelled.base
    views = views_in_pieces(problem, policy, models, compared.log.batches(), compared.comparator)
    units = gather_series(problem, views, series, {**weight, **peaks})
    if compared.log.prior is None:
        return units, None
    views = views_in_pieces(problem, policy, models, [compared.log.prior], compared.comparator)
    return units, gather_series(problem, views, always, weight)


def _moving(certificate: Certificate) -> int | None:
    """Return how many units a log has whose propensities move or follow earlier rewards; None for other logs."""
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


def _looks(ledger: str | Path | bool | None, request: Request, own: Candidate, fresh: bool, stated: bool) -> str:
    """Return what the ledger allows from now on, with the one request that is the same as this comparison."""
    if ledger is False:
        return "Nothing was written into the ledger of looks."
    scopes = " ".join(f"--scope {name}" for name in request.named(request.scopes[0]))
    more = f"{' --fresh' if fresh else ''}{' with the same --incumbent' if stated else ''}"
    return (
        "This comparison is written into the ledger as a result on these data. Requests that were registered before it can still "
        f"be certified. If it is the first result, so can this one: aegis certify --policy {own.reference or own.name} {scopes}"
        f"{more}, that is gain and value by method auto, without --gain-only, --method, --by or --others. Any other request is "
        "refused (chosen-after-results)."
    )
