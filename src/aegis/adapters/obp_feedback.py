"""The feedback dictionary of Open Bandit Pipeline (obp): its keys checked, as a log and a problem, from one, and in files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aegis.adapters.base import ConvertedLog, finite_numbers
from aegis.errors import LogError, SettingError, whole_number
from aegis.files import atomic_write
from aegis.policies import path_full, refuse_undecided
from aegis.problem import Actions, AnyArray, Array, Batch, Level, Policy, Problem, Propensity, Reward, Variable

NEEDED_KEYS = ("n_rounds", "n_actions", "action", "reward", "pscore")
KNOWN_KEYS = (*NEEDED_KEYS, "context", "action_context", "position", "expected_reward", "pi_b", "time")
PSCORE = "pscore"
PROPENSITY_TOLERANCE = 1e-6


def _read_sizes(feedback: Mapping[str, Any]) -> tuple[int, int]:
    """Return the numbers of rounds and actions."""
    missing = [key for key in NEEDED_KEYS if feedback.get(key) is None]
    if missing:
        raise LogError(
            f"the feedback dictionary has no '{missing[0]}'; it needs {', '.join(NEEDED_KEYS)} (a log without 'pscore' has no "
            "propensities: nothing can be certified from it)"
        )
    return (
        whole_number("key 'n_rounds'", feedback["n_rounds"], 1, error=LogError),
        whole_number("key 'n_actions'", feedback["n_actions"], 2, error=LogError),
    )


def _read_numbers(feedback: Mapping[str, Any], key: str, shape: tuple[int, ...]) -> Array:
    """Return a key as finite numbers of a shape."""
    return finite_numbers(feedback[key], shape, f"key '{key}'", "round")


def _read_integers(feedback: Mapping[str, Any], key: str, rounds: int, below: float) -> npt.NDArray[np.int64]:
    """Return a key as whole numbers from 0 `[n]`, all below a limit."""
    numbers = _read_numbers(feedback, key, (rounds,))
    wrong = (numbers != np.floor(numbers)) | (numbers < 0) | (numbers >= below)
    _refuse_round(wrong, key, lambda row: f"found {numbers[row]:g}; expected a whole number from 0, below {below}")
    return numbers.astype(np.int64)


def _read_context(feedback: Mapping[str, Any], rounds: int) -> Array:
    """Return the contexts `[n, d]`."""
    if feedback.get("context") is None:
        return np.zeros((rounds, 0))
    shape = np.shape(feedback["context"])
    return _read_numbers(feedback, "context", (rounds, shape[1] if len(shape) == 2 else 0))


def _read_positions(feedback: Mapping[str, Any], rounds: int) -> tuple[npt.NDArray[np.int64], int]:
    """Return the position of every round, and how many there are."""
    if feedback.get("position") is None:
        return np.zeros(rounds, dtype=np.int64), 1
    positions = _read_integers(feedback, "position", rounds, math.inf)
    by_position = feedback.get("pi_b")
    wide = np.shape(by_position)[2] if by_position is not None and np.ndim(by_position) == 3 else 1
    return positions, max(int(positions.max()) + 1, wide)


def _read_propensity(
    feedback: Mapping[str, Any], rounds: int, count: int, action: AnyArray, position: AnyArray
) -> tuple[Propensity, dict[str, Array]]:
    """Return how propensities are declared, and their columns."""
    taken = _read_numbers(feedback, "pscore", (rounds,))
    expected = "the action taken had a probability above 0, at most 1"
    _refuse_round(~((taken > 0) & (taken <= 1)), "pscore", lambda row: f"found {taken[row]:g}; {expected}")
    if feedback.get("pi_b") is None:
        return Propensity(column=PSCORE), {PSCORE: taken}
    shape = np.shape(feedback["pi_b"])
    by_position = _read_numbers(feedback, "pi_b", (rounds, count, shape[2] if len(shape) == 3 else 1))
    wide, last = by_position.shape[2], int(position.max())
    if last >= wide or (wide > 1 and feedback.get("position") is None):
        raise LogError(
            f"key 'pi_b': has {wide} positions, and 'position', which tells a round's own, goes up to {last} or is missing"
        )
    full = by_position[np.arange(rounds), :, position]
    wrong = (np.abs(full.sum(axis=1) - 1) > PROPENSITY_TOLERANCE) | (full < 0).any(axis=1)
    _refuse_round(wrong, "pi_b", lambda row: f"{full[row].tolist()} is no distribution (sum {full[row].sum():.6g})")
    own = full[np.arange(rounds), action]
    differs = np.abs(own - taken) > PROPENSITY_TOLERANCE
    _refuse_round(
        differs, "pscore", lambda row: f"found {taken[row]:g}, but 'pi_b' gives the action taken {own[row]:g}; they must agree"
    )
    names = tuple(f"p_{place}" for place in range(count))
    return Propensity(columns=names), dict(zip(names, full.T, strict=True))


def _refuse_round(wrong: npt.NDArray[np.bool_], key: str, describe: Callable[[int], str]) -> None:
    """Raise LogError for the first of the rounds `wrong[n]`. describe: says what is wrong with it."""
    if wrong.any():
        row = int(np.argmax(wrong))
        raise LogError(f"key '{key}', round {row} (from 0): {describe(row)}")


ROUND, ACTION, REWARD, POSITION, CLUSTER = "round", "action", "reward", "position", "cluster"


def from_feedback(
    feedback: Mapping[str, Any],
    reward_range: tuple[float, float] | None = None,
    cluster: npt.ArrayLike | None = None,
    level: str = "choice",
) -> ConvertedLog:
    """Return a feedback dictionary as a log; LogError names key and round of what does not fit.

    reward_range: declared; without one nothing is certified. cluster `[n]`: which rounds belong together, such as the items of
    one page; without it every round is a unit of its own. Contexts are called x0, x1, ...; positions, if there are several, are
    a context.
    """
    rounds, count = _read_sizes(feedback)
    columns: dict[str, Any] = {ROUND: np.arange(rounds)}
    context: list[Variable] = []
    matrix = _read_context(feedback, rounds)
    for place in range(matrix.shape[1]):
        columns[f"x{place}"] = matrix[:, place]
        context.append(Variable(f"x{place}"))
    position, places = _read_positions(feedback, rounds)
    if places > 1:
        columns[POSITION] = position
        context.append(Variable(POSITION, "categorical", values=tuple(range(places))))
    action = _read_integers(feedback, "action", rounds, count)
    # Labels, not numbers: that item 7 is more than item 3 means nothing.
    labels = tuple(str(place) for place in range(count))
    columns[ACTION] = np.array(labels)[action]
    propensity, chances = _read_propensity(feedback, rounds, count, action, position)
    columns |= chances
    columns[REWARD] = _read_numbers(feedback, "reward", (rounds,))
    if cluster is not None:
        if np.shape(cluster) != (rounds,):
            raise LogError(f"'cluster' names the unit of each of {rounds} rounds, found the shape {list(np.shape(cluster))}")
        columns[CLUSTER] = np.asarray(cluster)
    problem = Problem(
        (Level(level, Actions.of(ACTION, labels), tuple(context), propensity, ROUND),),
        Reward(REWARD, reward_range),
        episode=(ROUND,),
        cluster=None if cluster is None else CLUSTER,
    )
    return ConvertedLog(pa.table(columns), problem, _notes(feedback, places, reward_range, cluster is not None, propensity))


def to_feedback(batch: Batch, problem: Problem, position: str = POSITION) -> dict[str, Any]:
    """Return a log of one level as a feedback dictionary, rounds in the order of the batch; rewards are as logged.

    Categories become indicators, one column per value. position: the category that is exported as obp's position. Raises LogError
    for what a feedback dictionary cannot say: several levels, rewards that are missing, episodes of different sizes, closed
    actions.
    """
    level = _only_level(problem)
    table = batch.levels[level.name]
    _check_flat(batch, level, table)
    places = _position_variable(level, position)
    parts = [_encode_context(variable, table.context[variable.name]) for variable in level.context if variable is not places]
    feedback: dict[str, Any] = {
        "n_rounds": len(table),
        "n_actions": level.actions.count,
        "context": np.concatenate([np.zeros((len(table), 0)), *parts], axis=1),
        "action_context": np.eye(level.actions.count),
        "action": table.action.astype(np.int64),
        "position": None if places is None else np.asarray(table.context[position], dtype=np.int64),
        "reward": np.asarray(batch.reward, dtype=np.float64),
        "pscore": table.mu_taken,
    }
    if table.mu_full is not None and places is None:
        feedback["pi_b"] = table.mu_full[:, :, None]
    return feedback


def action_dist(policy: Policy, batch: Batch, problem: Problem, position: str = POSITION) -> Array:
    """Return a policy's distributions `[n, A, L]` as obp's estimators take them, at each of L positions (1 if there is none).

    At positions other than the logged one the policy is asked as if it had been that one; a policy that is read from columns of
    the log knows the logged one alone, and says the same of all.
    """
    level = _only_level(problem)
    table = batch.levels[level.name]
    places = _position_variable(level, position)
    if places is None:
        return path_full(policy, level.name, batch)[:, :, None]
    by_position = []
    for place in range(len(places.values)):
        moved = {**table.context, position: np.full(len(table), place, dtype=np.int32)}
        by_position.append(path_full(policy, level.name, batch.with_level(level.name, replace(table, context=moved))))
    return np.stack(by_position, axis=2)


def _position_variable(level: Level, position: str) -> Variable | None:
    return next((item for item in level.context if item.name == position and item.kind == "categorical"), None)


def _notes(
    feedback: Mapping[str, Any], places: int, reward_range: tuple[float, float] | None, clustered: bool, propensity: Propensity
) -> tuple[str, ...]:
    notes = []
    if reward_range is None:
        notes.append("no reward range was declared: put one into problem.yaml before anything is certified")
    if places > 1:
        notes.append(f"{places} positions: the position is a context, and a decision is about one position of a page.")
        if not clustered:
            notes[-1] += " Rounds of one page may depend on each other: give them one cluster, if you know which they are"
    if not propensity.full:
        notes.append("only 'pscore' is known: sharper certificates need 'pi_b', the whole distribution")
    unused = [key for key in ("action_context", "expected_reward") if feedback.get(key) is not None]
    if unused:
        notes.append(f"{' and '.join(unused)}: left out, a log holds what was known and what happened")
    other = sorted(set(feedback) - set(KNOWN_KEYS))
    if other:
        notes.append(f"keys that are not obp's were left out: {', '.join(map(str, other))}")
    return tuple(notes)


def _only_level(problem: Problem) -> Level:
    if len(problem.levels) > 1:
        raise LogError(
            f"the problem has the levels {', '.join(problem.names)}; a feedback dictionary knows one: choose a problem of one "
            "level"
        )
    return problem.innermost


def _check_flat(batch: Batch, level: Level, table: Any) -> None:
    """Raise LogError if flat means over rounds would be other numbers than those of the log."""
    sizes = np.bincount(table.parent, minlength=len(batch))
    if sizes.size and sizes.min() != sizes.max():
        raise LogError(
            f"episodes have {sizes.min()} to {sizes.max()} decisions: a mean over rounds, as obp takes it, would count long "
            "episodes more than short ones; export logs whose episodes are of one size"
        )
    if batch.reward is None or not np.isfinite(batch.reward).all() or (batch.observed is not None and not batch.observed.all()):
        raise LogError(
            "some rewards are missing, which a feedback dictionary cannot say; leaving them out would bias every estimate"
        )
    if table.available is not None and not table.available.all():
        raise LogError(
            f"level '{level.name}': some actions are not available in some rounds, which a feedback dictionary cannot say"
        )
    refuse_undecided(level.name, table)


def _encode_context(variable: Variable, values: AnyArray) -> Array:
    """Return a context as columns `[n, d]`."""
    if variable.kind == "categorical":
        return (np.arange(len(variable.values)) == values[:, None]).astype(np.float64)
    return np.asarray(values, dtype=np.float64).reshape(len(values), -1)


def save_feedback(feedback: Mapping[str, Any], path: str | Path) -> None:
    """Write a feedback dictionary as an .npz file of plain arrays; what is None is left out. Raises OutputError."""
    arrays: dict[str, Any] = {name: np.asarray(value) for name, value in feedback.items() if value is not None}
    for name, value in arrays.items():
        if value.dtype.hasobject:
            raise LogError(f"key '{name}': holds Python objects; a file holds arrays of numbers and texts")
    if Path(path).suffix != ".npz":
        raise SettingError(f"a feedback dictionary is written as .npz, found '{path}'")
    with atomic_write(path) as aside, aside.open("wb") as file:
        np.savez_compressed(file, **arrays)


def load_feedback(path: str | Path) -> dict[str, Any]:
    """Return what `save_feedback` wrote; files that need pickle, which can run any code, are refused. Raises LogError."""
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except Exception as error:  # damaged archives raise what they like
        raise LogError(
            f"{path}: cannot be read as an .npz file of plain arrays: {error}; write it with "
            "aegis.adapters.save_feedback, which needs no pickle"
        ) from error
    return {name: value.item() if value.ndim == 0 else value for name, value in arrays.items()}
