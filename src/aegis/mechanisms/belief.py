"""The mechanism-factorised belief: one posterior per learnable mechanism (the paper's section 5.2), and how each is modelled.

For a masked level inside the scope the belief also learns which actions will be available, because a planner at an outer
level must not count on inner actions that its own choice closes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from aegis.errors import GraphError, SettingError, check_choice, finite_number, whole_number
from aegis.mechanisms.base import Mechanism, MechanismDraw
from aegis.mechanisms.cell_tables import Cells, CellStates
from aegis.mechanisms.encoding import Encoder, Scaling, mechanism_rows
from aegis.mechanisms.features import FeatureMap, Linear, Polynomial
from aegis.mechanisms.fourier import Fourier
from aegis.mechanisms.regression import NIG, Regression
from aegis.problem import Actions, AnyArray, Array, Batch, Level, Problem, Rows, Variable, augmented_context
from aegis.rng import stream

FEATURES: dict[str, Callable[[int], FeatureMap]] = {"linear": Linear, "polynomial": Polynomial, "fourier": Fourier.draw}
MechanismState = NIG | CellStates
Scale = float | Sequence[float]


@dataclass(frozen=True, slots=True)
class Tuned:
    """Hyper-parameters of one mechanism: length-scale by input name (of a vector, one or one per coordinate), prior precision.

    charge: nats that the evidence of the mechanism owes to the search (see `LengthScaleFit`). linear: no input needs waves,
    so that a linear regression would do as well.
    """

    lengthscale: Mapping[str, Scale]
    precision: float
    charge: float = 0.0
    linear: bool = False


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How mechanisms are modelled.

    Parameters
    ----------
    structure
        `factorised`: one mechanism per variable with the graph's parents. `joint`: the reward is regressed on all contexts and
        actions at once, without the outcome. `cells`: a table of the reward by actions.
    features
        A name from `FEATURES`.
    precision, shape, rate
        The prior.
    temper
        The power of the likelihood.
    count, linear_terms
        Of fourier features: how many, and whether the inputs themselves are features too.
    lengthscale
        Of fourier features, in (standardised) input units: one number, or by input name. A vector may have one per coordinate;
        an input that is not named has 1.
    feature_seed
        The draw of random features, shared by all runs; None draws anew for each seed.
    tuned
        Length-scales and precision by mechanism, which take precedence (see `tune`).

    Raises
    ------
    SettingError
        If a name is unknown, the count is not a whole number from 1, or another number is not above 0.
    """

    structure: str = "factorised"
    features: str = "linear"
    precision: float = 0.1
    shape: float = 2.0
    rate: float = 1.0
    temper: float = 1.0
    count: int = 128
    lengthscale: float | Mapping[str, Scale] = 1.0
    linear_terms: bool = True
    feature_seed: int | None = None
    tuned: Mapping[str, Tuned] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice(self.structure, ("factorised", "joint", "cells"), "structure")
        check_choice(self.features, FEATURES, "feature map")
        whole_number("the count of fourier features", self.count)
        for name in ("precision", "shape", "rate", "temper"):
            finite_number(f"the {name} of a model", getattr(self, name), above=0.0)

    def check_names(self, problem: Problem) -> None:
        """Raise SettingError if a variable is named that the problem does not have: it would be ignored in silence."""
        named = [self.lengthscale] if isinstance(self.lengthscale, Mapping) else []
        for mechanism, tuned in self.tuned.items():
            check_choice(mechanism, problem.variables, "mechanism with tuned settings")
            named.append(tuned.lengthscale)
        for name in (name for scales in named for name in scales):
            check_choice(name, problem.variables, "input with a length-scale")

    def about(self, names: Container[str]) -> ModelSettings:
        """Return the settings without what they say of other variables, for a problem that is a part of a larger one."""
        tuned = {
            mechanism: replace(tuning, lengthscale=_named_scales(tuning.lengthscale, names))
            for mechanism, tuning in self.tuned.items()
            if mechanism in names
        }
        scale = _named_scales(self.lengthscale, names) if isinstance(self.lengthscale, Mapping) else self.lengthscale
        return replace(self, lengthscale=scale, tuned=tuned)

    def scales(self, mechanism: str, parents: Sequence[Variable]) -> list[float]:
        """Return the length-scale of each column of a mechanism's inputs."""
        lengthscale = self.tuned[mechanism].lengthscale if mechanism in self.tuned else self.lengthscale
        each = [lengthscale.get(parent.name, 1.0) if isinstance(lengthscale, Mapping) else lengthscale for parent in parents]
        return [scale for parent, own in zip(parents, each, strict=True) for scale in _columns(own, parent)]


def _named_scales(scales: Mapping[str, Scale], names: Container[str]) -> dict[str, Scale]:
    return {name: scale for name, scale in scales.items() if name in names}


def _columns(scale: Scale, parent: Variable) -> list[float]:
    """Return the length-scale of each column of a parent."""
    if not isinstance(scale, Sequence):
        return [float(scale)] * parent.width
    if parent.kind != "vector" or len(scale) != parent.width:
        allowed = f"one number, or one for each of its {parent.width} coordinates" if parent.kind == "vector" else "one number"
        raise SettingError(f"the length-scale of '{parent.name}' is {allowed}; found {list(scale)}")
    return [float(each) for each in scale]


MOST_INPUTS = 20  # a polynomial in more inputs has more than 231 terms, of which most are noise

MODELS: dict[str, ModelSettings] = {
    "linear": ModelSettings(),
    "polynomial": ModelSettings(features="polynomial"),
    "fourier": ModelSettings(features="fourier", lengthscale=1.0, feature_seed=0),
    "smooth fourier": ModelSettings(features="fourier", lengthscale=2.0, feature_seed=0),
}

TUNED = "tuned fourier"  # a further model, whose length-scales are chosen on prior data: `tune(..., TUNABLE)`

TUNABLE = ModelSettings(features="fourier", feature_seed=0)  # that model before its length-scales are chosen


def availability_name(level: str) -> str:
    """Return the name under which a belief keeps the availability of a level."""
    return f"available({level})"


def masked_levels(problem: Problem, scope: Iterable[str] | None) -> list[Level]:
    """Return the masked levels that a planner for `scope` has to imagine: those below its outermost level."""
    inside = problem.scope(scope)
    top = max((problem.index(name) for name in inside), default=0)
    return [level for level in problem.levels if level.masked and problem.index(level.name) < top]


def availability_rows(problem: Problem, batch: Batch, level: str) -> tuple[Rows, AnyArray]:
    """Return what was known at each decision, and the indicators `[n, A]` of its closed actions."""
    table = batch.levels[level]
    shape = (len(table), problem.level(level).actions.count)
    closed = np.zeros(shape) if table.available is None else (~table.available).astype(np.float64)
    return augmented_context(problem, batch, level), closed


MOST_CROSSED = 12  # inputs up to which availability is learned with products of inputs


@dataclass(frozen=True, slots=True)
class Theta:
    """S joint draws of all mechanisms: the paper's theta. Draws of different mechanisms are independent."""

    functions: Mapping[str, MechanismDraw]
    count: int

    @property
    def weights(self) -> Array:
        """Return equal particle weights `[S]`."""
        return np.full(self.count, 1.0 / self.count)


@dataclass(frozen=True, slots=True)
class Belief:
    """Prior and current posterior of every mechanism. Updating returns a new belief; memory does not grow with data.

    Parameters
    ----------
    problem
        The problem whose mechanisms are learned.
    mechanisms
        The fixed part of each mechanism, by variable name.
    prior, states
        The prior and the current posterior of each mechanism. `build_belief` makes both.
    """

    problem: Problem
    mechanisms: Mapping[str, Mechanism]
    prior: Mapping[str, MechanismState]
    states: Mapping[str, MechanismState]

    def update(self, batch: Batch) -> Belief:
        """Return the belief after a batch of episodes: a closed-form update per mechanism."""
        rows = self.rows(batch)
        return replace(self, states={name: m.update(self.states[name], *rows[name]) for name, m in self.mechanisms.items()})

    def rows(self, batch: Batch) -> dict[str, tuple[Rows, AnyArray]]:
        """Return what each mechanism learns from a batch: rows of its parents, and of others, and values of its target."""
        masks = {availability_name(level.name): level.name for level in self.problem.levels if level.masked}
        rows = mechanism_rows(self.problem, batch, [name for name in self.mechanisms if name not in masks])
        learned = {name: availability_rows(self.problem, batch, masks[name]) for name in self.mechanisms if name in masks}
        return rows | learned

    def draw(self, rng: np.random.Generator, count: int = 1) -> Theta:
        """Return `count` draws from the posterior."""
        return Theta({name: m.draw(self.states[name], rng, count) for name, m in self.mechanisms.items()}, count)

    def point(self) -> Theta:
        """Return the posterior mean as a single particle."""
        return Theta({name: m.point(self.states[name]) for name, m in self.mechanisms.items()}, 1)

    def predict(self, name: str, rows: Rows, count: int) -> tuple[Array, Array, Array]:
        """Return mean, variance of the mean and variance of a new value, `[n, q]`, of one mechanism at `count` rows."""
        check_choice(name, self.mechanisms, "mechanism")
        return self.mechanisms[name].predict(self.states[name], rows, count)

    def kl(self, scope: Iterable[str] | None = None) -> float:
        """Return KL(posterior || prior), summed over the mechanisms of a scope (the paper's causal KL decomposition)."""
        divergences = self.kl_by_mechanism()
        wanted = self.problem.mechanisms(scope)
        return float(sum(divergences[name] for name in wanted if name in divergences))

    def kl_by_mechanism(self) -> dict[str, float]:
        """Return KL(posterior || prior) of each mechanism of the graph."""
        wanted = self.problem.mechanisms()
        return {name: m.kl(self.states[name], self.prior[name]) for name, m in self.mechanisms.items() if name in wanted}

    def arrays(self) -> dict[str, Array]:
        """Return the current states as flat arrays, keys 'mechanism/parameter'."""
        return {f"{name}/{key}": value for name, state in self.states.items() for key, value in _arrays(state).items()}

    def with_arrays(self, arrays: Mapping[str, Array]) -> Belief:
        """Return the belief in the state saved by `arrays`."""
        states = {}
        for name in self.mechanisms:
            prefix = f"{name}/"
            saved = {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}
            wanted = {key: value.shape for key, value in _arrays(self.prior[name]).items()}
            if {key: saved[key].shape for key in wanted if key in saved} != wanted:
                shapes = {key: value.shape for key, value in saved.items()}
                raise SettingError(f"the saved belief does not fit mechanism '{name}': expected {wanted}, found {shapes}")
            numbers: Mapping[str, Any] = {key: saved[key] if shape else float(saved[key]) for key, shape in wanted.items()}
            states[name] = type(self.prior[name])(**numbers)
        return replace(self, states=states)


def _arrays(state: MechanismState) -> dict[str, Array]:
    return {part.name: np.asarray(getattr(state, part.name)) for part in fields(state)}


def build_belief(
    problem: Problem,
    settings: ModelSettings | None = None,
    scope: Iterable[str] | None = None,
    scalings: Mapping[str, Scaling] | None = None,
    seed: int = 0,
) -> Belief:
    """Return the prior belief over the mechanisms that a scope needs.

    Parameters
    ----------
    problem
        The problem whose mechanisms are learned.
    settings
        How mechanisms are modelled; linear regressions by default.
    scope
        The levels to be planned, all by default.
    scalings
        Standardisation by variable name, fitted on prior data (`fit_scalings`); raw units without one.
    seed
        Of random features, unless the settings fix their own.

    Returns
    -------
    Belief
        One prior per mechanism; `update` learns from batches.

    Raises
    ------
    GraphError
        If an action is confounded with the reward (Assumption 3).
    SettingError
        If a setting names an unknown variable, or if the reward belongs to several innermost decisions.
    """
    chosen = settings or ModelSettings()
    for name in scalings or {}:
        check_choice(name, problem.variables, "variable to scale")
    chosen.check_names(problem)
    wanted = _structure(problem, chosen.structure, problem.mechanisms(scope))
    _check(problem, scope)
    mechanisms = {name: _mechanism(problem, name, parents, chosen, scalings or {}, seed) for name, parents in wanted.items()}
    if chosen.structure != "cells":
        for level in masked_levels(problem, scope):
            mechanisms[availability_name(level.name)] = _availability(problem, level, chosen, scalings or {})
    prior = {name: mechanism.prior() for name, mechanism in mechanisms.items()}
    return Belief(problem=problem, mechanisms=mechanisms, prior=prior, states=prior)


def _check(problem: Problem, scope: Iterable[str] | None) -> None:
    """Raise GraphError if the graph says that what is learned here cannot be the effect of the actions (Assumption 3).

    Raises SettingError for a reward that belongs to several innermost decisions: every row would count it again, and the
    posterior would be far too sure.
    """
    if problem.reward.per not in ("decision", problem.innermost.name):
        raise SettingError(
            f"the reward is per {problem.reward.per}: mechanisms are learned from rewards per innermost decision only, because "
            "each row would count the same reward again; log the reward of each innermost decision"
        )
    for name in problem.scope(scope):
        backdoor = problem.backdoor(name)
        if not backdoor.admissible:
            raise GraphError(f"level '{name}': {backdoor.reason}")


def _availability(problem: Problem, level: Level, settings: ModelSettings, scalings: Mapping[str, Scaling]) -> Mechanism:
    encoder = _encoder(tuple(problem.visible(level.name).values()), scalings)
    features = FEATURES["polynomial" if encoder.width <= MOST_CROSSED else "linear"](encoder.width)
    target = Variable(availability_name(level.name), "vector", level.available)  # indicators of closed actions
    return Regression(
        target=target, encoder=encoder, features=features, scaling=Scaling.identity(target.width), precision=settings.precision
    )


def _encoder(parents: tuple[Variable, ...], scalings: Mapping[str, Scaling]) -> Encoder:
    return Encoder(parents, {p.name: scalings[p.name] for p in parents if p.name in scalings and p.kind != "categorical"})


def _structure(problem: Problem, structure: str, mechanisms: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the parents of each mechanism to be modelled."""
    wanted = {name: problem.graph.parents[name] for name in mechanisms}
    if structure == "factorised":
        return wanted
    reward = problem.reward.column
    actions = tuple(level.actions.column for level in problem.levels)
    if structure == "cells":
        return {reward: actions}
    if problem.outcome is not None:
        wanted.pop(problem.outcome.name, None)
    contexts = tuple(variable.name for level in problem.levels for variable in level.context)
    return {**wanted, reward: contexts + actions}


def _mechanism(
    problem: Problem,
    name: str,
    parent_names: tuple[str, ...],
    settings: ModelSettings,
    scalings: Mapping[str, Scaling],
    seed: int,
) -> Mechanism:
    variables = problem.variables
    target = variables[name]
    parents = tuple(variables[parent] for parent in parent_names)
    shared = {name: getattr(settings, name) for name in ("temper", "precision", "shape", "rate")}
    if settings.structure == "cells":
        return Cells(target, tuple(_axis(problem, parent) for parent in parents), **shared)
    encoder = _encoder(parents, scalings)
    scaled = name in scalings and target.kind != "categorical"
    scaling = scalings[name] if scaled else Scaling.identity(target.width)
    if name in settings.tuned:
        shared["precision"] = settings.tuned[name].precision
    return Regression(
        target=target, encoder=encoder, features=_features(settings, name, encoder, seed), scaling=scaling, **shared
    )


def _features(settings: ModelSettings, name: str, encoder: Encoder, seed: int) -> FeatureMap:
    if settings.features != "fourier":
        return FEATURES[settings.features](encoder.width)
    scales = settings.scales(name, encoder.parents)
    rng = stream(seed if settings.feature_seed is None else settings.feature_seed, "features", name)
    return Fourier.draw(encoder.width, settings.count, scales or 1.0, settings.linear_terms, rng)


def _axis(problem: Problem, variable: Variable) -> Variable | Actions:
    for level in problem.levels:
        if level.actions.column == variable.name:
            return level.actions
    return variable
