"""Assumption 3, the backdoor criterion at every level, against a plain walk along all paths."""

from __future__ import annotations

import naive
import naive_graph
import pytest
import setting

from aegis.problem import Problem
from aegis.rng import stream


def plain_graph(levels, parents, latents):
    """Parents of every variable, latents among them, as plain lists."""
    graph = {}
    for name in naive.variables(levels):
        earlier = [] if name == levels[0]["context"] else naive.parents_of(levels, name)
        graph[name] = [*parents.get(name, earlier), *[latent for latent, children in latents.items() if name in children]]
    return graph | {latent: [] for latent in latents}


def level_of(levels, name):
    return next((i for i, level in enumerate(levels) if name in (level["context"], level["action"])), len(levels) - 1)


def assumption_3(levels, parents, latents, position):
    """Observed parents of the action block every backdoor path to the reward, and no latent acts on several levels."""
    if any(len({level_of(levels, child) for child in children}) > 1 for children in latents.values()):
        return False
    action = levels[position]["action"]
    graph = plain_graph(levels, parents, latents)
    return naive_graph.backdoor(graph, action, "r", [name for name in graph[action] if name not in latents])


@pytest.mark.parametrize(
    ("latents", "admissible"),
    [
        ({}, [True, True]),
        ({"u": ("c1", "y", "r")}, [True, True]),  # the remark on confounding within the innermost level
        ({"u": ("a1", "r")}, [True, False]),
        ({"u": ("a1", "y")}, [True, False]),
        ({"u": ("c1", "a1")}, [True, True]),  # blocked at c1, which the action looks at
        ({"u": ("c2", "a2")}, [True, True]),
        ({"u": ("a2", "c1")}, [False, False]),  # across levels: outside the problem class
        ({"u": ("c2", "r")}, [False, False]),
    ],
)
def test_assumption_3_on_the_complete_graph(latents, admissible):
    problem = setting.make_problem(2)
    levels = setting.plain_levels(problem)
    confounded = Problem(problem.levels, problem.reward, problem.outcome, latents=latents)
    assert [confounded.backdoor(name).admissible for name in problem.names] == admissible
    assert [assumption_3(levels, {}, latents, position) for position in range(2)] == admissible


@pytest.mark.parametrize("depth", [1, 2])
def test_assumption_3_on_random_graphs(depth):
    problem = setting.make_problem(depth)
    levels = setting.plain_levels(problem)
    order = naive.variables(levels)
    rng = stream(30, "graphs", depth)
    found = []
    for _ in range(80):
        parents = {name: tuple(earlier for earlier in naive.parents_of(levels, name) if rng.random() < 0.6) for name in order[1:]}
        latents = {}
        for latent in ("u", "v")[: rng.integers(0, 3)]:
            level = rng.integers(0, depth)
            across = rng.random() < 0.1
            inside = [name for name in order if across or level_of(levels, name) == level]
            latents[latent] = tuple(name for name in inside if rng.random() < 0.5)
        graph = Problem(problem.levels, problem.reward, problem.outcome, parents, latents)
        for position, level in enumerate(problem.names):
            found.append(graph.backdoor(level).admissible)
            assert found[-1] == assumption_3(levels, parents, latents, position), (parents, latents, level)
    assert 0.2 < sum(found) / len(found) < 0.95  # both answers occur
