"""Lower bounds of a mean from the literature: Hoeffding, Bernstein, logarithmic smoothing, Student t, bootstrap.

Every function takes unit values `[K]` and a one-sided risk delta. A range, where one is needed, is declared, never read off
data. Each bound says whether it holds at one number of units, at all of them, or only as their number grows.
"""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from aegis.errors import ModelError, SettingError
from aegis.evidence.bounds.base import Bound, BoundPath, Validity, sort_conditions, unit_values
from aegis.evidence.bounds.pac_bayes import sharp_bound
from aegis.evidence.grid import Array
from aegis.evidence.sketch import check_delta

Range = tuple[float, float]


def hoeffding(values: Array, delta: float, value_range: Range) -> Bound:
    """Return `mean - (high - low) sqrt(log(1/delta) / (2 K))` (Hoeffding 1963, Theorem 2)."""
    units, width = _ranged(values, value_range)
    value = units.mean() - width * math.sqrt(math.log(1.0 / check_delta(delta)) / (2.0 * units.size))
    return _bound("Hoeffding", value, delta, units, "fixed time", value_range)


def empirical_bernstein(values: Array, delta: float, value_range: Range) -> Bound:
    """Return `mean - sqrt(2 s^2 log(2/delta) / K) - 7 (high - low) log(2/delta) / (3 (K - 1))` (Maurer and Pontil 2009)."""
    units, width = _ranged(values, value_range)
    log = math.log(2.0 / check_delta(delta))
    spread = math.sqrt(2.0 * _variance(units) * log / units.size)
    value = units.mean() - spread - 7.0 * width * log / (3.0 * (units.size - 1))
    return _bound("empirical Bernstein", value, delta, units, "fixed time", value_range)


def anytime_bernstein(values: Array, delta: float, value_range: Range) -> BoundPath:
    """Return the predictable plug-in empirical Bernstein sequence: the lower bound after every unit, and the last one.

    On values scaled to [0, 1] (Waudby-Smith and Ramdas 2024, Theorem 2, one side):
    `(sum l_i x_i - log(1/delta) - sum (x_i - m_(i-1))^2 (-log(1 - l_i) - l_i)) / sum l_i` with bets l_i that look only at earlier
    units, at most 1/2.
    """
    units, width = _ranged(values, value_range)
    scaled = (units - value_range[0]) / width
    stakes, before = plug_in_bets(scaled, check_delta(delta))
    stakes = np.minimum(stakes, 0.5)
    penalty = np.square(scaled - before) * (-np.log1p(-stakes) - stakes)
    lower = (np.cumsum(stakes * scaled - penalty) - math.log(1.0 / delta)) / np.cumsum(stakes)
    path = np.asarray(value_range[0] + width * lower)
    bound = _bound("anytime empirical Bernstein", path[-1], delta, units, "anytime", value_range)
    return BoundPath(**{part.name: getattr(bound, part.name) for part in fields(bound)}, path=path)


def plug_in_bets(scaled: Array, delta: float) -> tuple[Array, Array]:
    """Return predictable bets `sqrt(2 log(1/delta) / (v_(t-1) t log(1 + t)))` and means m_(t-1), both `[K]`, of values in [0, 1].

    `m_t = (1/2 + sum x) / (t + 1)`, `v_t = (1/4 + sum (x_i - m_i)^2) / (t + 1)` (Waudby-Smith and Ramdas 2024, Eq. 15 and 26).
    """
    t = np.arange(1.0, scaled.size + 1)
    mean = (0.5 + np.cumsum(scaled)) / (t + 1.0)
    variance = (0.25 + np.cumsum(np.square(scaled - mean))) / (t + 1.0)
    earlier_mean, earlier = np.append(0.5, mean[:-1]), np.append(0.25, variance[:-1])
    return np.sqrt(2.0 * math.log(1.0 / delta) / (earlier * t * np.log1p(t))), earlier_mean


def student_t(values: Array, delta: float) -> Bound:
    """Return `mean - t_(K-1, 1-delta) s / sqrt(K)` (Student 1908): exact for normal values, else right as K grows."""
    units = unit_values(values)
    quantile = -float(stdtrit(units.size - 1, check_delta(delta)))
    value = units.mean() - quantile * math.sqrt(_variance(units) / units.size)
    return _bound("Student t", value, delta, units, "approximate")


def central_limit(values: Array, delta: float) -> Bound:
    """Return `mean - z_(1-delta) s / sqrt(K)`, by the central limit theorem: right as K grows."""
    units = unit_values(values)
    value = units.mean() + float(ndtri(check_delta(delta))) * math.sqrt(_variance(units) / units.size)
    return _bound("central limit", value, delta, units, "approximate")


def logarithmic_smoothing(values: Array, delta: float, lam: float | None = None) -> Bound:
    """Return the logarithmic-smoothing bound of values `w r` from 0 (Sakhi, Aouali, Alquier and Chopin 2024).

    With `s = 1/(lam K) sum log(1 + lam L_k) - log(1/delta) / (lam K)` it is `(exp(lam s) - 1) / lam`: the sharp bound of theory
    section 5 at the bet lam. lam: fixed beforehand; None for 1/sqrt(K), which holds at one K only.
    """
    units = unit_values(values, least=0.0)
    used = 1.0 / math.sqrt(units.size) if lam is None else lam
    value = sharp_bound(units, used, delta).value
    return _bound("logarithmic smoothing", value, delta, units, "fixed time" if lam is None else "anytime", least=0.0)


def _ranged(values: Array, value_range: Range) -> tuple[Array, float]:
    low, high = value_range
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise SettingError(f"a declared range has two finite ends, low < high, found [{low}, {high}]")
    return unit_values(values), high - low


def _variance(values: Array) -> float:
    """Return the variance with K - 1 in the denominator."""
    if values.size < 2:
        raise SettingError("this bound estimates a variance and needs two units or more, found 1")
    return float(values.var(ddof=1))


def _bound(
    method: str,
    value: float,
    delta: float,
    values: Array,
    validity: Validity,
    value_range: Range | None = None,
    least: float | None = None,
) -> Bound:
    conditions = [(True, "units are independent, with the same mean given earlier ones", "")]
    if least is not None:
        conditions.append((True, f"values are from {least:g}", ""))
    if value_range is not None:
        low, high = float(values.min()), float(values.max())
        inside = value_range[0] <= low and high <= value_range[1]
        wrong = f"values lie in [{low:.4g}, {high:.4g}], not in the declared range [{value_range[0]:g}, {value_range[1]:g}]"
        conditions.append((inside, "values lie in the declared range", wrong))
    met, unmet = sort_conditions(conditions)
    return Bound(method, float(value), delta, values.size, validity, met, unmet)


RESAMPLES = 2000
DRAWS_AT_ONCE = 2**16  # draws held at once: few enough to stay close to the processor


def percentile_bootstrap(values: Array, delta: float, rng: np.random.Generator, resamples: int = RESAMPLES) -> Bound:
    """Return the delta quantile of the means of resampled units (Efron 1979)."""
    units = unit_values(values)
    value = float(np.quantile(resampled_means(units, rng, resamples), check_delta(delta)))
    return Bound("bootstrap, percentile", value, delta, units.size, "approximate", ("units are independent",), ())


def bca_bootstrap(values: Array, delta: float, rng: np.random.Generator, resamples: int = RESAMPLES) -> Bound:
    """Return the bias-corrected and accelerated bootstrap bound (Efron 1987).

    The quantile taken is `Phi(z0 + (z0 + z) / (1 - a (z0 + z)))`, z = Phi^-1(delta), z0 from the share of resampled means below
    the mean (ties count half), a the skewness of the jackknife over six.
    """
    units = unit_values(values)
    level = check_delta(delta)
    means, centre = resampled_means(units, rng, resamples), units.mean()
    if units.min() < units.max():
        below = float((means < centre).mean() + 0.5 * (means == centre).mean())
        if not 0 < below < 1:
            raise ModelError(f"all {resamples} resampled means lie on one side of the mean; take more resamples or another bound")
        bias, apart = float(ndtri(below)), units - centre
        # Skewness has no unit: brought near 1 by a power of two, tiny or huge values have cubes and squares as well.
        apart = np.ldexp(apart, -int(np.frexp(np.abs(apart).max())[1]))
        skew = float((apart**3).sum() / (6.0 * np.square(apart).sum() ** 1.5))
        shifted = bias + float(ndtri(level))
        level = float(ndtr(bias + shifted / (1.0 - skew * shifted)))
    value = float(np.quantile(means, level))
    return Bound("bootstrap, BCa", value, delta, units.size, "approximate", ("units are independent",), ())


def resampled_means(values: Array, rng: np.random.Generator, resamples: int) -> Array:
    """Return the means `[resamples]` of units drawn with replacement, some resamples at a time."""
    if resamples < 2:
        raise SettingError(f"a bootstrap needs two resamples or more, found {resamples}")
    size = max(1, DRAWS_AT_ONCE // values.size)
    parts = [
        values[rng.integers(0, values.size, (min(size, resamples - start), values.size))].mean(axis=1)
        for start in range(0, resamples, size)
    ]
    return np.concatenate(parts) if math.ceil(resamples / size) > 1 else parts[0]
