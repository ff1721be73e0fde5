"""Reward models of the direct method: where they come from, where they do not apply, and what they expect further in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from comparison_cases import Tiny, TinyModel, TinyPolicy, tiny_measure
from tiny_episodes import HIGH, LOW

from aegis.certificate import Candidate
from aegis.comparison.direct_method import fit_action_predictions, switch_values, why_not_modelled
from aegis.errors import PolicyError
from aegis.ope import CandidateView
from aegis.problem import Array, Batch, Scope


@dataclass(frozen=True)
class Same:
    """A model that predicts one number, in the units of the reward."""

    tiny: Tiny
    value: float

    def predict(self, level: str, batch: Batch) -> Array:
        return np.full((len(batch.levels[level]), self.tiny.actions[self.tiny.names.index(level)]), self.value)


def whole(tiny: Tiny) -> Batch:
    return tiny.batch([episode for _, episode in tiny.episodes()][:200])


@pytest.mark.parametrize("particles", [1, 2])
def test_a_model_of_one_number_expects_it_at_every_level(particles):
    """Also below outer actions that no particle takes, which a model of the outer level is fitted to all the same."""
    tiny = Tiny(4, actions=(3, 2), particles=particles, sharp=True)
    batch, measure, scope = whole(tiny), tiny_measure(tiny), Scope(tiny.names)
    candidate = Candidate(TinyPolicy(tiny), rewards=Same(tiny, LOW + 0.9 * (HIGH - LOW)))
    found = fit_action_predictions(tiny.problem, candidate, scope, measure, batch)
    view = CandidateView(tiny.problem, batch, candidate.policy, found.base)
    assert set(found.outer) == {"slow"} and "learned with" in found.words
    assert found.at(view, measure, "slow") == pytest.approx(0.9, abs=0.01)
    assert found.at(view, measure, "fast") == pytest.approx(0.9, abs=1e-5)
    assert switch_values(view, scope, measure, found, 0.0) == pytest.approx(0.9, abs=0.01)


def test_without_prior_units_a_constant_has_to_do():
    tiny = Tiny(4)
    measure, candidate = tiny_measure(tiny), Candidate(TinyPolicy(tiny))
    found = fit_action_predictions(tiny.problem, candidate, Scope(tiny.names), measure, None)
    view = CandidateView(tiny.problem, whole(tiny), candidate.policy, found.base)
    assert (found.at(view, measure, "slow") == 0.5).all() and "constant" in found.words and not found.outer
    fitted = fit_action_predictions(tiny.problem, candidate, Scope("fast"), measure, whole(tiny))
    assert "regressions on 64 prior episodes" in fitted.words and not fitted.outer
    view = CandidateView(tiny.problem, whole(tiny), candidate.policy, fitted.base)
    assert np.ptp(fitted.at(view, measure, "fast")) > 0.05


@dataclass(frozen=True)
class Taken(TinyPolicy):
    """A policy that knows the probability of the action taken only."""

    def full(self, level: str, batch: Batch) -> Array:
        raise PolicyError("not known")

    def taken(self, level: str, batch: Batch) -> Array:
        return TinyPolicy(self.tiny).taken(level, batch)


@pytest.mark.parametrize(
    ("tiny", "scope", "words"),
    [
        (Tiny(1, carry=True), ("fast",), "carry over"),
        (Tiny(1, per="episode"), ("fast",), "per episode"),
        (Tiny(1, per="slow"), ("fast",), "per slow"),
        (Tiny(1, per="slow"), ("slow",), None),
        (Tiny(1), ("slow", "fast"), None),
    ],
)
def test_where_models_do_not_apply(tiny, scope, words):
    batch = whole(tiny)
    found = why_not_modelled(tiny.problem, Candidate(TinyPolicy(tiny)), Scope(scope), batch)
    assert found is None if words is None else words in found
    if words is None:
        assert "taken only" in why_not_modelled(tiny.problem, Candidate(Taken(tiny)), Scope(scope), batch)


def test_predictions_stay_within_the_range_of_rewards():
    tiny = Tiny(2, sharp=True)
    batch, measure, scope = whole(tiny), tiny_measure(tiny), Scope(tiny.names)
    candidate = Candidate(TinyPolicy(tiny), rewards=TinyModel(tiny))
    found = fit_action_predictions(tiny.problem, candidate, scope, measure, batch)
    view = CandidateView(tiny.problem, batch, candidate.policy, found.base)
    outer = found.at(view, measure, "slow")
    assert outer.min() >= 0 and outer.max() <= 1
