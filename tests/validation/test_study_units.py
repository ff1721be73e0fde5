"""What is validated is what `certify` computes: the same bounds, from the same units, of episodes and of clusters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from validation_cases import null, repeat_episodes

from aegis.certificate import Candidate, Request, UnitSplit, scan_log
from aegis.logs import Split
from aegis.ope import CandidateView, RewardModels, candidate_view, plain_gains, plain_values
from aegis.policies import Function, Mixture
from aegis.problem import Batch, Problem, Scope, concat
from aegis.rng import stream
from aegis.validation import (
    OURS,
    CertifiedUnits,
    our_claims,
)
from aegis.validation.study_units import declared_largest
from aegis.worlds import make_world

WORLD = make_world("additive", inner_steps=3)
LEGACY = WORLD.legacy("sign:epsilon=0.3")
PRIOR, REST, DELTA = 60, 80, 0.05
INNER = Scope(("inner",))


def candidate(problem: Problem) -> Candidate:
    return null((2.0, 0.4))(problem, WORLD.episodes(0, 2, LEGACY, 1), 0)[0]


def logs(clustered: bool) -> tuple[Problem, Batch, Batch]:
    problem = replace(WORLD.problem, time="number", cluster="household" if clustered else None)
    prior, rest = WORLD.episodes(0, PRIOR, LEGACY, 5), WORLD.episodes(PRIOR, REST, LEGACY, 6)
    if clustered:
        prior = repeat_episodes(prior, stream(1, "prior"))
        rest = repeat_episodes(rest, stream(1, "rest"))
        rest = replace(rest, episode=rest.episode + 10_000)
    return problem, replace(prior, time=np.zeros(len(prior))), replace(rest, time=np.ones(len(rest)))


def certified(problem: Problem, prior: Batch, rest: Batch, given: Candidate) -> CertifiedUnits:
    claims = our_claims(problem, given, INNER, rest.take_episodes(np.arange(2)), DELTA, tuple(OURS), ("gain", "value"))
    return CertifiedUnits(problem, given, INNER, prior, rest, claims)


@pytest.mark.parametrize("clustered", [False, True])
def test_bounds_are_those_of_the_certificate(clustered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, prior, rest = logs(clustered)
    given = candidate(problem)
    monkeypatch.setattr(candidate_view, "MOST_CELLS", 550)  # several pieces
    found = {(name, claim.what): trace for name, claim, trace in certified(problem, prior, rest, given).traces()}
    assert set(found) == {(name, what) for name in OURS for what in ("gain", "value")}
    for name, method in OURS.items():
        request = Request.of(problem, given, [["inner"]], 2 * DELTA, method)  # two claims share it
        pair = scan_log(request, iter([concat([prior, rest])]), UnitSplit((Split("time", cut=1),)))
        for item in pair.evidence:
            trace, blend = found[name, item.claim.what], item.blend
            assert blend is not None and item.claim.delta == pytest.approx(DELTA)
            assert trace.last.units == blend.count == REST
            low, high = item.claim.bracket
            assert trace.last.value == pytest.approx(blend.lower(DELTA, low, high), abs=1e-9)
            assert trace.last.certificate and trace.last.validity == "anytime"
            assert trace.above(low) is not None and trace.above(high - 1e-9) is None


def test_plain_units_and_largest_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, prior, rest = logs(clustered=False)
    given = candidate(problem)
    whole = certified(problem, prior, rest, given)
    monkeypatch.setattr(candidate_view, "MOST_CELLS", 550)
    pieces = certified(problem, prior, rest, given)
    view = CandidateView(problem, rest, given.policy, RewardModels())
    assert whole.plain("value") == pytest.approx(plain_values(view, INNER, whole.measure))
    assert pieces.plain("gain") == pytest.approx(plain_gains(view, INNER, whole.measure))
    assert len(whole.plain("gain", "prior")) == PRIOR
    weights = view.node_weights(INNER).reshape(REST, 3).max(axis=1)
    assert whole.weights() == pytest.approx(weights)
    assert pieces.weights() == pytest.approx(weights)


def test_what_does_not_apply_is_left_out_and_not_called_by_another_name() -> None:
    problem, _, rest = logs(clustered=False)
    both = Scope(("meta", "inner"))
    claims = our_claims(problem, candidate(problem), both, rest, DELTA, tuple(OURS), ("gain", "value"))
    named = [(name, claim.what) for name, claim in claims]
    assert ("water-filled", "gain") in named and ("water-filled", "value") not in named  # values of joint scopes are not filled
    assert {claim.delta for _, claim in claims} == {DELTA}
    assert [name for name, claim in claims if claim.what == "value"] == ["doubly robust", "plain"]


def test_clusters_are_units() -> None:
    problem, prior, rest = logs(clustered=True)
    found = certified(problem, prior, rest, candidate(problem))
    single = certified(*logs(clustered=False), candidate(problem))
    assert len(rest) > REST
    assert found.plain("gain") == pytest.approx(single.plain("gain"), abs=1e-9)  # copies of one episode have its mean
    assert found.weights() == pytest.approx(single.weights())


def test_particles_are_averaged_by_their_shares() -> None:
    problem, prior, rest = logs(clustered=False)
    members = [null(means)(problem, rest, 0)[0].policy for means in ((2.0, 0.4), (-1.0, 1.0))]
    mixed = certified(problem, prior, rest, Candidate(Mixture(members, [0.25, 0.75])))
    parts = [mixed.plain("value", particle=number) for number in range(2)]
    assert mixed.plain("value") == pytest.approx(0.25 * parts[0] + 0.75 * parts[1])
    alone = certified(problem, prior, rest, Candidate(members[1]))
    assert parts[1] == pytest.approx(alone.plain("value"))


def test_the_limit_of_weights_on_an_interval_counts_the_shortest_window() -> None:
    """A density over a density: one over the bandwidth at most, over the least density that was met."""
    world = make_world("dosing", bandwidth=0.5)
    batch = world.episodes(0, 50, world.legacy("natural"), 1)
    policy = Function(world.problem, lambda level, rows: np.clip(rows["marker"], 0.0, 10.0), ["dose"])
    table = batch.levels["dose"]
    limit = declared_largest(Candidate(policy), ("dose",), batch)
    assert limit == pytest.approx(2.0 / table.mu_taken.min())
    assert (policy.taken("dose", batch)[0] / table.mu_taken).max() <= limit
