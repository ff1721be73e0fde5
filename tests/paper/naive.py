"""The paper's equations as plain loops. This file imports nothing from the package.

A mechanism is a python function of a dictionary of numbers. A level is a dictionary with its name, context name, action name and
list of action values; `levels[0]` is the outermost.
"""

import math

import numpy as np


def gauss_hermite(nodes):
    """Nodes and weights for a standard normal, from the physicists' rule."""
    x, w = np.polynomial.hermite.hermgauss(nodes)
    return [float(math.sqrt(2.0) * a) for a in x], [float(b / math.sqrt(math.pi)) for b in w]


def phi_scope(levels, outcome, reward, scope):
    """Definition 2: contexts below the outermost level of the scope, outcome, reward."""
    total = len(levels)
    top = max(total - i for i, level in enumerate(levels) if level["name"] in scope)
    found = []
    for i, level in enumerate(levels):
        index = total - i
        if index < top:
            found.append(level["context"])
    return [*found, outcome, reward]


def scm_forward(f_y, sd_y, f_r, known, nodes):
    """scm-forward: E over the noise of Y of f_R at Y-hat; the reward's own noise has mean zero."""
    xs, ws = gauss_hermite(nodes)
    total = 0.0
    for x, w in zip(xs, ws, strict=True):
        total += w * f_r({**known, "y": f_y(known) + sd_y * x})
    return total


def r_recursion(levels, position, known, model, scope, legacy, nodes):
    """R-recursion: the list over actions a of R-hat^(l)(a, c~) at levels[position]."""
    xs, ws = gauss_hermite(nodes)
    level = levels[position]
    values = []
    for action in level["actions"]:
        here = {**known, level["action"]: action}
        if position == len(levels) - 1:
            values.append(scm_forward(model["f"]["y"], model["sd"]["y"], model["f"]["r"], here, nodes))
            continue
        below = levels[position + 1]
        mean = model["f"][below["context"]](here)
        sd = model["sd"][below["context"]]
        total = 0.0
        for x, w in zip(xs, ws, strict=True):
            deeper = {**here, below["context"]: mean + sd * x}
            inner = r_recursion(levels, position + 1, deeper, model, scope, legacy, nodes)
            if below["name"] in scope:
                total += w * max(inner)
            else:
                chances = legacy(below["name"], deeper)
                total += w * sum(p * v for p, v in zip(chances, inner, strict=True))
        values.append(total)
    return values


def argmax(values):
    """The first index of the largest value."""
    best = 0
    for i, value in enumerate(values):
        if value > values[best]:
            best = i
    return best


def pi_ell(levels, position, known, model, scope, legacy, nodes):
    """pi-ell: the distribution over actions of the scope-aware policy."""
    level = levels[position]
    if level["name"] not in scope:
        return legacy(level["name"], known)
    chosen = argmax(r_recursion(levels, position, known, model, scope, legacy, nodes))
    return [1.0 if i == chosen else 0.0 for i in range(len(level["actions"]))]


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
