"""Logs for comparisons of estimates: a softmax legacy, a sharper candidate, rewards of 0 or 1, and a rough reward model."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from aegis.rng import stream

Array = npt.NDArray[np.float64]
FEATURES = 5
ACTIONS = 5
TOTAL = 2_000_000  # contexts over which the truth is averaged
_SLOPES = stream(1, "peers", "slopes").standard_normal((FEATURES, ACTIONS))


def made(rows: int) -> dict[str, npt.NDArray[np.float64] | npt.NDArray[np.int64]]:
    """Return a log: context `[n, 5]`, action, reward, pscore `[n]`, policy and predicted `[n, 5]`.

    policy: the candidate's probabilities. predicted: a model of the mean reward that is off by a tenth of it.
    """
    rng = stream(1, "peers", "log", rows)
    context = rng.standard_normal((rows, FEATURES))
    scores, mean = _scores(context), _means(context)
    legacy = _softmax(0.5 * scores)
    action = (rng.random((rows, 1)) > np.cumsum(legacy, axis=1)).sum(axis=1).clip(0, ACTIONS - 1)
    taken = np.arange(rows), action
    return {
        "context": context,
        "action": action,
        "reward": (rng.random(rows) < mean[taken]).astype(np.float64),
        "pscore": legacy[taken],
        "legacy": legacy,
        "policy": _softmax(1.5 * scores),
        "predicted": 0.9 * mean + 0.03,
    }


def candidate_slopes() -> Array:
    """Return what contexts are multiplied with before the softmax of the candidate, `[5, 5]`."""
    return np.asarray(1.5 * _SLOPES / np.sqrt(FEATURES))


def truth() -> float:
    """Return the value of the candidate, averaged over two million contexts (standard error below 0.0002)."""
    context = stream(1, "peers", "truth").standard_normal((TOTAL, FEATURES))
    return float((_softmax(1.5 * _scores(context)) * _means(context)).sum(axis=1).mean())


def _scores(context: Array) -> Array:
    return np.asarray(context @ _SLOPES / np.sqrt(FEATURES))


def _means(context: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-_scores(context))))


def _softmax(scores: Array) -> Array:
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))
