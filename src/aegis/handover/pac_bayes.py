"""The gate 'pac-bayes': the sharp PAC-Bayes bound of the gain with a data-free prior.

See docs/theory.md, The gate, and there PAC-Bayes, sharp.

Every `stride` episodes, at each level that is not handed over, N particles theta_n are drawn from the belief Q = p_k after all
that was seen. Each says what it would have earned more on the units of the present phase: `X_kn = gain of unit k + 1 >= 0`.
With `r_n = log q(theta_n) - log p0(theta_n)`, the bound v of the mean gain of the particles is where

`lse_j(log p_j + mean_n S_jn - K log1p(g_j (v + 1)))` falls to `log(1/delta_c) + mean_n r_n`,   `S_jn = sum_k log1p(g_j X_kn)`.

Why this is valid. Under a prior p0 that did not see the units, `M = int p0(theta) prod_k (1 + g X_k(theta)) / (1 + g E
X(theta))` is a martingale with mean 1, also mixed over bets g. Given the units, `1/N sum_n exp(log wealth of theta_n - r_n)`
estimates M without bias, by importance sampling, because theta_n ~ q. Its mean is therefore at most 1, and it reaches
1/delta_c with probability at most delta_c (Markov). Jensen over the particles and the concavity of log1p give the line above.
It speaks of the N particles that were drawn, and these are deployed: one of them acts in each episode. To put draws of Q into
a bound of Q itself, as is often done, has no such guarantee. New draws are tried at every look c = 1, 2,
... of the gate's life: the levels of a look share `delta 6 / (pi^2 c^2)`, which add up to delta, so that it holds at all looks
at once.

mean r_n stands for KL(Q || p0): what the prior has to learn. After a flip a new phase begins: only its own units count, and
the belief at the flip, which did not see them, is its prior. Frozen challengers need many times fewer episodes; this gate
stays available to show that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from aegis.certificate.claims import margin_of
from aegis.certificate.measures import reward_measure
from aegis.errors import SettingError, choose
from aegis.evidence import sharp_grid_bound, value_grid
from aegis.handover.acting import acting_policy
from aegis.handover.budget import challenge_share
from aegis.handover.densities import log_ratios, mean_log_ratio
from aegis.handover.hosts import Causal
from aegis.handover.particle_units import LIFT, check_single_level, particle_gains
from aegis.handover.periodic import Look, PeriodicGate
from aegis.handover.plain_settings import check_number, check_whole, from_plain, to_plain
from aegis.handover.published import first_belief
from aegis.mechanisms import MODELS, Belief
from aegis.planning import Planned, Thompson, plan
from aegis.planning.effort import COARSE
from aegis.problem import Batch, Policy, Scope
from aegis.rng import stream

GRID = value_grid(-4)  # bets around 1/16, fixed beforehand: lifted gains are near 1, and what is looked for is some hundredths


@dataclass(frozen=True, slots=True)
class PacBayesSettings:
    """Settings of the gate. delta: the probability with which anything worse is ever put in control. stride: episodes between two
    looks. particles: of a deployed mixture. model: of the mechanisms, one fixed beforehand.
    """

    delta: float = 0.05
    stride: int = 50
    particles: int = 8
    model: str = "linear"
    levels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_number(self.delta, "pac-bayes gate: 'delta'", 0.0, 1.0)
        check_whole(self.stride, "pac-bayes gate: 'stride'")
        check_whole(self.particles, "pac-bayes gate: 'particles'")
        choose(self.model, MODELS, "model")
        object.__setattr__(self, "levels", tuple(self.levels))

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> PacBayesSettings:
        """Return settings from plain data; SettingError for a name that does not exist."""
        return from_plain(cls, given, "setting of a pac-bayes gate")

    def plain(self) -> dict[str, Any]:
        """Return plain data."""
        return to_plain(self)


@dataclass(slots=True)
class PacBayes(PeriodicGate):
    """A run of the gate. The host, one of those that plan, gives its name only: particles are draws of the gate's own belief.

    beliefs: by level, about the mechanisms that planning there looks at; their prior is that of the present phase.
    """

    name: ClassVar[str] = "pac-bayes"
    label: ClassVar[str] = "certified by the sharp PAC-Bayes bound, prior fixed before the units"
    certificate: ClassVar[bool] = True
    settings: PacBayesSettings
    beliefs: dict[str, Belief] = field(default_factory=dict, init=False, repr=False)
    learned: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        super(PacBayes, self).__post_init__()
        if not isinstance(self.host, Causal):
            raise SettingError(
                f"the pac-bayes gate draws what it hands over to from a belief of its own, and asks no host; found "
                f"'{self.host.name}'. Use the gate 'challenger' for it"
            )
        if self.problem.guards:
            raise SettingError("the pac-bayes gate does not test guards; use the gate 'challenger'")
        for level in self.state.levels:
            check_single_level(self.problem, level)
            self.beliefs[level] = first_belief(self.plant, self.legacy, self.settings.model, self.seed, Scope(level))

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
        found = [self._judged(level, planned, batch, risk) for level, planned in drawn.items()]
        self.looks += found
        for look in found:
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
        return plan(self.beliefs[level], rule, rng, [level], self.acting, integration=COARSE)

    def _judged(self, level: str, drawn: Planned, batch: Batch, risk: float) -> Look:
        """Return the bound of the mean gain of the particles."""
        weights = drawn.choice.weights
        cost = mean_log_ratio(log_ratios(self.beliefs[level], drawn.theta, self._noise_matters(level, drawn)), weights)
        gains = particle_gains(self.problem, drawn, level, batch, weights.size, self.comparator)
        bound = sharp_grid_bound(gains, GRID, risk, cost, weights, high=2.0 * LIFT)
        margin = margin_of(self.problem, Scope(level)) / reward_measure(self.problem).width
        words = f"{len(batch)} units, {cost:.1f} nats for the prior, risk {risk:.3g}"
        return Look(self.state.episode, level, bound.value - LIFT, margin, words)

    def _noise_matters(self, level: str, drawn: Planned) -> bool:
        """Say whether a plan depends on the drawn noise: not at the innermost level if everything is affine."""
        return not (drawn.affine and level == self.problem.innermost.name)
