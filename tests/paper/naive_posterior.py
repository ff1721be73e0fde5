"""The Normal-Inverse-Gamma posterior of a linear regression with plain lists. This file imports nothing from the package.

A posterior of one output is a tuple: mean, precision, shape a, rate b.
"""

import math


def solve(matrix, right):
    """Solve a small linear system by Gauss-Jordan elimination."""
    n = len(matrix)
    rows = [[*[float(v) for v in matrix[i]], float(right[i])] for i in range(n)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(n):
            if r != i:
                factor = rows[r][i] / rows[i][i]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[i], strict=True)]
    return [rows[i][n] / rows[i][i] for i in range(n)]


def nig_prior(size, precision=0.1, a=2.0, b=1.0):
    """Mean, precision, shape and rate of the paper's prior."""
    return [0.0] * size, [[precision if i == j else 0.0 for j in range(size)] for i in range(size)], a, b


def nig_update(mean, precision, a, b, features, targets, temper=1.0):
    """The conjugate update of a linear regression with unknown variance, in its textbook form, for one output."""
    d = len(mean)
    new_precision = [[precision[i][j] + temper * sum(x[i] * x[j] for x in features) for j in range(d)] for i in range(d)]
    prior_shift = [sum(precision[i][j] * mean[j] for j in range(d)) for i in range(d)]
    shift = [prior_shift[i] + temper * sum(x[i] * y for x, y in zip(features, targets, strict=True)) for i in range(d)]
    new_mean = solve(new_precision, shift)
    new_a = a + temper * len(targets) / 2
    quadratic = sum(mean[i] * precision[i][j] * mean[j] for i in range(d) for j in range(d))
    new_quadratic = sum(new_mean[i] * new_precision[i][j] * new_mean[j] for i in range(d) for j in range(d))
    new_b = b + 0.5 * (temper * sum(y * y for y in targets) + quadratic - new_quadratic)
    return new_mean, new_precision, new_a, new_b


def inverse(matrix):
    """Inverse of a symmetric matrix, column by column."""
    n = len(matrix)
    return [solve(matrix, [1.0 if i == j else 0.0 for i in range(n)]) for j in range(n)]


def cholesky(matrix):
    """Lower factor of a positive definite matrix."""
    n = len(matrix)
    lower = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1):
            rest = matrix[i][j] - sum(lower[i][k] * lower[j][k] for k in range(j))
            lower[i][j] = math.sqrt(rest) if i == j else rest / lower[j][j]
    return lower


def standardised(posterior, weights, sd):
    """The independent standard normal numbers and the Gamma(a) number behind one draw of weights and noise.

    w = m + sd L^-T u with P = L L', so u = L' (w - m) / sd; sd^2 = b / g.
    """
    mean, precision, _, b = posterior
    lower = cholesky(precision)
    n = len(mean)
    u = [sum(lower[j][i] * (weights[j] - mean[j]) for j in range(i, n)) / sd for i in range(n)]
    return u, b / sd**2


def log_det(matrix):
    """Log determinant of a positive definite matrix by elimination."""
    n = len(matrix)
    rows = [[float(v) for v in row] for row in matrix]
    total = 0.0
    for i in range(n):
        total += math.log(rows[i][i])
        for r in range(i + 1, n):
            factor = rows[r][i] / rows[i][i]
            rows[r] = [p - factor * q for p, q in zip(rows[r], rows[i], strict=True)]
    return total


def digamma(x):
    """Digamma by recurrence and its asymptotic series."""
    total = 0.0
    while x < 12:
        total -= 1 / x
        x += 1
    inv = 1 / (x * x)
    return total + math.log(x) - 0.5 / x - inv * (1 / 12 - inv * (1 / 120 - inv * (1 / 252 - inv / 240)))


def nig_kl(m1, p1, a1, b1, m0, p0, a0, b0):
    """KL between two Normal-Inverse-Gamma laws, one output."""
    d = len(m1)
    trace = 0.0
    for j in range(d):
        column = solve(p1, [p0[i][j] for i in range(d)])
        trace += column[j]
    apart = [m1[i] - m0[i] for i in range(d)]
    distance = sum(apart[i] * p0[i][j] * apart[j] for i in range(d) for j in range(d))
    gaussian = 0.5 * (log_det(p1) - log_det(p0) + trace - d + a1 / b1 * distance)
    gamma = (a1 - a0) * digamma(a1) - math.lgamma(a1) + math.lgamma(a0) + a0 * math.log(b1 / b0) + a1 * (b0 - b1) / b1
    return gaussian + gamma
