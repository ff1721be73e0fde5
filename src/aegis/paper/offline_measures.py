"""The measure `offline`: a legacy's log alone, one part to learn from and one to certify on; the published bounds, and ours.

All are in units of the reward per decision. The published numbers are no certificates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import Field

from aegis.agents import prior_scalings
from aegis.certificate import Candidate
from aegis.errors import SettingError, check_choice
from aegis.evidence import BoundOrigin, PublishedBound, published_bound
from aegis.mechanisms import Belief, build_belief
from aegis.ope import Measure, reward_measure
from aegis.paper.bound_measures import Rate, Share, divergence, draw_values, largest_weight, logged_means, particle_views
from aegis.paper.run_measures import (
    Count,
    MeasureOptions,
    check_agent,
    naming,
    unit_agent,
    unit_legacy,
    unit_options,
    unit_world,
)
from aegis.planning import Greedy, Planned, PlannedValues, Thompson, plan_policy
from aegis.policies import Capped
from aegis.problem import Batch, Policy, Scope
from aegis.rng import stream
from aegis.validation import CertifiedUnits, our_claims
from aegis.worlds import World, true_value

SAMPLE = 5  # episodes that tell which distributions a policy knows
PRIOR_PART_FROM = 10**6  # episode numbers of the prior part, whose noise has nothing to do with that of the rest
LEAST_PRIOR, PRIOR_SHARE = 20, 0.05  # episodes that place our bets where there is no prior part; they are left out


class OfflineOptions(MeasureOptions):
    """Options of `offline`.

    alpha: share of the prior part; 0 leaves p0 the hyper-prior. prior_world: parameters of the plant that the prior part comes
    from. cap: of the policy that ours certifies. draws: that stand for Q and p0. constant, epsilon: make the legacy one that
    takes a constant action and explores.
    """

    alpha: float = Field(default=0.5, ge=0, lt=1)
    prior_world: dict[str, Any] = Field(default={})
    cap: float = Field(default=3.0, ge=1)
    draws: Count = 16
    scope: list[str] = Field(default=["inner"], min_length=1)
    delta: Share = 0.05
    constant: float | None = None
    epsilon: Rate = 0.3


@dataclass(frozen=True)
class _OfflineRun:
    """A log in two parts: p0 and Q, the beliefs after the first and after both; largest: the weight that is possible."""

    world: World
    legacy: Policy
    scope: Scope
    options: OfflineOptions
    seed: int
    prior: Batch | None
    rest: Batch
    reference: Belief
    last: Belief
    largest: float

    @property
    def measure(self) -> Measure:
        return reward_measure(self.world.problem)

    def drawn(self, belief: Belief, name: str) -> Planned:
        """Return the mixture of plans of some draws of a belief."""
        rng = stream(self.seed, "offline", name)
        return plan_policy(belief, Thompson(self.options.draws), rng, self.scope, self.legacy)

    def published(self, policy: Planned, kl: float) -> PublishedBound:
        """Return PRISM with the closed form of lambda; B is the largest weight, since scaled rewards are at most 1."""
        values = draw_values(particle_views(self.world.problem, self.rest, policy), self.scope, self.measure)
        origin = BoundOrigin(particles="draws")
        return published_bound(values, self.options.delta, "closed form", self.largest, kl, policy.choice.weights, origin)


def measure_offline(settings: Mapping[str, Any], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return, for each seed, what is certified of a policy learned on one part of a legacy's log, on the other part.

    As published, no certificates: `published`, PRISM for Q, the posterior after all, with KL(Q || p0) (`kl`), p0 the posterior
    after the prior part, draws for the expectation over Q, the closed form of lambda and the largest weight (`largest`) that
    the legacy's exploration allows; `published_gain`, its gain form, and `published_certified`, 1 if that is above 0;
    `estimate`, the logarithmic-smoothing estimate alone; `regulariser`, what is subtracted from it in the gain form.
    `published_p0` and `published_gain_p0`: with Q = p0, for which nothing is paid but log(1/delta). `value_q`, `value_p0`: what
    draws of Q and p0 truly earn; `published_width`: value_q minus its bound; `below`, 1 if the bound is below it.

    Ours: `gain_lower`, `value_lower`, `certified` (1 if the gain is above 0), for the capped policy of the mean of p0, whose true
    `value` and `gain` stand beside them; `width`: value minus its bound. All in units of the reward per decision.
    """
    options, changed = unit_options(OfflineOptions, settings), dict(settings)
    if options.constant is not None:
        changed["legacy"] = f"constant:value={options.constant},epsilon={options.epsilon}"
    world, agent = unit_world(changed), unit_agent(changed)
    legacy = unit_legacy(changed, world)
    check_agent(changed, world, agent, legacy)
    episodes = changed["episodes"]
    if not (options.alpha == 0 or 0 < round(options.alpha * episodes) < episodes):
        raise SettingError(
            f"'options.alpha' = {options.alpha:g} of {episodes} episodes leaves none to learn from, or none to certify on; run "
            "more episodes, or use a share nearer to 0.5, or 0 to learn from none"
        )
    if episodes < 2:
        raise SettingError(f"'episodes' is {episodes}, which leaves none to learn from, or none to certify on; run two or more")
    with naming("options.prior_world"):
        check_choice(options.prior_world.get("name", world.name), [world.name], "world of the prior part")
        source = unit_world(changed, **options.prior_world)
        unit_legacy(changed, source)
    with naming("options.scope"):
        scope = Scope(world.problem.scope(options.scope))
        if len(scope) > 1:
            raise SettingError(
                f"a value is certified of a policy at one level, found {len(scope)}; name one of {', '.join(scope)}"
            )
    with naming("legacy"):
        largest_weight(world.problem, legacy, scope)
    return [_run_offline(_split_log(world, source, changed, options, seed)) for seed in seeds]


def _placing(episodes: int) -> int:
    """Return how many episodes place our bets where there is no prior part; at most half of them."""
    return min(max(LEAST_PRIOR, round(PRIOR_SHARE * episodes)), episodes // 2)


def _split_log(world: World, source: World, settings: Mapping[str, Any], options: OfflineOptions, seed: int) -> _OfflineRun:
    legacy, agent, before = unit_legacy(settings, world), unit_agent(settings), unit_legacy(settings, source)
    earlier, scope = round(options.alpha * settings["episodes"]), Scope(options.scope)
    prior = source.episodes(PRIOR_PART_FROM, earlier, before, seed) if earlier else None
    rest = world.episodes(0, settings["episodes"] - earlier, legacy, seed)
    scalings = prior_scalings(source, before, agent.prior_episodes, seed) if agent.prior_episodes else {}
    hyper = build_belief(world.problem, agent.model, None, scalings, seed)
    reference = hyper if prior is None else hyper.update(prior)
    return _OfflineRun(
        world=world,
        legacy=legacy,
        scope=scope,
        options=options,
        seed=seed,
        prior=prior,
        rest=rest,
        reference=reference,
        last=reference.update(rest),
        largest=largest_weight(world.problem, legacy, scope),
    )


def _run_offline(run: _OfflineRun) -> dict[str, Any]:
    return {**_published(run), **_ours(run)}


def _published(run: _OfflineRun) -> dict[str, Any]:
    """Return the published bounds of Q and of p0, and what both truly earn."""
    measure, kl = run.measure, divergence(run.last, run.reference, run.scope)
    after, before = run.drawn(run.last, "Q"), run.drawn(run.reference, "p0")
    bound, free = run.published(after, kl), run.published(before, 0.0)
    legacy = logged_means(run.world.problem, run.rest, measure)
    gain = bound.gain_over(legacy)
    value, lower = true_value(run.world, after), measure.value(bound.value)
    return {
        "published": lower,
        "published_gain": measure.gain(gain.value),
        "published_certified": int(gain.value > 0),
        "published_p0": measure.value(free.value),
        "published_gain_p0": measure.gain(free.gain_over(legacy).value),
        "estimate": measure.value(bound.estimate),
        "regulariser": measure.gain(bound.estimate - float(legacy.mean()) - gain.value),
        "largest": run.largest,
        "kl": kl,
        "value_q": value,
        "value_p0": true_value(run.world, before),
        "published_width": value - lower,
        "below": int(lower <= value),
    }


def _ours(run: _OfflineRun) -> dict[str, Any]:
    """Return what we certify of the capped policy of the mean of p0."""
    problem, options, prior, rest = run.world.problem, run.options, run.prior, run.rest
    if prior is None:  # the first episodes place the bets, and are not counted
        first = _placing(len(rest))
        prior, rest = rest.take_episodes(np.arange(first)), rest.take_episodes(np.arange(first, len(rest)))
    mean = plan_policy(run.reference, Greedy(), stream(0, "posterior mean"), run.scope, run.legacy)
    candidate = Candidate(Capped(problem, PlannedValues(problem, mean), run.legacy, options.cap, run.scope))
    sample = rest.take_episodes(np.arange(min(SAMPLE, len(rest))))
    claims = our_claims(problem, candidate, run.scope, sample, options.delta, ["water-filled"], ["gain", "value"])
    certified = CertifiedUnits(problem=problem, candidate=candidate, scope=run.scope, prior=prior, rest=rest, claims=claims)
    bounds = {claim.what: trace.last.value for _, claim, trace in certified.traces()}
    measure, truth = run.measure, true_value(run.world, candidate.policy)
    lower = measure.value(bounds["value"])
    return {
        "gain_lower": measure.gain(bounds["gain"]),
        "certified": int(bounds["gain"] > 0),
        "value_lower": lower,
        "value": truth,
        "gain": truth - true_value(run.world, run.legacy),
        "width": truth - lower,
    }
