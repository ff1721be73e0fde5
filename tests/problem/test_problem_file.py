"""problem.yaml: what is written is what is read, and mistakes are named where they are."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problem_cases import nested

from aegis.errors import AegisError, GraphError, ProblemError
from aegis.problem import (
    Actions,
    Guard,
    Level,
    Problem,
    Propensity,
    Reward,
    Variable,
    dump_problem,
    load_problem,
    parse_problem,
    save_problem,
    write_yaml,
)

EXAMPLE = """\
episode: batch                      # one value per independent unit; may be a list of columns
cluster: machine                    # optional: dependent episodes of one unit
time: started_at                    # optional: drift checks, time splits
carry_over: none                    # none: a decision affects only its own subtree. within: it may affect later decisions of the episode
reward: {column: margin, range: [0, 40], unit: EUR, goal: maximise, per: decision}   # per: decision | LEVEL | episode
guards: [{column: scrap_rate, range: [0, 1], max_worsening: 0.01}]                   # optional: must not get worse than this
outcome: {column: purity}           # optional
levels:                             # outermost first, the way people say it
  - name: recipe
    decision: recipe_run            # optional id of the decision; default one per parent
    context: [task]
    action: {column: setting, values: [1, 2, 3, 4, 5]}
    available: [can_1, can_2, can_3, can_4, can_5]        # optional action mask
    propensity: {column: p_setting}                       # or {columns: [...]} full, {policy: uniform}, {base: column, epsilon: 0.1}
    margin: 0.0                                           # gain that makes a switch worth it
  - name: dose
    context: [temperature]
    action: {column: dose, grid: {low: -2, high: 2, points: 21}}
    propensity: {column: p_dose}
graph:                              # optional; default is every earlier variable as a parent (always an I-map)
  temperature: [task, setting]
"""  # noqa: E501 - the text as people write it

SHORT = """\
episode: batch
reward: {column: margin}
levels:
  - name: dose
    context: [temperature]
    action: {column: dose, values: [1, 2]}
"""


def test_the_example_is_read_as_written() -> None:
    problem = parse_problem(EXAMPLE)
    assert problem.episode == ("batch",)
    assert (problem.cluster, problem.time, problem.carry_over) == ("machine", "started_at", "none")
    assert problem.reward == Reward("margin", (0.0, 40.0), "EUR", "maximise", "decision")
    assert problem.guards == (Guard("scrap_rate", (0.0, 1.0), 0.01, "minimise"),)
    assert problem.outcome == Variable("purity")
    recipe, dose = problem.levels
    assert recipe == Level(
        "recipe",
        Actions("setting", (1, 2, 3, 4, 5), "numbers"),
        (Variable("task"),),
        Propensity(column="p_setting"),
        "recipe_run",
        ("can_1", "can_2", "can_3", "can_4", "can_5"),
        0.0,
    )
    assert dose == Level("dose", Actions.grid("dose", -2, 2, 21), (Variable("temperature"),), Propensity(column="p_dose"))
    assert dict(problem.parents) == {"temperature": ("task", "setting")}
    assert problem.graph.parents["temperature"] == ("task", "setting")
    assert problem.graph.parents["margin"] == ("task", "setting", "temperature", "dose", "purity")
    assert dict(problem.latents) == {}


def test_a_short_file_has_the_defaults() -> None:
    problem = parse_problem(SHORT)
    assert problem == Problem(
        (Level("dose", Actions("dose", (1, 2)), (Variable("temperature"),)),), Reward("margin"), episode=("batch",)
    )
    assert problem.reward.range is None


def test_the_extensions() -> None:
    problem = parse_problem(
        """
episode: [site, day]
carry_over: within
reward: {column: cost, goal: minimise, per: episode}
guards: [{column: uptime, range: [0, 1], max_worsening: 0, goal: maximise}]
outcome: {name: spectrum, columns: [s1, s2]}
levels:
  - name: ward
    context: [{column: unit, values: [icu, 7, on]}, {name: patient, columns: [age, weight]}, {column: hour}]
    action: {column: valve, values: [on, off]}
    propensity: {columns: [p_on, p_off]}
  - name: dose
    action: {column: dose, values: [0.5, 1, 2]}
    propensity: {base: meant, epsilon: 1e-1}
    margin: -1
latents: {U: [spectrum, cost]}
"""
    )
    ward, dose = problem.levels
    unit = Variable("unit", "categorical", values=("icu", 7, "on"))
    assert ward.context == (unit, Variable("patient", "vector", ("age", "weight")), Variable("hour"))
    assert ward.actions == Actions("valve", ("on", "off"), "labels")
    assert ward.propensity == Propensity(columns=("p_on", "p_off"))
    assert dose.propensity == Propensity(base="meant", epsilon=0.1)
    assert (dose.context, dose.margin) == ((), -1.0)
    assert problem.outcome == Variable("spectrum", "vector", ("s1", "s2"))
    assert problem.episode == ("site", "day")
    assert problem.reward == Reward("cost", None, "", "minimise", "episode")
    assert problem.guards[0].goal == "maximise"
    assert problem.graph.latents == {"U": ("spectrum", "cost")}


def test_promises_delays_and_sizes() -> None:
    problem = parse_problem(
        """
episode: order
cluster: {column: shop, most: 30}
reward: {column: paid, range: [0, 9], clip: true, closed: final}
levels:
  - name: offer
    action: {column: price, values: [1, 2]}
    propensity: {column: p, least: 0.05, estimated: true, wrong_by: 2}
"""
    )
    assert (problem.cluster, problem.cluster_most) == ("shop", 30)
    assert problem.reward == Reward("paid", (0.0, 9.0), clip=True, closed="final")
    assert problem.levels[0].propensity == Propensity(column="p", least=0.05, estimated=True, wrong_by=2.0)
    assert problem.wrong_by() == {"offer": 2.0} and problem.wrong_by(()) == {}
    assert dump_problem(problem)["levels"][0]["propensity"]["wrong_by"] == 2.0
    assert dump_problem(problem)["cluster"] == {"column": "shop", "most": 30}
    assert parse_problem(SHORT + "cluster: {column: shop}\n") == parse_problem(SHORT + "cluster: shop\n")


def test_a_cluster_of_several_columns() -> None:
    problem = parse_problem(SHORT + "cluster: [person, site]\n")
    assert (problem.cluster, problem.cluster_columns, problem.cluster_name) == (
        ("person", "site"),
        ("person", "site"),
        "person, site",
    )
    assert dump_problem(problem)["cluster"] == ["person", "site"]
    totals = parse_problem(SHORT + "cluster: {columns: [person, site], most: 4}\n")
    assert (totals.cluster, totals.cluster_most) == (("person", "site"), 4)
    assert dump_problem(totals)["cluster"] == {"columns": ["person", "site"], "most": 4}
    assert parse_problem(SHORT + "cluster: [shop]\n") == parse_problem(SHORT + "cluster: shop\n")


def test_what_is_not_declared_is_not_written() -> None:
    content = dump_problem(parse_problem(EXAMPLE))
    assert content["cluster"] == "machine"
    assert set(content["reward"]) == {"column", "range", "unit", "goal", "per"}
    assert [set(level["propensity"]) for level in content["levels"]] == [{"column"}, {"column"}]


# ---- round trip ------------------------------------------------------------------------------------------------------

# Words that a YAML reader may take for something else, and characters that need quotes.
WORDS = st.sampled_from(
    [
        "on",
        "no",
        "null",
        "~",
        "1e3",
        "010",
        "12:30",
        "2020-01-01",
        "1_000",
        "0x1f",
        "true",
        "5",
        ".5",
        "<<",
        "=",
        "é",
        "a: b",
        "#x",
    ]
)
NUMBERS = st.one_of(st.integers(-(10**12), 10**12), st.floats(allow_nan=False, allow_infinity=False))
LIMITS = st.tuples(st.floats(-1e9, -1e-3), st.floats(0, 1e9))


@st.composite
def propensities(draw: st.DrawFn, index: int, count: int) -> Propensity | None:
    return draw(
        st.sampled_from(
            [
                None,
                Propensity(column=("no", "off", "~")[index - 1]),
                Propensity(columns=tuple(f"p{index}_{i}" for i in range(count))),
                Propensity(policy="uniform"),
                Propensity(shares=(0.5, *([0.5 / (count - 1)] * (count - 1)))),
                Propensity(base=f"meant{index}", epsilon=draw(st.floats(1e-12, 1))),
                Propensity(column=f"p{index}", least=draw(st.floats(1e-12, 1 / count)), estimated=draw(st.booleans())),
                Propensity(column=f"p{index}", estimated=True, wrong_by=draw(st.floats(1, 1e9))),
            ]
        )
    )


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    levels = []
    for index in range(draw(st.integers(1, 3)), 0, -1):
        labels = tuple(draw(st.lists(WORDS, min_size=2, max_size=4, unique=True)))
        numbers = tuple(draw(st.lists(NUMBERS, min_size=2, max_size=4, unique=True)))
        grid = Actions.grid(f"a{index}", *draw(LIMITS), draw(st.integers(2, 30)))
        actions = draw(st.sampled_from([Actions.of(f"a{index}", labels), Actions.of(f"a{index}", numbers), grid]))
        context = (
            Variable(f"c{index}"),
            Variable(f"k{index}", "categorical", values=draw(st.sampled_from([labels, numbers]))),
            Variable(f"v{index}", "vector", (f"v{index}_1", f"v{index}_2")),
        )[: draw(st.integers(0, 3))]
        given = draw(propensities(index, actions.count))
        masks = [()] if given is not None and given.shares else [(), tuple(f"m{i}" for i in range(actions.count))]
        levels.append(
            Level(
                f"l{index}",
                actions,
                context,
                given,
                draw(st.sampled_from([None, "run"])),
                draw(st.sampled_from(masks)),
                draw(st.floats(-10, 10)),
            )
        )
    limits = draw(st.none() | LIMITS)
    cluster = draw(st.sampled_from([None, "1e3", ("1e3", "2e3")]))
    reward = Reward(
        "r",
        limits,
        draw(st.just("") | WORDS),
        draw(st.sampled_from(["maximise", "minimise"])),
        draw(st.sampled_from(["decision", "episode", "l1"])),
        limits is not None and draw(st.booleans()),
        draw(st.sampled_from([None, "null", "done"])),
    )
    return Problem(
        tuple(levels),
        reward,
        draw(st.sampled_from([None, Variable("y"), Variable("y", "categorical", values=("no", "yes"))])),
        draw(st.sampled_from([{}, {"r": ("a1",)}, {"r": ()}])),
        draw(st.sampled_from([{}, {"U": ("a1", "r")}])),
        draw(st.sampled_from([(), (Guard("g", (0.0, 1.0), 0.25, "maximise"), Guard("h", (-1.0, 1.0), 0.0))])),
        draw(st.sampled_from([("episode",), ("site", "on")])),
        cluster,
        draw(st.sampled_from([None, "time"])),
        draw(st.sampled_from(["none", "within"])),
        None if cluster is None else draw(st.none() | st.integers(1, 10**9)),
    )


@settings(max_examples=30, deadline=None)
@given(problems())
def test_a_written_problem_is_read_back_the_same(problem: Problem) -> None:
    again = parse_problem(write_yaml(dump_problem(problem)))
    assert again == problem
    assert [level.actions.kind for level in again.levels] == [level.actions.kind for level in problem.levels]
    assert dump_problem(again) == dump_problem(problem)


def test_saving_and_loading_a_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "problem.yaml"
    save_problem(parse_problem(EXAMPLE), path)
    assert load_problem(path) == parse_problem(EXAMPLE)
    assert load_problem(str(path)) == parse_problem(EXAMPLE)
    assert os.listdir(path.parent) == ["problem.yaml"]


def test_numbers_from_numpy_can_be_written(tmp_path: Path) -> None:
    level = Level("l", Actions.of("a", tuple(np.arange(3))), (Variable("k", "categorical", values=tuple(np.arange(2.0))),))
    problem = Problem((level,), Reward("r", (np.float64(0), np.float64(1))))  # type: ignore[arg-type]
    save_problem(problem, tmp_path / "p.yaml")
    assert load_problem(tmp_path / "p.yaml") == problem


# ---- mistakes --------------------------------------------------------------------------------------------------------


def message_of(text: str) -> str:
    with pytest.raises(ProblemError) as caught:
        parse_problem(text, "here.yaml")
    message = str(caught.value)
    assert all(line.startswith("here.yaml: ") for line in message.splitlines() if not line.startswith(" "))
    return message


@pytest.mark.parametrize(
    ("right", "wrong", "place", "meant"),
    [
        ("cluster:", "clutser:", "clutser", "cluster"),
        ("guards:", "guard:", "guard", "guards"),
        ("range: [0, 40]", "rnage: [0, 40]", "reward.rnage", "range"),
        ("max_worsening", "max_worse", "guards.1.max_worse", "max_worsening"),
        ("cluster: machine", "cluster: {column: machine, mots: 3}", "cluster.mots", "most"),
        ("{column: purity}", "{colum: purity}", "outcome.colum", "column"),
        ("decision: recipe_run", "decisions: recipe_run", "levels.1.decisions", "decision"),
        ("grid: {low: -2, high: 2, points: 21}", "girds: 1", "levels.2.action.girds", "grid"),
        ("points: 21", "point: 21", "levels.2.action.grid.point", "points"),
        ("{column: p_dose}", "{columm: p_dose}", "levels.2.propensity.columm", "column"),
        ("[temperature]\n", "[{colunm: temperature}]\n", "levels.2.context.1.colunm", "column"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_one(right: str, wrong: str, place: str, meant: str) -> None:
    assert right in EXAMPLE
    message = message_of(EXAMPLE.replace(right, wrong))
    assert f"unknown key '{place}' (did you mean '{meant}'?); allowed here: " in message
    assert meant in message.split("allowed here: ")[1]


@pytest.mark.parametrize("key", ["strict", "_private", "str", "int", "list[str]"])
def test_an_unknown_key_may_look_like_anything(key: str) -> None:
    assert f"unknown key '{key}'" in message_of(f"{SHORT}{key}: 1\n")


@pytest.mark.parametrize("key", ["1", "true", "1.5"])
def test_a_key_is_a_text(key: str) -> None:
    assert "a key is a text" in message_of(f"{SHORT}{key}: 1\n")
    assert "a key is a text" in message_of(f"{SHORT}graph: {{{key}: [dose]}}\n")


def test_all_mistakes_are_reported_at_once() -> None:
    text = EXAMPLE.replace("time:", "tiem:").replace("points: 21", "points: many").replace("column: margin, ", "")
    lines = message_of(text).splitlines()
    assert len(lines) == 3
    assert any("'reward.column' is missing" in line for line in lines)


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ("episode: batch", "episode: 7", "'episode' should be a text or a list, found 7"),
        ("episode: batch", "episode: {a: 1}", "'episode' should be a text or a list, found {'a': 1}"),
        ("episode: batch", "episode: [batch, 7]", "'episode.2' should be a text, found 7"),
        ("episode: batch", "episode: []", "'episode' names at least one column"),
        ("carry_over: none", "carry_over: maybe", "'carry_over' should be 'none' or 'within', found 'maybe'"),
        ("goal: maximise", "goal: maximize", "'reward.goal' should be 'maximise' or 'minimise', found 'maximize'"),
        ("[0, 40]", "[0]", "'reward.range' should have 2 or more items, found [0]"),
        ("[0, 40]", "[0, 20, 40]", "'reward.range' should have 2 items at most, found [0, 20, 40]"),
        ("[0, 40]", "[0, high]", "'reward.range.2' should be a number, found 'high'"),
        ("[0, 40]", "[0, true]", "'reward.range.2' should be a number, found True"),
        ("[0, 40]", "[40, 0]", "'range' is [low, high] with finite low < high, found [40.0, 0.0]"),
        ("[0, 40]", "[0, .inf]", "found [0.0, inf]"),
        ("points: 21", "points: 21.5", "'levels.2.action.grid.points' should be a whole number, found 21.5"),
        ("points: 21", "points: 1", "the number of points is a whole number from 2 to 100000, found 1"),
        ("high: 2", "high: -2", "a grid needs finite low < high"),
        (", high: 2", "", "'levels.2.action.grid.high' is missing"),
        ("values: [1, 2, 3, 4, 5]", "values: 5", "'levels.1.action.values' should be a list, found 5"),
        ("values: [1, 2, 3, 4, 5]", "values: [1]", "at least two actions, found 1"),
        ("values: [1, 2, 3, 4, 5]", "values: [1, 2, null]", "'levels.1.action.values.3' should be a text or a whole number"),
        (", values: [1, 2, 3, 4, 5]", "", "level 'recipe': action 'setting' needs either 'values' or a 'grid'"),
        ("{column: p_dose}", "{}", "exactly one of 'column'"),
        ("{column: p_dose}", "p_dose", "'levels.2.propensity' should be a mapping, found 'p_dose'"),
        ("context: [task]", "context: task", "'levels.1.context' should be a list, found 'task'"),
        ("context: [task]", "context: [5]", "'levels.1.context.1' should be a text or a mapping, found 5"),
        ("context: [task]", "context: [{name: v}]", "level 'recipe', context: give 'column'"),
        ("context: [task]", "context: [{columns: [u, v]}]", "a vector of columns needs a 'name'"),
        ("context: [task]", "context: [{name: v, columns: []}]", "'levels.1.context.1.columns' should have 1 or more items"),
        ("context: [task]", "context: [{name: v, columns: [u], values: [1, 2]}]", "a vector has no 'values'"),
        ("context: [task]", "context: [{name: v, column: u}]", "'name' is for vectors"),
        ("  - name: dose\n", "  - {}\n  - name: dose\n", "'levels.2.name' is missing"),
        ("[task, setting]", "task", "'graph.temperature' should be a list, found 'task'"),
        ("[task, setting]", "[task, dose]", "'dose' comes after 'temperature'"),
        ("name: dose", "name: recipe", "names of levels: 'recipe' is listed twice"),
        ("per: decision", "per: recipes", "(did you mean 'recipe'?)"),
        ("per: decision", "clip: 1", "'reward.clip' should be true or false, found 1"),
        ("range: [0, 40]", "clip: true", "reward 'margin': 'clip' needs a 'range'"),
        ("per: decision", 'closed: ""', "'closed' names a column of flags, found an empty name"),
        ("per: decision", "closed: margin", "'margin' is both the reward and the flag that says whether the reward is final"),
        ("cluster: machine", "cluster: {column: machine, most: 0}", "cluster 'machine': 'most', the largest number"),
        ("cluster: machine", "cluster: {column: machine, most: few}", "'cluster.most' should be a whole number, found 'few'"),
        ("cluster: machine", "cluster: {most: 5}", "cluster: give either 'column' or 'columns'"),
        ("cluster: machine", "cluster: {columns: [], most: 5}", "'cluster.columns' should"),
        ("cluster: machine", "cluster: {column: a, columns: [b]}", "cluster: give either 'column' or 'columns'"),
        ("cluster: machine", "cluster: []", "'cluster' names at least one column"),
        ("cluster: machine", "cluster: [machine, machine]", "'cluster'"),
        ("cluster: machine", "cluster: [machine, margin]", "'margin' is both the cluster and the reward"),
        (
            "cluster: machine",
            "cluster: {columns: [machine, hall], most: 0}",
            "cluster 'machine, hall': 'most', the largest number",
        ),
        ("cluster: machine", "cluster: 7", "'cluster' should be a text or a list or a mapping, found 7"),
        (
            "{column: p_dose}",
            "{column: p_dose, least: 2}",
            "'least', a probability, is a finite number above 0 and at most 1, found 2",
        ),
        ("{column: p_dose}", "{column: p_dose, least: 0.2}", "promises 0.2 for each of 21 actions"),
        ("{column: p_dose}", "{column: p_dose, estimated: 1}", "'levels.2.propensity.estimated' should be true or false"),
        ("{column: p_dose}", "{column: p_dose, wrong_by: 2}", "'wrong_by' is for estimated probabilities: add 'estimated: true'"),
        (
            "{column: p_dose}",
            "{column: p_dose, estimated: true, wrong_by: 0.9}",
            "may be too large or too small, is a finite number from 1",
        ),
        ("{column: p_dose}", "{column: p_dose, estimated: true, wrong_by: .inf}", "found inf"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(right: str, wrong: str, expected: str) -> None:
    assert right in EXAMPLE
    message = message_of(EXAMPLE.replace(right, wrong, 1))
    assert expected in message
    assert "_Variable" not in message and "pydantic" not in message


def test_a_long_value_is_cut_in_the_message() -> None:
    message = message_of(SHORT.replace("[temperature]", "{" + ", ".join(f"key_{i}: {i}" for i in range(500)) + "}"))
    assert len(message) < 250 and "..." in message


def test_graph_mistakes_keep_their_class() -> None:
    with pytest.raises(GraphError, match=r"^problem: unknown variable in the graph 'temprature' \(did you mean 'temperature'"):
        parse_problem(EXAMPLE.replace("  temperature: [task", "  temprature: [task"))


@pytest.mark.parametrize(
    ("text", "found"),
    [("", "an empty file"), ("# nothing\n", "an empty file"), ("- a\n- b\n", "list"), ("hello", "str"), ("12", "int")],
)
def test_a_file_that_is_not_a_mapping_is_refused(text: str, found: str) -> None:
    message = message_of(text)
    assert f"expected a mapping with 'episode', 'reward' and 'levels', found {found}" in message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(ProblemError, match=r"binary.yaml: it is not UTF-8 text .*save it as UTF-8"):
        load_problem(binary)
    control = tmp_path / "control.yaml"
    control.write_bytes(b"PAR1\x00\x15\x04")
    with pytest.raises(ProblemError, match=r"control\.yaml: not valid YAML"):
        load_problem(control)
    with pytest.raises(ProblemError, match=r"cannot read .*missing.yaml: No such file"):
        load_problem(tmp_path / "missing.yaml")
    with pytest.raises(ProblemError, match=r"cannot read .*: Is a directory"):
        load_problem(tmp_path)


def test_a_byte_order_mark_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + SHORT.encode())
    assert load_problem(path) == parse_problem(SHORT)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_file_is_read_or_refused_but_never_crashes(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(EXAMPLE)))
    stop = data.draw(st.integers(start, min(len(EXAMPLE), start + 40)))
    text = EXAMPLE[:start] + data.draw(st.text(alphabet="ab1:-[]{},&*!?<>#'\"\n \t.%@~", max_size=8)) + EXAMPLE[stop:]
    with contextlib.suppress(AegisError):
        assert isinstance(parse_problem(text), Problem)


def test_the_dump_is_plain_data_without_most_defaults() -> None:
    content: dict[str, Any] = dump_problem(nested(1, outcome=False))
    assert content == {
        "episode": "episode",
        "reward": {"column": "reward", "goal": "maximise", "per": "decision"},
        "levels": [{"name": "l1", "context": ["c1"], "action": {"column": "a1", "values": [0.5, 1.5, 2.5]}}],
    }
    masked = replace(nested(1).levels[0], available=("u", "v", "w"), margin=0.5)
    assert dump_problem(nested(1, levels=(masked,)))["levels"][0]["margin"] == 0.5
