"""Bootstrap lower bounds of a mean, for comparison: right only as the number of units grows."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, ndtri

from aegis.errors import ModelError, SettingError
from aegis.evidence.bound import Bound, unit_values
from aegis.evidence.grid import Array
from aegis.evidence.sketch import check_delta

RESAMPLES = 2000
AT_ONCE = 2**16  # draws held at once: few enough to stay close to the processor


def percentile_bootstrap(values: Array, delta: float, rng: np.random.Generator, resamples: int = RESAMPLES) -> Bound:
    """Return the delta quantile of the means of resampled units (Efron 1979)."""
    found = unit_values(values)
    value = float(np.quantile(resampled_means(found, rng, resamples), check_delta(delta)))
    return Bound("bootstrap, percentile", value, delta, found.size, "approximate", ("units are independent",), ())


def bca_bootstrap(values: Array, delta: float, rng: np.random.Generator, resamples: int = RESAMPLES) -> Bound:
    """Return the bias-corrected and accelerated bootstrap bound (Efron 1987).

    The quantile taken is `Phi(z0 + (z0 + z) / (1 - a (z0 + z)))`, z = Phi^-1(delta), z0 from the share of resampled means below
    the mean (ties count half), a the skewness of the jackknife over six.
    """
    found = unit_values(values)
    level = check_delta(delta)
    means, centre = resampled_means(found, rng, resamples), found.mean()
    if found.min() < found.max():
        below = float((means < centre).mean() + 0.5 * (means == centre).mean())
        if not 0 < below < 1:
            raise ModelError(f"all {resamples} resampled means lie on one side of the mean; take more resamples or another bound")
        bias, apart = float(ndtri(below)), found - centre
        # Skewness has no unit: brought near 1 by a power of two, tiny or huge values have cubes and squares as well.
        apart = np.ldexp(apart, -int(np.frexp(np.abs(apart).max())[1]))
        skew = float((apart**3).sum() / (6.0 * np.square(apart).sum() ** 1.5))
        shifted = bias + float(ndtri(level))
        level = float(ndtr(bias + shifted / (1.0 - skew * shifted)))
    value = float(np.quantile(means, level))
    return Bound("bootstrap, BCa", value, delta, found.size, "approximate", ("units are independent",), ())


def resampled_means(values: Array, rng: np.random.Generator, resamples: int) -> Array:
    """Return the means `[resamples]` of units drawn with replacement, some resamples at a time."""
    if resamples < 2:
        raise SettingError(f"a bootstrap needs two resamples or more, found {resamples}")
    size = max(1, AT_ONCE // values.size)
    parts = [
        values[rng.integers(0, values.size, (min(size, resamples - start), values.size))].mean(axis=1)
        for start in range(0, resamples, size)
    ]
    return np.concatenate(parts) if math.ceil(resamples / size) > 1 else parts[0]
