"""The same rows in another order, or read in other blocks, give the same numbers to the last bit."""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_logs import better_policy, make_table, problem_of, problem_text, source_of

from aegis.agents import CandidateSettings, learn
from aegis.certificate import Candidate, Certificate, certify
from aegis.certificate.evidence import UnitMoments
from aegis.logs import Source, Split
from aegis.ope import ClusterUnits, WeightSpread
from aegis.problem import SiblingGroups, exact_sum, parse_problem, round_for_sums
from case_choice import few

GUARD = "guards: [{column: scrap, range: [0, 1], max_worsening: 0.05}]"
numbers = st.one_of(st.floats(-2, 2), st.floats(-1e6, 1e6), st.sampled_from([0.1, 0.2, 0.3, 1e-17, 1e15, -1e15, 1e300, -1e300]))


@settings(max_examples=80, deadline=None)
@given(st.lists(numbers, max_size=12), st.randoms(use_true_random=False), st.sampled_from([0, 30, 40]))
def test_sums_are_exact_up_to_the_rounding_of_each(values: list[float], random: Any, bits: int) -> None:
    found = exact_sum(np.array(values), bits)
    other = values.copy()
    random.shuffle(other)
    assert exact_sum(np.array(other), bits) == found and found is not None
    if all(abs(value) < 1e200 for value in values):
        true = sum((Fraction(value) for value in values), Fraction(0))
        assert abs(Fraction(found, 2**bits) - true) <= Fraction(len(values), 2 ** (bits + 1))
    parts = [exact_sum(np.array(values[start : start + 5]), bits) for start in range(0, len(values), 5)]
    assert sum(part for part in parts if part is not None) == found


def test_what_is_not_finite_is_not_summed() -> None:
    for value in (math.nan, math.inf, -math.inf):
        assert exact_sum(np.array([1.0, value]), 40) is None
        moments = UnitMoments(("a",), None)
        moments.add(np.array([[1.0], [value]]), None)
        assert math.isnan(moments.mean("a")) and math.isnan(moments.error("a"))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(numbers, min_size=1, max_size=6), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_means_over_children_do_not_depend_on_their_order_or_company(groups: list[list[float]], random: Any) -> None:
    def means(found: list[list[float]]) -> list[float]:
        parent = np.repeat(np.arange(len(found)), [len(group) for group in found])
        return SiblingGroups.of(parent, len(found)).means(np.array(list(itertools.chain(*found)))).tolist()

    whole = means(groups)
    shuffled = [random.sample(group, len(group)) for group in groups]
    assert means(shuffled) == whole
    for group, value in zip(groups, whole, strict=True):
        if len(groups) > 1 and len(group) > 1:
            assert means([group]) == [value]  # whatever else is in the batch
        largest = max(abs(item) for item in group)
        if largest < 1e200:
            assert abs(value - float(sum(map(Fraction, group)) / len(group))) <= 1e-12 + 1e-13 * largest


def test_rounding_leaves_whole_numbers_and_lost_bets_alone() -> None:
    values = np.array([[-1.0, math.nan], [0.0, 2.0], [0.5, 0.0], [1.0, 4.0]])
    found = round_for_sums(values, np.array([0, 2]), np.array([2, 2]))
    np.testing.assert_array_equal(found, values)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), numbers), min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_clusters_do_not_depend_on_the_order_of_episodes(episodes: list[tuple[int, float]], random: Any) -> None:
    if any(abs(value) > 1e12 for _, value in episodes):
        episodes = [(key, math.copysign(1e11, value) if abs(value) > 1e12 else value) for key, value in episodes]

    def units(found: list[tuple[int, float]], step: int) -> dict[int, float]:
        clusters = ClusterUnits(np.array([0.25]), None, "m")
        for start in range(0, len(found), step):
            part = found[start : start + step]
            clusters.add(np.array([key for key, _ in part]), np.array([[value] for _, value in part]))
        return {key: clusters.units()[row, 0] for key, row in clusters.rows.items()}

    whole = units(episodes, 100)
    assert units(random.sample(episodes, len(episodes)), 3) == whole
    for key, value in whole.items():
        own = [Fraction(item) for k, item in episodes if k == key]
        assert value == pytest.approx(float(sum(own) / len(own)), rel=1e-9, abs=1e-12)


def test_clusters_with_weights_beyond_measure_and_lost_bets() -> None:
    clusters = ClusterUnits(np.zeros(2), None, "m")
    clusters.add(np.array([1, 2]), np.array([[1e15, math.nan], [1.0, 2.0]]))
    clusters.add(np.array([3]), np.array([[5.0, 6.0]]))
    np.testing.assert_array_equal(clusters.units(), [[1e15, math.nan], [1.0, 2.0], [5.0, 6.0]])


def test_spreads_do_not_depend_on_order() -> None:
    weights = np.random.default_rng(1).lognormal(0, 3, 5000)
    found = []
    for order in (np.arange(5000), np.random.default_rng(2).permutation(5000)):
        spread = WeightSpread()
        for part in np.array_split(weights[order], 7):
            spread.add(part)
        found.append(spread.plain())
        assert float(spread.mass.sum()) == pytest.approx(weights.sum(), rel=1e-9)
        assert spread.square == pytest.approx((weights**2).sum(), rel=1e-9)
    assert found[0] == found[1]


def numbers_of(certificate: Certificate) -> dict[str, Any]:
    """Return all numbers of a certificate but for its path, which is in the order of the log, and the figures of the audit."""
    levels = [{name: value for name, value in asdict(level).items() if name != "path"} for level in certificate.levels]
    return {
        "levels": levels,
        "counts": certificate.counts,
        "splits": certificate.splits,
        "weights": certificate.diagnostics["weights"],
        "subgroups": certificate.diagnostics["subgroups"],
        "candidates": certificate.candidates,
    }


HEADS = {"plain": GUARD, "clusters": f"{GUARD}\ncluster: line", "outer reward": GUARD}


KINDS = list(itertools.product(HEADS, ["auto", "robust", "plain"]))


@pytest.mark.parametrize(("case", "method"), few(KINDS, KINDS[::4]))
def test_certificates_do_not_depend_on_order_or_blocks(case: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reward = ", per: recipe" if case == "outer reward" else ""
    text = problem_text(head=HEADS[case], reward=reward).replace("    decision: step\n", "")
    problem = parse_problem(text)
    table = make_table(60)
    if case == "outer reward":
        first = table["margin"].to_numpy().reshape(-1, 3)[:, 0]
        table = table.set_column(table.column_names.index("margin"), "margin", pa.array(np.repeat(first, 3)))
    candidate = Candidate(better_policy(problem), "mine")
    batches, found = Source.batches, []
    for rows, size in ((table, 10**6), (table, 40), (table.take(np.random.default_rng(5).permutation(180)), 70)):

        def blocks(self: Source, *rest: Any, size: int = size, **more: Any) -> Any:
            return batches(self, *rest, **{**more, "rows": size})

        monkeypatch.setattr(Source, "batches", blocks)
        found.append(numbers_of(certify(source_of(rows, problem), candidate, method=method, by=("task",), ledger=False)))
    assert found[0] == found[1]
    if case == "outer reward":  # the logarithms of several weights below an outer decision are added in the order of the rows
        assert found[0]["counts"] == found[2]["counts"]
    else:
        assert found[0] == found[2]


def test_learned_candidates_do_not_depend_on_order_either() -> None:
    table, problem = make_table(60), problem_of()
    learned = learn(source_of(table), Split("hash", "k", 0.5), CandidateSettings("capped", 2.0))
    shuffled = table.take(np.random.default_rng(5).permutation(180))
    found = [numbers_of(certify(source_of(rows, problem), learned, ledger=False)) for rows in (table, shuffled)]
    assert found[0] == found[1]
