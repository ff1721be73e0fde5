"""The problem class: levels, scopes and mechanisms (the paper's Definitions 1 and 2), and what is refused."""

from __future__ import annotations

import itertools
import math
import pickle

import pytest
from problem_cases import nested

from aegis.errors import GraphError, ProblemError
from aegis.problem import Actions, Guard, Level, Problem, Reward, Scope, Variable

DEPTHS = (1, 2, 3)


def scopes(depth: int) -> list[tuple[int, ...]]:
    return [scope for size in range(1, depth + 1) for scope in itertools.combinations(range(1, depth + 1), size)]


# ---- levels ------------------------------------------------------------------------------------------------------------


def test_levels_are_listed_outermost_first_and_counted_from_the_inside() -> None:
    problem = nested(3)
    assert problem.names == ("l3", "l2", "l1")
    assert [problem.index(name) for name in problem.names] == [3, 2, 1]
    assert (problem.outermost.name, problem.innermost.name) == ("l3", "l1")
    assert [level.name for level in problem.above("l1")] == ["l3", "l2"]
    assert problem.above("l3") == ()
    children = [problem.child(name) for name in problem.names]
    assert [child and child.name for child in children] == ["l2", "l1", None]
    assert problem.level("l2") is problem.levels[1]


@pytest.mark.parametrize("ask", ["level", "index", "above", "child", "backdoor"])
def test_an_unknown_level_is_named_with_the_nearest_one(ask: str) -> None:
    problem = Problem((Level("recipe", Actions("s", (1, 2))), Level("dose", Actions("d", (1, 2)))))
    with pytest.raises(ProblemError, match=r"no level 'dosis' \(did you mean 'dose'\?\); levels: recipe, dose"):
        getattr(problem, ask)("dosis")


def test_scopes() -> None:
    problem = nested(3)
    assert problem.scope() == {"l1", "l2", "l3"}
    assert problem.scope(["l1", "l1"]) == Scope({"l1"}) == Scope("l1") == problem.scope("l1")
    assert problem.scope([]) == Scope()
    assert repr(Scope({"l2", "l1"})) == "Scope({'l1', 'l2'})"
    assert len({Scope("l1"), Scope(["l1"])}) == 1
    copy = pickle.loads(pickle.dumps(Scope({"l1", "l2"})))
    assert copy == Scope({"l1", "l2"}) and isinstance(copy, Scope)
    with pytest.raises(ProblemError, match="no level 'l9'"):
        problem.scope(["l1", "l9"])


# ---- variables and mechanisms -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("depth", "scope"), [(depth, scope) for depth in DEPTHS for scope in scopes(depth)])
def test_mechanisms_are_definition_2(depth: int, scope: tuple[int, ...]) -> None:
    outermost_new = max(scope)
    transcribed = {f"c{level}" for level in range(1, depth + 1) if level < outermost_new} | {"y", "reward"}
    found = nested(depth).mechanisms([f"l{level}" for level in scope])
    assert set(found) == transcribed
    assert len(found) == len(transcribed)
    assert found == tuple(sorted(found, key=list(nested(depth).variables).index)), "causal order"


@pytest.mark.parametrize("depth", DEPTHS)
def test_all_mechanisms_are_definition_1(depth: int) -> None:
    problem = nested(depth)
    assert set(problem.mechanisms()) == {f"c{level}" for level in range(1, depth)} | {"y", "reward"}
    assert problem.mechanisms([f"l{depth}"]) == problem.mechanisms()
    assert problem.mechanisms(["l1"]) == ("y", "reward")
    assert nested(depth, outcome=False).mechanisms(["l1"]) == ("reward",)
    assert problem.mechanisms([]) == ()


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_default_graph_is_complete(depth: int) -> None:
    problem = nested(depth)
    order = list(problem.variables)
    assert order == [name for i in range(depth, 0, -1) for name in (f"c{i}", f"a{i}")] + ["y", "reward"]
    for position, name in enumerate(order):
        assert problem.graph.parents[name] == tuple(order[:position])
    assert problem.graph.order == tuple(order)


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_reward_has_2l_plus_1_parents(depth: int) -> None:
    assert len(nested(depth).graph.parents["reward"]) == 2 * depth + 1


def test_outermost_contexts_have_no_parents_not_even_each_other() -> None:
    problem = Problem((Level("l", Actions("a", (1, 2)), (Variable("u"), Variable("v"))),))
    assert problem.graph.parents["u"] == problem.graph.parents["v"] == ()
    assert problem.graph.parents["a"] == ("u", "v")


def test_given_parents_replace_the_default_for_that_variable_only() -> None:
    problem = nested(2, parents={"c1": ("a2",)})
    assert problem.graph.parents["c1"] == ("a2",)
    assert problem.graph.parents["a1"] == ("c2", "a2", "c1")


def test_mechanisms_come_in_the_order_of_the_given_graph() -> None:
    inner = Level("l1", Actions("a1", (1, 2)), (Variable("u"), Variable("v")))
    outer = Level("l2", Actions("a2", (1, 2)), (Variable("c2"),))
    problem = Problem((outer, inner), parents={"u": ("v", "a2"), "v": ("a2",)})
    assert problem.mechanisms() == ("v", "u", "reward")


def test_every_variable_belongs_to_a_level() -> None:
    problem = nested(2)
    owners = {name: problem.level_of(name).name for name in problem.variables}
    assert owners == {"c2": "l2", "a2": "l2", "c1": "l1", "a1": "l1", "y": "l1", "reward": "l1"}
    with pytest.raises(ProblemError, match=r"no variable 'rewards' \(did you mean 'reward'\?\)"):
        problem.level_of("rewards")


# ---- what is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ({"c9": ("a2",)}, r"unknown variable in the graph 'c9'.*allowed: c2, a2, c1, a1, y, reward"),
        ({"c1": ("a9",)}, r"unknown parent of 'c1' in the graph 'a9' \(did you mean"),
        ({"c1": ("a2", "a2")}, "'c1' lists a parent twice"),
        ({"c1": ("a1",)}, "'a1' comes after 'c1'"),
        ({"a2": ("c1",)}, "'c1' comes after 'a2'"),
        ({"a1": ("reward",)}, "'reward' comes after 'a1'"),
        ({"y": ("reward",)}, "'reward' comes after 'y'"),
        ({"c1": ("y",)}, "'y' comes after 'c1'"),
        ({"c2": ("a2",)}, "'c2' is an outermost context, which is exogenous; remove its parent 'a2'"),
        ({"c2": ("c1",)}, "'c2' is an outermost context, which is exogenous; remove its parent 'c1'"),
        ({"c1": ("c1",)}, "there is a cycle: c1 <- c1"),
    ],
)
def test_a_wrong_graph_is_refused(parents: dict[str, tuple[str, ...]], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        nested(2, parents=parents)


def test_a_cycle_between_contexts_of_one_level_is_shown() -> None:
    inner = Level("l1", Actions("a1", (1, 2)), (Variable("u"), Variable("v"), Variable("w")))
    outer = Level("l2", Actions("a2", (1, 2)))
    with pytest.raises(GraphError, match=r"cycle: (u <- v <- w <- u|v <- w <- u <- v|w <- u <- v <- w); a cause cannot"):
        Problem((outer, inner), parents={"u": ("v",), "v": ("w",), "w": ("u",)})


def test_latents_have_names_of_their_own_and_known_children() -> None:
    with pytest.raises(GraphError, match="'c1' is also the name of an observed variable"):
        nested(2, latents={"c1": ("y",)})
    with pytest.raises(GraphError, match=r"unknown child of the latent 'U' 'rewrd' \(did you mean 'reward'\?\)"):
        nested(2, latents={"U": ("y", "rewrd")})


@pytest.mark.parametrize(
    ("context", "outcome", "reward", "message"),
    [
        ((Variable("a"),), None, "r", "'a' is both a context of level 'l' and the action of level 'l'"),
        ((Variable("r"),), None, "r", "'r' is both a context of level 'l' and the reward"),
        ((Variable("y"),), Variable("y"), "r", "'y' is both a context of level 'l' and the outcome"),
        ((Variable("c"), Variable("c")), None, "r", "'c' is both a context of level 'l' and a context of level 'l'"),
        ((), None, "a", "'a' is both the action of level 'l' and the reward"),
        ((), Variable("r"), "r", "'r' is both the outcome and the reward"),
        ((Variable("v", "vector", ("x", "r")),), None, "r", "'r' is both a context of level 'l' and the reward"),
        ((Variable("v", "vector", ("x", "a")),), None, "r", "'a' is both a context of level 'l' and the action"),
        ((Variable("x"), Variable("v", "vector", ("x", "z"))), None, "r", "'x' is both a context"),
    ],
)
def test_each_column_has_one_role(context: tuple[Variable, ...], outcome: Variable | None, reward: str, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        Problem((Level("l", Actions("a", (1, 2)), context),), Reward(reward), outcome)


def test_two_levels_cannot_share_a_context_or_an_action() -> None:
    for second in (Level("l1", Actions("a1", (1, 2)), (Variable("c"),)), Level("l1", Actions("a2", (1, 2)))):
        with pytest.raises(ProblemError, match="each column has one role"):
            Problem((Level("l2", Actions("a2", (1, 2)), (Variable("c"),)), second))


TWO_LEVELS = nested(2).levels


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"levels": ()}, "at least one level"),
        ({"levels": (TWO_LEVELS[0], TWO_LEVELS[0])}, "names of levels: 'l2' is listed twice"),
        ({"levels": (Level("episode", Actions("a", (1, 2))),)}, "cannot be called 'episode'"),
        ({"levels": (Level("decision", Actions("a", (1, 2))), TWO_LEVELS[1])}, "cannot be called 'decision'"),
        ({"episode": ()}, "'episode' names at least one column"),
        ({"episode": ("site", "site")}, "'episode': 'site' is listed twice"),
        ({"reward": Reward(per="l3")}, r"one of decision, episode, l2, l1; found 'l3' \(did you mean"),
        ({"guards": (Guard("scrap", (0, 1), 0.1), Guard("scrap", (0, 1), 0.2))}, "guards .*: 'scrap' is listed twice"),
    ],
)
def test_a_wrong_problem_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        nested(2, **changes)


@pytest.mark.parametrize("per", ["decision", "episode", "l2", "l1"])
def test_a_reward_belongs_to_a_decision_a_level_or_the_episode(per: str) -> None:
    assert nested(2, reward=Reward(per=per)).reward.per == per


def test_an_innermost_level_may_be_called_decision() -> None:
    assert Problem((Level("decision", Actions("a", (1, 2))),)).names == ("decision",)


@pytest.mark.parametrize("limits", [(0.0, 0.0), (1.0, 0.0), (math.nan, 1.0), (0.0, math.inf)])
def test_ranges_are_finite_and_in_order(limits: tuple[float, float]) -> None:
    with pytest.raises(ProblemError, match="reward 'margin': 'range' is"):
        Reward("margin", limits)
    with pytest.raises(ProblemError, match="guard 'scrap': 'range' is"):
        Guard("scrap", limits, 0.1)


@pytest.mark.parametrize("worsening", [-0.1, math.nan, math.inf])
def test_a_guard_allows_a_finite_worsening(worsening: float) -> None:
    with pytest.raises(ProblemError, match="'max_worsening' is a finite number from 0"):
        Guard("scrap", (0.0, 1.0), worsening)


def test_a_limit_on_clusters_needs_clusters() -> None:
    with pytest.raises(ProblemError, match="name its 'column' as well"):
        nested(1, cluster_most=3)
    assert nested(1, cluster="machine", cluster_most=1).cluster_most == 1
