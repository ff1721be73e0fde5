"""Choosing between models of a mechanism by how well each predicted the data: the marginal likelihood, in closed form."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from aegis.errors import SettingError
from aegis.mechanisms.belief import Belief
from aegis.mechanisms.nig import NIG
from aegis.mechanisms.settings import ModelSettings

MOST_INPUTS = 20  # a polynomial in more inputs has more than 231 terms, of which most are noise

MODELS: dict[str, ModelSettings] = {
    "linear": ModelSettings(),
    "polynomial": ModelSettings(features="polynomial"),
    "fourier": ModelSettings(features="fourier", lengthscale=1.0, feature_seed=0),
    "smooth fourier": ModelSettings(features="fourier", lengthscale=2.0, feature_seed=0),
}
TUNED = "tuned fourier"  # a further model, whose length-scales are chosen on prior data: `tune(..., TUNABLE)`
TUNABLE = ModelSettings(features="fourier", feature_seed=0)  # that model before its length-scales are chosen


def select(beliefs: Sequence[Belief], charges: Sequence[Mapping[str, float]] | None = None) -> tuple[Belief, dict[str, int]]:
    """Return a belief with the likeliest model of each mechanism, and which of the beliefs it came from, by mechanism.

    The beliefs are of one problem and have seen the same data; of two equally likely models the first one is taken. A
    mechanism that a belief lacks is not chosen from it. charges: for each belief, nats by mechanism that are taken off its
    evidence, for hyper-parameters that were searched for on the same data. Raises SettingError if a mechanism has no evidence (a
    table).
    """
    if not beliefs:
        raise SettingError("there are no beliefs to choose from; give at least one")
    owed = charges or [{}] * len(beliefs)
    chosen = {name: _likeliest(beliefs, owed, name) for name in beliefs[0].mechanisms}
    return (
        replace(
            beliefs[0],
            mechanisms={name: beliefs[index].mechanisms[name] for name, index in chosen.items()},
            prior={name: beliefs[index].prior[name] for name, index in chosen.items()},
            states={name: beliefs[index].states[name] for name, index in chosen.items()},
        ),
        chosen,
    )


def _likeliest(beliefs: Sequence[Belief], charges: Sequence[Mapping[str, float]], name: str) -> int:
    found = [
        _evidence(belief, name) - owed.get(name, 0.0) if name in belief.mechanisms else -math.inf
        for belief, owed in zip(beliefs, charges, strict=True)
    ]
    return int(np.argmax(found))


def _evidence(belief: Belief, name: str) -> float:
    prior, state = belief.prior[name], belief.states[name]
    if not isinstance(prior, NIG) or not isinstance(state, NIG):
        raise SettingError(f"mechanism '{name}' is not a regression and has no evidence to compare; choose its model yourself")
    return state.log_evidence(prior)
