"""Measures of lower bounds: on half of the episodes of a run (published, sharper, ours), and from a legacy's log alone.

All are in units of the reward per decision. The published number and its on-policy variant are no certificates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from aegis.agents import Agent, Online, make_online
from aegis.certificate import Candidate
from aegis.errors import SettingError, check_choice
from aegis.evidence import published_bound, sharp_grid_bound, value_centre, value_grid
from aegis.mechanisms import Belief, build_belief
from aegis.ope import CandidateView, Measure, ParticlePolicy, RewardModels, plain_values, reward_measure
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
from aegis.planning import Greedy, Planned, PlannedValues, Thompson, plan_policy
from aegis.policies import Capped
from aegis.problem import AnyArray, Array, Batch, Policy, Scope, concat
from aegis.rng import stream
from aegis.validation import CertifiedUnits, our_claims
from aegis.worlds import World, true_value

SAMPLE = 5  # episodes that tell which distributions a policy knows
LARGEST_WEIGHT = 1.0  # at which the published demonstration cuts weights


Share = Annotated[float, Field(gt=0, lt=1)]

Rate = Annotated[float, Field(ge=0, le=1)]


class SplitOptions(MeasureOptions):
    """Options of `split`.

    points: after how many episodes. alpha: share of the prior half. particles: that act while learning. draws: that stand for Q.
    logger: the agent, or the legacy whose log is learned from.
    """

    points: list[Count] = Field(default=[200, 500, 1000, 1500, 2000], min_length=1)
    alpha: Share = 0.5
    particles: Count = 8
    draws: Count = 8
    logger: Literal["agent", "legacy"] = "agent"
    scope: list[str] | None = None
    delta: Share = 0.05
    lam: Literal["root", "closed form"] = "root"


@dataclass(frozen=True)
class _SplitRun:
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
        return plan_policy(belief, Thompson(self.draws), rng, self.scope, self.online.legacy)

    def values(self, policy: Policy, episodes: AnyArray) -> Array:
        """Return unit values `[E, N]` of every particle of a policy."""
        view = CandidateView(self.world.problem, self.batch.take_episodes(episodes), policy, RewardModels())
        each = [
            CandidateView(view.problem, view.batch, ParticlePolicy(view, n), RewardModels()) for n in range(policy.weights.size)
        ]
        return np.stack([plain_values(own, self.scope, self.measure) for own in each], axis=1)

    def raw(self, scaled: float) -> float:
        """Return a scaled value in units of the reward."""
        return self.measure.value(scaled)


def measure_split(settings: Mapping[str, Any], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return, for each seed, the bounds after so many episodes (`points`), each as a list.

    `published`: PRISM on a random half with lambda = 1/sqrt(K), or its closed form, and weights cut at 1; Q: the posterior after
    all, p0 that after the other half. `biased`: the same with the rewards as they came, all episodes and the prior before any.
    `sharp`: the sharp form where the published one stands. `ours`: the policy of the posterior mean after the first half,
    certified on the second, doubly robust; `value` is what it truly earns at the last point, `share` the part of that which is
    certified.
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
    check_agent(settings, world, agent, legacy)
    with naming("options.scope"):
        world.problem.scope(options.scope)
    return [_run_split(world, agent, legacy, options, points, seed) for seed in seeds]


def _run_split(world: World, agent: Agent, legacy: Policy, options: SplitOptions, points: list[int], seed: int) -> dict[str, Any]:
    online = make_online(world, agent, seed, legacy)
    if options.logger == "agent":
        batch = concat([own for own, _ in online.steps(online.prior(), 0, points[-1])])
    else:
        batch = world.episodes(0, points[-1], legacy, seed)
    data = _SplitRun(
        world=world,
        online=online,
        batch=batch,
        scope=world.problem.scope(options.scope),
        draws=options.draws,
        delta=options.delta,
        lam=options.lam,
    )
    bounds: dict[str, list[float]] = {name: [] for name in ("published", "biased", "sharp", "ours", "kl")}
    policy: Policy | None = None
    for k in points:
        for name, value in _published_bounds(data, k, options.alpha).items():
            bounds[name].append(value)
        policy, bound = _our_bound(data, k)
        bounds["ours"].append(bound)
    value = true_value(world, policy) if policy is not None else math.nan
    reward = float(batch.episode_means(batch.reward if batch.reward is not None else np.empty(0)).mean())
    return {
        **bounds,
        "bound": bounds["published"][-1],
        "certified": bounds["ours"][-1],
        "value": value,
        "share": bounds["ours"][-1] / value,
        "covered": int(bounds["ours"][-1] <= value),
        "reward": rewards_per_episode(world) * reward,
    }


def _published_bounds(data: _SplitRun, k: int, alpha: float) -> dict[str, float]:
    """Return the published bound on a random half, its on-policy variant, and the sharp form in its place."""
    chosen = stream(data.online.seed, "split", k).random(k) < alpha
    prior, rest = np.flatnonzero(chosen), np.flatnonzero(~chosen)
    reference, last = data.belief(prior), data.belief(np.arange(k))
    kl, whole = divergence(last, reference, data.scope), last.kl(data.scope)
    policy = data.planned(last, "Q", k)
    values = data.values(policy, rest)
    cut = published_bound(np.minimum(values, LARGEST_WEIGHT), data.delta, data.lam, LARGEST_WEIGHT, kl)
    biased = published_bound(_mean_rewards(data, k), data.delta, data.lam, LARGEST_WEIGHT, whole)
    grid = value_grid(value_centre(data.values(policy, prior).mean(axis=1), len(rest), data.delta))
    sharp = sharp_grid_bound(values, grid, data.delta, kl, high=1.0, draws=True)
    return {"published": data.raw(cut.value), "biased": data.raw(biased.value), "sharp": data.raw(sharp.value), "kl": kl}


def _our_bound(data: _SplitRun, k: int) -> tuple[Policy, float]:
    """Return a policy fixed after the first half, and its certified value on the second: the logger learns, so time divides."""
    problem, half = data.world.problem, k // 2
    first, second = (data.batch.take_episodes(chosen) for chosen in (np.arange(half), np.arange(half, k)))
    policy = plan_policy(data.belief(np.arange(half)), Greedy(), stream(0, "posterior mean"), data.scope, data.online.legacy)
    candidate, sample = Candidate(policy), first.take_episodes(np.arange(min(half, SAMPLE)))
    claims = our_claims(problem, candidate, data.scope, sample, data.delta, ["doubly robust"], ["value"])
    units = CertifiedUnits(problem=problem, candidate=candidate, scope=data.scope, prior=first, rest=second, claims=claims)
    ((_, _, trace),) = units.traces()
    return policy, data.raw(trace.last.value)


def _mean_rewards(data: _SplitRun, k: int) -> Array:
    """Return the scaled mean rewards of the first episodes as they came."""
    batch = data.batch.take_episodes(np.arange(k))
    view = CandidateView(data.world.problem, batch, None, RewardModels())  # type: ignore[arg-type]  # no policy is asked
    return view.below(data.measure, None).low


def divergence(q: Belief, p: Belief, scope: Scope) -> float:
    """Return KL(Q || p) over the mechanisms of a scope."""
    wanted = q.problem.mechanisms(scope)
    return float(sum(m.kl(q.states[name], p.states[name]) for name, m in q.mechanisms.items() if name in wanted))


PRIOR_PART_FROM = 10**6  # episode numbers of the prior part, whose noise has nothing to do with that of the rest


class OfflineOptions(MeasureOptions):
    """Options of `offline`.

    alpha: share of the prior part. prior_world: parameters of the plant that the prior part comes from. constant, epsilon: make
    the legacy one that takes a constant action and explores.
    """

    alpha: Share = 0.5
    prior_world: dict[str, Any] = Field(default={})
    cap: float = Field(default=3.0, ge=1)
    scope: list[str] = Field(default=["inner"], min_length=1)
    delta: Share = 0.05
    constant: float | None = None
    epsilon: Rate = 0.3


def measure_offline(settings: Mapping[str, Any], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return, for each seed, what is certified of a policy learned on one part of a legacy's log, on the other part.

    `gain_lower`, `value_lower` (ours), `certified` (1 if the gain is above 0), `published` (PRISM with Q = p0 and the closed
    form of lambda, which is no certificate), `kl` (of the posterior after all from that after the prior part), `value` (true),
    `gain` (true), `width` (value minus its bound), in units of the reward per decision.
    """
    options, changed = unit_options(OfflineOptions, settings), dict(settings)
    if options.constant is not None:
        changed["legacy"] = f"constant:value={options.constant},epsilon={options.epsilon}"
    world, agent = unit_world(changed), unit_agent(changed)
    check_agent(changed, world, agent, unit_legacy(changed, world))
    episodes = changed["episodes"]
    if not 0 < round(options.alpha * episodes) < episodes:
        raise SettingError(
            f"'options.alpha' = {options.alpha:g} of {episodes} episodes leaves none to learn from, or none to certify on; run "
            "more episodes, or use a share nearer to 0.5"
        )
    with naming("options.prior_world"):
        check_choice(options.prior_world.get("name", world.name), [world.name], "world of the prior part")
        source = unit_world(changed, **options.prior_world)
        unit_legacy(changed, source)
    with naming("options.scope"):
        world.problem.scope(options.scope)
    return [_run_offline(world, source, changed, options, seed) for seed in seeds]


def _run_offline(world: World, source: World, settings: Mapping[str, Any], options: OfflineOptions, seed: int) -> dict[str, Any]:
    problem, legacy, scope = world.problem, unit_legacy(settings, world), Scope(options.scope)
    earlier = round(options.alpha * settings["episodes"])
    prior = source.episodes(PRIOR_PART_FROM, earlier, unit_legacy(settings, source), seed)
    rest = world.episodes(0, settings["episodes"] - earlier, legacy, seed)
    reference = build_belief(problem, unit_agent(settings).model).update(prior)
    scores = PlannedValues(problem, plan_policy(reference, Greedy(), stream(0, "posterior mean"), scope, legacy))
    candidate = Candidate(Capped(problem, scores, legacy, options.cap, scope))
    sample = rest.take_episodes(np.arange(min(SAMPLE, len(rest))))
    claims = our_claims(problem, candidate, scope, sample, options.delta, ["water-filled"], ["gain", "value"])
    certified = CertifiedUnits(problem=problem, candidate=candidate, scope=scope, prior=prior, rest=rest, claims=claims)
    bounds = {claim.what: trace.last.value for _, claim, trace in certified.traces()}
    measure = certified.measure
    cut = published_bound(certified.plain("value"), options.delta, "closed form", options.cap)
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
