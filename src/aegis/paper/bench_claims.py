"""Claims of a bench and their tests: each holds, does not hold, or cannot be tested, with the numbers behind it.

A test is a function of results and of the entries under `with` in the file. Arms are named as `nested_cts`, or
`nested_cts@0.5` for a swept value.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from aegis.errors import SettingError, check_choice
from aegis.paper.bench_file import BenchClaim
from aegis.paper.bench_results import FLIPPED, BenchResults, MissingResult, check_scope
from aegis.paper.bench_units import key_of
from aegis.problem import Array

HOLDS, FAILS, UNTESTED = "holds", "does not hold", "cannot be tested"
ROUND_OFF = 1e-9  # of a rank correlation
TIE_RUNS = 8  # of each arm: with fewer, a test that sees no difference says little, and no tie is concluded
Answer = tuple[bool, str]  # whether it holds, and the numbers


@dataclass(frozen=True)
class JudgedClaim:
    """A claim with its verdict and the numbers behind it, and the statement of the paper that it judges."""

    says: str
    verdict: str
    why: str
    paper: str
    of: str = "ours"
    statement: str = ""
    reading: str = ""


def judge_claim(claim: BenchClaim, results: BenchResults) -> JudgedClaim:
    """Return a claim's verdict on results."""
    try:
        check_scope(claim, results)
        holds, why = TESTS[claim.test](results, **claim.entries)
        verdict = HOLDS if holds else FAILS
    except MissingResult as missing:
        verdict, why = UNTESTED, str(missing)
    judged = {"statement": claim.statement or claim.says, "reading": claim.reading}
    return JudgedClaim(says=claim.says, verdict=verdict, why=why, paper=claim.paper, of=claim.whose, **judged)


def welch(
    results: BenchResults,
    above: str,
    below: str,
    metric: str = "reward",
    at: int | None = None,
    level: float = 0.05,
    alternative: str = "greater",
) -> Answer:
    """Say whether one arm is above another: Welch's t-test, one-sided unless `alternative` says 'two-sided'."""
    left, right = (_of(results, arm, metric, at) for arm in (above, below))
    _enough(left, right)
    test = _two_samples(left, right, alternative)
    return bool(test.pvalue < level), _test_words(left.mean() - right.mean(), test.statistic, test.df, test.pvalue)


def pooled(results: BenchResults, above: str, below: str, metric: str = "reward", level: float = 0.05) -> Answer:
    """Say whether one arm is above another over all runs at all values of what is swept: Welch's t-test, one-sided."""
    left, right = (np.concatenate([_at(results, arm, metric, value) for value in results.values()]) for arm in (above, below))
    _enough(left, right)
    test = _two_samples(left, right)
    words = _test_words(left.mean() - right.mean(), test.statistic, test.df, test.pvalue)
    return bool(test.pvalue < level), f"over {left.size} and {right.size} runs: {words}"


def tied(
    results: BenchResults, left: str, right: str, metric: str = "reward", at: int | None = None, level: float = 0.05
) -> Answer:
    """Say whether Welch's test cannot distinguish two arms; a tie needs `TIE_RUNS` runs of each or more."""
    differ, why = welch(results, left, right, metric, at, level, "two-sided")
    if not differ:
        _enough_for_a_tie(why, *(_of(results, arm, metric, at) for arm in (left, right)))
    return not differ, why


def paired(
    results: BenchResults, above: str, below: str, metric: str = "reward", at: int | None = None, level: float = 0.05
) -> Answer:
    """Say whether one arm is above another, seed by seed: paired t-test, one-sided."""
    for arm in (above, below):
        _of(results, arm, metric, at)
    left, right = results.pairs(named_arm(results, above), named_arm(results, below), metric, at)
    return _one_sample(left - right, level)


def higher(results: BenchResults, arm: str, metric: str, than: str, level: float = 0.05) -> Answer:
    """Say whether one metric of an arm is above another one of the same runs: paired t-test, one-sided.

    Runs that lack either, such as those that never flipped, do not count.
    """
    name, value = named_arm(results, arm)
    left, right = (results.of(name, own, value) for own in (metric, than))
    known = np.isfinite(left) & np.isfinite(right)
    count = int(known.sum())
    if count < min(2, known.size):
        raise MissingResult(
            "; ".join(dict.fromkeys(filter(None, (results.missing_words(name, m, value) for m in (metric, than)))))
        )
    holds, why = _one_sample((left - right)[known], level)
    return holds, why if known.all() else f"{why}; in {count} of {known.size} runs, the others have no such numbers"


def positive(results: BenchResults, arm: str, metric: str = "reward", at: int | None = None, level: float = 0.05) -> Answer:
    """Say whether the mean of a metric is above 0: one-sided t-test."""
    numbers = _of(results, arm, metric, at)
    _enough(numbers)
    test = _above_zero(numbers)
    return bool(test.pvalue < level), _test_words(numbers.mean(), test.statistic, test.df, test.pvalue, "mean")


def above_over_draws(results: BenchResults, above: str, below: str, metric: str = "reward", level: float = 0.05) -> Answer:
    """Say whether one arm is above another over draws, the values of what is swept: one-sided t-test of their mean differences.

    Runs of one draw share it, so that the draws are the units; the result of each draw is shown, too.
    """
    pairs = [(_at(results, above, metric, value), _at(results, below, metric, value)) for value in results.values()]
    gaps = np.array([left.mean() - right.mean() for left, right in pairs])
    if gaps.size < 2:
        raise MissingResult("two draws or more are needed")
    if np.ptp(gaps) == 0:
        raise MissingResult("every draw gave the same difference: there is no spread to test against")
    test = _above_zero(gaps)
    each = [float(_two_samples(left, right).pvalue) for left, right in pairs if min(left.size, right.size) > 1]
    inside = f"; within draws p from {min(each):.1e} to {max(each):.1e}" if each else ""
    words = _test_words(float(gaps.mean()), test.statistic, test.df, test.pvalue)
    return bool(test.pvalue < level), f"over {gaps.size} draws: {words}; from {gaps.min():.1f} to {gaps.max():.1f}{inside}"


def above_in_every_run(results: BenchResults, arm: str, metric: str, than: str | float) -> Answer:
    """Say whether one metric of an arm is above another one, or above a number, in every run."""
    above = _of(results, arm, metric) > (_of(results, arm, than) if isinstance(than, str) else than)
    return bool(above.all()), f"{int(above.sum())} of {above.size} runs"


def factor(results: BenchResults, arm: str, metric: str, over: str, low: float, high: float) -> Answer:
    """Say whether the mean of one metric is so many times that of another one."""
    left, right = (_of(results, arm, name) for name in (metric, over))
    return _ratio(float(left.mean()), float(right.mean()), low, high)


def times(results: BenchResults, above: str, below: str, low: float, high: float, metric: str = "reward") -> Answer:
    """Say whether the mean of a metric in one arm is so many times that in another one."""
    left, right = (float(_of(results, arm, metric).mean()) for arm in (above, below))
    return _ratio(left, right, low, high)


def gap(results: BenchResults, above: str, below: str, low: float, high: float, metric: str = "reward") -> Answer:
    """Say whether the mean of a metric in one arm is so much above that in another one: the difference lies between limits."""
    left, right = (_of(results, arm, metric) for arm in (above, below))
    difference = float(left.mean() - right.mean())
    words = f"{left.mean():.4g} against {right.mean():.4g}, {difference:.4g} apart; asked {low:g} to {high:g}"
    return bool(low <= difference <= high), words


def within(
    results: BenchResults,
    arm: str,
    low: float | None = None,
    high: float | None = None,
    metric: str = "reward",
    at: int | None = None,
) -> Answer:
    """Say whether the mean of a metric lies between limits."""
    mean = float(_of(results, arm, metric, at).mean())
    inside = (low is None or mean >= low) and (high is None or mean <= high)
    limits = " and ".join(f"{word} {end:g}" for word, end in (("at least", low), ("at most", high)) if end is not None)
    return inside, f"{mean:.4g}, asked {limits}"


def stays_flat(results: BenchResults, arm: str, most: float, metric: str = "reward", values: list[Any] | None = None) -> Answer:
    """Say whether the mean of a metric hardly moves with what is swept. values: some of them; all by default."""
    wanted = None if values is None else [key_of(value) for value in values]
    swept = [value for value in results.values() if wanted is None or key_of(value) in wanted]
    means = [float(_at(results, arm, metric, value).mean()) for value in swept]
    if len(means) < 2:
        raise MissingResult("only one value of the sweep was run")
    return max(means) - min(means) <= most, f"from {min(means):.2f} to {max(means):.2f}, asked within {most:g}"


def trend(results: BenchResults, arm: str, sign: int, metric: str = "reward", level: float = 0.05) -> Answer:
    """Say whether a metric rises (sign 1) or falls (-1) with what is swept: Spearman's rank correlation over all runs.

    A run without the number, such as the episode of a flip that never came, ranks above all others.
    """
    swept = [(float(value), number) for value in results.values() for number in results.of(arm, metric, value)]
    if len({value for value, _ in swept}) < 3:
        raise MissingResult("a trend needs three values of the sweep or more")
    never = sum(np.isnan(number) for _, number in swept)
    if never == len(swept):
        raise MissingResult(results.missing_words(arm, metric, results.values()[0]))
    if not never and len({number for _, number in swept}) == 1:
        raise MissingResult("every run gave the same number: there is nothing to rank")
    ranked = stats.rankdata([np.inf if np.isnan(number) else number for _, number in swept])
    test = stats.spearmanr([value for value, _ in swept], ranked)
    words = f"Spearman rho = {test.statistic:.2f}, p = {test.pvalue:.1e}"
    last = f"; {never} of {len(swept)} runs never, counted as last" if never else ""
    return bool(test.pvalue < level and np.sign(test.statistic) == sign), words + last


def peak(results: BenchResults, arm: str, values: list[Any], metric: str = "reward", tie: float = 1.0) -> Answer:
    """Say whether the largest mean is found at one of some values of what is swept.

    tie: it also holds if a paired test between the largest mean and the best of these values has a p-value above that. Such a
    tie needs `TIE_RUNS` runs of each or more; a difference that the test sees does not.
    """
    means = _means(results, arm, metric)
    best = max(means, key=lambda key: means[key])
    inside = [key for key in means if key in [key_of(value) for value in values]]
    words = f"largest at {best}: " + ", ".join(f"{k}: {m:.2f}" for k, m in means.items()) + _beside(results, arm, metric, means)
    if not inside:
        raise MissingResult(f"{arm} was not run at {', '.join(key_of(value) for value in values)}; {words}")
    if best in inside:
        return True, words
    nearest = max(inside, key=lambda key: means[key])
    if tie >= 1.0:  # no tie is claimed
        return False, words
    p = _above_by_chance(results, arm, metric, best, nearest)
    words += f"; above {nearest}: paired p = {p:.2g}"
    if p > tie:
        _tie_at(words, results, arm, metric, best, nearest)
    return p > tie, words


def _beside(results: BenchResults, arm: str, metric: str, means: Mapping[str, float]) -> str:
    """Return how surely the largest mean is above the second: a paired test, seed by seed."""
    first, second = sorted(means, key=lambda key: -means[key])[:2] if len(means) > 1 else ("", "")
    by_key = {key_of(value): value for value in results.values()}
    if not first:
        return ""
    left, right = results.pairs((arm, by_key[first]), (arm, by_key[second]), metric)
    if left.size < 2 or np.ptp(left - right) == 0:
        return ""
    return f"; {first} above {second}: paired p = {_above_zero(left - right).pvalue:.2g}"


def same_peak(results: BenchResults, arm: str, metric: str, than: str, level: float = 0.05) -> Answer:
    """Say whether two metrics are largest at the same value of what is swept: `metric` is nowhere significantly larger than where
    `than` peaks (paired test, seed by seed). A tie of two places needs `TIE_RUNS` runs of each or more.
    """
    each = {name: _means(results, arm, name) for name in (metric, than)}
    for name, means in each.items():
        if len(set(means.values())) < 2:
            raise MissingResult(f"{arm}: the mean of '{name}' is the same at every value, so that it has no peak")
    first, second = (max(means, key=lambda key, means=means: means[key]) for means in each.values())  # type: ignore[misc]
    shown = "; ".join(_words(name, means) for name, means in each.items())
    if first == second:
        return True, f"largest at {first} and at {second}; {shown}"
    p = _above_by_chance(results, arm, metric, first, second)
    words = f"largest at {first} and at {second}; {metric} at {first} above that at {second}: paired p = {p:.2g}; {shown}"
    if p >= level:
        _tie_at(words, results, arm, metric, first, second)
    return p >= level, words


def _above_by_chance(results: BenchResults, arm: str, metric: str, first: str, second: str) -> float:
    """Return the p-value with which a metric is above at one value of what is swept, seed by seed: 1 for a single run, and 0 or
    1 where every seed has the same difference.
    """
    by_key = {key_of(value): value for value in results.values()}
    left, right = results.pairs((arm, by_key[first]), (arm, by_key[second]), metric)
    if left.size < 2:
        return 1.0
    if np.ptp(left - right) == 0:
        return float(left[0] <= right[0])
    return float(_above_zero(left - right).pvalue)


def _tie_at(words: str, results: BenchResults, arm: str, metric: str, *keys: str) -> None:
    """Raise MissingResult if values of what is swept have too few runs for a tie."""
    _enough_for_a_tie(words, *(_at(results, arm, metric, value) for value in results.values() if key_of(value) in keys))


def ranks(
    results: BenchResults,
    arm: str,
    metric: str,
    than: str,
    low: float = -1.0,
    high: float = 1.0,
    values: list[Any] | None = None,
    to_peak: bool = False,
) -> Answer:
    """Say how alike two metrics rank values of what is swept: Spearman's rank correlation of their means, between limits.

    to_peak: only values up to the one at which the mean of `than` is largest.
    """
    left, right = (_means(results, arm, name, values) for name in (metric, than))
    if to_peak:
        known = list(right)[: list(right).index(max(right, key=lambda key: right[key])) + 1]
        left, right = ({key: means[key] for key in known} for means in (left, right))
    if len(left) < 3 or len(set(left.values())) < 2 or len(set(right.values())) < 2:
        raise MissingResult("a rank correlation needs three values of the sweep or more, at which means differ")
    rho = float(stats.spearmanr(list(left.values()), list(right.values())).statistic)
    words = f"Spearman rho = {rho:.2f} over {', '.join(left)}; {_words(metric, left)}; {_words(than, right)}"
    return low - ROUND_OFF <= rho <= high + ROUND_OFF, f"{words}; asked {low:g} to {high:g}"


def concave(results: BenchResults, arm: str, metric: str, values: list[Any] | None = None, level: float = 0.05) -> Answer:
    """Say whether no mean of a metric lies below the line between those of the values beside it, of what is swept.

    Below means significantly so: t-tests over seeds that share the level. A mean that lies below by chance needs `TIE_RUNS` runs.
    """
    means = _means(results, arm, metric, values)
    if len(means) < 3:
        raise MissingResult("a shape needs three values of the sweep or more")
    by_key = {key_of(value): value for value in results.values()}
    places = np.array([float(key) for key in means])
    share = np.diff(places)[:-1] / (places[2:] - places[:-2])
    keys, tested = list(means), []
    for place, own in enumerate(share, start=1):
        near = [_at(results, arm, metric, by_key[keys[beside]]) for beside in (place - 1, place, place + 1)]
        if len({numbers.size for numbers in near}) > 1:
            raise MissingResult("runs of the same seeds are needed at every value")
        gaps = near[1] - ((1 - own) * near[0] + own * near[2])
        below = _above_zero(-gaps).pvalue if gaps.size > 1 and np.ptp(gaps) else float(gaps.mean() >= 0)
        tested.append((float(below), float(gaps.mean()), keys[place], gaps))
    p, above, key, gaps = min(tested, key=lambda item: item[0])
    words = f"least surely above the line between its neighbours at {key}: by {above:.3g}, p = {p:.2g} for lying below"
    holds = p >= level / len(tested)
    if holds and any(mean < 0 for _, mean, _, _ in tested):
        _enough_for_a_tie(words, gaps)
    return holds, words


def _means(results: BenchResults, arm: str, metric: str, values: list[Any] | None = None) -> dict[str, float]:
    """Return the mean of a metric by swept value, or by some of those that were run."""
    wanted = None if values is None else {key_of(value) for value in values}
    run = [value for value in results.values() if wanted is None or key_of(value) in wanted]
    return {key_of(value): float(_at(results, arm, metric, value).mean()) for value in run}


def _words(metric: str, means: Mapping[str, float]) -> str:
    return f"{metric} " + ", ".join(f"{key}: {mean:.4g}" for key, mean in means.items())


def contraction(results: BenchResults, arm: str, metric: str, low: float, high: float) -> Answer:
    """Say by which factor the modulus of the mean of a list shrinks from its first to its last place."""
    own = results._own(*named_arm(results, arm))
    lists = np.array([item[metric] for item in own.values()], dtype=float)
    if not np.isfinite(lists).all() or not lists[:, -1].all() or not lists[:, -1].mean():
        raise MissingResult(f"'{metric}' has a place without a number, or ends at 0: there is no factor")
    means, each = lists.mean(axis=0), np.abs(lists[:, 0]) / np.abs(lists[:, -1])
    ratio = abs(means[0]) / abs(means[-1])
    words = f"{means[0]:.4g} to {means[-1]:.4g}, a factor of {ratio:.2f} (by run {each.min():.2g} to {each.max():.2g})"
    return bool(low <= ratio <= high), f"{words}; asked {low:g} to {high:g}"


def share(
    results: BenchResults, arm: str, metric: str, least: float = 0.0, most: float = 1.0, among: str | None = None
) -> Answer:
    """Say whether a share of the runs, of which a metric is 1 or 0, lies between limits.

    among: another metric that is 1 or 0; runs without it do not count, such as `flipped_inner` for what follows a flip.
    """
    if among is None:
        numbers, condition = _of(results, arm, metric), ""
    else:
        name, value = named_arm(results, arm)
        counts = np.nan_to_num(results.of(name, among, value)) > 0
        if not counts.any():
            raise MissingResult(
                f"{name}: no run " + (f"flipped ({among[len(FLIPPED) :]})" if among.startswith(FLIPPED) else f"has '{among}'")
            )
        numbers, condition = results.of(name, metric, value)[counts], f" with {among}"
        if not np.isfinite(numbers).all():
            raise MissingResult(results.missing_words(name, metric, value))
    mean = float(np.mean(numbers))
    return least <= mean <= most, f"{int(numbers.sum())} of {numbers.size} runs{condition}"


def _ratio(top: float, bottom: float, low: float, high: float) -> Answer:
    if bottom == 0:
        raise MissingResult(f"{top:.4g} over 0: there is no factor")
    words = f"{top:.4g} over {bottom:.4g}, a factor of {top / bottom:.2f}; asked {low:g} to {high:g}"
    return low <= top / bottom <= high, words


def _of(results: BenchResults, arm: str, metric: str, at: int | None = None) -> Array:
    name, value = named_arm(results, arm)
    return _at(results, name, metric, value, at)


def _at(results: BenchResults, arm: str, metric: str, value: Any, at: int | None = None) -> Array:
    """Return a metric of an arm at a value of what is swept; MissingResult says why some run has none."""
    if missing := results.missing_words(arm, metric, value, at):
        raise MissingResult(missing)
    return results.of(arm, metric, value, at)


def named_arm(results: BenchResults, arm: str) -> tuple[str, Any]:
    """Return arm and value for `arm` or `arm@value`."""
    name, at, value = arm.partition("@")
    check_choice(name, results.bench.arms, "arm")
    if not at:
        values = results.values()
        if len(values) > 1:
            raise SettingError(f"bench {results.bench.name}: name the value, such as {name}@{key_of(values[0])}")
        return name, values[0]
    matches = [known for known in results.values() if key_of(known) == value]
    if not matches:
        raise MissingResult(f"{name} was not run at {value}")
    return name, matches[0]


def _enough(*samples: Array) -> None:
    if any(numbers.size < 2 for numbers in samples):
        raise MissingResult("two seeds or more of each arm are needed")
    if all(np.ptp(numbers) == 0 for numbers in samples):
        raise MissingResult("every run gave the same number: there is no spread to test against")


def _enough_for_a_tie(words: str, *samples: Array) -> None:
    """Raise MissingResult if a test that saw no difference has too few runs to conclude a tie. words: what it saw."""
    fewest = min(numbers.size for numbers in samples)
    if fewest < TIE_RUNS:
        raise MissingResult(f"a tie needs {TIE_RUNS} runs of each arm or more, there are {fewest}; {words}")


def _two_samples(left: Array, right: Array, alternative: str = "greater") -> Any:
    with warnings.catch_warnings():  # an arm whose runs are all alike is an answer, too
        warnings.simplefilter("ignore", RuntimeWarning)
        return stats.ttest_ind(left, right, equal_var=False, alternative=alternative)


def _one_sample(difference: Array, level: float) -> Answer:
    _enough(difference)
    test = _above_zero(difference)
    return bool(test.pvalue < level), "paired: " + _test_words(difference.mean(), test.statistic, test.df, test.pvalue)


def _above_zero(numbers: Array) -> Any:
    with warnings.catch_warnings():  # numbers that hardly differ are an answer, too
        warnings.simplefilter("ignore", RuntimeWarning)
        return stats.ttest_1samp(numbers, 0.0, alternative="greater")


def _test_words(number: float, statistic: float, df: float, p: float, what: str = "difference") -> str:
    return f"{what} {number:.4g}, t = {statistic:.2f}, df = {df:.1f}, p = {p:.1e}"


TESTS: Mapping[str, Callable[..., Answer]] = {
    "concave": concave,
    "contraction": contraction,
    "draws": above_over_draws,
    "every": above_in_every_run,
    "factor": factor,
    "flat": stays_flat,
    "gap": gap,
    "higher": higher,
    "paired": paired,
    "peak": peak,
    "pooled": pooled,
    "positive": positive,
    "ranks": ranks,
    "same peak": same_peak,
    "share": share,
    "tied": tied,
    "times": times,
    "trend": trend,
    "welch": welch,
    "within": within,
}
