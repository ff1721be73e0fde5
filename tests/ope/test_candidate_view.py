"""Units at a factor promise nothing too good: expectations over all episodes of tiny problems whose log is wrong by that much."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tiny_episodes import Tiny, TinyModel, TinyPolicy
from wrong_propensities import CASES, listed, scopes

from aegis.certificate.results import answered_view
from aegis.evidence import FLOOR, gain_grid, least_weights, sensitivity_factors
from aegis.ope import (
    CandidateView,
    RewardModels,
    candidate_distribution,
    filled_gains,
    filled_gains_within_error,
    plain_gains,
    reward_measure,
    views_in_pieces,
    with_least_weights,
)
from aegis.policies import Logged
from aegis.problem import Scope


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("missing", [False, True])
def test_the_plain_gain_is_at_most_the_true_one(case: str, missing: bool) -> None:
    believed = []
    for seed in (1, 2):
        truth, chance, view = listed(case, seed, missing)
        measure, legacy = reward_measure(truth.problem), truth.value_of(Scope())
        assert chance.sum() == pytest.approx(1.0, abs=1e-12)
        for scope in scopes(truth):
            gain = truth.value_of(scope) - legacy
            found = plain_gains(with_least_weights(view, dict.fromkeys(scope, truth.gamma)), scope, measure)
            assert (found >= -1.0).all()
            assert chance @ found <= gain + 1e-12
            believed.append(chance @ plain_gains(view, scope, measure) - gain)
    assert missing or max(believed) > 1e-3  # who takes the log at its word may be told too much


@pytest.mark.parametrize("case", [name for name in CASES if "episode" not in name])
@pytest.mark.parametrize("missing", [False, True])
def test_the_mean_of_a_water_filled_factor_is_at_most_what_the_true_gain_allows(case: str, missing: bool) -> None:
    believed = []
    bets = gain_grid(1.0).bets[::4]
    for seed in (1, 2):
        truth, chance, view = listed(case, seed, missing)
        measure, legacy = reward_measure(truth.problem), truth.value_of(Scope())
        for name in truth.names:
            if truth.per == "slow" and name == "fast":
                continue  # the reward belongs to a decision above
            scope = Scope({name})
            gain = truth.value_of(scope) - legacy
            asked = answered_view(view, scope, True)
            found = filled_gains_within_error(asked, scope, measure, bets, truth.gamma)
            assert (found >= FLOOR - 1e-12).all()
            assert (chance @ found <= 1.0 + bets * gain + 1e-10).all()
            ordinary = filled_gains_within_error(asked, scope, measure, bets, 1.0)
            believed.append((chance @ ordinary - 1.0 - bets * gain).max())
    assert missing or case == "per slow" or max(believed) > 1e-4


@pytest.mark.parametrize("case", ["two levels", "carry over", "per episode"])
def test_gains_fall_with_the_factor_and_start_from_the_logged_ones(case: str) -> None:
    truth, _, view = listed(case, 1)
    measure = reward_measure(truth.problem)
    for scope in scopes(truth):
        found = [
            plain_gains(with_least_weights(view, dict.fromkeys(scope, gamma)), scope, measure) for gamma in (1.0, 1.2, 2.0, 9.0)
        ]
        np.testing.assert_array_equal(found[0], plain_gains(view, scope, measure))
        assert all((after <= before + 1e-15).all() for before, after in itertools.pairwise(found))


def test_naive_weights() -> None:
    truth, _, view = listed("two levels", 3)
    scope = Scope(truth.names)
    found = with_least_weights(view, dict.fromkeys(scope, 1.7)).node_weights(scope)
    told, rows = truth.logged(), view.batch.ancestors("fast")["slow"]
    wanted: list[Any] = []
    chances = {name: TinyPolicy(told).taken(name, view.batch)[0] for name in told.names}
    for row, outer in enumerate(rows):
        product = 1.0
        for level, place in ((0, outer), (1, row)):
            table = view.batch.levels[told.names[level]]
            nu = float(table.mu_taken[place])
            product *= float(chances[told.names[level]][place]) / min(1.0, 1.7 * nu)
        wanted.append(product)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_a_candidate_stays_what_it_is_where_it_depends_on_the_log() -> None:
    """What was logged may be a part of the candidate; to doubt the log does not change what it would do."""
    truth, _, view = listed("two levels", 2)
    told = truth.logged()
    own = CandidateView(told.problem, view.batch, Logged(told.problem), view.models)
    lowered = with_least_weights(own, dict.fromkeys(told.names, 2.0))
    for name in told.names:
        np.testing.assert_array_equal(lowered.taken(name, lowered.batch)[0], view.batch.levels[name].mu_taken)
        np.testing.assert_array_equal(lowered.full(name, lowered.batch), own.full(name, view.batch))
        assert (lowered.batch.levels[name].mu_taken > view.batch.levels[name].mu_taken).any()


@pytest.mark.parametrize("case", ["two levels", "carry over", "mixture"])
def test_at_a_factor_of_one_they_are_the_factors_of_the_claim(case: str) -> None:
    truth, _, view = listed(case, 1)
    measure, bets = reward_measure(truth.problem), gain_grid(1.0).bets
    for name in truth.names:
        scope = Scope({name})
        asked = answered_view(view, scope, True)
        found = filled_gains_within_error(asked, scope, measure, bets, 1.0)
        np.testing.assert_allclose(found, filled_gains(view, scope, measure, bets), rtol=1e-9)


def test_what_went_before_has_its_least_weight_if_decisions_carry_over() -> None:
    """Three decisions in a row: the weights of earlier ones are multiplied up in a plain loop."""
    told = Tiny(4, (2,), (3,), (3,), carry=True)
    batch = told.batch([episode for _, episode in told.episodes()])
    scope, measure, bets, gamma = Scope({"fast"}), reward_measure(told.problem), gain_grid(1.0).bets, 1.4
    view = CandidateView(told.problem, batch, TinyPolicy(told), RewardModels({"r": TinyModel(told)}))
    asked = answered_view(view, scope, True)
    table = batch.levels["fast"]
    before, product, owner = [], 1.0, -1
    for row, parent in enumerate(table.parent.tolist()):
        product = product if parent == owner else 1.0
        owner = parent
        before.append(product)
        action = int(table.action[row])
        product *= float(candidate_distribution(asked, scope)[row, action]) / min(1.0, gamma * float(table.mu_taken[row]))
    nu = view.logging("fast")
    least = least_weights(np.array(before)[:, None] * candidate_distribution(asked, scope), nu, gamma)
    reward = view.subtree(measure, "fast").low
    factors = sensitivity_factors(least, nu, view.predicted(measure, "fast"), table.action, reward, bets, gamma)
    wanted = factors.reshape(len(batch), 3, -1).mean(axis=1)
    np.testing.assert_allclose(filled_gains_within_error(asked, scope, measure, bets, gamma), wanted, rtol=1e-9)


def test_a_view_in_pieces_is_the_view_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    truth, _, view = listed("mixture", 1)
    measure, scope = reward_measure(truth.problem), Scope(truth.names)
    whole = plain_gains(view, scope, measure)
    monkeypatch.setattr("aegis.ope.candidate_view.MOST_CELLS", 16)
    pieces = list(views_in_pieces(view.problem, view.policy, view.models, [view.batch]))
    assert 1 < len(pieces) <= len(view.batch)
    assert np.array_equal(np.concatenate([plain_gains(piece, scope, measure) for piece in pieces]), whole)
