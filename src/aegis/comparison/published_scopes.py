"""The scope that the paper calls the safest to deploy (Eq. safe-deploy): that of the largest published bound, as published.

Each scope I has its own policy, planned with draws of the posterior Q of its mechanisms Phi_I; its own B^I, the largest weight
observed; KL(Q || p0) summed over Phi_I, p0 the belief after the prior side; and its own lambda* in closed form (the paper's
practical computation of safe-deployment selection). All are bounded on the same units. **Not a certificate**: lambda and B are
chosen on the units that the bound is evaluated on, and draws that have seen these units stand for Q.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from aegis.certificate import scopes_of
from aegis.comparison.bounds import lower_bound, unmet_by_estimates
from aegis.comparison.comparison import ComparisonSettings, LowerBound, ScopeChoice
from aegis.comparison.published_bounds import learn_posterior, split_posterior
from aegis.comparison.scope_choice import NamedScopes, name_scopes
from aegis.comparison.unit_series import CertifiedLog
from aegis.errors import ModelError, SettingError
from aegis.evidence import largest_observed, published_bound
from aegis.logs import Source, Split
from aegis.ope import reward_measure
from aegis.problem import SCOPE_SEPARATOR, Scope

# The method of the choice among scopes by published bounds with learned posteriors.
POSTERIOR_CHOICE = "PRISM as published: lam*, B observed, posterior Q"
NO_UNION = "the scopes are compared at the full risk each: log of their number is not paid"
NOT_PLANNED = (
    "a reward model decides instead of draws of Q: what the legacy does below this scope is known in the logged states only"
)
NEVER_TAKEN = "the policy planned with the posterior Q never takes a logged action on the certified units, so that B is 0"
CERTIFY_ON_MORE = "certify on more units (a smaller alpha, --fraction of 'aegis learn'), or log with more exploration"
PLANNED_WITH_Q = "the value of planning with the posterior Q at"


def choose_published_scope(
    source: Source,
    scopes: Iterable[Iterable[str]] | None = None,
    *,
    alpha: float = 0.5,
    delta: float = 0.05,
    union: bool = True,
    particles: int = 16,
    seed: int = 1,
) -> ScopeChoice:
    """Return the scope with the largest published bound, Q being the posterior after the whole log.

    As published, not a certificate: the label of every bound says why. It needs no candidate and writes nothing into the ledger
    of looks. What you choose by it needs fresh data to be certified on.

    Parameters
    ----------
    source
        The log.
    scopes
        The scopes to choose from; None for every set of levels.
    alpha
        The share of the units that p0 is learned from. With 0 it is the hyper-prior, and all units are bounded on.
    delta
        The risk.
    union
        Whether the scopes share the risk (a union bound, which costs log of their number), or each has all of it.
    particles, seed
        Draws of Q that stand for it, and their seed.

    Returns
    -------
    ScopeChoice
        The scope, and the bound of each; `provenance` has lambda, B, the divergence by mechanism and the estimate, in scaled
        units.

    Raises
    ------
    SettingError
        If there is no scope, or one has no bound: its policy never takes a logged action, so that B is 0.
    """
    problem, split = source.problem, Split(fraction=alpha)
    wanted = scopes_of(problem, None, problem.scope()) if scopes is None else [problem.scope(scope) for scope in scopes]
    if not wanted or not all(wanted):
        raise SettingError(f"a scope has at least one level of {', '.join(problem.names)}; name one or more scopes")
    settings = ComparisonSettings(posterior=True, particles=particles, seed=seed)
    log = CertifiedLog.of_split(source, split)
    choice, missing = choose_by_posterior(log, split, name_scopes(problem, wanted), delta, settings, union)
    if choice is None or missing:
        reasons = "; ".join(f"'{scope}' has no bound: {reason}" for scope, reason in missing.items())
        raise SettingError(reasons, "or leave it out of 'scopes'")
    return choice


def choose_by_posterior(
    log: CertifiedLog, split: Split, scopes: NamedScopes, delta: float, settings: ComparisonSettings, union: bool = True
) -> tuple[ScopeChoice | None, dict[str, str]]:
    """Return the scope whose published bound with a learned posterior is the largest, and why others have no bound.

    The first of equals is chosen, and none if no scope has a bound. A scope without one keeps its share of the risk.
    """
    share = delta / len(scopes) if union else delta
    bounds: dict[str, LowerBound] = {}
    missing: dict[str, str] = {}
    for name, scope in scopes.items():
        try:
            bounds[name] = posterior_bound(log, split, scope, share, settings, union)
        except (SettingError, ModelError) as error:
            missing[name] = str(error)
    if not bounds:
        return None, missing
    sign = 1.0 if log.problem.reward.goal == "maximise" else -1.0
    best = max(bounds, key=lambda name: sign * bounds[name].value)
    chosen = bounds[best]
    levels = tuple(best.split(SCOPE_SEPARATOR))
    return ScopeChoice(POSTERIOR_CHOICE, levels, bounds, delta, chosen.certificate, chosen.label), missing


def posterior_bound(
    log: CertifiedLog, split: Split, scope: Scope, delta: float, settings: ComparisonSettings, union: bool = True
) -> LowerBound:
    """Return the published bound of one scope with a learned posterior, in the user's units; SettingError if B is 0."""
    problem = log.problem
    posterior = split_posterior(log, scope, settings, learn_posterior(log, split, scope, settings))
    if not posterior.peak > 0:
        raise SettingError(NEVER_TAKEN, CERTIFY_ON_MORE)
    bound = published_bound(
        posterior.values,
        delta,
        "closed form",
        largest_observed(np.array([posterior.peak])),
        posterior.kl,
        posterior.weights,
        replace(posterior.reading, largest_from="observed"),
    )
    planned = settings.particles == 1 or posterior.weights.size > 1
    further = [*unmet_by_estimates(problem, scope), *([] if planned else [NOT_PLANNED]), *([] if union else [NO_UNION])]
    unmet = (*bound.unmet, *posterior.unmet, *further)
    origin = {
        "estimate_scaled": bound.estimate,
        "lam": bound.lam,
        "lam_from": f"{bound.lam_from} on the certified units",
        "B": bound.largest,
        "B_from": "the largest weight observed in the certified units",
        "kl": bound.kl,
        "kl_by_mechanism": dict(posterior.kl_by_mechanism),
        "prior": posterior.words,
        "alpha": split.fraction,
    }
    names = [name for name in problem.names if name in scope]
    claim = f"{PLANNED_WITH_Q} {SCOPE_SEPARATOR.join(names)}"
    return lower_bound(replace(bound, unmet=unmet), POSTERIOR_CHOICE, "value", reward_measure(problem), claim, origin)
