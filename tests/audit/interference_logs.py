"""Logs in which decisions act on each other where no pair of neighbours shows it, and logs in order that look like them.

Each attack pays at its own row and costs more elsewhere: always taking the second action loses, and looks like a gain to weights
of single rows. All of them have even odds of two actions, whole distributions, and rewards around a half.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aegis.problem import Problem, parse_problem

Floats = npt.NDArray[np.float64]
Log = tuple[pa.Table, Problem]
PROBLEM = """
episode: k
{head}
reward: {{column: r, range: [{low}, {high}]}}
levels:
  - name: act
    context: [x]
    action: {{column: a, values: [0, 1]}}
    propensity: {{columns: [p0, p1]}}
"""
TRUTHS: Mapping[str, float] = {  # gain of always taking the second action over even odds, per decision
    "visits": 0.5 * (0.1 - 0.3 * 3 / 4),
    "later hurts earlier": 0.5 * (0.1 - 0.2 * 5 / 6),
    "shuffled, lag one": 0.5 * (0.1 - 0.2 * 5 / 6),
    "first hurts last": 0.5 * (0.05 - 0.4 / 6),
    "shared capacity": 0.5 * (0.1 - 0.15),
    "spread over the next episode, 0/1": 0.5 * (0.15 - 0.3),
    "behind a controller that reacts": 0.5 * (0.15 - 0.35 * 3 / 4),
    "shared capacity, 0/1": 0.5 * (0.1 - 0.15),
    "filtered after the outcome": -0.025,
    "range from data": 0.5 * (0.1 - 0.3),
    "learning legacy": 0.0,
}


def problem_of(head: str = "", low: float = 0.0, high: float = 1.0) -> Problem:
    return parse_problem(PROBLEM.format(head=head, low=low, high=high))


def table_of(action: npt.NDArray[np.int64], reward: Floats, chance: Floats | None = None, **more: npt.ArrayLike) -> pa.Table:
    """Return a log of episodes `[E, n]`; chance: of the second action."""
    count, size = action.shape
    high = np.full(action.size, 0.5) if chance is None else chance.ravel()
    rng = np.random.default_rng(action.size)
    columns = {"k": np.repeat(np.arange(count), size), "x": rng.random(action.size), "a": action.ravel(), "p0": 1.0 - high}
    return pa.table({**columns, "p1": high, "r": np.clip(reward, 0.0, 1.0).ravel(), **more})


def _drawn(rng: np.random.Generator, episodes: int, size: int) -> tuple[npt.NDArray[np.int64], Floats]:
    action = rng.integers(0, 2, (episodes, size))
    return action, 0.5 + 0.1 * rng.normal(size=action.shape)


def _before(action: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.hstack([np.zeros((len(action), 1), dtype=np.int64), action[:, :-1]])


def spread_over_the_next(rng: np.random.Generator) -> Log:
    """Each of four decisions earns 0.15 and takes a quarter of 0.3 from the next episode; rewards are 0 or 1."""
    action = rng.integers(0, 2, (1000, 4))
    taken = np.vstack([np.zeros((1, 1)), action[:-1].mean(axis=1, keepdims=True)])
    return table_of(action, (rng.random(action.shape) < 0.5 + 0.15 * action - 0.3 * taken).astype(np.float64)), problem_of()


def reacting(rng: np.random.Generator, episodes: int = 500, size: int = 4) -> Log:
    """A controller that seldom repeats its action, which costs the next decision 0.35."""
    action, chance = np.zeros((episodes, size), dtype=np.int64), np.full((episodes, size), 0.5)
    for place in range(size):
        if place:
            chance[:, place] = np.where(action[:, place - 1] == 1, 0.35, 0.65)
        action[:, place] = rng.random(episodes) < chance[:, place]
    reward = 0.5 + 0.15 * action - 0.35 * _before(action) + 0.1 * rng.normal(size=action.shape)
    return table_of(action, reward, chance, person=np.repeat(np.arange(episodes), size)), problem_of()


def visits(rng: np.random.Generator) -> Log:
    """Four visits of a person, who is their cluster: an offer earns 0.1 now and costs 0.3 at the next visit."""
    action, reward = _drawn(rng, 200, 4)
    table = table_of(action, reward + 0.1 * action - 0.3 * _before(action), person=np.repeat(np.arange(200), 4))
    return table.set_column(0, "k", pa.array(np.arange(800))), problem_of("cluster: person")


def later_hurts_earlier(rng: np.random.Generator) -> Log:
    action, reward = _drawn(rng, 300, 6)
    after = np.hstack([action[:, 1:], np.zeros((300, 1), dtype=np.int64)])
    return table_of(action, reward + 0.1 * action - 0.2 * after), problem_of()


def shuffled(rng: np.random.Generator) -> Log:
    action, reward = _drawn(rng, 300, 6)
    table = table_of(action, reward + 0.1 * action - 0.2 * _before(action))
    return table.take(np.lexsort((rng.random(len(table)), table["k"].to_numpy()))), problem_of()


def first_hurts_last(rng: np.random.Generator) -> Log:
    action, reward = _drawn(rng, 300, 6)
    reward = reward + 0.05 * action
    reward[:, -1] -= 0.4 * action[:, 0]
    return table_of(action, reward), problem_of()


def shared_capacity(rng: np.random.Generator) -> Log:
    """Twenty neighbouring episodes share a capacity: each one that takes it costs the others a little."""
    action, reward = _drawn(rng, 2400, 1)
    others = action.reshape(-1, 20).sum(axis=1).repeat(20)[:, None] - action
    return table_of(action, reward + 0.1 + 0.1 * action - 0.15 * others / 19), problem_of()


def shared_capacity_of_successes(rng: np.random.Generator) -> Log:
    """The same with rewards of 0 and 1."""
    action = rng.integers(0, 2, (2400, 1))
    others = action.reshape(-1, 20).sum(axis=1).repeat(20)[:, None] - action
    chance = 0.5 + 0.1 * action - 0.15 * others / 19
    return table_of(action, (rng.random(action.shape) < chance).astype(np.float64)), problem_of()


def filtered(rng: np.random.Generator) -> Log:
    """The second action fails in a quarter of the runs, and failed runs are not exported."""
    action, reward = _drawn(rng, 1200, 1)
    fails = (action == 1) & (rng.random(action.shape) < 0.25)
    reward = np.where(fails, 0.0, reward + 0.1 * action)
    return table_of(action, reward).filter(pa.array(~fails.ravel())), problem_of()


def range_from_data(rng: np.random.Generator) -> Log:
    """The second action earns 0.1 more, but in one of a thousand decisions it loses 300, which has not happened in this log."""
    action, reward = _drawn(rng, 800, 1)
    table = table_of(action, reward + 0.1 * action)
    rewards = table["r"].to_numpy()
    return table, problem_of(low=float(rewards.min()), high=float(rewards.max()))


def learning_legacy(rng: np.random.Generator, episodes: int = 600) -> Log:
    """The legacy leans to the action that has earned more so far; in truth both earn the same."""
    action, reward, chance = np.zeros(episodes, dtype=np.int64), np.zeros(episodes), np.zeros(episodes)
    earned, taken = np.ones(2), np.full(2, 2.0)
    for place in range(episodes):
        lead = earned[1] / taken[1] - earned[0] / taken[0]
        chance[place] = np.clip(1.0 / (1.0 + np.exp(-8.0 * lead)), 0.05, 0.95)
        action[place] = rng.random() < chance[place]
        reward[place] = rng.random() < 0.5
        earned[action[place]] += reward[place]
        taken[action[place]] += 1.0
    return table_of(action[:, None], reward[:, None], chance[:, None]), problem_of()


FILTERED = "action-shares miscalibrated-propensities doubtful-propensities"
# The log, codes of which one is found, and the severity of the mildest.
ATTACKS: Mapping[str, tuple[Callable[[np.random.Generator], Log], str, str]] = {
    "visits": (visits, "cluster-interferes", "refused"),
    "later hurts earlier": (later_hurts_earlier, "siblings-interfere", "refused"),
    "shuffled, lag one": (shuffled, "siblings-interfere", "refused"),
    "first hurts last": (first_hurts_last, "siblings-interfere", "refused"),
    "shared capacity": (shared_capacity, "neighbours-interfere", "refused"),
    "spread over the next episode, 0/1": (spread_over_the_next, "episodes-interfere", "refused"),
    "behind a controller that reacts": (reacting, "siblings-interfere", "refused"),
    "filtered after the outcome": (filtered, FILTERED, "warning"),
    "range from data": (range_from_data, "range-from-data", "warning"),
    "learning legacy": (learning_legacy, "propensities-move", "warning"),
}


# What the audit sees too seldom: measured, and said on the page of claims.
UNSEEN: Mapping[str, tuple[Callable[[np.random.Generator], Log], str, str]] = {
    "shared capacity, 0/1": (shared_capacity_of_successes, "neighbours-interfere", "refused"),
}


# ---- logs in order ----------------------------------------------------------------------------------------------------


def repeating(rng: np.random.Generator) -> Log:
    """A legacy that repeats its last action of the episode with probability 0.9, and says so."""
    action, chance = np.zeros((300, 6), dtype=np.int64), np.full((300, 6), 0.5)
    for place in range(6):
        if place:
            chance[:, place] = np.where(action[:, place - 1] == 1, 0.9, 0.1)
        action[:, place] = rng.random(300) < chance[:, place]
    reward = 0.4 + 0.2 * action + 0.1 * rng.normal(size=action.shape)
    return table_of(action, reward, chance), problem_of()


def following(rng: np.random.Generator, count: int = 800) -> Log:
    """A legacy that takes the action again that earned more than usual, and says so; the second action earns more."""
    action, reward, chance = np.zeros(count, dtype=np.int64), np.zeros(count), np.full(count, 0.5)
    for place in range(count):
        if place:
            stay = 0.8 if reward[place - 1] > 0.5 else 0.3
            chance[place] = stay if action[place - 1] else 1.0 - stay
        action[place] = rng.random() < chance[place]
        reward[place] = 0.4 + 0.2 * action[place] + 0.2 * rng.normal()
    return table_of(action[:, None], reward[:, None], chance[:, None]), problem_of()


def shared(rng: np.random.Generator) -> Log:
    """Four episodes of a day, which is their cluster, share one action, drawn once; each has noise of its own and the day's."""
    action = np.repeat(rng.integers(0, 2, 150), 4)
    day = np.repeat(0.1 * rng.normal(size=150), 4)
    reward = 0.4 + 0.2 * action + day + 0.1 * rng.normal(size=600)
    return table_of(action[:, None], reward[:, None], day=np.repeat(np.arange(150), 4)), problem_of("cluster: day")


def missing(rng: np.random.Generator) -> Log:
    """Rewards are missing in a tenth of the rows, more often after the second action."""
    action, reward = _drawn(rng, 200, 5)
    lost = rng.random(action.shape) < 0.05 + 0.1 * action
    table = table_of(action, reward + 0.1 * action)
    known = pa.array(np.where(lost.ravel(), np.nan, table["r"].to_numpy()), from_pandas=True)
    return table.set_column(table.column_names.index("r"), "r", known), problem_of()


IN_ORDER: Mapping[str, Callable[[np.random.Generator], Log]] = {
    "repeats itself": repeating,
    "follows rewards": following,
    "shared actions": shared,
    "missing rewards": missing,
}
