"""Measures of runs on a plant: an agent that learns while it acts, and its belief on shifted plants.

Also how the settings of a unit become worlds, legacies and agents. A measure builds everything that its settings name, which
finds those that cannot work, before it runs the first seed; without seeds it does nothing else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Annotated, Any, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from aegis.agents import AGENTS, Agent, Online, make_online, run_in_lockstep
from aegis.errors import AegisError, SettingError, check_choice
from aegis.mechanisms import Belief, ModelSettings
from aegis.paper.bench_file import check_form
from aegis.problem import Policy
from aegis.worlds import World, make_world, oracle_value


@contextlib.contextmanager
def naming(setting: str) -> Iterator[None]:
    """Name a setting in every error about it."""
    try:
        yield
    except AegisError as error:
        raise SettingError(f"'{setting}': {error}") from error
    except (TypeError, ValueError, AttributeError, KeyError, IndexError, ArithmeticError) as error:
        raise SettingError(f"'{setting}' cannot be used ({type(error).__name__}: {error})") from error


def unit_world(settings: Mapping[str, Any], **changed: Any) -> World:
    """Return the world of a unit, some parameters changed."""
    parameters = {**settings.get("world", {}), **changed}
    if "name" not in parameters:
        raise SettingError("a bench names its world: 'world: {name: unified}'")
    with naming("world"):
        return make_world(parameters.pop("name"), **parameters)


def unit_legacy(settings: Mapping[str, Any], world: World) -> Policy:
    """Return the legacy; uniform choice unless another is named."""
    with naming("legacy"):
        return world.legacy(settings.get("legacy", "uniform"))


def unit_agent(settings: Mapping[str, Any]) -> Agent:
    """Return the agent with its changes. One belief is drawn per episode, as in the paper: the law of actions is the same."""
    if not settings.get("agent"):
        raise SettingError("'agent' is missing: name one, such as nested_cts")
    with naming("agent"):
        check_choice(settings["agent"], AGENTS, "agent")
    agent = AGENTS[settings["agent"]]
    with contextlib.suppress(SettingError):  # a rule that draws none
        agent = agent.with_particles(1)
    model = settings.get("model", {})
    with naming("model"):
        for name in model:
            check_choice(name, [part.name for part in fields(ModelSettings)], "setting of a model")
        agent = replace(agent, model=replace(agent.model, **model))
    with naming("agent"):
        return replace(
            agent,
            outer_rule=settings.get("outer_rule", agent.outer_rule),
            rule_settings={**agent.rule_settings, **settings.get("rule", {})},
            outer_settings={**agent.outer_settings, **settings.get("outer", {})},
            standardise=settings.get("standardise", agent.standardise),
        )


def check_agent(settings: Mapping[str, Any], world: World, agent: Agent, legacy: Policy) -> None:
    """Start a run of an agent, which looks at every part of its model."""
    with naming("model" if settings.get("model") else "agent"):
        make_online(world, agent, 0, legacy).prior()


CURVE_POINTS = 40  # of the curve

Count = Annotated[int, Field(ge=1)]


class MeasureOptions(BaseModel):
    """Options of a measure."""

    model_config = ConfigDict(extra="forbid", strict=True)


Options = TypeVar("Options", bound=MeasureOptions)


def unit_options(form: type[Options], settings: Mapping[str, Any]) -> Options:
    """Return the options of a measure; SettingError names one that cannot be."""
    return check_form(form, settings.get("options", {}), "options.")


class OnlineOptions(MeasureOptions):
    """Options of `online`. spread_of: a mechanism, of which it is measured how sharply it was learned."""

    spread_of: str | None = None


def measure_online(settings: Mapping[str, Any], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return, for each seed, `reward` (sum over an episode, mean over all), its `curve`, the `oracle` and the `regret`.

    With the option `spread_of` also `spread`, the standard deviation of that mechanism under the last posterior.
    """
    options = unit_options(OnlineOptions, settings)
    world, agent, episodes = unit_world(settings), unit_agent(settings), settings["episodes"]
    legacy = unit_legacy(settings, world)
    check_agent(settings, world, agent, legacy)
    runs = [make_online(world, agent, seed, legacy) for seed in seeds or (0,)]
    if options.spread_of is not None:
        with naming("options.spread_of"):
            check_choice(options.spread_of, runs[0].prior().mechanisms, "mechanism")
    if not seeds:
        return []
    best = rewards_per_episode(world) * oracle_value(world, runs[0].controlled, legacy)
    results = []
    for result in run_in_lockstep(runs, episodes):
        reward, curve = float(result.sums.mean()), mean_curve(result.sums)
        own = {"reward": reward, "last": curve[-1], "curve": curve, "oracle": best, "regret": (best - reward) * episodes}
        if options.spread_of is not None:
            own["spread"] = posterior_spread(world, result.belief, options.spread_of)
        results.append(own)
    return results


SPREAD_EPISODES = 100  # of uniform choice, at whose decisions the spread of a mechanism is averaged

SPREAD_SEED = 2**40  # the same decisions for every arm and seed


def posterior_spread(world: World, belief: Belief, mechanism: str) -> float:
    """Return the standard deviation of a mechanism's mean under a belief: the root of its mean variance.

    The mean is over decisions that uniform choice of all actions meets. A mechanism with several outputs counts all of them.
    """
    batch = world.episodes(0, SPREAD_EPISODES, world.legacy("uniform"), SPREAD_SEED)
    rows, values = belief.rows(batch)[mechanism]
    _, of_mean, _ = belief.predict(mechanism, rows, len(values))
    return float(np.sqrt(of_mean.sum(axis=1).mean()))


def mean_curve(rewards: Any) -> list[float]:
    """Return the means of consecutive rewards, as many as the points of a curve."""
    return [float(block.mean()) for block in np.array_split(rewards, min(CURVE_POINTS, len(rewards)))]


def rewards_per_episode(world: Any) -> int:
    """Return how many rewards an episode has."""
    return int(np.prod(world.steps))


TARGET_FROM = 10**6  # episode numbers of the targets, whose noise has nothing to do with that of the source


class ShiftOptions(MeasureOptions):
    """Options of `shift`. shifts: names of the world's shifts. target: episodes on each."""

    shifts: list[str] = Field(default=[])
    target: Count = 25


def measure_shift(settings: Mapping[str, Any], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return, for each seed, the reward per episode on the source (`source`, while learning) and on each shifted plant."""
    options = unit_options(ShiftOptions, settings)
    world, agent = unit_world(settings), unit_agent(settings)
    legacy = unit_legacy(settings, world)
    check_agent(settings, world, agent, legacy)
    with naming("options.shifts"):
        targets = {name: unit_world(settings, shift=name) for name in options.shifts}
        legacies = {name: unit_legacy(settings, target) for name, target in targets.items()}
    if not seeds:
        return []
    runs = [make_online(world, agent, seed, legacy) for seed in seeds]
    best = {
        f"oracle_{name}": rewards_per_episode(target) * oracle_value(target, runs[0].controlled, legacies[name])
        for name, target in targets.items()
    }
    results = []
    for run, result in zip(runs, run_in_lockstep(runs, settings["episodes"]), strict=True):
        earned = {name: _zero_shot(run, result.belief, target, options.target) for name, target in targets.items()}
        results.append({"source": float(result.sums.mean()), **earned, **best})
    return results


def _zero_shot(run: Online, belief: Belief, target: World, episodes: int) -> float:
    """Return the reward per episode of a frozen belief, from which a policy is drawn for every episode."""
    totals = []
    for episode in range(TARGET_FROM, TARGET_FROM + episodes):
        batch = target.episodes(episode, 1, run.policy(belief, episode), run.seed)
        reward = batch.reward if batch.reward is not None else np.empty(0)
        totals.append(float(batch.episode_sums(reward)[0]))
    return float(np.mean(totals))
