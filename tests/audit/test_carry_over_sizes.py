"""Numbers of decisions and episodes that follow actions or rewards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from audit_cases import (
    logged,
    refused_codes,
    stopped,
)

from aegis.audit.checks.carry_over import Contrast
from aegis.problem import has_next_sibling, sibling_positions
from aegis.rng import stream


def test_stopping_after_success_is_refused() -> None:
    problem, batch = logged("additive", "uniform", 400, 7)
    assert batch.reward is not None
    assert {"size-follows-action", "size-follows-reward"} <= refused_codes(problem, stopped(batch, "inner", batch.reward > 3))
    # A success that no action brings about: only the rewards tell.
    noise = batch.reward - 2 * problem.level("inner").actions.numbers[batch.levels["inner"].action]
    assert refused_codes(problem, stopped(batch, "inner", noise > 1)) == {"size-follows-reward"}
    at_random = stream(1, "stop").random(noise.size) < 0.1
    assert refused_codes(problem, stopped(batch, "inner", at_random)) == set()


def test_sizes_that_depend_on_the_path_above_are_in_order() -> None:
    problem, batch = logged("additive", "uniform", 600, 8)
    table = batch.levels["inner"]
    above = batch.levels["meta"].action[table.parent]
    place = np.arange(len(table)) % 20
    assert refused_codes(problem, stopped(batch, "inner", place >= 2 * above + 2)) == set()


def test_clusters_that_end_after_a_success_are_refused_unless_the_most_is_declared() -> None:
    problem, batch = logged("clinic", "uniform", 450, 11)
    assert batch.reward is not None
    success = batch.episode_means(batch.reward) > 0.6
    cluster = np.cumsum(np.concatenate([[0], success[:-1]]))
    clustered = replace(problem, cluster="machine")
    fault = replace(batch, cluster=cluster)
    assert refused_codes(clustered, fault) == {"cluster-size-follows-reward"}
    largest = int(np.bincount(cluster).max())
    assert refused_codes(replace(clustered, cluster_most=largest), fault) == set()
    assert refused_codes(replace(clustered, cluster_most=largest - 1), fault) == {"cluster-larger-than-declared"}
    assert refused_codes(clustered, replace(batch, cluster=np.arange(450) // 7)) == set()
    shuffled = stream(3, "order").permutation(450)
    timed = replace(batch.take_episodes(shuffled), cluster=cluster[shuffled], time=shuffled.astype(np.float64))
    assert "cluster-size-follows-reward" in refused_codes(replace(clustered, time="started"), timed)


def test_places_and_followers() -> None:
    parent = np.array([0, 0, 0, 2, 3, 3])
    assert sibling_positions(parent).tolist() == [0, 1, 2, 0, 0, 1]
    assert has_next_sibling(parent).tolist() == [True, True, False, False, True, False]


def test_contrast_is_the_plain_difference() -> None:
    rng = stream(2, "contrast")
    parent = np.repeat(np.arange(400), rng.integers(1, 4, 400))
    value = rng.normal(size=parent.size) + 0.5 * rng.normal(size=400)[parent]
    contrast = Contrast()
    contrast.add(value, parent, np.ones(parent.size, dtype=bool))
    last = [value[parent == p][1] - value[parent == p][0] for p in range(400) if (parent == p).sum() == 2]
    goes_on = [value[parent == p][1] - value[parent == p][0] for p in range(400) if (parent == p).sum() == 3]
    gap = np.mean(last) - np.mean(goes_on)
    error = np.sqrt(np.var(last, ddof=1) / len(last) + np.var(goes_on, ddof=1) / len(goes_on))
    assert contrast.score()[0] == pytest.approx(gap / error)
