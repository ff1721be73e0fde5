"""The feedback dictionary of Open Bandit Pipeline (obp) as a log and a problem, and back.

obp's logs have one decision a round: `context` `[n, d]`, `action` `[n]` from 0, `reward` `[n]`, `pscore` `[n]`, the probability
of the action taken; `position` `[n]` from 0 if there are several places to fill, `pi_b` `[n, A, L]` if whole distributions are
known. obp is not needed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aegis.adapters.converted import Converted
from aegis.adapters.obp_keys import KNOWN, cluster_of, context_of, numbers_of, positions_of, propensity_of, sizes_of, whole_of
from aegis.errors import LogError, PolicyError
from aegis.policies import path_full
from aegis.problem import Actions, AnyArray, Array, Batch, Level, Policy, Problem, Propensity, Reward, Variable

ROUND, ACTION, REWARD, POSITION, CLUSTER = "round", "action", "reward", "position", "cluster"


def from_feedback(
    feedback: Mapping[str, Any],
    reward_range: tuple[float, float] | None = None,
    cluster: npt.ArrayLike | None = None,
    level: str = "choice",
) -> Converted:
    """Return a feedback dictionary as a log; LogError names key and round of what does not fit.

    reward_range: declared; without one nothing is certified. cluster `[n]`: which rounds belong together, such as the items of
    one page; without it every round is a unit of its own. Contexts are called x0, x1, ...; positions, if there are several, are
    a context.
    """
    rounds, count = sizes_of(feedback)
    columns: dict[str, Any] = {ROUND: np.arange(rounds)}
    context: list[Variable] = []
    matrix = context_of(feedback, rounds)
    for place in range(matrix.shape[1]):
        columns[f"x{place}"] = matrix[:, place]
        context.append(Variable(f"x{place}"))
    position, places = positions_of(feedback, rounds)
    if places > 1:
        columns[POSITION] = position
        context.append(Variable(POSITION, "categorical", values=tuple(range(places))))
    action = whole_of(feedback, "action", rounds, count)
    # Labels, not numbers: that item 7 is more than item 3 means nothing.
    labels = tuple(str(place) for place in range(count))
    columns[ACTION] = np.array(labels)[action]
    propensity, chances = propensity_of(feedback, rounds, count, action, position)
    columns |= chances
    columns[REWARD] = numbers_of(feedback, "reward", (rounds,))
    if cluster is not None:
        columns[CLUSTER] = cluster_of(cluster, rounds)
    problem = Problem(
        (Level(level, Actions.of(ACTION, labels), tuple(context), propensity, ROUND),),
        Reward(REWARD, reward_range),
        episode=(ROUND,),
        cluster=None if cluster is None else CLUSTER,
    )
    return Converted(pa.table(columns), problem, _notes(feedback, places, reward_range, cluster is not None, propensity))


def to_feedback(batch: Batch, problem: Problem, position: str = POSITION) -> dict[str, Any]:
    """Return a log of one level as a feedback dictionary, rounds in the order of the batch; rewards are as logged.

    Categories become indicators, one column per value. position: the category that is exported as obp's position. Raises LogError
    for what a feedback dictionary cannot say: several levels, rewards that are missing, episodes of different sizes, closed
    actions.
    """
    level = _only_level(problem)
    table = batch.levels[level.name]
    _check_flat(batch, level, table)
    places = next((variable for variable in level.context if variable.name == position and variable.kind == "categorical"), None)
    parts = [_encoded(variable, table.context[variable.name]) for variable in level.context if variable is not places]
    found: dict[str, Any] = {
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
        found["pi_b"] = table.mu_full[:, :, None]
    return found


def action_dist(policy: Policy, batch: Batch, problem: Problem, position: str = POSITION) -> Array:
    """Return a policy's distributions `[n, A, L]` as obp's estimators take them, at each of L positions (1 if there is none).

    At positions other than the logged one the policy is asked as if it had been that one; a policy that is told in columns of
    the log knows the logged one alone, and says the same of all.
    """
    level = _only_level(problem)
    table = batch.levels[level.name]
    places = next((variable for variable in level.context if variable.name == position and variable.kind == "categorical"), None)
    if places is None:
        return path_full(policy, level.name, batch)[:, :, None]
    found = []
    for place in range(len(places.values)):
        moved = {**table.context, position: np.full(len(table), place, dtype=np.int32)}
        found.append(path_full(policy, level.name, batch.with_level(level.name, replace(table, context=moved))))
    return np.stack(found, axis=2)


def _notes(
    feedback: Mapping[str, Any], places: int, reward_range: tuple[float, float] | None, clustered: bool, propensity: Propensity
) -> tuple[str, ...]:
    found = []
    if reward_range is None:
        found.append("no reward range was declared: put one into problem.yaml before anything is certified")
    if places > 1:
        found.append(
            f"{places} positions: the position is a context, and a decision is about one position of a page. "
            + (
                ""
                if clustered
                else "Rounds of one page may depend on each other: give them one cluster, if you know which they are"
            )
        )
    if not propensity.full:
        found.append("only 'pscore' is known: sharper certificates need 'pi_b', the whole distribution")
    unused = [key for key in ("action_context", "expected_reward") if feedback.get(key) is not None]
    if unused:
        found.append(f"{' and '.join(unused)}: left out, a log holds what was known and what happened")
    other = sorted(set(feedback) - set(KNOWN))
    if other:
        found.append(f"keys that are not obp's were left out: {', '.join(map(str, other))}")
    return tuple(note.strip() for note in found)


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
    if (table.action < 0).any():
        raise PolicyError(f"level '{level.name}': some actions have not been taken yet")


def _encoded(variable: Variable, values: AnyArray) -> Array:
    """Return a context as columns `[n, d]`."""
    if variable.kind == "categorical":
        return (np.arange(len(variable.values)) == values[:, None]).astype(np.float64)
    return np.asarray(values, dtype=np.float64).reshape(len(values), -1)
