"""Each column has one role, except for the pairs that docs/problem.md lists."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aegis.errors import ProblemError
from aegis.problem import Actions, Guard, Level, Problem, Propensity, Reward, Variable, parse_problem

PAGE = (Path(__file__).parents[2] / "docs" / "problem.md").read_text(encoding="utf-8")

# Every place of a two-level problem at which a column is named, with the words in which a message says so.
ROLES = {
    "episode": "the episode id",
    "cluster": "the cluster",
    "time": "the time",
    "outer decision": "the decision id of level 'plan'",
    "outer context": "a context of level 'plan'",
    "outer action": "the action of level 'plan'",
    "outer mask": "an action mask of level 'plan'",
    "outer propensity": "a propensity of level 'plan'",
    "outer base": "the base action of level 'plan'",
    "inner decision": "the decision id of level 'dose'",
    "inner context": "a context of level 'dose'",
    "inner vector": "a context of level 'dose'",
    "inner action": "the action of level 'dose'",
    "inner mask": "an action mask of level 'dose'",
    "inner propensity": "a propensity of level 'dose'",
    "inner propensities": "a propensity of level 'dose'",
    "inner base": "the base action of level 'dose'",
    "outcome": "the outcome",
    "outcome vector": "the outcome",
    "reward": "the reward",
    "closed": "the flag that says whether the reward is final",
    "guard": "a guard",
}
IDS = ("episode", "cluster", "time", "outer decision", "inner decision")
CONTEXTS = ("outer context", "inner context", "inner vector")
MASKS = ("outer mask", "inner mask")
BASES = ("outer base", "inner base")

MAY_SHARE = {
    frozenset(pair)
    for pair in (
        *itertools.combinations(IDS, 2),
        *itertools.product(IDS, CONTEXTS),
        *itertools.product(MASKS, CONTEXTS),
        *itertools.product(BASES, CONTEXTS),
        MASKS,
        ("inner base", "outer action"),
        *itertools.product(["guard"], ["outcome", "outcome vector", "outer action", "inner action"]),
        *itertools.product(["guard"], ["inner context", "inner vector"]),
    )
}
# Forms of one thing, of which a level or a problem has only one.
ALTERNATIVES = (("outcome", "outcome vector"), ("outer propensity", "outer base"))
ALTERNATIVES += tuple(itertools.combinations(("inner propensity", "inner propensities", "inner base"), 2))


def build(*shared: str) -> Problem:
    """Return a problem in which the places given name the column 'x', and all others a column of their own."""
    has = set(shared)

    def column(role: str) -> str:
        return "x" if role in has else role

    def given(role: str, make: Callable[[str], Any]) -> Any:
        return make("x") if role in has else None

    outer = Level(
        "plan",
        Actions(column("outer action"), (1, 2)),
        (Variable(column("outer context")),),
        given("outer propensity", lambda name: Propensity(column=name))
        or given("outer base", lambda name: Propensity(base=name, epsilon=0.5)),
        given("outer decision", str),
        ("can", column("outer mask")),
    )
    inner = Level(
        "dose",
        Actions(column("inner action"), (1, 2)),
        (Variable(column("inner context")), Variable("v", "vector", ("v1", column("inner vector")))),
        given("inner propensity", lambda name: Propensity(column=name))
        or given("inner propensities", lambda name: Propensity(columns=("p1", name)))
        or given("inner base", lambda name: Propensity(base=name, epsilon=0.5)),
        given("inner decision", str),
        ("may", column("inner mask")),
    )
    outcome = given("outcome vector", lambda name: Variable("w", "vector", ("w1", name))) or Variable(column("outcome"))
    guards = (Guard(column("guard"), (0.0, 1.0), 0.1),)
    episode = ("site", column("episode"))
    cluster, time = given("cluster", str), given("time", str)
    reward = Reward(column("reward"), closed=column("closed"))
    return Problem((outer, inner), reward, outcome, {}, {}, guards, episode, cluster, time)


@pytest.mark.parametrize("one", ROLES)
def test_two_roles_share_a_column_only_where_that_means_something(one: str) -> None:
    for other in [
        other for first, other in itertools.combinations(ROLES, 2) if first == one and (one, other) not in ALTERNATIVES
    ]:
        if frozenset((one, other)) in MAY_SHARE:
            assert build(one, other).levels
            continue
        with pytest.raises(ProblemError) as caught:
            build(one, other)
        pairs = itertools.permutations((ROLES[one], ROLES[other]))
        assert any(f"'x' is both {a} and {b}; each column has one role" in str(caught.value) for a, b in pairs), other


def test_three_roles_are_compared_two_by_two() -> None:
    assert build("time", "inner decision", "inner context").time == "x"
    with pytest.raises(ProblemError, match="'x' is both a context of level 'dose' and the reward"):
        build("inner context", "reward")
    with pytest.raises(ProblemError, match="'x' is both the time and a guard"):
        build("time", "inner context", "guard")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("propensity: {column: p}", "propensity: {column: drug}"), "'drug' is both the action .* and a propensity"),
        (("episode: visit", "episode: score"), "'score' is both the episode id and the reward"),
        (("episode: visit", "episode: visit\ncluster: drug"), "'drug' is both the cluster and the action"),
        (("episode: visit", "episode: visit\ntime: p"), "'p' is both the time and a propensity"),
    ],
)
def test_a_file_is_refused_with_the_column_and_both_roles(change: tuple[str, str], message: str) -> None:
    text = """
episode: visit
reward: {column: score}
levels:
  - name: treatment
    context: [age]
    action: {column: drug, values: [none, a, b]}
    propensity: {column: p}
"""
    assert parse_problem(text).levels
    with pytest.raises(ProblemError, match=message):
        parse_problem(text.replace(*change))


def test_the_page_lists_the_pairs() -> None:
    listed = PAGE[PAGE.index("## Columns with two roles") :]
    for words in ("`episode`, `cluster`, `time` and `decision`", "`available`", "`base`", "guard", "`outcome`"):
        assert words in listed
