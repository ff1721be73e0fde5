"""The measure `gate`: runs of a gate on a plant, with what came before and after the flip of each level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field

from aegis.errors import SettingError, check_choice
from aegis.handover import HOSTS, Flipped, GateLook, make_gate
from aegis.paper.gates import register_gates
from aegis.paper.run_measures import (
    CURVE_POINTS,
    MeasureOptions,
    mean_curve,
    naming,
    rewards_per_episode,
    unit_legacy,
    unit_options,
    unit_world,
)
from aegis.problem import Array, Policy
from aegis.worlds import World, oracle_value, true_value

OF_AGENTS = ("agent", "outer_rule", "model", "rule", "outer", "standardise")  # settings that a gate does not have

PER_LEVEL = ("flip", "flipped", "before", "after", "bound_before", "bound_after", "priced_before", "priced_after")


class GateOptions(MeasureOptions):
    """Options of `gate`."""

    gate: str = "challenger"
    host: str = "greedy"
    gate_settings: dict[str, Any] = Field(default={})


def gate_metrics(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the numbers that a run gives."""
    levels = unit_world(settings).problem.names
    own = [f"{word}_{level}" for word in PER_LEVEL for level in levels]
    return (*own, "inner_first", "wrong", "reward", "before", "after", "legacy", "oracle")


def measure_gate(settings: Mapping[str, Any], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return, for each seed, after which episode each level was handed over, and rewards per episode.

    `flip_LEVEL` (None if never), `flipped_LEVEL` (1 or 0), `inner_first` (1 if the innermost level changed hands before any
    other), `wrong` (1 if anything was put in control that is truly worse), `reward`, `before` and `after` the first flip,
    `legacy` on the same episodes, and `bound`, the gain that the gate computed for the innermost level, along the way.

    The paper's test before against after the flip of a level: `before_LEVEL` and `after_LEVEL` are mean rewards per episode,
    `bound_before_LEVEL` and `bound_after_LEVEL` means of the gain that looks at the level computed, per decision. The look
    that flipped the level belongs to neither. `priced_...`: the same with the price of the divergence subtracted. None where
    there is none: the level never flipped, or the gate does not look at it on that side.
    """
    options = unit_options(GateOptions, settings)
    for name in OF_AGENTS:
        if settings.get(name) not in (None, {}):
            raise SettingError(f"'{name}' is given, but the measure 'gate' has no agent; who proposes is 'options.host'")
    world = unit_world(settings)
    legacy = unit_legacy(settings, world)
    with naming("options.host"):
        check_choice(options.host, HOSTS, "host")
    register_gates()  # in a process of its own, too
    with naming("options.gate_settings"):
        make_gate(options.gate, world, legacy, HOSTS[options.host](), options.gate_settings, 0)
    if not seeds:
        return []
    best = rewards_per_episode(world) * oracle_value(world)
    return [{**_run_gate(world, legacy, options, settings["episodes"], seed), "oracle": best} for seed in seeds]


def _run_gate(world: World, legacy: Policy, options: GateOptions, episodes: int, seed: int) -> dict[str, Any]:
    running = make_gate(options.gate, world, legacy, HOSTS[options.host](), options.gate_settings, seed)
    values, wrong = [true_value(world, running.acting)], 0

    def watch(events: Sequence[Any]) -> None:
        nonlocal wrong
        if any(isinstance(event, Flipped) for event in events):  # at most one in a block
            values.append(true_value(world, running.acting))
            wrong |= int(values[-1] < values[-2])

    running.advance(episodes, watch)
    flips: dict[str, int] = {}
    for event in running.events:
        if isinstance(event, Flipped):
            flips.setdefault(event.level, event.episode)
    names = world.problem.names
    low, high = world.problem.reward.range or (0.0, 1.0)
    earned = rewards_per_episode(world) * (low + np.array(running.rewards) * (high - low))
    first = min(flips.values(), default=None)
    looks = getattr(running, "looks", ())
    sides = {name: _sides(earned, looks, name, flips.get(name), high - low) for name in names}
    return {
        **{f"flip_{name}": flips.get(name) for name in names},
        **{f"flipped_{name}": int(name in flips) for name in names},
        **{f"{word}_{name}": mean for name, means in sides.items() for word, mean in means.items()},
        "inner_first": int(names[-1] in flips and flips[names[-1]] == first),
        "wrong": wrong,
        "reward": float(earned.mean()),
        "before": _mean(earned[:first]) if first else None,
        "after": _mean(earned[first:]) if first else None,
        "legacy": rewards_per_episode(world) * true_value(world, legacy),
        "curve": mean_curve(earned),
        "bound": _bounds(running, names[-1], high - low, episodes),
    }


def _sides(earned: Array, looks: Sequence[GateLook], level: str, flip: int | None, width: float) -> dict[str, float | None]:
    """Return what came before and after the flip of a level: rewards per episode, and gains that looks computed."""
    if flip is None:
        return dict.fromkeys(PER_LEVEL[2:])
    own = [look for look in looks if look.level == level]
    sides = {"before": [look for look in own if look.episode < flip], "after": [look for look in own if look.episode > flip]}
    means: dict[str, float | None] = {"before": _mean(earned[:flip]), "after": _mean(earned[flip:])}
    for side, looked in sides.items():
        means[f"bound_{side}"] = _mean([look.gain * width for look in looked if look.gain is not None])
        means[f"priced_{side}"] = _mean([look.bound * width for look in looked if look.bound is not None])
    return means


def _mean(numbers: Sequence[float] | Array) -> float | None:
    """Return the mean; None if there are no numbers."""
    return float(np.mean(numbers)) if len(numbers) else None


def _bounds(running: Any, level: str, width: float, episodes: int) -> list[list[float]]:
    """Return pairs of an episode and the gain that a gate computed for a level, in units of the reward; at most POINTS."""
    looks = getattr(running, "looks", None)
    if looks is None:  # the best lower bound among open challenges is only known at flips
        gains = [(e.episode, e.gain_lower * width) for e in running.events if isinstance(e, Flipped) and e.level == level]
    else:
        gains = [(look.episode, look.gain * width) for look in looks if look.level == level and look.gain is not None]
    step = max(1, len(gains) // CURVE_POINTS)
    return [[float(episode), float(gain)] for episode, gain in gains[::step]]
