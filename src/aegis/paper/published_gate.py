"""Algorithm 2 of the paper, literally: kept for reproduction and comparison. **Not a certificate.**

See docs/theory.md, The published recipe, and where it fails.

The legacy acts and is logged. Every `stride` episodes, at each level that it still controls, the logarithmic-smoothing
estimate of the agent's value is compared with the legacy's mean reward, with nothing subtracted from the one or added to the
other. Once it reaches it, the agent acts at that level for good, planned anew in every episode. What a look computes, and on
which episodes, is in `published_looks`. Looks at a level go on after it was handed over, on its buffer, which no longer grows:
they decide nothing.

Weights are those of the paper's demonstration: cut at `largest_weight`, on raw rewards unless `rewards` says 'scaled'. At
outer levels the legacy is mixed with a uniform choice at rate `positivity`, as it was there. The buffer of one level goes on to
grow after another level has flipped, although it then describes another hybrid; `freeze_at_first_flip` ends that.

| paper | here |
|---|---|
| Algorithm 2, line by line | `_in_control` (who acts), `_learn` (HostUpdate), `_look` (the gate) |
| switch risk_adjust_inner | after a flip the agent acts on mean minus kappa_k standard deviations, else as the host does |
| switch optimal_lambda | lambda*, else 1/sqrt(K) |
| switch progressive_handover | the gate; without it the agent acts from the start: `aegis.agents.Online` plans |
| all three switches off | Algorithm 1, bit for bit the run of an agent with the host's name, model and rule |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Protocol

from aegis.agents import Agent, Online, make_online, prior_scalings
from aegis.errors import SettingError
from aegis.handover import CausalHost, PeriodicGate, check_single_level
from aegis.mechanisms import Belief, ModelSettings, build_belief
from aegis.paper.published_looks import Algorithm2, Buffers, PublishedSettings, ScopePlanner, check_host
from aegis.planning import COARSE, RULES, ByLevel, Integration, Lcb, Planned, Rule, default_integration
from aegis.policies import Floored, Legacy, Uniform
from aegis.problem import Plant, Policy, Scope

STANDARDISED_BY = 20  # episodes of the legacy, of other seeds, for models whose length-scales need it

PESSIMISM_DRAWS = 16  # of mean and spread, unless n_mc says otherwise


class Acting(Protocol):
    """What the agent believes before the first episode, and how it acts where it is in control."""

    def prior(self) -> Belief:
        """Return p0."""

    def policy(self, belief: Belief, levels: Iterable[str], episode: int) -> Planned:
        """Return what acts at some levels in an episode, from the belief before it."""


@dataclass(frozen=True, slots=True)
class BehindGate:
    """An agent behind the gate: it plans any set of levels, the legacy with its uniform choices acting at the others."""

    plant: Plant
    legacy: Policy
    model: ModelSettings
    rule: Rule
    planner: ScopePlanner

    def prior(self) -> Belief:
        """Return the prior about all mechanisms."""
        return prior_belief(self.plant, self.legacy, self.model, self.planner.seed)

    def policy(self, belief: Belief, levels: Iterable[str], episode: int) -> Planned:
        """Return the plan by its own rule."""
        return self.planner.plan(belief, self.rule, levels, episode)


@dataclass(frozen=True, slots=True)
class FromTheStart:
    """An agent without a gate: Algorithm 1 on the levels it may control, the legacy acting at the others."""

    online: Online

    def prior(self) -> Belief:
        """Return the prior about the mechanisms that its levels look at."""
        return self.online.prior()

    def policy(self, belief: Belief, levels: Iterable[str], episode: int) -> Planned:
        """Return the plan of the episode; its levels never change."""
        return self.online.policy(belief, episode)


@dataclass(slots=True)
class PublishedGate(PeriodicGate):
    """A run of Algorithm 2. Its flips carry the published estimate as `gain_lower`, marked as no certificate."""

    name: ClassVar[str] = "published"
    certificate: ClassVar[bool] = False
    settings: PublishedSettings
    algorithm: Algorithm2 = field(init=False, repr=False)
    belief: Belief = field(init=False, repr=False)
    learned: int = field(default=0, init=False)
    _plans: BehindGate = field(init=False, repr=False)
    _acting: Acting = field(init=False, repr=False)
    _planned: tuple[int, Policy] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        super(PublishedGate, self).__post_init__()
        host = check_host(self.host)
        for level in self.state.levels:
            check_single_level(self.problem, level)
        self.algorithm = Algorithm2.of(self.problem, self.settings, host)
        self.algorithm.check_levels(self.state.levels)
        self._plans = self._behind_gate(host)
        self._acting = self._plans if self.settings.progressive_handover else self._from_the_start(host)
        self.belief = self._acting.prior()
        if not self.settings.progressive_handover:
            self._hand_over(dict.fromkeys(self.state.levels, 0.0))

    def _behind_gate(self, host: CausalHost) -> BehindGate:
        model = self.settings.model_of(host)
        return BehindGate(
            plant=self.plant,
            legacy=self.legacy,
            model=model,
            rule=self._acting_rule(host),
            planner=ScopePlanner(self.explored, self.settings.integration(COARSE, model), self.seed),
        )

    def _from_the_start(self, host: CausalHost) -> FromTheStart:
        model = self.settings.model_of(host)
        integration = None if self.settings.n_mc is None else self.settings.integration(default_integration(self.problem), model)
        agent = agent_of(host.name, model, self._acting_rule(host), integration)
        return FromTheStart(make_online(self.plant, agent, self.seed, self.legacy, self.state.levels))

    def _acting_rule(self, host: CausalHost) -> Rule:
        """Return the rule by which the agent acts where it is in control."""
        settings = self.settings
        return Lcb(delta=settings.delta, draws=settings.n_mc or PESSIMISM_DRAWS) if settings.risk_adjust_inner else host.rule

    @property
    def explored(self) -> Policy:
        """Return the legacy with the uniform choices that are mixed in at outer levels."""
        outer = self.problem.names[:-1]
        if not outer or self.settings.positivity == 0.0:
            return self.legacy
        anything = Legacy(self.problem, {name: Uniform() for name in self.problem.names})
        return Floored(self.problem, self.legacy, anything, self.settings.positivity, outer)

    @property
    def buffers(self) -> Buffers:
        """Return how many episodes the buffer of each scope holds."""
        held = {level: self.state.at(level) for level in self.state.levels}
        flips = {level: now.since - 1 for level, now in held.items() if now is not None}
        return Buffers(flips, self.settings.freeze_at_first_flip)

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
            self._planned = start, self._acting.policy(self.belief, self.deployed, start)
            self.deployed = dict.fromkeys(self.deployed, self._planned[1])
        return self._planned[1], start + self.settings.refresh

    def _learn(self, episodes: int) -> None:
        """Update the belief with everything up to so many episodes: in the same portions wherever a run was interrupted."""
        if episodes > self.learned:
            self.belief = self.belief.update(self._episodes(self.learned, episodes))
            self.learned = episodes

    # ---- looking -----------------------------------------------------------------------------------------------------------

    @property
    def looks_go_on(self) -> bool:
        """Return whether there are looks: also at levels that were handed over, where they decide nothing."""
        return self.settings.progressive_handover

    def _look(self) -> None:
        now = self.state.episode
        self._learn(now)
        looks, convinced = self.algorithm.looks(
            self.algorithm.scopes(self.state.levels),
            self.buffers,
            now,
            self.belief,
            self._episodes(0, now),
            lambda rule, levels: self._plans.planner.plan(self.belief, rule, levels, now),
        )
        self.looks += looks
        if convinced:
            self._hand_over({level: convinced[level] for level in self.state.levels if level in convinced})

    def _hand_over(self, gains: Mapping[str, float]) -> None:
        """Flip levels, by the published numbers that convinced; one plan then covers them and those flipped before."""
        now = self.state.episode
        self._planned = None
        self.deployed |= dict.fromkeys(gains, self.explored)  # until the plan below takes its place
        policy = self._in_control(now)[0]
        for level, gain in gains.items():
            self._tried({level: policy}, 0.0)
            self._flip(level, policy, gain, self.buffers.size([level], now))

    def _challenge(self, level: str) -> str:
        return self.name


def agent_of(name: str, model: ModelSettings, rule: Rule, integration: Integration | None) -> Agent:
    """Return an agent with a name, a model and a rule; SettingError for a rule that is not in the table of rules."""
    outer, inner = (rule.outer, rule.inner) if isinstance(rule, ByLevel) else (None, rule)
    own, settings = _described(inner)
    above, above_settings = (None, {}) if outer is None else _described(outer)
    return Agent(
        name=name,
        model=model,
        rule=own,
        rule_settings=settings,
        outer_rule=above,
        outer_settings=above_settings,
        integration=integration,
    )


def _described(rule: Rule) -> tuple[str, dict[str, Any]]:
    """Return the name of a rule in the table of rules, and its parameters."""
    name = next((name for name, kind in RULES.items() if type(rule) is kind), None)
    if name is None:
        raise SettingError(f"without a gate the host's rule is one of {', '.join(RULES)}, found a {type(rule).__name__}")
    return name, {part.name: getattr(rule, part.name) for part in fields(rule)}  # type: ignore[arg-type]  # a dataclass


def prior_belief(plant: Plant, legacy: Policy, model: ModelSettings, seed: int, scope: Scope | None = None) -> Belief:
    """Return the data-free prior p0 about the mechanisms of a scope.

    Models with length-scales are stated in standard deviations: of episodes of the legacy outside the run.
    """
    scalings = prior_scalings(plant, legacy, STANDARDISED_BY, seed) if model.features == "fourier" else {}
    return build_belief(plant.problem, model, scope, scalings, seed)
