"""The keys of a feedback dictionary, checked: errors name key and round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from aegis.errors import LogError
from aegis.problem import AnyArray, Array, Propensity

NEEDED = ("n_rounds", "n_actions", "action", "reward", "pscore")
KNOWN = (*NEEDED, "context", "action_context", "position", "expected_reward", "pi_b", "time")
PSCORE = "pscore"
TOLERANCE = 1e-6


def sizes_of(feedback: Mapping[str, Any]) -> tuple[int, int]:
    """Return the numbers of rounds and actions."""
    missing = [key for key in NEEDED if feedback.get(key) is None]
    if missing:
        raise LogError(
            f"the feedback dictionary has no '{missing[0]}'; it needs {', '.join(NEEDED)} (a log without 'pscore' has no "
            "propensities: nothing can be certified from it)"
        )
    rounds, count = (feedback[key] for key in ("n_rounds", "n_actions"))
    if not all(isinstance(value, int | np.integer) and not isinstance(value, bool) for value in (rounds, count)):
        raise LogError(f"'n_rounds' and 'n_actions' are whole numbers, found {rounds!r} and {count!r}")
    if rounds < 1 or count < 2:
        raise LogError(f"a log has one round or more and two actions or more, found {rounds} and {count}")
    return int(rounds), int(count)


def numbers_of(feedback: Mapping[str, Any], key: str, shape: tuple[int, ...]) -> Array:
    """Return a key as finite numbers of a shape."""
    try:
        found = np.asarray(feedback[key], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise LogError(f"key '{key}': expected numbers; {error}") from error
    if found.shape != shape:
        raise LogError(f"key '{key}': has the shape {list(found.shape)}, expected {list(shape)}")
    bad = ~np.isfinite(found).reshape(len(found), -1).all(axis=1)
    if bad.any():
        raise LogError(f"key '{key}', round {int(np.argmax(bad))} (from 0): is not finite ({int(bad.sum())} such rounds)")
    return found


def whole_of(feedback: Mapping[str, Any], key: str, rounds: int, below: int | None = None) -> npt.NDArray[np.int64]:
    """Return a key as whole numbers from 0 `[n]`, all below a limit."""
    found = numbers_of(feedback, key, (rounds,))
    wrong = (found != np.floor(found)) | (found < 0) | (found >= (np.inf if below is None else below))
    if wrong.any():
        row = int(np.argmax(wrong))
        limit = "" if below is None else f", below {below}"
        raise LogError(f"key '{key}', round {row} (from 0): found {found[row]:g}; expected a whole number from 0{limit}")
    return found.astype(np.int64)


def context_of(feedback: Mapping[str, Any], rounds: int) -> Array:
    """Return the contexts `[n, d]`."""
    given = feedback.get("context")
    if given is None:
        return np.zeros((rounds, 0))
    found = np.asarray(given)
    return numbers_of(feedback, "context", (rounds, found.shape[1] if found.ndim == 2 else 0))


def positions_of(feedback: Mapping[str, Any], rounds: int) -> tuple[npt.NDArray[np.int64], int]:
    """Return the position of every round, and how many there are."""
    if feedback.get("position") is None:
        return np.zeros(rounds, dtype=np.int64), 1
    found = whole_of(feedback, "position", rounds)
    listed = feedback.get("pi_b")
    wide = np.shape(listed)[2] if listed is not None and np.ndim(listed) == 3 else 1
    return found, max(int(found.max()) + 1, wide)


def propensity_of(
    feedback: Mapping[str, Any], rounds: int, count: int, action: AnyArray, position: AnyArray
) -> tuple[Propensity, dict[str, Array]]:
    """Return how propensities are told, and their columns."""
    taken = numbers_of(feedback, "pscore", (rounds,))
    wrong = ~((taken > 0) & (taken <= 1))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise LogError(
            f"key 'pscore', round {row} (from 0): found {taken[row]:g}; the action taken had a probability above 0, at most 1"
        )
    if feedback.get("pi_b") is None:
        return Propensity(column=PSCORE), {PSCORE: taken}
    shape = np.shape(feedback["pi_b"])
    given = numbers_of(feedback, "pi_b", (rounds, count, shape[2] if len(shape) == 3 else 1))
    if given.shape[2] > 1 and feedback.get("position") is None:
        raise LogError(
            f"key 'pi_b': has {given.shape[2]} positions, but there is no 'position' that tells which one a round is about"
        )
    if position.max() >= given.shape[2]:
        raise LogError(f"key 'pi_b': has {given.shape[2]} positions, but 'position' goes up to {int(position.max())}")
    full = given[np.arange(rounds), :, position]
    off = np.abs(full.sum(axis=1) - 1) > TOLERANCE
    if (full < 0).any() or off.any():
        row = int(np.argmax(off | (full < 0).any(axis=1)))
        raise LogError(f"key 'pi_b', round {row} (from 0): {full[row].tolist()} is no distribution (sum {full[row].sum():.6g})")
    differs = np.abs(full[np.arange(rounds), action] - taken) > TOLERANCE
    if differs.any():
        row = int(np.argmax(differs))
        raise LogError(
            f"key 'pscore', round {row} (from 0): found {taken[row]:g}, but 'pi_b' gives the action taken "
            f"{full[row, action[row]]:g}; they must agree"
        )
    names = tuple(f"p_{place}" for place in range(count))
    return Propensity(columns=names), dict(zip(names, full.T, strict=True))


def cluster_of(given: npt.ArrayLike, rounds: int) -> AnyArray:
    """Return the unit of each round `[n]`."""
    found = np.asarray(given)
    if found.shape != (rounds,):
        raise LogError(f"'cluster' names the unit of each of {rounds} rounds, found the shape {list(found.shape)}")
    return found
