"""How mechanisms are modelled: structure, features, prior, tempering, and the table MODELS of compared models."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace

from aegis.errors import SettingError, check_choice, whole_number
from aegis.mechanisms.features import FEATURES
from aegis.problem import Problem, Variable

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
        If a name is unknown or the count is not a whole number from 1.
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
