"""From the log of a legacy alone: how prior data, the legacy and the split decide what can be certified (App. offline)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aegis.certificate import Candidate
from aegis.evidence import published_bound
from aegis.experiments.measures.parts import agent_of, legacy_of, options_of, world_of
from aegis.experiments.measures.split import divergence
from aegis.mechanisms import build_belief
from aegis.planning import Greedy, PlannedValues, plan
from aegis.policies import Capped
from aegis.problem import Scope
from aegis.rng import stream
from aegis.validation.units import Certified, our_claims
from aegis.worlds import World, true_value

AFTER = 10**6  # episode numbers of the prior part, whose noise has nothing to do with that of the rest
SAMPLE = 5


def offline(settings: Mapping[str, Any], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return, for each seed, what is certified of a policy learned on one part of a legacy's log, on the other part.

    `gain_lower`, `value_lower` (ours), `certified` (1 if the gain is above 0), `published` (PRISM with Q = p0 and the closed
    form of lambda, which is no certificate), `kl` (of the posterior after all from that after the prior part), `value` (true),
    `gain` (true), `width` (value minus its bound), in units of the reward per decision.
    options: `alpha` (share of the prior part), `prior_world` (parameters of the plant that the prior part comes from), `cap`,
    `scope`, `delta`; `constant` and `epsilon` make the legacy one that takes a constant action and explores.
    """
    options = options_of(settings, alpha=0.5, prior_world={}, cap=3.0, scope=["inner"], delta=0.05, constant=None, epsilon=0.3)
    changed = dict(settings)
    if options["constant"] is not None:
        changed["legacy"] = f"constant:value={options['constant']},epsilon={options['epsilon']}"
    return [_one(world_of(changed), changed, options, seed) for seed in seeds]


def _one(world: World, settings: Mapping[str, Any], options: Mapping[str, Any], seed: int) -> dict[str, Any]:
    problem, legacy, scope = world.problem, legacy_of(settings, world), Scope(options["scope"])
    earlier = round(options["alpha"] * settings["episodes"])
    source = world_of(settings, **options["prior_world"])
    prior = source.episodes(AFTER, earlier, legacy_of(settings, source), seed)
    rest = world.episodes(0, settings["episodes"] - earlier, legacy, seed)
    reference = build_belief(problem, agent_of(settings).model).update(prior)
    scores = PlannedValues(problem, plan(reference, Greedy(), stream(0, "posterior mean"), scope, legacy))
    candidate = Candidate(Capped(problem, scores, legacy, options["cap"], scope))
    claims = our_claims(
        problem,
        candidate,
        scope,
        rest.take_episodes(np.arange(min(SAMPLE, len(rest)))),
        options["delta"],
        ["water-filled"],
        ["gain", "value"],
    )
    certified = Certified(problem, candidate, scope, prior, rest, claims)
    bounds = {claim.what: trace.last.value for _, claim, trace in certified.traces()}
    measure = certified.measure
    cut = published_bound(certified.plain("value"), options["delta"], "closed form", options["cap"])
    truth, base = true_value(world, candidate.policy), true_value(world, legacy)
    lower = measure.value(bounds["value"])
    return {
        "gain_lower": measure.gain(bounds["gain"]),
        "certified": int(bounds["gain"] > 0),
        "value_lower": lower,
        "published": measure.value(cut.value),
        "kl": divergence(reference.update(rest), reference, scope),
        "value": truth,
        "gain": truth - base,
        "width": truth - lower,
    }
