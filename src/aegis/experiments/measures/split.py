"""Lower bounds on the value of what was learned, from half of the episodes: as published, sharper, and ours.

All of them are in units of the reward per decision. The published number and its on-policy variant are no certificates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from aegis.agents import Agent, Online, make_online
from aegis.certificate import Candidate
from aegis.certificate.measures import Measure, reward_measure
from aegis.certificate.plain import plain_values
from aegis.certificate.view import Models, View
from aegis.errors import SettingError, choose
from aegis.evidence import published_bound, sharp_grid_bound, value_centre, value_grid
from aegis.experiments.measures.online import per_episode
from aegis.experiments.measures.parts import agent_of, legacy_of, options_of, world_of
from aegis.mechanisms import Belief
from aegis.planning import Greedy, Planned, Thompson, plan
from aegis.problem import AnyArray, Array, Batch, Policy, Scope, concat
from aegis.rng import stream
from aegis.validation.units import Certified, Particle, our_claims
from aegis.worlds import World, true_value

SAMPLE = 5  # episodes that tell which distributions a policy knows
LARGEST = 1.0  # at which the published demonstration cuts weights


@dataclass(frozen=True)
class _Data:
    """A run: who learned, all episodes, what they earned, and in which scope the bounds are."""

    world: World
    online: Online
    batch: Batch
    scope: Scope
    draws: int
    delta: float
    lam: Literal["root", "closed form"]

    @property
    def measure(self) -> Measure:
        return reward_measure(self.world.problem)

    def belief(self, episodes: AnyArray) -> Belief:
        """Return the belief after some of the episodes."""
        prior = self.online.prior()
        return prior.update(self.batch.take_episodes(episodes)) if len(episodes) else prior

    def planned(self, belief: Belief, name: str, k: int) -> Planned:
        """Return the mixture of plans of some draws of a belief, one of which acts per episode."""
        rng = stream(self.online.seed, "split", name, k)
        return plan(belief, Thompson(self.draws), rng, self.scope, self.online.legacy)

    def values(self, policy: Policy, episodes: AnyArray) -> Array:
        """Return unit values `[E, N]` of every particle of a policy."""
        view = View(self.world.problem, self.batch.take_episodes(episodes), policy, Models())
        each = [View(view.problem, view.batch, Particle(view, n), Models()) for n in range(policy.weights.size)]
        return np.stack([plain_values(own, self.scope, self.measure) for own in each], axis=1)

    def raw(self, scaled: float) -> float:
        """Return a scaled value in units of the reward."""
        return self.measure.value(scaled)


def split(settings: Mapping[str, Any], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return, for each seed, the bounds after so many episodes (`points`), each as a list.

    `published`: PRISM on a random half with lambda = 1/sqrt(K), or its closed form, and weights cut at 1; Q: the posterior after
    all, p0 that after the other half. `biased`: the same with the rewards as they came, all episodes and the prior before any.
    `sharp`: the sharp form where the published one stands. `ours`: the policy of the posterior mean after the first half,
    certified on the second, doubly robust; `value` is what it truly earns at the last point, `share` the part of that which is
    certified.
    options: `points`, `alpha` (share of the prior half), `particles` that act while learning, `draws` that stand for Q,
    `logger` ('agent', or 'legacy' whose log is learned from), `scope`, `delta`, `lam` ('root' or 'closed form').
    """
    options = options_of(
        settings,
        points=[200, 500, 1000, 1500, 2000],
        alpha=0.5,
        particles=8,
        draws=8,
        logger="agent",
        scope=None,
        delta=0.05,
        lam="root",
    )
    choose(options["lam"], ("root", "closed form"), "lambda")
    world, agent = world_of(settings), agent_of(settings)
    if options["logger"] == "agent":
        agent = agent.with_particles(options["particles"])
    points = [point for point in options["points"] if point <= settings["episodes"]]
    if not points:
        raise SettingError(f"a bound after {options['points'][0]} episodes needs as many; there are {settings['episodes']}")
    return [_one(world, agent, settings, options, points, seed) for seed in seeds]


def _one(
    world: World, agent: Agent, settings: Mapping[str, Any], options: Mapping[str, Any], points: list[int], seed: int
) -> dict[str, Any]:
    legacy = legacy_of(settings, world)
    online = make_online(world, agent, seed, legacy)
    if options["logger"] == "agent":
        batch = concat([own for own, _ in online.steps(online.prior(), 0, points[-1])])
    else:
        batch = world.episodes(0, points[-1], legacy, seed)
    data = _Data(world, online, batch, world.problem.scope(options["scope"]), options["draws"], options["delta"], options["lam"])
    found: dict[str, list[float]] = {name: [] for name in ("published", "biased", "sharp", "ours", "kl")}
    policy: Policy | None = None
    for k in points:
        for name, value in _published(data, k, options["alpha"]).items():
            found[name].append(value)
        policy, bound = _ours(data, k)
        found["ours"].append(bound)
    value = true_value(world, policy) if policy is not None else math.nan
    reward = float(batch.episode_means(batch.reward if batch.reward is not None else np.empty(0)).mean())
    return {
        **found,
        "bound": found["published"][-1],
        "certified": found["ours"][-1],
        "value": value,
        "share": found["ours"][-1] / value,
        "covered": int(found["ours"][-1] <= value),
        "reward": per_episode(world) * reward,
    }


def _published(data: _Data, k: int, alpha: float) -> dict[str, float]:
    """Return the published bound on a random half, its on-policy variant, and the sharp form in its place."""
    chosen = stream(data.online.seed, "split", k).random(k) < alpha
    prior, rest = np.flatnonzero(chosen), np.flatnonzero(~chosen)
    reference, last = data.belief(prior), data.belief(np.arange(k))
    kl, whole = divergence(last, reference, data.scope), last.kl(data.scope)
    policy = data.planned(last, "Q", k)
    values = data.values(policy, rest)
    cut = published_bound(np.minimum(values, LARGEST), data.delta, data.lam, LARGEST, kl)
    biased = published_bound(_earned(data, k), data.delta, data.lam, LARGEST, whole)
    grid = value_grid(value_centre(data.values(policy, prior).mean(axis=1), len(rest), data.delta))
    sharp = sharp_grid_bound(values, grid, data.delta, kl, high=1.0, draws=True)
    return {"published": data.raw(cut.value), "biased": data.raw(biased.value), "sharp": data.raw(sharp.value), "kl": kl}


def _ours(data: _Data, k: int) -> tuple[Policy, float]:
    """Return a policy fixed after the first half, and its certified value on the second: the logger learns, so time divides."""
    problem, half = data.world.problem, k // 2
    first, second = (data.batch.take_episodes(chosen) for chosen in (np.arange(half), np.arange(half, k)))
    policy = plan(data.belief(np.arange(half)), Greedy(), stream(0, "posterior mean"), data.scope, data.online.legacy)
    candidate, sample = Candidate(policy), first.take_episodes(np.arange(min(half, SAMPLE)))
    claims = our_claims(problem, candidate, data.scope, sample, data.delta, ["doubly robust"], ["value"])
    ((_, _, trace),) = Certified(problem, candidate, data.scope, first, second, claims).traces()
    return policy, data.raw(trace.last.value)


def _earned(data: _Data, k: int) -> Array:
    """Return the scaled mean rewards of the first episodes as they came."""
    batch = data.batch.take_episodes(np.arange(k))
    view = View(data.world.problem, batch, None, Models())  # type: ignore[arg-type]  # no policy is asked
    return view.below(data.measure, None).low


def divergence(q: Belief, p: Belief, scope: Scope) -> float:
    """Return KL(Q || p) over the mechanisms of a scope."""
    wanted = q.problem.mechanisms(scope)
    return float(sum(m.kl(q.states[name], p.states[name]) for name, m in q.mechanisms.items() if name in wanted))
