"""What Algorithm 2 of the paper computes at a look, and its settings. **Not a certificate.**

A look judges a scope, which is one level or all levels together, on a buffer of episodes in which the legacy acted there:

| paper | here |
|---|---|
| D^(mu,l): episodes in which the legacy acted at l | `Buffers.size([l], now)`: the first so many episodes |
| D^(mu,[L]): episodes before anything was handed over | `Buffers.size(all levels, now)` |
| freeze D^(mu,2) at the first flip | `freeze_at_first_flip` |
| LS estimate at lambda*, minus the mean reward of the legacy on the buffer | `GateLook.gain` |
| the gain bound: that minus (KL + log(2/delta))/(lambda K) | `GateLook.bound` |
| epsilon_l | the margin of the level |
| w_max, eta, n_mc | `largest_weight`, `eta`, `n_mc` |

A log without propensities is that of a deterministic legacy, mu = 1: `published_log` puts them in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, Strict, StrictBool, ValidationError, model_validator

from aegis.agents import AGENTS
from aegis.certificate import margin_of
from aegis.errors import RefusedError, SettingError, check_choice
from aegis.evidence import BoundOrigin, PublishedBound, published_bound
from aegis.handover import HOSTS, CausalHost, GateLook, Host, particle_ratios
from aegis.mechanisms import MODELS, Belief, ModelSettings
from aegis.ope import Measure, reward_measure
from aegis.planning import ByLevel, Integration, Planned, Rule, plan_policy
from aegis.problem import SCOPE_SEPARATOR, Array, Batch, Policy, Problem, Scope, explain_validation_error, nested_means
from aegis.rng import stream

Count = Annotated[int, Strict(), Field(ge=1)]
Probability = Annotated[float, Strict(), Field(gt=0, lt=1)]

USUAL_MODEL = "linear"  # where the host compares several


class PaperGateSettings(BaseModel):
    """Settings that the gates of the paper share.

    stride: episodes between looks. model: of the mechanisms; None is the host's own if it has exactly one, else linear.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    delta: Probability = 0.05
    stride: Count = 50
    model: str | None = None
    levels: tuple[str, ...] = ()

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise SettingError(f"gate: {'; '.join(explain_validation_error(error, settings, type(self), {}))}") from error

    @model_validator(mode="after")
    def _check_model(self) -> PaperGateSettings:
        if self.model is not None:
            check_choice(self.model, MODELS, "model")
        return self

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return settings from plain data; SettingError for a name that does not exist."""
        return cls(**values)

    def plain(self) -> dict[str, Any]:
        """Return plain data, from which `of` makes the same settings."""
        return self.model_dump(mode="json")

    def model_of(self, host: Host) -> ModelSettings:
        """Return the model of the mechanisms: the one named, else the host's own if it has exactly one, else the linear one."""
        own = tuple(host.models.values()) if isinstance(host, CausalHost) else ()
        if self.model is None and len(own) == 1:
            return own[0]
        return MODELS[self.model or USUAL_MODEL]


class PublishedSettings(PaperGateSettings):
    """Settings of Algorithm 2 as in the paper's demonstration.

    delta: enters lambda* and kappa_k, and promises nothing. largest_weight: w_max, at which weights are cut; None leaves them and
    takes the largest one seen for B. positivity: share of uniform choices at all levels but the innermost. rewards: 'raw', or
    'scaled' to [0, 1] as the paper's theorem asks. refresh: episodes between two updates of the agent once it acts, a divisor of
    stride; 1 is the paper's. joint: also judge all levels together; if that passes, every level flips at once.
    freeze_at_first_flip: buffers of levels that are still open stop growing at the first flip, for the value against the full
    legacy. eta: how far below 1/B lambda* is kept. n_mc: draws of theta for estimates and for mean and spread of rewards, and
    of contexts where mechanisms are not linear; None is what the host's rule draws, 16, and quadrature.
    """

    largest_weight: Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)] | None = 1.0
    positivity: Annotated[float, Strict(), Field(ge=0, lt=1)] = 0.05
    rewards: Literal["raw", "scaled"] = "raw"
    risk_adjust_inner: StrictBool = True
    optimal_lambda: StrictBool = True
    progressive_handover: StrictBool = True
    refresh: Count = 1
    joint: StrictBool = False
    freeze_at_first_flip: StrictBool = False
    eta: Probability = 0.05
    n_mc: Count | None = None

    @model_validator(mode="after")
    def _check_refresh(self) -> PublishedSettings:
        if self.stride % self.refresh:
            raise SettingError(f"gate: 'refresh' divides 'stride', found {self.refresh} and {self.stride}")
        return self

    def look_rule(self, rule: Rule) -> Rule:
        """Return the rule whose policy a look judges: the host's, with n_mc draws where it draws any."""
        return rule if self.n_mc is None else with_draws(rule, self.n_mc)

    def integration(self, usual: Integration, model: ModelSettings) -> Integration:
        """Return how a plan goes through unknown contexts: by n_mc draws where the mechanisms are not linear."""
        if self.n_mc is None:
            return usual
        return replace(usual, method="auto" if model.features == "linear" else "monte_carlo", samples=self.n_mc)


def check_host(host: Host) -> CausalHost:
    """Return a host with a belief and a rule; SettingError for any other, and for one that starts from an earlier log."""
    if not isinstance(host, CausalHost):
        own = [name for name in HOSTS if name not in AGENTS and name != "external"]
        usable = [name for name in own if isinstance(HOSTS[name](), CausalHost)]
        raise SettingError(
            f"the published gate needs a host with a belief and a rule ({', '.join(usable)}, or an agent by name), found "
            f"'{host.name}'"
        )
    if host.warm is not None and host.warm.log is not None:
        raise SettingError(f"the published gate starts from a data-free p0: make host '{host.name}' without an earlier log")
    return host


def with_draws(rule: Rule, draws: int) -> Rule:
    """Return a rule with so many draws of theta; one that draws none as it is."""
    if isinstance(rule, ByLevel):
        return ByLevel(with_draws(rule.outer, draws), with_draws(rule.inner, draws))
    own = {part.name for part in fields(rule)} & {"particles", "draws"}  # type: ignore[arg-type]  # rules are dataclasses
    return replace(rule, **dict.fromkeys(own, draws)) if own else rule  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class Buffers:
    """The buffers of Algorithm 2, each the first so many episodes of the log.

    flips: after which episode each level was handed over. frozen: whether buffers of open levels stop growing at the first flip.
    recorded: whether the legacy acted at all levels all the same, since the log was written without a gate.
    """

    flips: Mapping[str, int]
    frozen: bool = False
    recorded: bool = False

    def size(self, scope: Iterable[str], now: int) -> int:
        """Return how many episodes the buffer of a scope has after `now` closed ones: those before any of its levels flipped.

        Of all levels together these are the episodes before the first flip.
        """
        stopping = self.flips if self.frozen else scope
        return min([now, *(self.flips[level] for level in stopping if level in self.flips)])

    def is_open(self, scope: Iterable[str]) -> bool:
        """Return whether a look at the scope can still hand over: the legacy has all its levels."""
        return not self.flips.keys() & set(scope)

    def acted(self, scope: Iterable[str], now: int) -> frozenset[str]:
        """Return the scope and the levels at which the agent acted in some episode of its buffer: the hybrid it speaks of."""
        if self.recorded:
            return frozenset(scope)
        stop = self.size(scope, now)
        return frozenset(scope) | {name for name, flip in self.flips.items() if flip < stop}


# Plans the levels of a set, by a rule.
PlanFor = Callable[[Rule, frozenset[str]], Planned]


@dataclass(frozen=True, slots=True)
class ScopePlanner:
    """Plans any levels from a belief. legacy: acts at the others. seed: draws of theta follow from it."""

    legacy: Policy
    integration: Integration
    seed: int

    def plan(self, belief: Belief, rule: Rule, levels: Iterable[str], episode: int) -> Planned:
        """Return the plan of an episode by any rule, the same in a run and over its log."""
        scope = sorted(levels)
        rng = stream(self.seed, "published", *scope, episode)
        return plan_policy(belief, rule, rng, scope, self.legacy, integration=self.integration, episode=episode)


@dataclass(frozen=True, slots=True)
class Algorithm2:
    """The looks of Algorithm 2 for a problem. rule: the host's. measure: of the reward."""

    problem: Problem
    settings: PublishedSettings
    rule: Rule
    measure: Measure

    @classmethod
    def of(cls, problem: Problem, settings: PublishedSettings, host: CausalHost) -> Algorithm2:
        """Return the looks for a host."""
        return cls(problem, settings, host.rule, reward_measure(problem))

    def scopes(self, levels: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the scopes that are judged: each level alone, and all together if that is asked for."""
        alone: list[tuple[str, ...]] = [(level,) for level in levels]
        return [*alone, self.problem.names] if self.settings.joint and len(alone) > 1 else alone

    def check_levels(self, levels: Sequence[str]) -> None:
        """Raise SettingError if the joint scope is asked for and some level is not to be handed over."""
        if self.settings.joint and set(levels) != set(self.problem.names):
            raise SettingError(
                f"gate: 'joint' hands over all levels at once, but 'levels' names {', '.join(levels)} of "
                f"{', '.join(self.problem.names)}; leave one of the two out"
            )

    def looks(
        self, scopes: Iterable[Sequence[str]], buffers: Buffers, now: int, belief: Belief, batch: Batch, plan: PlanFor
    ) -> tuple[list[GateLook], dict[str, float]]:
        """Return the looks after `now` episodes, and the gains of the levels they hand over, which share that of a joint scope.

        belief: p_k, after all of them. batch: at least the episodes of the largest buffer.
        """
        looks: list[GateLook] = []
        convinced: dict[str, float] = {}
        for scope in scopes:
            size = buffers.size(scope, now)
            if not size:
                continue
            planned = plan(self.settings.look_rule(self.rule), buffers.acted(scope, now))
            buffer = batch if size == len(batch) else batch.take_episodes(np.arange(size))
            look, passes = self.judge(scope, now, planned, belief.kl(scope), buffer)
            if buffers.is_open(scope):
                convinced |= dict.fromkeys(scope, look.gain or 0.0) if passes else {}
            else:
                look = replace(look, decides=False, words=f"after the handover, decides nothing; {look.words}")
            looks.append(look)
        return looks, convinced

    def judge(self, scope: Sequence[str], now: int, planned: Planned, kl: float, batch: Batch) -> tuple[GateLook, bool]:
        """Return what Algorithm 2 computes for a scope on its buffer, and whether it hands over. kl: KL(p_k || p0)."""
        margin = margin_of(self.problem, Scope(scope)) / self.measure.width
        empty = GateLook(now, SCOPE_SEPARATOR.join(scope), None, margin, "", units=len(batch))
        rewards, highest, unit = self._rewards(batch)
        weights, cut = planned.choice.weights, self.settings.largest_weight
        ratios = joint_ratios(planned, scope, batch, weights.size)
        largest = highest * (float(ratios.max()) if cut is None else cut)
        if not largest > 0:
            return replace(empty, words="the highest reward is not above 0: B is not defined"), False
        legacy = batch.episode_means(rewards)
        counted = np.isfinite(legacy)  # an episode without a decision has no value
        earned = (ratios if cut is None else np.minimum(ratios, cut)) * rewards[:, None]
        values = nested_means(batch, self.problem.innermost.name, earned)[counted]
        bound = self._bound(values, largest, kl, weights)
        if bound is None:
            return replace(empty, words="the estimate does not exist for these values"), False
        tested, gain = bound.algorithm_2(legacy[counted]), bound.gain_over(legacy[counted])
        look = replace(empty, gain=tested.value / unit, words=tested.label, bound=gain.value / unit)
        return look, tested.value >= margin * unit

    def _bound(self, values: Array, largest: float, kl: float, weights: Array) -> PublishedBound | None:
        settings = self.settings
        reading = BoundOrigin("observed" if settings.largest_weight is None else "declared", "draws")
        lam: Any = "closed form" if settings.optimal_lambda else "root"
        try:
            return published_bound(values, settings.delta, lam, largest, kl, weights, reading, eta=settings.eta)
        except (RefusedError, SettingError):  # a value too far below 0, or too few episodes for 1/sqrt(K)
            return None

    def _rewards(self, batch: Batch) -> tuple[Array, float, float]:
        """Return rewards `[n]` of which large ones are good, the highest possible, and how many of them a scaled unit is."""
        measure = self.measure
        if batch.reward is None:
            raise RefusedError(f"the log holds no column '{measure.column}'")
        known = np.isfinite(batch.reward) & (True if batch.observed is None else batch.observed)
        rewards = np.where(known, batch.reward, measure.value(0.0))  # missing: the worst
        if self.settings.rewards == "scaled":
            return measure.scaled(rewards), 1.0, 1.0
        sign = 1.0 if measure.goal == "maximise" else -1.0
        return sign * rewards, max(sign * measure.low, sign * measure.high), measure.width


def joint_ratios(planned: Planned, scope: Iterable[str], batch: Batch, particles: int) -> Array:
    """Return `[n, N]`: the product over the levels of a scope of plan over logged probability, at each innermost decision."""
    rows = batch.ancestors(list(batch.levels)[-1])
    product: Array = np.ones(1)
    for level in scope:
        product = product * particle_ratios(planned, level, batch, particles)[rows[level]]
    return product
