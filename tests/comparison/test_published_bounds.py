"""The published bounds and particles of a comparison on logs."""

from __future__ import annotations

import comparison_cases  # noqa: F401  (puts the small logs of the certificates on the path)
import pytest
from small_logs import better_policy, make_table, source_of, worse_policy

import aegis
from aegis.agents import CandidateSettings, learn
from aegis.comparison import ComparisonSettings, compare
from aegis.comparison.published_bounds import DRAWS_UNPAID
from aegis.logs import Source
from aegis.policies import Legacy, Logged, Mixture, Uniform


@pytest.fixture(scope="module")
def source() -> Source:
    return source_of(make_table(200, seed=4))


@pytest.fixture(scope="module")
def learned(source: Source) -> aegis.Learned:
    return learn(source, settings=CandidateSettings("capped", cap=2.0))


def test_mixtures_are_particles(source):
    mixture = Mixture([better_policy(source.problem), worse_policy(source.problem)], [0.7, 0.3])
    found = compare(source, mixture)
    best, plain = (
        found.bound("sharp PAC-Bayes, best Q (another policy)", "value"),
        found.bound("sharp PAC-Bayes, Q = p0", "value"),
    )
    assert best.value > plain.value and best.provenance["weights"][0] > 0.9
    assert best.claim != plain.claim and plain.provenance["kl"] == pytest.approx(0.0, abs=1e-12)
    assert best.provenance["kl"] > 0
    assert [choice.scope for choice in found.choices if choice.certificate] == [("dose",)]


def test_the_incumbent_is_weighted_at_every_level(source, learned):
    problem = source.problem
    same = compare(source, better_policy(problem), scope=["dose"], acting=Logged(problem))
    full = same.bound("PRISM, adaptive: lam*, B observed", "value")
    assert full.value == pytest.approx(same.bound("PRISM: lam*, B observed", "value").value)  # its ratios are one
    uniform = Legacy(problem, {name: Uniform() for name in problem.names})
    settings = ComparisonSettings(largest_weight=4.0)
    other = compare(source, better_policy(problem), scope=["dose"], acting=uniform, settings=settings)
    bound = other.bound("PRISM, adaptive: prior lam, B declared", "value")
    assert bound.certificate and "incumbent elsewhere" in bound.claim
    assert bound.provenance["lam_from"].startswith("half of 1/B")  # units told apart by a hash lie before and after each other
    assert other.bound("PRISM, adaptive: lam*, B observed", "value").value != pytest.approx(full.value)
    mixed = compare(source, learned, scope=["dose"], acting=uniform, settings=settings)
    bound = mixed.bound("PRISM, adaptive: prior lam, B declared", "value")
    assert not bound.certificate and "while the policy that logged them changed" in bound.label


def test_the_posterior_pays_for_the_mechanisms_of_its_scope(source, learned):
    settings = ComparisonSettings(posterior=True, particles=2)
    inner = compare(source, learned, scope=["dose"], settings=settings)
    both = compare(source, learned, settings=settings)
    names = {"dose": set(source.problem.mechanisms(["dose"])), "both": set(source.problem.mechanisms())}
    for found, wanted in ((inner, names["dose"]), (both, names["both"])):
        for method in ("PRISM, data-free p0: lam*, B observed", "PRISM, posterior Q: lam*, B observed"):
            bound = found.bound(method, "value")
            assert set(bound.provenance["kl_by_mechanism"]) == wanted
            assert bound.provenance["kl"] == pytest.approx(sum(bound.provenance["kl_by_mechanism"].values()))
    assert names["dose"] < names["both"]
    free = inner.bound("PRISM, data-free p0: prior lam, B declared", "value")
    assert free.certificate and free.value < inner.bound("PRISM: prior lam, B declared", "value").value
    split = [bound for bound in (*inner.bounds, *both.bounds) if bound.method.startswith("PRISM, posterior Q")]
    assert split and all(not bound.certificate and DRAWS_UNPAID in bound.unmet for bound in split)
    assert 0 < split[0].provenance["kl"] < free.provenance["kl"]
    reasons = {item.method: item.reason for item in compare(source, learned, scope=["dose"]).missing}
    assert reasons["PRISM, posterior Q"].endswith("add --posterior")


def test_one_draw_of_a_posterior_is_no_certificate_either(source, learned):
    settings = ComparisonSettings(posterior=True, particles=1, largest_weight=4.0)
    found = compare(source, learned, scope=["dose"], settings=settings)
    split = [bound for bound in found.bounds if bound.method.startswith("PRISM, posterior Q")]
    assert len(split) == 4 and not any(bound.certificate for bound in split)
