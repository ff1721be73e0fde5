"""The studies of coverage: worlds, legacies and how each run learns its candidate, by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from aegis.agents import CandidateSettings, learn
from aegis.agents.fitting import MODELS
from aegis.certificate import Candidate
from aegis.certificate.sides import Sides
from aegis.logs import Source, Split
from aegis.logs.tidy import to_table
from aegis.policies import Function
from aegis.problem import Array, Batch, Level, Problem, Rows
from aegis.validation import Study
from aegis.worlds import make_world

FRACTION = 0.3  # of the episodes are learned from
ALL_KINDS = (CandidateSettings("capped"), CandidateSettings("greedy"), CandidateSettings("planned", particles=8))
BY_REWARD = (CandidateSettings("capped"), CandidateSettings("capped", cap=np.inf))  # quick to ask at outer levels too
LEGACIES = {"uniform": "uniform", "sign": "sign:epsilon=0.3", "constant": "constant:value=1.6,epsilon=0.2"}


def relearned(problem: Problem, log: Batch, run: int, kinds: tuple[CandidateSettings, ...]) -> tuple[Candidate, Sides]:
    """Learn on one side of the log as `aegis learn` does, with kinds of candidates in turn; leave the other side."""
    split = Split("hash", f"run {run}", FRACTION)
    found = learn(Source(to_table(log, problem), problem), split, kinds[run % len(kinds)], models=MODELS)  # not tuned: quicker
    return Candidate(found.policy, rewards=found.fitted.rewards), Sides((split,))


def all_kinds(problem: Problem, log: Batch, run: int) -> tuple[Candidate, Sides]:
    """Learn a capped, a greedy and a planned candidate in turn."""
    return relearned(problem, log, run, ALL_KINDS)


def by_reward(problem: Problem, log: Batch, run: int) -> tuple[Candidate, Sides]:
    """Learn a capped candidate, with W = 2 and without a limit in turn."""
    return relearned(problem, log, run, BY_REWARD)


def null(means: tuple[float, float]) -> Callable[[Problem, Batch, int], tuple[Candidate, Sides]]:
    """Return the learner of a fixed candidate whose mean action follows the sign of the task T, which no reward depends on.

    means: of the inner action where T < 0 and where T >= 0. T is symmetric around 0, so that on the additive world the gain at
    the inner level is f_a times the mean of the two, minus the legacy's; at the outer level it is 0 under a uniform legacy.
    """
    return _Null(means)


class _Null:
    """A picklable learner; see `null`."""

    def __init__(self, means: tuple[float, float]) -> None:
        self.means = means

    def __call__(self, problem: Problem, log: Batch, run: int) -> tuple[Candidate, Sides]:
        return Candidate(Function(problem, self.probabilities)), Sides(())

    def probabilities(self, level: Level, rows: Rows) -> Array:
        """Return `[n, A]`: the two neighbours of the wanted mean share the probability."""
        means = self.means if level.name == "inner" else (-1.6, 1.6)
        return two_neighbours(level.actions.numbers, np.where(rows["T"] < 0, *means))


def two_neighbours(values: Array, means: Array) -> Array:
    """Return distributions `[n, A]` on neighbouring values `[A]` (ascending) with the given means `[n]`."""
    right = np.clip(np.searchsorted(values, means - 1e-12), 1, values.size - 1)
    share = (means - values[right - 1]) / (values[right] - values[right - 1])
    found = np.zeros((means.size, values.size))
    rows = np.arange(means.size)
    found[rows, right - 1], found[rows, right] = 1.0 - share, share
    return found


def studies() -> dict[str, Study]:
    """Return all studies by name."""
    additive = make_world("additive", inner_steps=5)
    found = {f"additive, {name}": Study(additive, spec, all_kinds, 240, oracle_episodes=4000) for name, spec in LEGACIES.items()}
    found["unified stress, natural"] = Study(
        make_world("unified", inner_steps=5), "natural:epsilon=0.3", by_reward, 240, oracle_episodes=4000
    )
    found["three-level plant, natural"] = Study(make_world("plant"), "natural:epsilon=0.3", by_reward, 160, oracle_episodes=4000)
    found["clinic in clusters, natural"] = Study(
        make_world("clinic"), "natural:epsilon=0.3", by_reward, 240, oracle_episodes=4000, clustered=True
    )
    # Means of A that add up to the legacy's: 0 under uniform and sign, 1.28 under constant.
    nulls = {"uniform": (-2.0, 2.0), "sign": (0.4, -0.4), "constant": (2.0, 0.56)}
    for name, means in nulls.items():
        found[f"null, {name}"] = Study(additive, LEGACIES[name], null(means), 200, known_gain=0.0)
        worse = (means[0] - 0.05, means[1] - 0.05) if name != "uniform" else (-2.0, 1.9)
        found[f"slightly worse, {name}"] = Study(
            additive, LEGACIES[name], null(worse), 200, scopes=(("inner",),), known_gain=None
        )
    return found
