"""The confidence sequence for off-policy values of the Vowpal Wabbit estimators library, as a formula, for comparison.

Its source (VowpalWabbit/estimators, file bandits/cs.py, BSD 3-Clause) was read for the formula; no code was taken over. It is the
gamma-exponential mixture of Howard, Ramdas, McAuliffe and Sekhon (2021): with X = w r from 0, predictions
`m_t = (1/2 + sum_(i<t) X_i) / t`, `V = sum (X_i - m_i)^2`, `s = sum X - t v` and rho = 1, the log wealth against a mean of v is
`s + V + rho log rho - (V + rho) log(s + V + rho) + log gamma(V + rho, s + V + rho) - log gamma(rho, rho)`, gamma(a, x) the lower
incomplete gamma function. The lower bound is where it falls to log(1/alpha).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import gammainc, gammaln

Array = npt.NDArray[np.float64]
RHO = 1.0


def log_wealth(surplus: float, variance: float) -> float:
    """Return the log wealth for s = `surplus` and V = `variance`."""
    shape, at = variance + RHO, surplus + variance + RHO
    return float(
        surplus
        + variance
        + RHO * math.log(RHO)
        - shape * math.log(at)
        + math.log(gammainc(shape, at))
        + gammaln(shape)
        - math.log(gammainc(RHO, RHO))
        - gammaln(RHO)
    )


def lower_bounds(values: Array, alpha: float, places: npt.NDArray[np.int64]) -> Array:
    """Return the lower bound in [0, 1] after each number of units in `places`, from weighted rewards `[K]`."""
    totals = np.cumsum(values)
    guesses = (0.5 + np.append(0.0, totals[:-1])) / np.arange(1, values.size + 1)
    variances = np.cumsum(np.square(values - guesses))
    threshold = math.log(1.0 / alpha)
    found = np.zeros(places.size)
    for place, units in enumerate(places):
        total, variance = float(totals[units - 1]), float(variances[units - 1])
        if log_wealth(total, variance) <= threshold:
            continue
        most = min(1.0, total / units)
        if log_wealth(total - units * most, variance) >= threshold:
            found[place] = most
        else:
            found[place] = brentq(lambda v, u=units, t=total, n=variance: log_wealth(t - u * v, n) - threshold, 0.0, most)
    return found
