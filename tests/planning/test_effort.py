"""One rule for how finely contexts are integrated over: fine up to two levels, coarser but good enough beyond."""

from __future__ import annotations

import numpy as np

from aegis.mechanisms import ModelSettings, build_belief, fit_scalings
from aegis.planning import Greedy, Integration, default_integration, plan_policy
from aegis.rng import stream
from aegis.worlds import make_world


def test_few_levels_are_planned_finely() -> None:
    for name, nodes, samples in (("additive", 32, 256), ("clinic", 32, 256), ("plant", 8, 64)):
        found = default_integration(make_world(name).problem)
        assert (found.nodes, found.samples) == (nodes, samples)


def test_three_levels_are_planned_as_well_as_with_three_times_the_nodes() -> None:
    world = make_world("plant")
    log = world.episodes(0, 150, world.legacy("uniform"), 5)
    settings = ModelSettings(features="fourier", count=48, feature_seed=0)
    belief = build_belief(world.problem, settings, None, fit_scalings(world.problem, [log])).update(log)
    fresh = world.episodes(1000, 2, world.legacy("uniform"), 6)
    usual, fine = (
        plan_policy(belief, Greedy(), stream(1, "unused"), integration=integration).values("batch", fresh)[0]
        for integration in (None, Integration(nodes=24))
    )
    assert np.abs(usual - fine).max() < 0.03  # with one node the error is 0.16
    best = fine.max(axis=1)
    assert (best - fine[np.arange(len(fine)), usual.argmax(axis=1)]).max() < 0.001 * best.mean()
