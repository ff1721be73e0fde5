"""Choosing between models of a mechanism by how well each predicted the data: the marginal likelihood, in closed form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from aegis.errors import SettingError
from aegis.mechanisms.belief import Belief, ModelSettings
from aegis.mechanisms.nig import NIG

MOST_INPUTS = 20  # a polynomial in more inputs has more than 231 terms, of which most are noise

MODELS: dict[str, ModelSettings] = {
    "linear": ModelSettings(),
    "polynomial": ModelSettings(features="polynomial"),
    "fourier": ModelSettings(features="fourier", lengthscale=1.0, feature_seed=0),
    "smooth fourier": ModelSettings(features="fourier", lengthscale=2.0, feature_seed=0),
}


def select(beliefs: Sequence[Belief]) -> tuple[Belief, dict[str, int]]:
    """Return a belief with the likeliest model of each mechanism, and which of the beliefs it came from, by mechanism.

    The beliefs are of one problem and have seen the same data; of two equally likely models the first one is taken. A
    mechanism that a belief lacks is not chosen from it. Raises SettingError if a mechanism has no evidence (a table).
    """
    if not beliefs:
        raise SettingError("there are no beliefs to choose from; give at least one")
    chosen = {name: _likeliest(beliefs, name) for name in beliefs[0].mechanisms}
    return (
        replace(
            beliefs[0],
            mechanisms={name: beliefs[index].mechanisms[name] for name, index in chosen.items()},
            prior={name: beliefs[index].prior[name] for name, index in chosen.items()},
            states={name: beliefs[index].states[name] for name, index in chosen.items()},
        ),
        chosen,
    )


def _likeliest(beliefs: Sequence[Belief], name: str) -> int:
    found = [_evidence(belief, name) if name in belief.mechanisms else -math.inf for belief in beliefs]
    return int(np.argmax(found))


def _evidence(belief: Belief, name: str) -> float:
    prior, state = belief.prior[name], belief.states[name]
    if not isinstance(prior, NIG) or not isinstance(state, NIG):
        raise SettingError(f"mechanism '{name}' is not a regression and has no evidence to compare; choose its model yourself")
    return state.log_evidence(prior)
