"""Hosts that plan with a belief: how their rules become scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from host_cases import history_of, world_of

from aegis.errors import PolicyError
from aegis.handover import HOSTS
from aegis.planning import PessimisticValues, PlannedValues
from aegis.planning.value_rules import pessimism


def test_ucb_is_pessimistic_by_the_paper_s_kappa_once_it_is_deployed():
    history = history_of(world_of())
    proposal = HOSTS["ucb"]().propose(history, ["meta"], 1)["meta"]
    assert isinstance(proposal.scores, PessimisticValues)
    batch = history.everything()
    drawn = proposal.scores.plan.values("meta", batch)
    kappa = -proposal.scores.plan.choice.kappa
    assert 0 < pessimism(0.0, 0.05, history.episodes) < kappa
    np.testing.assert_allclose(proposal.scores.predict("meta", batch), drawn.mean(axis=0) - kappa * drawn.std(axis=0))
    assert (proposal.scores.predict("meta", batch) < drawn.mean(axis=0)).any()


def test_pessimistic_values_are_of_a_pessimistic_plan():
    history = history_of(world_of())
    other = HOSTS["ncts"]().propose(history, ["inner"], 1)["inner"].scores.plan
    with pytest.raises(PolicyError, match="rule 'lcb'"):
        PessimisticValues(history.problem, other)


def test_ncts_averages_values_over_posterior_draws():
    history = history_of(world_of())
    proposal = HOSTS["ncts"]().propose(history, ["inner"], 1)["inner"]
    assert isinstance(proposal.scores, PlannedValues)
    assert proposal.scores.plan.theta.count == 8
    batch = history.everything()
    np.testing.assert_allclose(proposal.scores.predict("inner", batch), proposal.scores.plan.values("inner", batch).mean(axis=0))


def test_proposals_suppose_that_whoever_acts_now_goes_on():
    """What an outer action is worth depends on who acts below it: in the plant the two inner controllers differ."""
    world = world_of("unified", preset="stress")
    history = history_of(world, 60, "natural:epsilon=0.3")
    values = []
    for acting in (history.legacy, world.legacy("constant:value=-2.0")):
        proposal = HOSTS["greedy"]().propose(replace(history, acting=acting), ["meta"], 1)["meta"]
        values.append(proposal.scores.predict("meta", history.everything()))
    assert np.abs(values[0] - values[1]).max() > 0.1
