"""A mechanism as a linear regression on a feature map, and its Normal-Inverse-Gamma posterior.

Model for output q: `y = features . w_q + noise`, `noise ~ N(0, s_q^2)`, `w_q | s_q^2 ~ N(m_q, s_q^2 P^-1)`,
`s_q^2 ~ InverseGamma(a, b_q)`. All outputs share the precision P. Updates may be tempered.

Real and vector targets are regressed as they are, standardised if a scaling is given. A categorical target is regressed
through its indicators: the Gibbs posterior under the Brier loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg as sla
from scipy.special import digamma, gammaln

from aegis.errors import ModelError
from aegis.mechanisms.encoding import Encoder, Scaling
from aegis.mechanisms.features import FeatureMap
from aegis.problem import AnyArray, Array, Rows, Variable

# Below this share of what it is subtracted from, a difference holds hardly a digit that is not round-off.
ROUND_OFF = 1e-14

AnyShape = float | Array  # of one law, or of several


@dataclass(frozen=True, slots=True)
class Draw:
    """S joint draws of a regression: weights `[S, D, q]` and noise standard deviations `[S, q]`."""

    weights: Array
    sd: Array


@dataclass(frozen=True, slots=True)
class PosteriorMoments:
    """The usual parameters of a posterior: Cholesky factor of P `[D, D]` (lower), mean `[D, q]`, shape a, rate `[q]`."""

    factor: Array
    mean: Array
    shape: float
    rate: Array


@dataclass(frozen=True, slots=True)
class NIG:
    """Natural parameters: precision P `[D, D]`, shift P m `[D, q]`, shape a, square 2 b + m' P m `[q]`."""

    precision: Array
    shift: Array
    shape: float
    square: Array

    @classmethod
    def prior(cls, size: int, outputs: int = 1, precision: float = 0.1, shape: float = 2.0, rate: float = 1.0) -> NIG:
        """Return the prior with mean 0 and P = precision * I; defaults as in the paper (App. Environment Parameters)."""
        return cls(
            precision=precision * np.eye(size),
            shift=np.zeros((size, outputs)),
            shape=float(shape),
            square=np.full(outputs, 2.0 * rate),
        )

    def update(self, features: Array, targets: Array, temper: float = 1.0) -> NIG:
        """Return the posterior after rows features `[n, D]`, targets `[n, q]`; `temper` multiplies the log-likelihood.

        Raises ModelError, and leaves this state as it was, if the sums are not finite.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # checked right below
            precision = features.T @ features
            if temper != 1.0:
                precision *= temper
            precision += self.precision
            shift = self.shift + temper * (features.T @ targets)
            square = self.square + temper * np.square(targets).sum(axis=0)
        check_finite_sums(precision, shift, square)
        return NIG(precision=precision, shift=shift, shape=self.shape + 0.5 * temper * features.shape[0], square=square)

    def moments(self) -> PosteriorMoments:
        """Solve for mean and rate; raises ModelError if precision or rate are not positive by more than round-off."""
        factor, failed = sla.lapack.dpotrf(self.precision, lower=True, clean=True)
        _check_factor(failed, factor.diagonal(), self.precision.diagonal())
        half, _ = sla.lapack.dtrtrs(factor, self.shift, lower=True)
        mean, _ = sla.lapack.dtrtrs(factor, half, lower=True, trans=1)
        rate = 0.5 * (self.square - np.einsum("dq,dq->q", half, half))
        _check_rate(rate, self.square)
        return PosteriorMoments(factor=factor, mean=mean, shape=self.shape, rate=rate)

    def draw(self, rng: np.random.Generator, count: int) -> Draw:
        """Return `count` joint draws of weights and noise."""
        at = self.moments()
        size, outputs = at.mean.shape
        sd = np.sqrt(at.rate / rng.standard_gamma(at.shape, size=(count, outputs)))
        normal = rng.standard_normal((size, count * outputs))
        spread, _ = sla.lapack.dtrtrs(at.factor, normal, lower=True, trans=1)
        weights = at.mean + sd[:, None, :] * spread.reshape(size, count, outputs).transpose(1, 0, 2)
        return Draw(weights, sd)

    def point(self) -> Draw:
        """Return the posterior means of weights and noise variance as one draw; the variance is b / a if it has no mean."""
        at = self.moments()
        variance = at.rate / (at.shape - 1.0) if at.shape > 1.0 else at.rate / at.shape
        return Draw(at.mean[None], np.sqrt(variance)[None])

    def predict(self, features: Array) -> tuple[Array, Array, Array]:
        """Return for features `[n, D]`: mean `[n, q]`, variance of the regression function, variance of a new target.

        Student-t predictive with 2 a degrees of freedom; variances are infinite for a <= 1.
        """
        at = self.moments()
        half, _ = sla.lapack.dtrtrs(at.factor, np.asfortranarray(features.T), lower=True)
        leverage = np.einsum("dn,dn->n", half, half)[:, None]
        scale = at.rate / (at.shape - 1.0) if at.shape > 1.0 else np.full_like(at.rate, np.inf)
        return features @ at.mean, leverage * scale, (1.0 + leverage) * scale

    def log_evidence(self, prior: NIG) -> float:
        """Return log p(targets | features) of the rows that led from `prior` to this state, summed over outputs; no tempering."""
        at, before = self.moments(), prior.moments()
        rows = 2.0 * (at.shape - before.shape)
        log_det = 2.0 * (np.log(np.diag(before.factor)).sum() - np.log(np.diag(at.factor)).sum())
        each = (
            0.5 * (log_det - rows * np.log(2.0 * np.pi))
            + before.shape * np.log(before.rate)
            - at.shape * np.log(at.rate)
            + gammaln(at.shape)
            - gammaln(before.shape)
        )
        return float(np.sum(each))

    def kl(self, other: NIG) -> float:
        """Return KL(self || other) in nats, summed over outputs (theory section 5)."""
        p, q = self.moments(), other.moments()
        size = p.mean.shape[0]
        ratio, _ = sla.lapack.dtrtrs(p.factor, q.factor, lower=True)  # P1^-1/2 P0^1/2
        log_det = 2.0 * (np.log(np.diag(p.factor)).sum() - np.log(np.diag(q.factor)).sum())
        apart = q.factor.T @ (p.mean - q.mean)
        distance = np.einsum("dq,dq->q", apart, apart)
        gaussian = 0.5 * (log_det + np.square(ratio).sum() - size + (p.shape / p.rate) * distance)
        return float(np.sum(gaussian + gamma_divergence(p.shape, p.rate, q.shape, q.rate)))


@dataclass(frozen=True, slots=True)
class SolvedNIG(NIG):
    """A posterior whose moments are known already."""

    at: PosteriorMoments

    def moments(self) -> PosteriorMoments:
        """Return the posterior moments."""
        return self.at


def gamma_divergence(shape: AnyShape, rate: Array, other_shape: AnyShape, other_rate: Array) -> Array:
    """Return KL between two inverse-gamma laws, elementwise, in nats."""
    return np.asarray(
        (shape - other_shape) * digamma(shape)
        - gammaln(shape)
        + gammaln(other_shape)
        + other_shape * np.log(rate / other_rate)
        + shape * (other_rate - rate) / rate
    )


def solve_moments(precision: Array, shift: Array, shape: Sequence[float], square: Array) -> list[PosteriorMoments]:
    """Return `moments` of G posteriors, to the same bits: solved one by one, factors and rates checked at once.

    precision `[G, D, D]`, shift `[G, D, q]`, shape `[G]`, square `[G, q]`.
    """
    factors, halves, means, failed = [], [], [], 0
    for own in precision:
        factor, info = sla.lapack.dpotrf(own, lower=True, clean=True)
        factors.append(factor)
        failed = failed or info
    _check_factor(failed, np.array([factor.diagonal() for factor in factors]), np.einsum("gdd->gd", precision))
    for factor, own in zip(factors, shift, strict=True):
        halves.append(sla.lapack.dtrtrs(factor, own, lower=True)[0])
        means.append(sla.lapack.dtrtrs(factor, halves[-1], lower=True, trans=1)[0])
    rates = 0.5 * (square - np.array([np.einsum("dq,dq->q", half, half) for half in halves]))
    _check_rate(rates, square)
    return list(map(PosteriorMoments, factors, means, shape, rates))


def _check_factor(failed: int, added: Array, sizes: Array) -> None:
    """Raise ModelError unless a Cholesky factor with the diagonal `added`, of a matrix with the diagonal `sizes`, can be used."""
    # What a feature adds to those before it, relative to its own size: 1 - R^2 of one feature on the others.
    if failed or not (np.square(added) > ROUND_OFF * sizes).all():
        raise ModelError(
            "a posterior precision is not positive definite beyond round-off: features are far too large, or vary far too "
            "little for their size; standardise the inputs (scaling fitted on prior data)"
        )


def _check_rate(rate: Array, square: Array) -> None:
    """Raise ModelError unless each rate exceeds the round-off of the squares it was subtracted from."""
    if not (rate > ROUND_OFF * square).all():
        raise ModelError(
            "a posterior noise rate is not positive beyond round-off: targets are far too large for their noise; "
            "standardise them (scaling fitted on prior data)"
        )


def check_finite_sums(precision: Array, shift: Array, square: Array) -> None:
    """Raise ModelError unless the sums `[.., D, D]`, `[.., D, q]`, `[.., q]` of a posterior are finite.

    The diagonal of a sum of outer products bounds the rest of it, and is all that needs to be looked at.
    """
    diagonal = np.einsum("...dd->...d", precision)
    if not all(np.isfinite(sums).all() for sums in (diagonal, shift, square)):
        raise ModelError(
            "a posterior cannot be updated: features or targets are not finite or far too large; "
            "remove such rows or standardise (scaling fitted on prior data)"
        )


@dataclass(frozen=True, slots=True)
class Regression:
    """A Normal-Inverse-Gamma mechanism; `temper` multiplies its log-likelihood (1: Bayes, below 1: tempered Gibbs)."""

    target: Variable
    encoder: Encoder
    features: FeatureMap
    scaling: Scaling
    temper: float = 1.0
    precision: float = 0.1
    shape: float = 2.0
    rate: float = 1.0

    @property
    def parents(self) -> tuple[str, ...]:
        """Return the names of the parents."""
        return tuple(parent.name for parent in self.encoder.parents)

    @property
    def affine(self) -> bool:
        """Return whether the mean is affine in every parent: affine features, and no clipping to the simplex."""
        return self.features.affine and self.target.kind != "categorical"

    def prior(self) -> NIG:
        """Return the prior state."""
        return NIG.prior(self.features.size, self.target.width, self.precision, self.shape, self.rate)

    def update(self, state: NIG, rows: Rows, values: AnyArray) -> NIG:
        """Return the state after n rows; rows in which the target or a parent is missing (nan, code -1) are left out."""
        inputs, targets = self.complete_rows(rows, values)
        return state.update(self.features(inputs), targets, self.temper)

    def complete_rows(self, rows: Rows, values: AnyArray) -> tuple[Array, Array]:
        """Return inputs `[n, d]` and targets `[n, q]`, standardised, of the rows in which nothing is missing."""
        targets = self._targets(values)
        inputs = self.encoder(rows, (len(targets),))
        missing = np.isnan(targets).any(axis=1) | np.isnan(inputs).any(axis=1)
        return (inputs[~missing], targets[~missing]) if missing.any() else (inputs, targets)

    def draw(self, state: NIG, rng: np.random.Generator, count: int) -> RegressionDraw:
        """Return `count` draws."""
        return RegressionDraw(self, state.draw(rng, count))

    def point(self, state: NIG) -> RegressionDraw:
        """Return the posterior mean."""
        return RegressionDraw(self, state.point())

    def predict(self, state: NIG, rows: Rows, count: int) -> tuple[Array, Array, Array]:
        """Return mean, variance of the mean and variance of a new value, `[n, q]`, in the target's units.

        For a categorical target these are of its indicators, not moved to the simplex.
        """
        mean, of_mean, of_value = state.predict(self.features(self.encoder(rows, (count,))))
        square = np.square(self.scaling.scale)
        return self.scaling.back(mean), of_mean * square, of_value * square

    def kl(self, state: NIG, other: NIG) -> float:
        """Return KL(state || other)."""
        return state.kl(other)

    def _targets(self, values: AnyArray) -> Array:
        if self.target.kind == "categorical":
            return self.encoder.encode(self.target, values)
        numbers = values if self.target.kind == "vector" else values[:, None]
        return self.scaling.forward(np.asarray(numbers, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class RegressionDraw:
    """S draws of a regression, evaluated in the target's units."""

    spec: Regression
    drawn: Draw

    @property
    def parents(self) -> tuple[str, ...]:
        """Return the names of the parents."""
        return self.spec.parents

    @property
    def sd(self) -> Array:
        """Return noise standard deviations `[S, q]`."""
        return self.drawn.sd * self.spec.scaling.scale

    def mean(self, rows: Rows, count: int, noisy: Mapping[str, Array] | None = None) -> Array:
        """Return conditional means `[S, n, q]` (probabilities for a categorical target)."""
        spec = self.spec
        particles = max((rows[name].shape[0] for name in spec.parents if name in rows), default=1)
        sd = None if noisy is None else self._noise(noisy)
        inputs = spec.encoder(rows, (particles, count))
        return self._probable(spec.features.evaluate(inputs, self._weights(), sd))

    def mean_each(self, rows: Rows, count: int, name: str, values: AnyArray) -> Array:
        """Return conditional means `[S, n, A, q]` with the parent `name` at each of the A `values` in turn."""
        spec = self.spec
        particles = max((rows[parent].shape[0] for parent in spec.parents if parent in rows and parent != name), default=1)
        inputs = spec.encoder(rows, (particles, count), skip=name)
        block = spec.encoder.block(name)
        variable = next(parent for parent in spec.encoder.parents if parent.name == name)
        grid = spec.encoder.encode(variable, values)
        return self._probable(spec.features.evaluate_each(inputs, block, grid, self._weights()))

    def _noise(self, noisy: Mapping[str, Array]) -> Array | None:
        """Return the noise of the inputs `[S, 1, d]`, None if no parent is noisy."""
        encoder = self.spec.encoder
        sd = np.zeros((len(self.drawn.weights), 1, encoder.width))
        for name, spread in noisy.items():
            if name in self.spec.parents:
                sd[:, 0, encoder.block(name)] = spread / encoder.scale_of(name)
        return sd if sd.any() else None

    def _weights(self) -> Array:
        scaling = self.spec.scaling
        return to_target_units(self.drawn.weights, scaling.scale, scaling.centre, self.spec.features.intercept)

    def _probable(self, means: Array) -> Array:
        return simplex(means) if self.spec.target.kind == "categorical" else means


def to_target_units(weights: Array, scale: Array, centre: Array, intercept: int) -> Array:
    """Return weights `[S, D, q]` whose regression is in the target's units: `scale` times the old one, plus `centre`.

    Scaling a few weights instead of all predictions saves two passes over the latter.
    """
    scaled = weights * scale
    scaled[:, intercept] += centre
    return scaled


def simplex(raw: Array) -> Array:
    """Move `[..., K]` to nonnegative numbers that sum to one; all clipped away means uniform."""
    clipped = np.clip(raw, 0.0, 1.0)
    total = clipped.sum(axis=-1, keepdims=True)
    return np.where(total > 0, clipped / np.where(total > 0, total, 1.0), 1.0 / raw.shape[-1])
