"""The measure `split`: bounds on half of the episodes of a run that an agent, a legacy or a gate has logged.

All are in units of the reward per decision. The published numbers and the sharper form beside them are no certificates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import Field

from aegis.agents import Agent, Online, make_online
from aegis.certificate import Candidate
from aegis.errors import SettingError, check_choice
from aegis.evidence import published_bound, sharp_grid_bound, value_centre, value_grid
from aegis.handover import HOSTS, make_gate
from aegis.mechanisms import Belief
from aegis.ope import CandidateView, Measure, reward_measure
from aegis.paper.bound_measures import Share, divergence, draw_values, logged_means, particle_views
from aegis.paper.gates import register_gates
from aegis.paper.run_measures import (
    Count,
    MeasureOptions,
    check_agent,
    naming,
    rewards_per_episode,
    unit_agent,
    unit_legacy,
    unit_options,
    unit_world,
)
from aegis.planning import Greedy, Planned, Thompson, plan_policy
from aegis.problem import AnyArray, Array, Batch, Policy, Scope, concat
from aegis.rng import stream
from aegis.validation import CertifiedUnits, our_claims
from aegis.worlds import World, true_value

SAMPLE = 5  # episodes that tell which distributions a policy knows
LARGEST_WEIGHT = 1.0  # at which the published demonstration cuts weights
# Lists, with a number at every point.
SPLIT_LISTS = ("published", "estimate", "slack", "root", "published_p0", "biased", "sharp", "ours", "kl")
INSIDE = 0.95  # of the limit 1/B, which lambda stays below


class SplitOptions(MeasureOptions):
    """Options of `split`.

    points: after how many episodes. alpha: share of the prior part. particles: that act while learning. draws: that stand for Q.
    logger: the agent, the legacy whose log is learned from, or a gate in front of it, with its host and settings. lam: lambda of
    the published bound; 'root' is 1/sqrt(K), 'temper' the power of the likelihood, as where the paper sweeps one lambda for both.
    true_values: whether to compute what policies truly earn, which takes as long as the bounds.
    """

    points: list[Count] = Field(default=[200, 500, 1000, 1500, 2000], min_length=1)
    alpha: Share = 0.5
    particles: Count = 8
    draws: Count = 8
    logger: Literal["agent", "legacy", "gate"] = "agent"
    gate: str = "published"
    host: str = "greedy"
    gate_settings: dict[str, Any] = Field(default={})
    scope: list[str] | None = None
    delta: Share = 0.05
    lam: Literal["root", "closed form", "temper"] = "root"
    true_values: bool = True


@dataclass(frozen=True)
class _SplitRun:
    """A run: who learned, all episodes, what they earned, and how the bounds are computed. handed: levels that changed hands."""

    world: World
    online: Online
    batch: Batch
    handed: int
    options: SplitOptions

    @property
    def scope(self) -> Scope:
        return self.world.problem.scope(self.options.scope)

    @property
    def measure(self) -> Measure:
        return reward_measure(self.world.problem)

    @property
    def lam(self) -> float | Literal["root", "closed form"]:
        """Return lambda of the published bound; as large as the likelihood's power, it stays inside its domain (0, 1/B)."""
        if self.options.lam != "temper":
            return self.options.lam
        return min(self.online.agent.model.temper, INSIDE / LARGEST_WEIGHT)

    def belief(self, episodes: AnyArray) -> Belief:
        """Return the belief after some of the episodes."""
        prior = self.online.prior()
        return prior.update(self.batch.take_episodes(episodes)) if len(episodes) else prior

    def planned(self, belief: Belief, name: str, k: int) -> Planned:
        """Return the mixture of plans of some draws of a belief, one of which acts per episode."""
        rng = stream(self.online.seed, "split", name, k)
        return plan_policy(belief, Thompson(self.options.draws), rng, self.scope, self.online.legacy)

    def seen(self, policy: Policy, episodes: AnyArray) -> list[CandidateView]:
        """Return some episodes as the particles of a policy see them."""
        return particle_views(self.world.problem, self.batch.take_episodes(episodes), policy)

    def values(self, views: Sequence[CandidateView], cut: float = math.inf) -> Array:
        """Return unit values `[E, N]` of particles."""
        return draw_values(views, self.scope, self.measure, cut)

    def raw(self, scaled: float) -> float:
        """Return a scaled value in units of the reward."""
        return self.measure.value(scaled)


def measure_split(settings: Mapping[str, Any], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return, for each seed, the bounds after so many episodes (`points`), each as a list.

    `published`: PRISM on a random part, every importance weight cut at 1; Q: the posterior after all, p0 that after the other
    part (`kl` is between them). One draw for each episode of the run places it, so that the parts at one point contain those at
    the points before. `estimate`: the plain estimate of the value of Q that this bound is about, the mean of cut weight times
    reward on the same part; `slack`: the estimate minus the bound, which the form of the bound keeps above 0. `root`: the bound
    with lambda = 1/sqrt(K), whatever `options.lam` is. `published_p0`: with Q = p0. `biased`: with the rewards as they came, all
    episodes and the prior before any. `sharp`: the sharp form where the published one stands. `ours`: the policy of the
    posterior mean after the first half, certified on the second, doubly robust.

    `value` is what that policy truly earns at the last point, `share` the part of that which is certified, `value_p0` what draws
    of p0 earn then; `options.true_values` switches all of these off. `handed`: how many levels a gate has handed over.
    """
    options, episodes = unit_options(SplitOptions, settings), settings["episodes"]
    world, agent = unit_world(settings), unit_agent(settings)
    legacy = unit_legacy(settings, world)
    if options.points != sorted(set(options.points)):
        raise SettingError(f"'options.points' are numbers of episodes that grow, found {options.points}")
    points = [point for point in options.points if point <= episodes]
    if not points:
        raise SettingError(
            f"'episodes' is {episodes}, and the first bound comes after {options.points[0]} ('options.points'); "
            f"run as many, or set the points, too: --set options.points=[{episodes}]"
        )
    if options.logger == "agent":
        with naming("options.particles"):
            agent = agent.with_particles(options.particles)
    elif options.logger == "gate":
        with naming("options.host"):
            check_choice(options.host, HOSTS, "host")
        with naming("options.gate_settings"):
            _make_gate(world, legacy, options, 0)
    check_agent(settings, world, agent, legacy)
    with naming("options.scope"):
        world.problem.scope(options.scope)
    return [_run_split(world, agent, legacy, options, points, seed) for seed in seeds]


def _make_gate(world: World, legacy: Policy, options: SplitOptions, seed: int) -> Any:
    register_gates()  # in a process of its own, too
    return make_gate(options.gate, world, legacy, HOSTS[options.host](), options.gate_settings, seed)


def _logged(online: Online, legacy: Policy, options: SplitOptions, episodes: int) -> tuple[Batch, int]:
    """Return the episodes of a run, and how many levels were handed over in it."""
    world: Any = online.plant
    if options.logger == "agent":
        return concat([own for own, _ in online.steps(online.prior(), 0, episodes)]), 0
    if options.logger == "legacy":
        return world.episodes(0, episodes, legacy, online.seed), 0
    running = _make_gate(world, legacy, options, online.seed)
    running.advance(episodes)
    return concat(list(running.batches)), len(running.deployed)


def _run_split(world: World, agent: Agent, legacy: Policy, options: SplitOptions, points: list[int], seed: int) -> dict[str, Any]:
    online = make_online(world, agent, seed, legacy)
    batch, handed = _logged(online, legacy, options, points[-1])
    data = _SplitRun(world=world, online=online, batch=batch, handed=handed, options=options)
    chosen = prior_places(seed, points[-1], options.alpha)
    bounds: dict[str, list[float]] = {name: [] for name in SPLIT_LISTS}
    policy: Policy | None = None
    for k in points:
        for name, number in _published_bounds(data, k, chosen[:k]).items():
            bounds[name].append(number)
        policy, bound = _our_bound(data, k)
        bounds["ours"].append(bound)
    reward = float(batch.episode_means(batch.reward if batch.reward is not None else np.empty(0)).mean())
    return {
        **bounds,
        "bound": bounds["published"][-1],
        "bound_root": bounds["root"][-1],
        "certified": bounds["ours"][-1],
        "handed": handed,
        "reward": rewards_per_episode(world) * reward,
        **(_true_values(data, policy, bounds["ours"][-1], chosen) if options.true_values and policy is not None else {}),
    }


def _true_values(data: _SplitRun, policy: Policy, certified: float, chosen: AnyArray) -> dict[str, float]:
    """Return what the certified policy truly earns, how its bound compares with that, and what draws of p0 earn."""
    value = true_value(data.world, policy)
    before = data.planned(data.belief(np.flatnonzero(chosen)), "p0", len(chosen))
    own = {"value": value, "share": certified / value, "covered": int(certified <= value)}
    return {**own, "value_p0": true_value(data.world, before)}


def prior_places(seed: int, episodes: int, alpha: float) -> AnyArray:
    """Return which episodes belong to the prior part `[K]`: one draw for each, so that a longer run keeps the parts."""
    return np.asarray(stream(seed, "split").random(episodes) < alpha)


def _published_bounds(data: _SplitRun, k: int, chosen: AnyArray) -> dict[str, float]:
    """Return the published bound on a random part, with Q = p0, its on-policy variant, and the sharp form in its place."""
    prior, rest = np.flatnonzero(chosen), np.flatnonzero(~chosen)
    if not len(rest):
        raise SettingError(
            f"the random split of {k} episodes leaves none to certify on; run more, or take a smaller 'options.alpha'"
        )
    reference, last, delta = data.belief(prior), data.belief(np.arange(k)), data.options.delta
    kl, whole = divergence(last, reference, data.scope), last.kl(data.scope)
    policy, before = data.planned(last, "Q", k), data.planned(reference, "p0", k)
    views = data.seen(policy, rest)
    values = data.values(views, LARGEST_WEIGHT)
    cut = published_bound(values, delta, data.lam, LARGEST_WEIGHT, kl)
    root = published_bound(values, delta, "root", LARGEST_WEIGHT, kl)
    free = published_bound(data.values(data.seen(before, rest), LARGEST_WEIGHT), delta, data.lam, LARGEST_WEIGHT)
    rewards = logged_means(data.world.problem, data.batch.take_episodes(np.arange(k)), data.measure)
    biased = published_bound(rewards, delta, data.lam, LARGEST_WEIGHT, whole)
    centre = data.values(data.seen(policy, prior)).mean(axis=1) if len(prior) else np.full(1, 0.5)
    grid = value_grid(value_centre(centre, len(rest), delta))
    sharp = sharp_grid_bound(data.values(views), grid, delta, kl, high=1.0, draws=True)
    each = {"published": cut, "root": root, "published_p0": free, "biased": biased, "sharp": sharp}
    bounds, estimate = {name: data.raw(bound.value) for name, bound in each.items()}, data.raw(float(values.mean()))
    return {**bounds, "estimate": estimate, "slack": estimate - bounds["published"], "kl": kl}


def _our_bound(data: _SplitRun, k: int) -> tuple[Policy, float]:
    """Return a policy fixed after the first half, and its certified value on the second: the logger learns, so time divides."""
    problem, half = data.world.problem, k // 2
    first, second = (data.batch.take_episodes(chosen) for chosen in (np.arange(half), np.arange(half, k)))
    policy = plan_policy(data.belief(np.arange(half)), Greedy(), stream(0, "posterior mean"), data.scope, data.online.legacy)
    candidate, sample = Candidate(policy), first.take_episodes(np.arange(min(half, SAMPLE)))
    claims = our_claims(problem, candidate, data.scope, sample, data.options.delta, ["doubly robust"], ["value"])
    units = CertifiedUnits(problem=problem, candidate=candidate, scope=data.scope, prior=first, rest=second, claims=claims)
    ((_, _, trace),) = units.traces()
    return policy, data.raw(trace.last.value)
