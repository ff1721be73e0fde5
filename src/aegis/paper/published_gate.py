"""Algorithm 2 of the paper, literally: kept for reproduction and comparison. **Not a certificate.**

See docs/theory.md, The published recipe, and where it fails.

The legacy acts and is logged. Every `stride` episodes, at each level that it still controls, the logarithmic-smoothing
estimate of the agent's value is compared with the legacy's mean reward, with nothing subtracted from the one or added to the
other. Once it reaches it, the agent acts at that level for good, planned anew in every episode.

Weights are those of the paper's demonstration: cut at `largest_weight`, on raw rewards unless `rewards` says 'scaled'. At
outer levels the legacy is mixed with a uniform choice at rate `positivity`, as it was there. The log of one level goes on to
grow after another level has flipped, although it then describes another hybrid.

Three switches, as in the paper: `risk_adjust_inner` acts on mean minus kappa_k standard deviations after a flip, else as the
host does; `optimal_lambda` takes lambda*, else 1/sqrt(K); without `progressive_handover` there is no gate: the agent acts from
the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, Strict, StrictBool, ValidationError, model_validator

from aegis.agents import prior_scalings
from aegis.certificate import margin_of
from aegis.errors import RefusedError, SettingError, check_choice
from aegis.evidence import BoundOrigin, PublishedBound, published_bound
from aegis.handover import CausalHost, GateLook, PeriodicGate, check_single_level, particle_ratios
from aegis.mechanisms import MODELS, Belief, build_belief
from aegis.ope import Measure, reward_measure
from aegis.planning import COARSE, Lcb, Planned, Rule, plan_policy
from aegis.policies import Floored, Legacy, Uniform
from aegis.problem import Array, Batch, Plant, Policy, Scope, explain_validation_error, nested_means
from aegis.rng import stream

STANDARDISED_BY = 20  # episodes of the legacy, of other seeds, for models whose length-scales need it

Count = Annotated[int, Strict(), Field(ge=1)]
Probability = Annotated[float, Strict(), Field(gt=0, lt=1)]


class PaperGateSettings(BaseModel):
    """Settings that the gates of the paper share. stride: episodes between looks. model: of the mechanisms."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    delta: Probability = 0.05
    stride: Count = 50
    model: str = "linear"
    levels: tuple[str, ...] = ()

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise SettingError(f"gate: {'; '.join(explain_validation_error(error, settings, type(self), {}))}") from error

    @model_validator(mode="after")
    def _check_model(self) -> PaperGateSettings:
        check_choice(self.model, MODELS, "model")
        return self

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return settings from plain data; SettingError for a name that does not exist."""
        return cls(**values)

    def plain(self) -> dict[str, Any]:
        """Return plain data, from which `of` makes the same settings."""
        return self.model_dump(mode="json")


class PublishedSettings(PaperGateSettings):
    """Settings of Algorithm 2 as in the paper's demonstration.

    delta: enters lambda* and kappa_k, and promises nothing. largest_weight: w_max, at which weights are cut; None leaves them and
    takes the largest one seen for B. positivity: share of uniform choices at all levels but the innermost. rewards: 'raw', or
    'scaled' to [0, 1] as the paper's theorem asks. refresh: episodes between two updates of the agent once it acts, a divisor of
    stride; 1 is the paper's.
    """

    largest_weight: Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)] | None = 1.0
    positivity: Annotated[float, Strict(), Field(ge=0, lt=1)] = 0.05
    rewards: Literal["raw", "scaled"] = "raw"
    risk_adjust_inner: StrictBool = True
    optimal_lambda: StrictBool = True
    progressive_handover: StrictBool = True
    refresh: Count = 1

    @model_validator(mode="after")
    def _check_refresh(self) -> PublishedSettings:
        if self.stride % self.refresh:
            raise SettingError(f"gate: 'refresh' divides 'stride', found {self.refresh} and {self.stride}")
        return self


@dataclass(slots=True)
class PublishedGate(PeriodicGate):
    """A run of Algorithm 2. Its flips carry the published number as `gain_lower`, which is no bound of anything."""

    name: ClassVar[str] = "published"
    certificate: ClassVar[bool] = False
    settings: PublishedSettings
    belief: Belief = field(init=False, repr=False)
    learned: int = field(default=0, init=False)
    _planned: tuple[int, Policy] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        super(PublishedGate, self).__post_init__()
        if not isinstance(self.host, CausalHost):
            raise SettingError(
                f"the published gate needs a host with a belief and a rule (greedy, ncts, ucb, ids), found '{self.host.name}'"
            )
        for level in self.state.levels:
            check_single_level(self.problem, level)
        self.belief = prior_belief(self.plant, self.legacy, self.settings.model, self.seed)
        if not self.settings.progressive_handover:
            self._hand_over(dict.fromkeys(self.state.levels, 0.0))

    @property
    def rule(self) -> Rule:
        """Return the host's rule."""
        return self.host.rule  # type: ignore[attr-defined]  # checked at the start

    @property
    def explored(self) -> Policy:
        """Return the legacy with the uniform choices that are mixed in at outer levels."""
        outer = self.problem.names[:-1]
        if not outer or self.settings.positivity == 0.0:
            return self.legacy
        anything = Legacy(self.problem, {name: Uniform() for name in self.problem.names})
        return Floored(self.problem, self.legacy, anything, self.settings.positivity, outer)

    @property
    def acting(self) -> Policy:
        """Return who is in control of the next episode."""
        return self._in_control(self.state.episode)[0]

    def _in_control(self, episode: int) -> tuple[Policy, int | None]:
        if not self.deployed:
            return self.explored, None
        start = episode - episode % self.settings.refresh
        if self._planned is None or self._planned[0] != start:
            self._learn(start)
            rule = Lcb(delta=self.settings.delta, draws=16) if self.settings.risk_adjust_inner else self.rule
            self._planned = start, self._plan(rule, self.deployed, start)
            self.deployed = dict.fromkeys(self.deployed, self._planned[1])
        return self._planned[1], start + self.settings.refresh

    def _learn(self, episodes: int) -> None:
        """Update the belief with everything up to so many episodes: in the same portions wherever a run was interrupted."""
        if episodes > self.learned:
            self.belief = self.belief.update(self._episodes(self.learned, episodes))
            self.learned = episodes

    def _plan(self, rule: Rule, levels: Any, episode: int) -> Planned:
        rng = stream(self.seed, "published", *sorted(levels), episode)
        return plan_policy(self.belief, rule, rng, levels, self.explored, integration=COARSE, episode=episode)

    # ---- looking -----------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        now = self.state.episode
        self._learn(now)
        batch, measure = self._episodes(0, now), reward_measure(self.problem)
        convinced = {}
        for level in self.open_levels:
            look, hands_over = self._judged(level, batch, measure)
            self.looks.append(look)
            if hands_over:
                convinced[level] = look.gain or 0.0
        if convinced:
            self._hand_over(convinced)

    def _hand_over(self, gains: Mapping[str, float]) -> None:
        """Flip levels, by the published numbers that convinced; one plan then covers them and those flipped before."""
        now = self.state.episode
        self._planned = None
        self.deployed |= dict.fromkeys(gains, self.explored)  # until the plan below takes its place
        policy = self._in_control(now)[0]
        for level, gain in gains.items():
            self._tried({level: policy}, 0.0)
            self._flip(level, policy, gain, now)

    def _challenge(self, level: str) -> str:
        return self.name

    def _judged(self, level: str, batch: Batch, measure: Measure) -> tuple[GateLook, bool]:
        """Return what Algorithm 2 computes for a level, and whether it hands over."""
        planned = self._plan(self.rule, {*self.deployed, level}, self.state.episode)
        weights = planned.choice.weights
        margin = margin_of(self.problem, Scope(level)) / measure.width
        rewards, highest, unit = self._rewards(batch, measure)
        ratios = particle_ratios(planned, level, batch, weights.size)
        cut = self.settings.largest_weight
        largest = highest * (float(ratios.max()) if cut is None else cut)
        if not largest > 0:
            return GateLook(self.state.episode, level, None, margin, "the highest reward is not above 0: B is not defined"), False
        values = _values(batch, level, ratios if cut is None else np.minimum(ratios, cut), rewards)
        gate = self._asked(level, values, batch.episode_means(rewards), largest, weights, cut is None)
        if gate is None:
            return GateLook(self.state.episode, level, None, margin, "the estimate does not exist for these values"), False
        return GateLook(self.state.episode, level, gate.value / unit, margin, gate.label), gate.value >= margin * unit

    def _asked(
        self, level: str, values: Array, legacy: Array, largest: float, weights: Array, observed: bool
    ) -> PublishedBound | None:
        reading = BoundOrigin("observed" if observed else "declared", "draws")
        lam: Any = "closed form" if self.settings.optimal_lambda else "root"
        kl = self.belief.kl([level])
        try:
            return published_bound(values, self.settings.delta, lam, largest, kl, weights, reading).algorithm_2(legacy)
        except (RefusedError, SettingError):  # a value too far below 0, or too few episodes for 1/sqrt(K)
            return None

    def _rewards(self, batch: Batch, measure: Measure) -> tuple[Array, float, float]:
        """Return rewards `[n]` of which large ones are good, the highest possible, and how many of them a scaled unit is."""
        if batch.reward is None:
            raise RefusedError(f"the log holds no column '{measure.column}'")
        known = np.isfinite(batch.reward) & (True if batch.observed is None else batch.observed)
        rewards = np.where(known, batch.reward, measure.value(0.0))  # missing: the worst
        if self.settings.rewards == "scaled":
            return measure.scaled(rewards), 1.0, 1.0
        sign = 1.0 if measure.goal == "maximise" else -1.0
        return sign * rewards, max(sign * measure.low, sign * measure.high), measure.width


def _values(batch: Batch, level: str, weights: Array, rewards: Array) -> Array:
    """Return `[E, N]`: nested means of weight times reward, for weights `[n, N]` at the decisions of a level."""
    innermost = list(batch.levels)[-1]
    rows = batch.ancestors(innermost)[level]
    return nested_means(batch, innermost, weights[rows] * rewards[:, None])


def prior_belief(plant: Plant, legacy: Policy, model: str, seed: int, scope: Scope | None = None) -> Belief:
    """Return the data-free prior p0 about the mechanisms of a scope.

    Models with length-scales are stated in standard deviations: of episodes of the legacy outside the run.
    """
    settings = MODELS[model]
    scalings = prior_scalings(plant, legacy, STANDARDISED_BY, seed) if settings.features == "fourier" else {}
    return build_belief(plant.problem, settings, scope, scalings, seed)
