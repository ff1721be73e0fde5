"""Linear Thompson sampling side by side: MABWiser and contextualbandits against the Normal-Inverse-Gamma posterior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from aegis.mechanisms import NIG
from aegis.rng import stream
from peer_envs import ask
from peer_rows import Row, saved, smallest

Array = npt.NDArray[np.float64]
FEATURES = 20
ARMS = 5
NOISE = 0.5
PRECISION = 1.0
SPREAD = "spread of drawn differences, relative to the posterior's, less 1"
CLOSE = 0.02  # a spread this close to the posterior's is right, within the noise of draws and a learned noise level
WHY = {  # where we are not five times as fast
    "drawn for each context; our scores, from their law": "a quadratic form for every context and arm is most of the work",
    "drawn for each context; our weights": "numbers are drawn for every context, arm and feature; scores need fewer",
    "drawn once for all": "one matrix product on either side",
}
PEERS = {"MABWiser": "mabwiser_speed", "contextualbandits": "contextual_speed"}


def made(rows: int) -> dict[str, Any]:
    """Return contexts `[n, 20]`, actions, rewards, fresh contexts `[n, 20]` and true slopes `[20, 5]`.

    gap, gap_sd `[n]`: posterior mean and standard deviation, the noise being known, of the first arm's score minus the second's.
    """
    rng = stream(1, "peers", "bandit")
    slopes = rng.standard_normal((FEATURES, ARMS)) / np.sqrt(FEATURES)
    context, action = rng.standard_normal((rows, FEATURES)), rng.integers(0, ARMS, rows)
    reward = (context @ slopes)[np.arange(rows), action] + NOISE * rng.standard_normal(rows)
    fresh = rng.standard_normal((rows, FEATURES))
    gap, variance = np.zeros(rows), np.zeros(rows)
    for arm, sign in ((0, 1.0), (1, -1.0)):
        own = context[action == arm]
        inverse = np.linalg.inv(own.T @ own + PRECISION * np.eye(FEATURES))
        gap += sign * (fresh @ (inverse @ (own.T @ reward[action == arm])))
        variance += NOISE**2 * np.einsum("nd,de,ne->n", fresh, inverse, fresh, optimize=True)
    names = ("context", "action", "reward", "fresh", "slopes", "gap", "gap_sd")
    return dict(zip(names, (context, action, reward, fresh, slopes, gap, np.sqrt(variance)), strict=True))


def fit(data: dict[str, Any]) -> list[NIG]:
    """Return the posterior of each arm after all rows, solved for its mean."""
    found = []
    for arm in range(ARMS):
        own = data["action"] == arm
        state = NIG.prior(FEATURES, 1, PRECISION).update(data["context"][own], data["reward"][own, None])
        state.moments()
        found.append(state)
    return found


def weights_for_each(states: list[NIG], fresh: Array, rng: np.random.Generator) -> Array:
    """Return scores `[n, 5]` under weights drawn for each context alone."""
    scores = np.empty((len(fresh), ARMS))
    for arm, state in enumerate(states):
        scores[:, arm] = np.einsum("nd,nd->n", fresh, state.draw(rng, len(fresh)).weights[..., 0])
    return scores


def score_for_each(states: list[NIG], fresh: Array, rng: np.random.Generator) -> Array:
    """Return scores `[n, 5]` drawn from their law, that of `x . w` with w drawn for this context alone.

    It is a Student t around the mean of `NIG.predict`.
    """
    scores = np.empty((len(fresh), ARMS))
    for arm, state in enumerate(states):
        mean, variance, _ = state.predict(fresh)
        spread = np.sqrt(variance[:, 0] * ((state.shape - 1.0) / state.shape))
        scores[:, arm] = mean[:, 0] + spread * rng.standard_t(2.0 * state.shape, len(fresh))
    return scores


def drawn_once(states: list[NIG], fresh: Array, rng: np.random.Generator) -> Array:
    """Return scores `[n, 5]` under one draw for all contexts, as Thompson sampling holds it for an episode."""
    weights = np.column_stack([state.draw(rng, 1).weights[0, :, 0] for state in states])
    return np.asarray(fresh @ weights)


WAYS: dict[str, tuple[str, Callable[[list[NIG], Array, np.random.Generator], Array]]] = {
    "drawn for each context; our scores, from their law": ("each", score_for_each),
    "drawn for each context; our weights": ("each", weights_for_each),
    "drawn once for all": ("once", drawn_once),
}


def bandit_rows(quick: bool) -> tuple[list[Row], dict[str, str], list[str]]:
    """Return the rows of both peers, their versions, and what is said of their draws."""
    size = 20_000 if quick else 100_000
    data = made(size)
    asked = {"path": saved("bandit", **data), "arms": ARMS, "noise": NOISE, "precision": PRECISION, "repeats": 5}
    fitted, states = smallest(lambda: fit(data), 5)
    ours = {words: _ours(data, states, draw) for words, (_, draw) in WAYS.items()}
    slopes = np.column_stack([state.moments().mean[:, 0] for state in states])
    rows, versions, spreads = [], {}, []
    for peer, name in PEERS.items():
        found = ask(name, asked)
        versions[peer] = found["version"]
        errors = [float(np.sqrt(np.square(each - data["slopes"]).mean())) for each in (np.array(found["slopes"]).T, slopes)]
        task = f"fit, {size} rows x {FEATURES}, {ARMS} arms"
        rows.append(Row(peer, task, "fit", found["fit"], fitted, "slopes, root mean square", *errors))
        for words, (time, off) in ours.items():
            key = WAYS[words][0]
            if key in found:
                errors = abs(found[f"{key} spread"] - 1.0), off
                task = f"predict {size} contexts, {words}"
                rows.append(Row(peer, task, "batch", found[key], time, SPREAD, *errors, CLOSE, WHY[words]))
        spreads.append(f"{peer} " + ", ".join(f"{found[key]:.3g} ({key.split()[0]})" for key in found if key.endswith("spread")))
    said = f"Spread of drawn differences of two arms, relative to the posterior's (1 is right): {'; '.join(spreads)}."
    return rows, versions, [said]


def _ours(data: dict[str, Any], states: list[NIG], draw: Callable[..., Array]) -> tuple[dict[str, float], float]:
    """Return the time to draw and choose, and how far the spread of the draws is from what it should be."""
    rng = stream(1, "peers", "bandit", "draws")
    time, _ = smallest(lambda: draw(states, data["fresh"], rng).argmax(axis=1), 5)
    scores = draw(states, data["fresh"], rng)
    away = (scores[:, 0] - scores[:, 1] - data["gap"]) / data["gap_sd"]
    return time, abs(float(np.sqrt(np.square(away).mean())) - 1.0)
