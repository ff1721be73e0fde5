"""d-separation and the backdoor criterion against the textbook rules, path by path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from problem_cases import nested

from aegis.errors import GraphError
from aegis.problem.graph import Graph, ancestors, backdoor_admissible, d_separated, topological

Parents = Mapping[str, tuple[str, ...]]


# ---- the textbook, slowly --------------------------------------------------------------------------------------------


def descendants(parents: Parents, node: str) -> set[str]:
    found = {node}
    while True:
        more = {child for child, above in parents.items() if found & set(above)} - found
        if not more:
            return found
        found |= more


def paths(parents: Parents, start: str, end: str, so_far: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """All paths without repeated nodes, against or along the arrows."""
    here = (*so_far, start)
    if start == end:
        yield here
        return
    neighbours = set(parents[start]) | {child for child, above in parents.items() if start in above}
    for node in sorted(neighbours - set(here)):
        yield from paths(parents, node, end, here)


def is_open(parents: Parents, path: tuple[str, ...], observed: set[str]) -> bool:
    """A chain or fork is closed by observing its middle; a collider is opened by observing it or a descendant."""
    for before, middle, after in zip(path, path[1:], path[2:], strict=False):
        collider = before in parents[middle] and after in parents[middle]
        if collider and not descendants(parents, middle) & observed:
            return False
        if not collider and middle in observed:
            return False
    return True


def separated_by_paths(parents: Parents, x: str, y: str, observed: set[str]) -> bool:
    return not any(is_open(parents, path, observed) for path in paths(parents, x, y))


def backdoor_by_paths(parents: Parents, action: str, target: str, observed: set[str]) -> bool:
    if observed & descendants(parents, action):
        return False
    entering = [path for path in paths(parents, action, target) if path[1] in parents[action]]
    return not any(is_open(parents, path, observed) for path in entering)


@st.composite
def dags(draw: st.DrawFn) -> dict[str, tuple[str, ...]]:
    names = draw(st.permutations("abcdef"[: draw(st.integers(2, 6))]))
    parents = {name: tuple(other for other in names[:i] if draw(st.booleans())) for i, name in enumerate(names)}
    order = draw(st.permutations(names))
    return {name: parents[name] for name in order}


@st.composite
def questions(draw: st.DrawFn) -> tuple[dict[str, tuple[str, ...]], str, str, set[str]]:
    parents = draw(dags())
    x, y, *others = draw(st.permutations(sorted(parents)))
    return parents, x, y, {name for name in others if draw(st.booleans())}


@settings(max_examples=120, deadline=None)
@given(questions())
def test_d_separation_is_what_the_paths_say(question: tuple[dict[str, tuple[str, ...]], str, str, set[str]]) -> None:
    parents, x, y, observed = question
    expected = separated_by_paths(parents, x, y, observed)
    assert d_separated(parents, x, y, observed) == expected
    assert d_separated(parents, y, x, observed) == expected


@settings(max_examples=120, deadline=None)
@given(questions())
def test_the_backdoor_criterion_is_what_the_paths_say(question: tuple[dict[str, tuple[str, ...]], str, str, set[str]]) -> None:
    parents, action, target, observed = question
    assert backdoor_admissible(parents, action, target, observed) == backdoor_by_paths(parents, action, target, observed)


@settings(max_examples=50, deadline=None)
@given(questions())
def test_observing_all_parents_is_always_admissible(question: tuple[dict[str, tuple[str, ...]], str, str, set[str]]) -> None:
    parents, action, target, _ = question
    assume(target not in parents[action])
    assert backdoor_admissible(parents, action, target, parents[action])


@settings(max_examples=50, deadline=None)
@given(dags())
def test_the_order_puts_parents_first(parents: dict[str, tuple[str, ...]]) -> None:
    order = Graph(parents).order
    assert sorted(order) == sorted(parents)
    assert all(order.index(above) < order.index(child) for child in parents for above in parents[child])
    for node in parents:
        assert ancestors(parents, [node]) == {other for other in parents if node in descendants(parents, other)}


# ---- named cases -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parents", "given_nothing", "given_middle"),
    [
        ({"x": (), "m": ("x",), "y": ("m",)}, False, True),  # chain
        ({"m": (), "x": ("m",), "y": ("m",)}, False, True),  # fork
        ({"x": (), "y": (), "m": ("x", "y")}, True, False),  # collider
    ],
)
def test_chain_fork_collider(parents: Parents, given_nothing: bool, given_middle: bool) -> None:
    assert d_separated(parents, "x", "y", ()) is given_nothing
    assert d_separated(parents, "x", "y", ["m"]) is given_middle


def test_a_descendant_of_a_collider_opens_it() -> None:
    parents = {"x": (), "y": (), "m": ("x", "y"), "d": ("m",)}
    assert not d_separated(parents, "x", "y", ["d"])


def test_cycles_are_named() -> None:
    with pytest.raises(GraphError, match="cycle: a <- b <- a"):
        Graph({"a": ("b",), "b": ("a",)})
    assert topological({"b": ("a",), "a": ()}) == ("a", "b")


def test_a_latent_becomes_a_parentless_node() -> None:
    graph = Graph({"a": (), "b": ("a",)}, {"U": ("a", "b")})
    assert graph.with_latents() == {"a": ("U",), "b": ("a", "U"), "U": ()}


# ---- Assumption 3 on problems ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_without_latents_every_level_is_admissible(depth: int) -> None:
    problem = nested(depth)
    for name in problem.names:
        found = problem.backdoor(name)
        assert found.admissible and found.level == name and "block every backdoor path" in found.reason


@pytest.mark.parametrize("children", [("c1", "y"), ("c1", "reward"), ("y", "reward"), ("c1", "y", "reward")])
@pytest.mark.parametrize("depth", [2, 3])
def test_a_latent_shared_within_the_innermost_level_is_admissible(depth: int, children: tuple[str, ...]) -> None:
    problem = nested(depth, latents={"U": children})
    assert all(problem.backdoor(name).admissible for name in problem.names)


@pytest.mark.parametrize("children", [("c2", "reward"), ("c2", "c1"), ("a2", "y"), ("c3", "a1")])
def test_a_latent_across_levels_is_refused_with_its_name_at_every_level(children: tuple[str, ...]) -> None:
    problem = nested(3, latents={"shift": children})
    for name in problem.names:
        found = problem.backdoor(name)
        assert not found.admissible
        for word in ("'shift'", "acts on several levels", *(problem.level_of(child).name for child in children)):
            assert word in found.reason


def test_a_latent_behind_the_action_and_the_reward_is_refused_where_it_acts() -> None:
    problem = nested(2, latents={"U": ("a1", "reward")})
    found = problem.backdoor("l1")
    assert not found.admissible
    assert "'a1' is confounded with 'reward'" in found.reason and "unobserved U acts on the action" in found.reason
    assert problem.backdoor("l2").admissible


def test_a_latent_behind_the_action_and_the_outcome_is_refused() -> None:
    assert not nested(1, latents={"U": ("a1", "y")}).backdoor("l1").admissible


def test_a_context_the_controller_used_but_the_graph_leaves_out_opens_a_path() -> None:
    hidden = nested(1, parents={"a1": ()}, latents={"U": ("a1", "c1")})
    assert not hidden.backdoor("l1").admissible
    assert nested(1, latents={"U": ("a1", "c1")}).backdoor("l1").admissible


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_check_of_a_problem_is_the_criterion_of_its_graph(data: st.DataObject) -> None:
    names = ["c1", "a1", "y", "reward"]
    latents = {u: tuple(name for name in names if data.draw(st.booleans())) for u in ("U", "W")}
    parents = {name: tuple(above for above in names[:i] if data.draw(st.booleans())) for i, name in enumerate(names) if i}
    problem = nested(1, parents=parents, latents=latents)
    expected = backdoor_by_paths(problem.graph.with_latents(), "a1", "reward", set(problem.graph.parents["a1"]))
    assert problem.backdoor("l1").admissible == expected
