"""Verdicts of claims, against formulas written out."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from bench_cases import results
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from aegis.errors import SettingError
from aegis.paper import BenchResults, judge_claim
from aegis.paper.bench_claims import FAILS, HOLDS, TESTS, TIE_RUNS, UNTESTED, JudgedClaim
from aegis.paper.bench_file import BenchClaim

numbers = st.lists(st.floats(-50, 50).map(lambda x: round(x, 3)), min_size=2, max_size=6)
many_numbers = st.lists(st.floats(-50, 50).map(lambda x: round(x, 3)), min_size=8, max_size=12)


def judged(test: str, found: object, **given: object) -> JudgedClaim:
    return judge_claim(BenchClaim.model_validate({"says": "so", "test": test, "with": given}), found)  # type: ignore[arg-type]


@settings(deadline=None)
@given(numbers, numbers)
def test_welch_is_its_formula(a: list[float], b: list[float]) -> None:
    found = judged("welch", results({("a", None): a, ("b", None): b}), above="a", below="b")
    va, vb = np.var(a, ddof=1) / len(a), np.var(b, ddof=1) / len(b)
    if np.ptp(a) == np.ptp(b) == 0:
        assert found.verdict == UNTESTED
        return
    t = (np.mean(a) - np.mean(b)) / math.sqrt(va + vb)
    df = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    p = stats.t.sf(t, df)
    assert found.verdict == (HOLDS if p < 0.05 else FAILS)
    assert f"t = {t:.2f}, df = {df:.1f}" in found.why


@settings(deadline=None)
@given(many_numbers, many_numbers)
def test_tied_is_a_welch_test_of_both_sides_that_cannot_tell_two_arms_apart(a: list[float], b: list[float]) -> None:
    if np.ptp(a) == np.ptp(b) == 0:
        return
    found = results({("a", None): a, ("b", None): b})
    moments = [part for own in (a, b) for part in (np.mean(own), np.std(own, ddof=1), len(own))]
    p = stats.ttest_ind_from_stats(*moments, equal_var=False).pvalue
    assert judged("tied", found, left="a", right="b").verdict == (FAILS if p < 0.05 else HOLDS)


@settings(deadline=None)
@given(numbers)
def test_paired_is_its_formula(a: list[float]) -> None:
    b = [x - 1 + 0.1 * place for place, x in enumerate(a)]
    difference = np.array(a) - np.array(b)
    found = judged("paired", results({("a", None): a, ("b", None): b}), above="a", below="b")
    t = difference.mean() / (difference.std(ddof=1) / math.sqrt(len(a)))
    assert f"t = {t:.2f}, df = {len(a) - 1:.1f}" in found.why
    assert found.verdict == (HOLDS if stats.t.sf(t, len(a) - 1) < 0.05 else FAILS)


def test_limits() -> None:
    found = results({("a", None): [1.0, 3.0]})
    assert judged("within", found, arm="a", low=2).verdict == HOLDS
    assert judged("within", found, arm="a", low=2.1).verdict == FAILS
    assert judged("within", found, arm="a", high=1.9).verdict == FAILS
    assert judged("share", results({("a", None): [1, 0, 1, 1]}), arm="a", metric="reward", least=0.75).verdict == HOLDS


def test_sweeps() -> None:
    rising = results({("a", value): [value + 0.1, value - 0.1, value] for value in (1, 2, 3)}, swept=True)
    assert judged("trend", rising, arm="a", sign=1).verdict == HOLDS
    assert judged("trend", rising, arm="a", sign=-1).verdict == FAILS
    assert judged("flat", rising, arm="a", most=2.0).verdict == HOLDS
    assert judged("flat", rising, arm="a", most=1.9).verdict == FAILS
    assert judged("peak", rising, arm="a", values=[3]).verdict == HOLDS
    assert judged("peak", rising, arm="a", values=[1, 2]).verdict == FAILS
    elsewhere = judged("peak", rising, arm="a", values=[0.5, 4])
    assert elsewhere.verdict == UNTESTED and elsewhere.why.startswith("a was not run at 0.5, 4; largest at 3")
    assert judged("welch", rising, above="a@3", below="a@1").verdict == HOLDS
    assert judged("welch", rising, above="a@4", below="a@1").verdict == UNTESTED
    with pytest.raises(SettingError, match="a@1"):
        judged("welch", rising, above="a", below="a@1")


def test_over_draws_the_draws_are_the_units() -> None:
    gaps = {1: 4.0, 2: 5.0, 3: 9.0}
    runs = {("a", value): [gap, gap + 1, gap + 2] for value, gap in gaps.items()}
    found = results(runs | {("b", value): [0.0, 1.0, 2.0] for value in gaps}, swept=True)
    t = 6.0 / (np.std([4, 5, 9], ddof=1) / math.sqrt(3))
    answer = judged("draws", found, above="a", below="b")
    assert f"over 3 draws: difference 6, t = {t:.2f}, df = 2.0, p = {stats.t.sf(t, 2):.1e}; from 4.0 to 9.0" in answer.why
    assert answer.verdict == HOLDS
    assert judged("draws", found, above="b", below="a").verdict == FAILS
    # The same runs again in every draw are no more evidence.
    again = results({key: [*own, *own, *own] for key, own in found_numbers(found).items()}, swept=True)
    assert judged("draws", again, above="a", below="b").why.startswith(answer.why.split("; within")[0])


def found_numbers(found: BenchResults) -> dict[tuple[str, object], list[float]]:
    return {key: [item["reward"] for item in own.values()] for key, own in found.runs.items()}


def test_in_every_run() -> None:
    found = results({("a", None): [1.0, 3.0, 2.0]})
    assert judged("every", found, arm="a", metric="reward", than=0.5).verdict == HOLDS
    assert judged("every", found, arm="a", metric="reward", than=1.0).why == "2 of 3 runs"
    assert judged("every", found, arm="a", metric="reward", than="reward").verdict == FAILS


def test_factor() -> None:
    found = results({("a", None): [[-8.0, -4.0], [-12.0, -6.0]]}, metric="bound")
    found = replace(found, bench=found.bench.model_copy(update={"points": [10.0, 20.0]}))
    assert judged("factor", found, arm="a", metric="bound@10", over="bound@20", low=1.9, high=2.1).verdict == HOLDS
    assert judged("factor", found, arm="a", metric="bound@10", over="bound@20", low=2.1, high=3).verdict == FAILS
    with pytest.raises(SettingError, match="30"):
        judged("within", found, arm="a", metric="bound@30", low=0)


def test_whose_claim_it_is() -> None:
    claim = {"says": "so", "test": "within", "with": {"arm": "a", "low": 0}}
    found = results({("a", None): [1.0, 3.0]})
    assert judge_claim(BenchClaim.model_validate(claim), found).of == "ours"
    assert judge_claim(BenchClaim.model_validate({**claim, "paper": "yes"}), found).of == "paper"
    assert judge_claim(BenchClaim.model_validate({**claim, "paper": "open", "of": "ours"}), found).of == "ours"


def test_contraction() -> None:
    found = results({("a", None): [[-8.0, -4.0], [-12.0, -6.0]]}, metric="bound")
    assert judged("contraction", found, arm="a", metric="bound", low=1.9, high=2.1).verdict == HOLDS
    assert judged("contraction", found, arm="a", metric="bound", low=2.5, high=3).verdict == FAILS


def two_metrics(left: list[float], right: list[float], runs: int = 2) -> BenchResults:
    found = results({("a", value): [left[value - 1]] * runs for value in (1, 2, 3)}, swept=True)
    for (_, value), own in found.runs.items():
        for item in own.values():
            item["bound"] = right[value - 1]
    return found


def test_two_metrics_that_peak_at_the_same_place() -> None:
    assert judged("same peak", two_metrics([1, 5, 2], [-9, -3, -4]), arm="a", metric="reward", than="bound").verdict == HOLDS
    apart = {runs: two_metrics([1, 5, 2], [-9, -3, -2], runs) for runs in (TIE_RUNS, TIE_RUNS - 1)}
    assert judged("same peak", apart[TIE_RUNS], arm="a", metric="reward", than="bound").verdict == FAILS
    assert judged("same peak", apart[TIE_RUNS - 1], arm="a", metric="reward", than="bound").verdict == FAILS  # a clear difference
    assert (
        judged("same peak", two_metrics([1, 5, 2], [-9, -3, -2], 1), arm="a", metric="reward", than="bound").verdict == UNTESTED
    )
    assert judged("same peak", two_metrics([1, 1, 1], [-9, -3, -2]), arm="a", metric="reward", than="bound").verdict == UNTESTED


def test_a_peak_by_chance_is_a_tie() -> None:
    pattern = {1: [1.0, 2.0, 3.0], 2: [0.9, 2.3, 3.0], 3: [9.0, 9.5, 9.1]}
    found = results({("a", value): own * 3 for value, own in pattern.items()}, swept=True)
    only = results({("a", value): [item["reward"] for item in found.runs["a", value].values()] for value in (1, 2)}, swept=True)
    p = stats.ttest_1samp(np.array([-0.1, 0.3, 0.0] * 3), 0.0, alternative="greater").pvalue
    only.runs["a", 3] = {}
    small = replace(only, runs={key: own for key, own in only.runs.items() if own})
    assert judged("peak", small, arm="a", values=[1]).verdict == FAILS
    tied = judged("peak", small, arm="a", values=[1], tie=0.01)
    assert tied.verdict == HOLDS and f"above 1: paired p = {p:.2g}" in tied.why
    assert judged("peak", found, arm="a", values=[1], tie=0.05).verdict == FAILS
    for own, bound in zip(found.runs["a", 3].values(), (7.0, 8.0, 7.5) * 3, strict=True):
        own["bound"] = bound
    for value in (1, 2):
        for own in found.runs["a", value].values():
            own["bound"] = 9.0 if value == 2 else 1.0
    assert judged("same peak", found, arm="a", metric="reward", than="bound").verdict == FAILS


def test_two_metrics_that_rank_values_alike() -> None:
    rising = two_metrics([1, 2, 3], [-9, -3, -4])  # ranks 1 2 3 and 1 3 2: rho = 1 - 6 * 2 / 24
    answer = judged("ranks", rising, arm="a", metric="reward", than="bound", low=0.5, high=0.5)
    assert answer.verdict == HOLDS and "rho = 0.50 over 1, 2, 3" in answer.why
    assert judged("ranks", rising, arm="a", metric="reward", than="bound", low=1.0).verdict == FAILS
    opposite = two_metrics([1, 2, 3], [3, 2, 1])
    assert judged("ranks", opposite, arm="a", metric="reward", than="bound", high=-1.0).verdict == HOLDS
    assert judged("ranks", opposite, arm="a", metric="reward", than="bound", values=[1, 2]).verdict == UNTESTED
    assert judged("ranks", opposite, arm="a", metric="reward", than="bound", to_peak=True).verdict == UNTESTED
    assert "over 1, 2, 3" in judged("ranks", opposite, arm="a", metric="bound", than="reward", to_peak=True).why


def test_concave_is_above_every_chord() -> None:
    assert judged("concave", two_metrics([1, 5, 2], [0, 0, 0]), arm="a", metric="reward").verdict == HOLDS
    bent = judged("concave", two_metrics([1, 1.5, 4], [0, 0, 0]), arm="a", metric="reward")
    assert bent.verdict == FAILS and "at 2: by -1" in bent.why
    assert judged("concave", two_metrics([1, 1.5, 4], [0, 0, 0]), arm="a", metric="reward", values=[1, 3]).verdict == UNTESTED


def test_runs_of_all_draws_are_pooled() -> None:
    pattern = {("a", 1): [3.0, 4.0], ("a", 2): [5.0, 9.0], ("b", 1): [1.0, 2.0], ("b", 2): [0.5, 4.0]}
    answer = judged("pooled", results(pattern, swept=True), above="a", below="b", level=0.2)
    test = stats.ttest_ind([3, 4, 5, 9], [1, 2, 0.5, 4], equal_var=False, alternative="greater")
    assert answer.verdict == (HOLDS if test.pvalue < 0.2 else FAILS) and f"t = {test.statistic:.2f}" in answer.why
    assert "over 4 and 4 runs" in answer.why


@pytest.mark.parametrize(("offset", "verdict"), [(-0.1, HOLDS), (-2.0, FAILS), (1.0, HOLDS)])
def test_a_shape_that_chance_explains_is_concave(offset: float, verdict: str) -> None:
    noise = np.array([0.5, -0.4, 0.3, -0.2] * 2)
    found = results({("a", 1): list(0 * noise), ("a", 2): list(5 + offset + noise), ("a", 3): [10.0] * 8}, swept=True)
    p = stats.ttest_1samp(-(offset + noise), 0.0, alternative="greater").pvalue
    answer = judged("concave", found, arm="a", metric="reward")
    assert answer.verdict == verdict == (FAILS if p < 0.05 else HOLDS) and f"p = {p:.2g} for lying below" in answer.why


def test_few_runs_conclude_no_shape_from_a_mean_that_lies_below() -> None:
    found = results({("a", 1): [0.0, 0.0], ("a", 2): [4.9, 5.0], ("a", 3): [10.0, 10.0]}, swept=True)
    answer = judged("concave", found, arm="a", metric="reward")
    assert answer.verdict == UNTESTED and "a tie needs" in answer.why


def test_what_cannot_be_tested_says_why() -> None:
    assert judged("welch", results({("a", None): [1.0], ("b", None): [2.0]}), above="a", below="b").why.startswith("two seeds")
    assert "was not run" in judged("welch", results({("a", None): [1.0, 2.0], ("b", None): []}), above="a", below="b").why
    assert "no 'other'" in judged("within", results({("a", None): [1.0]}), arm="a", metric="other", low=0).why


def test_every_test_is_documented() -> None:
    assert all(test.__doc__ for test in TESTS.values())


def test_two_arms_so_many_times_or_so_far_apart() -> None:
    found = results({("a", None): [30.0, 34.0], ("b", None): [4.0, 4.0]})
    assert judged("times", found, above="a", below="b", low=7.9, high=8.1).verdict == HOLDS
    assert judged("times", found, above="a", below="b", low=8.1, high=9.0).verdict == FAILS
    assert judged("gap", found, above="a", below="b", low=27.9, high=28.1).verdict == HOLDS
    assert judged("gap", found, above="b", below="a", low=27.9, high=28.1).verdict == FAILS


def test_flat_over_some_values_of_the_sweep() -> None:
    found = results({("a", value): [number, number] for value, number in {1: 0.0, 2: 5.0, 3: 6.0}.items()}, swept=True)
    assert judged("flat", found, arm="a", most=1.0).verdict == FAILS
    assert judged("flat", found, arm="a", most=1.0, values=[2, 3]).verdict == HOLDS
    assert judged("flat", found, arm="a", most=1.0, values=[2]).verdict == UNTESTED


def test_in_a_trend_what_never_came_is_last() -> None:
    later = {("a", value): [10.0 * value + seed for seed in range(4)] for value in (1, 2)} | {("a", 3): [float("nan")] * 4}
    answer = judged("trend", results(later, swept=True), arm="a", sign=1)
    assert answer.verdict == HOLDS and "4 of 12 runs never, counted as last" in answer.why
    never = results({("a", value): [float("nan")] * 2 for value in (1, 2, 3)}, swept=True)
    assert judged("trend", never, arm="a", sign=1).verdict == UNTESTED


def test_a_tie_is_not_what_few_runs_cannot_see() -> None:
    few, enough = (results({("a", None): [1.0, 2.0] * half, ("b", None): [1.1, 2.1] * half}) for half in (3, 4))
    answer = judged("tied", few, left="a", right="b")
    assert answer.verdict == UNTESTED and answer.why.startswith(
        "a tie needs 8 runs of each arm or more, there are 6; difference -0.1,"
    )
    assert judged("tied", enough, left="a", right="b").verdict == HOLDS
    swept = {runs: results({("a", 1): [0.0, 1.0] * runs, ("a", 2): [1.0, 0.1] * runs}, swept=True) for runs in (3, 4)}
    assert judged("peak", swept[3], arm="a", values=[1], tie=0.05).verdict == UNTESTED
    assert judged("peak", swept[4], arm="a", values=[1], tie=0.05).verdict == HOLDS
    assert judged("peak", swept[3], arm="a", values=[2], tie=0.05).verdict == HOLDS  # strictly there
    assert judged("peak", swept[3], arm="a", values=[1]).verdict == FAILS  # no tie is claimed
    assert "largest at 2: 1: 0.50, 2: 0.55" in judged("peak", swept[3], arm="a", values=[1], tie=0.05).why


@pytest.mark.parametrize("runs", [2, TIE_RUNS])
def test_few_runs_see_a_clear_difference(runs: int) -> None:
    """A small sample is a reason to conclude no tie; what a test sees in it is a difference."""
    noise = [0.01 * seed for seed in range(runs)]
    apart = results({("a", None): noise, ("b", None): [9.0 + own for own in noise]})
    assert judged("tied", apart, left="a", right="b").verdict == FAILS
    swept = results({("a", value): [9.0 * value + own**value for own in noise] for value in (1, 2, 3)}, swept=True)
    for own in (item for (_, value), runs_of in swept.runs.items() for item in runs_of.values() if value == 1):
        own["bound"] = 1.0
    for own in (item for (_, value), runs_of in swept.runs.items() for item in runs_of.values() if value > 1):
        own["bound"] = 0.0
    peak = judged("peak", swept, arm="a", values=[1, 2], tie=0.05)
    assert peak.verdict == FAILS and "largest at 3" in peak.why
    assert judged("same peak", swept, arm="a", metric="reward", than="bound").verdict == FAILS


def flips(*episodes: float | None, arm: str = "a") -> BenchResults:
    """Return results of a gate that flipped at some episodes, None where it did not."""
    found = results(
        {(arm, None): list(episodes), ("b", None): [1.0 + seed for seed in range(len(episodes))]}, metric="flip_inner"
    )
    for own in found.runs.values():
        for item in own.values():
            flipped = item["flip_inner"] is not None
            item |= {"flipped_inner": int(flipped), "flip_meta": None, "flipped_meta": 0, "wrong": 0, "bound_before_inner": None}
            item |= {"before_inner": 1.0, "after_inner": 2.0 + item["flip_inner"] / 1000} if flipped else {}
            item |= {} if flipped else {"before_inner": None, "after_inner": None}
    return found


OF_FLIPS = [
    ("within", {"arm": "a", "low": 0}),
    ("gap", {"above": "a", "below": "b", "low": 0, "high": 1}),
    ("times", {"above": "b", "below": "a", "low": 0, "high": 1}),
    ("factor", {"arm": "a", "over": "flip_inner", "low": 0, "high": 1}),
    ("welch", {"above": "a", "below": "b"}),
    ("tied", {"left": "a", "right": "b"}),
    ("paired", {"above": "a", "below": "b"}),
    ("every", {"arm": "a", "than": 0}),
    ("share", {"arm": "a"}),
    ("positive", {"arm": "a"}),
]


@pytest.mark.parametrize(("test", "entries"), OF_FLIPS)
def test_a_flip_that_never_came_is_nothing_to_judge(test: str, entries: dict[str, object]) -> None:
    never = judged(test, flips(None, None, None), metric="flip_inner", **entries)
    assert (never.verdict, never.why) == (UNTESTED, "a: no run flipped (inner)")
    some = judged(test, flips(9.0, None, 7.0), metric="flip_inner", **entries)
    assert (some.verdict, some.why) == (UNTESTED, "a: 1 of 3 runs have no 'flip_inner'")


def test_before_and_after_a_flip_says_why_there_is_nothing_to_test() -> None:
    entries = {"arm": "a", "metric": "after_inner", "than": "before_inner"}
    assert judged("higher", flips(None, None, None), **entries).why == "a: no run flipped (inner)"
    one = judged("higher", flips(9.0, None, None), **entries)
    assert one.verdict == UNTESTED and one.why.startswith("a: 2 of 3 runs have no 'after_inner'")
    two = judged("higher", flips(9.0, None, 8.0), **entries)
    assert two.verdict == HOLDS and two.why.endswith("; in 2 of 3 runs, the others have no such numbers")
    flipped = judged("within", flips(9.0, 8.0), arm="a", metric="bound_before_inner", low=0)
    assert flipped.why == "a: no run has 'bound_before_inner'"  # which flipped, and whose gate does not compute it
    assert judged("within", flips(9.0, 8.0), arm="a", metric="flip_meta", low=0).why == "a: no run flipped (meta)"


def test_over_what_is_swept_a_missing_number_is_nothing_to_judge() -> None:
    nan = float("nan")
    found = results({("a", value): [float(value), nan if value == 2 else 1.0] for value in (1, 2, 3)}, swept=True)
    tests: dict[str, dict[str, object]] = {"flat": {"most": 1.0}, "peak": {"values": [1]}, "concave": {"metric": "reward"}}
    for test, entries in tests.items():
        answer = judged(test, found, arm="a", **entries)
        assert (answer.verdict, answer.why) == (UNTESTED, "a: 1 of 2 runs have no 'reward'")
    both = results({(arm, value): [float(value), nan] for arm in ("a", "b") for value in (1, 2, 3)}, swept=True)
    assert judged("draws", both, above="a", below="b").verdict == UNTESTED


def test_of_numbers_that_are_all_alike_nothing_is_tested() -> None:
    alike = results({(arm, value): [1.0, 1.0] for arm in ("a", "b") for value in (1, 2, 3)}, swept=True)
    assert judged("draws", alike, above="a", below="b").verdict == UNTESTED
    assert judged("trend", alike, arm="a", sign=1).verdict == UNTESTED
    nothing = results({("a", None): [1.0, 2.0], ("b", None): [0.0, 0.0]})
    assert judged("times", nothing, above="a", below="b", low=1, high=2).why == "1.5 over 0: there is no factor"


def test_a_share_of_those_runs_that_flipped() -> None:
    entries = {"arm": "a", "metric": "wrong", "most": 0.0}
    assert judged("share", flips(None, None), **entries).verdict == HOLDS  # of all runs
    never = judged("share", flips(None, None), among="flipped_inner", **entries)
    assert (never.verdict, never.why) == (UNTESTED, "a: no run flipped (inner)")
    found = flips(9.0, None, 8.0)
    assert judged("share", found, among="flipped_inner", **entries).why == "0 of 2 runs with flipped_inner"
    found.runs["a", None][2]["wrong"] = 1
    assert judged("share", found, among="flipped_inner", **entries).verdict == FAILS
    assert judged("share", found, arm="a", metric="flipped_inner", among="wrong", least=1.0).why == "1 of 1 runs with wrong"


@settings(deadline=None)
@given(numbers)
def test_positive_is_its_formula(a: list[float]) -> None:
    answer = judged("positive", results({("a", None): a}), arm="a")
    if np.ptp(a) == 0:
        assert answer.verdict == UNTESTED
        return
    t = np.mean(a) / (np.std(a, ddof=1) / math.sqrt(len(a)))
    p = stats.t.sf(t, len(a) - 1)
    assert answer.verdict == (HOLDS if p < 0.05 else FAILS)
    assert answer.why.startswith(f"mean {np.mean(a):.4g}, t = {t:.2f}, df = {len(a) - 1:.1f}")
    assert judged("positive", results({("a", None): a}), arm="a", level=p + 1e-9).verdict == HOLDS
