"""The studies of coverage: worlds, legacies and how each run learns its candidate, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from aegis.agents import CandidateSettings, learn
from aegis.certificate import Candidate, UnitSplit
from aegis.logs import Source, Split, to_table
from aegis.mechanisms import MODELS
from aegis.policies import Function
from aegis.problem import Array, Batch, Level, Problem, Rows
from aegis.worlds import make_world
from coverage_study import Study

FRACTION = 0.3  # of the episodes are learned from
ALL_KINDS = (CandidateSettings("capped"), CandidateSettings("greedy"), CandidateSettings("planned", particles=8))
BY_REWARD = (CandidateSettings("capped"), CandidateSettings("capped", cap=np.inf))  # quick to ask at outer levels too
LEGACIES = {"uniform": "uniform", "sign": "sign:epsilon=0.3", "constant": "constant:value=1.6,epsilon=0.2"}


def relearned(problem: Problem, log: Batch, run: int, kinds: tuple[CandidateSettings, ...]) -> tuple[Candidate, UnitSplit]:
    """Learn on one side of the log as `aegis learn` does, with kinds of candidates in turn; leave the other side."""
    split = Split("hash", f"run {run}", FRACTION)
    found = learn(Source(to_table(log, problem), problem), split, kinds[run % len(kinds)], models=MODELS)  # not tuned: quicker
    return Candidate(found.policy, rewards=found.fitted.rewards), UnitSplit((split,))


def all_kinds(problem: Problem, log: Batch, run: int) -> tuple[Candidate, UnitSplit]:
    """Learn a capped, a greedy and a planned candidate in turn."""
    return relearned(problem, log, run, ALL_KINDS)


def by_reward(problem: Problem, log: Batch, run: int) -> tuple[Candidate, UnitSplit]:
    """Learn a capped candidate, with W = 2 and without a limit in turn."""
    return relearned(problem, log, run, BY_REWARD)


def null(means: tuple[float, float]) -> Callable[[Problem, Batch, int], tuple[Candidate, UnitSplit]]:
    """Return the learner of a fixed candidate whose mean action follows the sign of the task T, which no reward depends on.

    means: of the inner action where T < 0 and where T >= 0. T is symmetric around 0, so that on the additive world the gain at
    the inner level is f_a times the mean of the two, minus the comparator's; at the outer level it is 0 under a uniform legacy.
    """
    return _Null(means)


def beside_sign(problem: Problem, log: Batch, run: int) -> tuple[Candidate, UnitSplit]:
    """Return a fixed candidate that does what the incumbent 'sign' does where T < 0, and its opposite elsewhere."""
    return Candidate(Function(problem, always_lowest, ["inner"])), UnitSplit(())


def always_lowest(level: Level, rows: Rows) -> Array:
    """Take the smallest action, in every context: what 'sign' does where T < 0, if there are few actions."""
    return two_neighbours(level.actions.numbers, np.full(len(rows["T"]), level.actions.numbers.min()))


class _Null:
    """A picklable learner; see `null`."""

    def __init__(self, means: tuple[float, float]) -> None:
        self.means = means

    def __call__(self, problem: Problem, log: Batch, run: int) -> tuple[Candidate, UnitSplit]:
        return Candidate(Function(problem, self.probabilities)), UnitSplit(())

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
    """Return all studies by name: gains over the logger, then gains over the incumbent, who does not explore."""
    return {**over_logger(), **over_incumbent()}


def over_logger() -> dict[str, Study]:
    """Return the studies of gains over the policy that wrote the log, exploration included."""
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
    return {name: replace(study, comparator="logger") for name, study in found.items()}


def over_incumbent() -> dict[str, Study]:
    """Return the studies of gains over the incumbent: the legacy without its exploration.

    Nulls and slightly worse candidates are so against the incumbent. Under 'constant' they are better than the log, because
    exploring costs there.
    """
    additive, few = make_world("additive", inner_steps=5), make_world("additive", inner_steps=3, inner_points=5)
    clinic = make_world("clinic")
    one_and_both, constant, sign = (("inner",), ("meta", "inner")), "constant:value=1,epsilon=0.4", "sign:epsilon=0.4"
    learned = Study(additive, LEGACIES["sign"], all_kinds, 240, oracle_episodes=4000, scopes=one_and_both)
    clusters = Study(clinic, "natural:epsilon=0.3", by_reward, 240, oracle_episodes=4000, clustered=True)
    swing = Study(few, constant, null((2.0, 0.0)), 150, known_gain=0.0, scopes=one_and_both)
    opposite = replace(swing, legacy=sign, learner=null((1.0, -1.0)))
    inner: tuple[tuple[str, ...], ...] = (("inner",),)
    return {
        "incumbent: additive, sign": learned,
        "incumbent: linear, constant": replace(
            learned, world=make_world("linear", inner_steps=5), legacy="constant:value=3,epsilon=0.2", learner=by_reward
        ),
        "incumbent: clinic in clusters, natural": clusters,
        "incumbent: clinic in clusters, totals": replace(clusters, totals=True, what=("gain",)),
        "incumbent: unified, other levels corrected": replace(
            learned,
            world=make_world("unified", inner_steps=3),
            legacy="natural:epsilon=0.3",
            learner=by_reward,
            scopes=(("inner",), ("meta",)),
            others="incumbent",
            methods=("auto", "plain"),
            what=("gain",),
        ),
        "incumbent: null, constant": swing,
        "incumbent: null with a guard, sign": replace(opposite, guarded=True),
        "incumbent: slightly worse, constant": replace(swing, learner=null((2.0, -0.1)), scopes=inner, known_gain=None),
        "incumbent: slightly worse, sign": replace(opposite, learner=null((1.0, -1.1)), scopes=inner, known_gain=None),
        "incumbent: null without a rate, constant": replace(swing, rated=False, methods=("robust", "plain"), what=("gain",)),
        "incumbent: null, taken only, sign": replace(opposite, taken_only=True, methods=("plain",)),
        "incumbent: null, taken only, without a rate, constant": replace(
            swing, taken_only=True, rated=False, methods=("plain",), what=("gain",)
        ),
        "incumbent: nothing at stake, sign": replace(
            swing, world=replace(few, f_a=0.0), legacy=sign, learner=beside_sign, scopes=inner
        ),
    }
