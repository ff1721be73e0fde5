"""The gate 'pac-bayes': the sharp PAC-Bayes bound of the gain with a data-free prior.

See docs/theory.md, The gate, and there PAC-Bayes, sharp.

Every `stride` episodes, at each level that is not handed over, N particles theta_n are drawn from the belief Q = p_k after all
that was seen. Each has a gain on every unit of the present phase: `X_kn = gain of unit k + 1 >= 0`. With
`r_n = log q(theta_n) - log p0(theta_n)`, the bound v of the mean gain of the particles is where

`lse_j(log p_j + mean_n S_jn - K log1p(g_j (v + 1)))` falls to `log(1/delta_c) + mean_n r_n`,   `S_jn = sum_k log1p(g_j X_kn)`.

Why this is valid. Under a prior p0 that did not see the units, `M = int p0(theta) prod_k (1 + g X_k(theta)) / (1 + g E
X(theta))` is a martingale with mean 1, also mixed over bets g. Given the units, `1/N sum_n exp(log wealth of theta_n - r_n)`
estimates M without bias, by importance sampling, because theta_n ~ q. Its mean is therefore at most 1, and it reaches
1/delta_c with probability at most delta_c (Markov). Jensen over the particles and the concavity of log1p give the line above.
It is about the N particles that were drawn, and these are deployed: one of them acts in each episode. To put draws of Q into
a bound of Q itself, as is often done, has no such guarantee. New draws are tried at every look c = 1, 2, ... of the gate's
lifetime: the levels of a look share `delta 6 / (pi^2 c^2)`, which add up to delta, so that it holds at all looks at once.

mean r_n stands for KL(Q || p0). After a flip a new phase begins: only its own units count, and the belief at the flip, which
did not see them, is its prior. Frozen challengers need many times fewer episodes; this gate stays available to show that.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from scipy.special import gammaln

from aegis.certificate import margin_of
from aegis.errors import SettingError
from aegis.evidence import sharp_grid_bound, value_grid
from aegis.handover import (
    LIFT,
    CausalHost,
    GateLook,
    PeriodicGate,
    acting_policy,
    challenge_share,
    check_single_level,
    particle_gains,
)
from aegis.mechanisms import NIG, Belief, Draw, RegressionDraw, Theta
from aegis.ope import reward_measure
from aegis.paper.published_gate import prior_belief
from aegis.paper.published_looks import Count, PaperGateSettings
from aegis.planning import COARSE, Planned, Thompson, plan_policy
from aegis.problem import Array, Batch, Policy, Scope
from aegis.rng import stream


def log_ratios(belief: Belief, theta: Theta, noise_matters: bool) -> Array:
    """Return `log q(theta_n) - log p0(theta_n)` `[N]` of draws, summed over all mechanisms of a belief.

    q is the belief's posterior, p0 its prior. noise_matters: whether what is done with a draw depends on its noise; if not, its
    weights alone count, whose density is a Student t: a ratio of marginals is smaller on average than one of joints.
    """
    total = np.zeros(theta.count)
    for name, function in theta.functions.items():
        after, before = belief.states[name], belief.prior[name]
        if not (isinstance(after, NIG) and isinstance(before, NIG) and isinstance(function, RegressionDraw)):
            raise SettingError(f"mechanism '{name}' is not a regression: densities of its draws are not known; choose its model")
        density = joint_log_density if noise_matters else weight_log_density
        total += density(after, function.drawn) - density(before, function.drawn)
    return total


def joint_log_density(state: NIG, drawn: Draw) -> Array:
    """Return the log density `[S]` of drawn weights and noise variances, up to a constant of the shape of the draws."""
    at = state.moments()
    size = at.mean.shape[0]
    square = np.square(drawn.sd)
    log_det = np.log(np.diag(at.factor)).sum()
    gaussian = log_det - 0.5 * size * np.log(square) - 0.5 * _distance(state, drawn) / square
    gamma = at.shape * np.log(at.rate) - gammaln(at.shape) - (at.shape + 1.0) * np.log(square) - at.rate / square
    return np.asarray((gaussian + gamma).sum(axis=1))


def weight_log_density(state: NIG, drawn: Draw) -> Array:
    """Return the log density `[S]` of drawn weights, the noise integrated out, up to a constant of the shape of the draws."""
    at = state.moments()
    half = 0.5 * at.mean.shape[0]
    log_det = np.log(np.diag(at.factor)).sum()
    tail = np.log1p(_distance(state, drawn) / (2.0 * at.rate))
    each = gammaln(at.shape + half) - gammaln(at.shape) + log_det - half * np.log(at.rate) - (at.shape + half) * tail
    return np.asarray(each.sum(axis=1))


def _distance(state: NIG, drawn: Draw) -> Array:
    """Return `(w - m)' P (w - m)` `[S, q]`."""
    at = state.moments()
    apart = np.einsum("de,sdq->seq", at.factor, drawn.weights - at.mean)
    return np.asarray(np.square(apart).sum(axis=1))


def mean_log_ratio(ratios: Array, weights: Array) -> float:
    """Return the mean of log ratios `[N]`; not below 0, its least expectation, which can only lower a bound."""
    return max(float(ratios @ weights), 0.0)


# Bets around 1/16, fixed beforehand: lifted gains are near 1, and what is looked for is some hundredths.
PRIOR_GRID = value_grid(-4)


class PacBayesSettings(PaperGateSettings):
    """Settings of the gate. delta: the probability with which anything worse is ever put in control. particles: of a deployed
    mixture. model: of the mechanisms, one fixed beforehand.
    """

    particles: Count = 8


@dataclass(slots=True)
class PacBayesGate(PeriodicGate):
    """A run of the gate. The host, one of those that plan, gives its name and, if it has exactly one, its model: particles are
    draws of the gate's own belief.

    beliefs: by level, about the mechanisms that planning there looks at; their prior is that of the present phase.
    """

    name: ClassVar[str] = "pac-bayes"
    certificate: ClassVar[bool] = True
    settings: PacBayesSettings
    beliefs: dict[str, Belief] = field(default_factory=dict, init=False, repr=False)
    learned: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        super(PacBayesGate, self).__post_init__()
        if not isinstance(self.host, CausalHost):
            raise SettingError(
                f"the pac-bayes gate draws what it hands over to from a belief of its own, and asks no host; found "
                f"'{self.host.name}'. Use the gate 'challenger' for it"
            )
        if self.problem.guards:
            raise SettingError("the pac-bayes gate does not test guards; use the gate 'challenger'")
        model = self.settings.model_of(self.host)
        for level in self.state.levels:
            check_single_level(self.problem, level)
            self.beliefs[level] = prior_belief(self.plant, self.legacy, model, self.seed, Scope(level))

    @property
    def acting(self) -> Policy:
        """Return who is in control now: deployed particles at their levels, the legacy elsewhere."""
        return acting_policy(self.problem, self.legacy, self.deployed)

    def _in_control(self, episode: int) -> tuple[Policy, int | None]:
        return self.acting, None

    def _look(self) -> None:
        now = self.state.episode
        self._learn(now)
        batch, levels = self._episodes(self.state.start, now), self.open_levels
        drawn = {level: self._drawn_at(level, now) for level in levels}
        risk = challenge_share(self.settings.delta, self.state.freeze + 1, len(levels))
        self._tried(drawn, risk)
        looks = [self._judged(level, planned, batch, risk) for level, planned in drawn.items()]
        self.looks += looks
        for look in looks:
            if look.gain is not None and look.gain > look.margin:
                self._flip(look.level, drawn[look.level], look.gain, len(batch))
                self.beliefs = {level: replace(belief, prior=belief.states) for level, belief in self.beliefs.items()}
                return  # a new phase: other levels are looked at again, on units of the new hybrid

    def _learn(self, episodes: int) -> None:
        """Update the beliefs with everything new, in the same portions wherever a run was interrupted."""
        if episodes > self.learned:
            new = self._episodes(self.learned, episodes)
            self.beliefs = {level: belief.update(new) for level, belief in self.beliefs.items()}
            self.learned = episodes

    def _drawn_at(self, level: str, episode: int) -> Planned:
        rng = stream(self.seed, "pac-bayes", level, episode)
        rule = Thompson(self.settings.particles)
        return plan_policy(self.beliefs[level], rule, rng, [level], self.acting, integration=COARSE)

    def _judged(self, level: str, drawn: Planned, batch: Batch, risk: float) -> GateLook:
        """Return the bound of the mean gain of the particles."""
        weights = drawn.choice.weights
        cost = mean_log_ratio(log_ratios(self.beliefs[level], drawn.theta, self._noise_matters(level, drawn)), weights)
        gains = particle_gains(self.problem, drawn, level, batch, weights.size, self.comparator)
        bound = sharp_grid_bound(gains, PRIOR_GRID, risk, cost, weights, high=2.0 * LIFT)
        margin = margin_of(self.problem, Scope(level)) / reward_measure(self.problem).width
        words = f"{len(batch)} units, {cost:.1f} nats for the prior, risk {risk:.3g}"
        return GateLook(self.state.episode, level, bound.value - LIFT, margin, words, units=len(batch))

    def _noise_matters(self, level: str, drawn: Planned) -> bool:
        """Say whether a plan depends on the drawn noise: not at the innermost level if everything is affine."""
        return not (drawn.affine and level == self.problem.innermost.name)
