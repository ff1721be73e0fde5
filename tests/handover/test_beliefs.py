"""What hosts believe: from the prior of their models on, or from a warm start."""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
import pytest
from host_cases import LEVELS, history_of, world_of

from aegis.errors import SettingError
from aegis.handover import HOSTS, WarmStart, learn_belief
from aegis.mechanisms import MODELS
from aegis.planning import PessimisticValues

LINEAR = {"linear": MODELS["linear"]}


def log_of(world, episodes=40, seed=11):
    return world.episodes(0, episodes, world.legacy("uniform"), seed)


def test_a_warm_start_is_the_belief_of_one_log_whose_reference_is_after_its_first_part() -> None:
    world = world_of()
    log, later = log_of(world), history_of(world).everything()
    belief, after = WarmStart(log).belief(world.problem, later, LINEAR)
    only_log = learn_belief(world.problem, log, LINEAR)
    both = only_log.update(later)
    assert after == len(later)
    for name, state in belief.states.items():
        for part in fields(state):
            np.testing.assert_allclose(getattr(state, part.name), getattr(both.states[name], part.name))
    moved = sum(m.kl(both.states[name], only_log.states[name]) for name, m in belief.mechanisms.items())
    assert belief.kl() == pytest.approx(moved) and 0 < belief.kl() < both.kl()


def test_without_a_log_the_earlier_half_is_one() -> None:
    world = world_of()
    whole = history_of(world, 41).everything()
    belief, after = WarmStart().belief(world.problem, whole, LINEAR)
    early, late = whole.take_episodes(np.arange(21)), whole.take_episodes(np.arange(21, 41))
    expected, also = WarmStart(early).belief(world.problem, late, LINEAR)
    assert (after, also) == (20, 20) and belief.kl() == pytest.approx(expected.kl())
    alone, none = WarmStart().belief(world.problem, whole.take_episodes(np.arange(1)), LINEAR)
    assert none == 0 and alone.kl() == pytest.approx(0.0, abs=1e-12)


def test_a_warm_start_from_nothing_is_refused() -> None:
    world = world_of()
    with pytest.raises(SettingError, match="needs a log with episodes"):
        WarmStart(log_of(world).take_episodes(np.zeros(0, dtype=np.int64)))


def test_the_pessimistic_host_takes_kappa_from_what_came_after_the_log() -> None:
    world = world_of()
    log, history = log_of(world, 80), history_of(world, 20)
    scores = HOSTS["pessimistic"](log).propose(history, LEVELS, 1)["inner"].scores
    assert isinstance(scores, PessimisticValues)
    belief, after = WarmStart(log).belief(world.problem, history.everything(), MODELS)
    kappa = math.sqrt(2.0 * (belief.kl(["inner"]) + math.log(1.0 / 0.05)) / (after + 1))
    assert -scores.plan.choice.kappa == pytest.approx(kappa)
    drawn = scores.plan.values("inner", log)
    np.testing.assert_allclose(scores.predict("inner", log), drawn.mean(axis=0) - kappa * drawn.std(axis=0))


def test_a_log_makes_the_first_proposal_better_informed() -> None:
    world = world_of(f_a=2.0)
    history = history_of(world, 4)
    spread = [
        HOSTS["pessimistic"](log)
        .propose(history, ["inner"], 1)["inner"]
        .scores.plan.values("inner", history.everything())
        .std(axis=0)
        for log in (None, log_of(world, 200))
    ]
    assert spread[1].mean() < 0.5 * spread[0].mean()
