"""What each episode says about each particle of a mixture, at one level: the units of PAC-Bayes bounds.

The particles of a plan are its draws of the belief, one of which acts per episode. The policies at other levels go on: only
the ratio at the level itself enters.
"""

from __future__ import annotations

import numpy as np

from aegis.certificate.comparator import LOGGER, Comparator
from aegis.certificate.measures import reward_measure
from aegis.certificate.units import nested_means
from aegis.certificate.view import Models, View
from aegis.errors import RefusedError, SettingError
from aegis.policies import path_taken
from aegis.problem import Array, Batch, Policy, Problem

LIFT = 1.0  # a paired gain is at least -1
SLACK = 1e-9  # probabilities that were added up may exceed one by a hair


def particle_ratios(policy: Policy, level: str, batch: Batch, particles: int) -> Array:
    """Return candidate over logged probability of the action taken, `[n, N]`.

    A plan's particles are paired with those of the policies elsewhere, these varying fastest; at its own level all pairs with
    one draw agree.
    """
    found = policy.taken(level, batch)
    return np.ascontiguousarray((found[:: len(found) // particles] / logged_chances(level, batch)).T)


def logged_chances(level: str, batch: Batch) -> Array:
    """Return the logged probability of every action taken `[n]`; RefusedError if one cannot be."""
    found = batch.levels[level].mu_taken
    wrong = ~((found > 0) & (found <= 1.0 + SLACK))
    if wrong.any():
        row = int(np.argmax(wrong))
        episode = batch.episode[batch.episode_of(level)[row]]
        raise RefusedError(
            f"level '{level}', row {row} (episode {episode}): the action taken has the logged probability {found[row]}, which "
            "cannot be; what is logged must be the probability with which the acting policy chose it"
        )
    return found


def particle_gains(
    problem: Problem, policy: Policy, level: str, batch: Batch, particles: int, comparator: Comparator = LOGGER
) -> Array:
    """Return `[E, N]`: the lifted gain of each episode under each particle of a policy."""
    return lifted_gains(problem, level, batch, particle_ratios(policy, level, batch, particles), comparator)


def lifted_gains(problem: Problem, level: str, batch: Batch, ratios: Array, comparator: Comparator = LOGGER) -> Array:
    """Return `[E, N]`: the nested mean of `w r + u (1 - r)` of each episode, for ratios w `[n, N]`: one plus the gain, at
    least 0.

    u is mu/nu of the incumbent at the action taken, 1 where the legacy that writes the log is the incumbent. r is the scaled
    mean reward below each decision of the level; one that is missing counts as what hurts. An episode without a decision there
    says nothing: its gain is 0.
    """
    check_single_level(problem, level)
    view = View(problem, batch, None, Models())  # type: ignore[arg-type]  # no policy is asked
    seen = view.subtree(reward_measure(problem), level)
    own = incumbent_ratios(comparator, level, batch)[:, None]
    worst = np.where(ratios >= own, seen.low[:, None], seen.high[:, None])
    return np.nan_to_num(nested_means(batch, level, ratios * worst + own * (1.0 - worst)), nan=LIFT)


def incumbent_ratios(comparator: Comparator, level: str, batch: Batch) -> Array:
    """Return the incumbent's over the logged probability of every action taken `[n]`; 1 where the incumbent is not stated."""
    if comparator.policy is None or level not in comparator.levels:
        return np.ones(len(batch.levels[level]))
    return path_taken(comparator.policy, level, batch) / logged_chances(level, batch)


def check_single_level(problem: Problem, level: str) -> None:
    """Raise SettingError where the ratio of one level's own decision is not the weight of what it earns."""
    per = problem.reward.per
    below = per == "decision" or (per != "episode" and problem.index(per) <= problem.index(level))
    if problem.carry_over == "within" or not below:
        raise SettingError(
            f"level '{level}': bounds by particles need a reward that belongs to decisions at or below the level and no "
            f"carry-over; this problem says 'per: {per}' and 'carry_over: {problem.carry_over}'. Use the gate 'challenger'"
        )
