"""A problem of one to four levels, episodes of it, and a belief about it: what planning and updates are measured on."""

from __future__ import annotations

import itertools

import numpy as np

from aegis.mechanisms import Belief, ModelSettings, build_belief
from aegis.planning import Integration, Planned, Thompson, plan_policy
from aegis.problem import Actions, Batch, Level, LevelTable, Problem, Reward, Variable
from aegis.rng import stream

NAMES = ("slowest", "slow", "middle", "fast")
CHILDREN = (1, 2, 2, 5)  # decisions below each one of the level above
LEARNED_FROM = 20  # episodes


def deep_problem(levels: int = 3, actions: int = 11, outer: int | None = None) -> Problem:
    """Return a chain of one to four levels, a context and a grid of actions at each, an outcome and a reward.

    outer: how many actions the levels above the innermost have, as many as that one if None.
    """
    names = NAMES[-levels:]
    found = []
    for name in names:
        grid = Actions.grid(f"a_{name}", -1.0, 1.0, actions if outer is None or name == names[-1] else outer)
        found.append(Level(name, grid, (Variable(f"c_{name}"),), decision=f"id_{name}"))
    parents = {f"c_{own}": (f"c_{above}", f"a_{above}") for above, own in itertools.pairwise(names)}
    parents |= {"y": ("c_fast", "a_fast"), "r": ("y",)}
    return Problem(tuple(found), Reward("r"), Variable("y"), parents=parents)


def deep_batch(problem: Problem, episodes: int, seed: int = 1) -> Batch:
    """Return episodes with random contexts, actions and outcomes; one outermost decision in each."""
    rng = stream(seed, "deep", episodes)
    tables, rows = {}, episodes
    for level, children in zip(problem.levels, (1, *CHILDREN[-len(problem.levels) :][1:]), strict=True):
        parent = np.repeat(np.arange(rows), children)
        rows = parent.size
        context = {level.context[0].name: rng.standard_normal(rows)}
        chosen = rng.integers(0, level.actions.count, rows)
        tables[level.name] = LevelTable.undecided(parent, context).decided(chosen, np.full(rows, 1.0 / level.actions.count))
    outcome = rng.standard_normal(rows)
    return Batch(np.arange(episodes), tables, outcome + 0.1, np.ones(rows, dtype=bool), outcome)


def deep_belief(problem: Problem, features: str = "fourier", count: int = 128) -> Belief:
    """Return the belief before any data; features: 'fourier' (RFF-GP, `count` waves) or 'linear' (NIG)."""
    return build_belief(problem, ModelSettings(features=features, count=count, linear_terms=False))


def deep_plan(problem: Problem, nodes: int, particles: int = 1) -> Planned:
    """Return the nested plan of a belief that has seen a few episodes."""
    belief = deep_belief(problem).update(deep_batch(problem, LEARNED_FROM))
    return plan_policy(belief, Thompson(particles), stream(1, "deep plan"), integration=Integration("quadrature", nodes))
