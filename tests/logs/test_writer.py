"""What a log file holds, and what cannot be written as one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from log_samples import PROBLEMS, assert_same, random_batch

from aegis.errors import LogError, OutputError
from aegis.logs import Source, to_table, write_log
from aegis.problem import Batch, LevelTable, concat, parse_problem
from aegis.rng import stream


def batch_of(name: str, episodes: int = 6, first: int = 0) -> Batch:
    return random_batch(PROBLEMS[name], stream(1, name, first), episodes, first)


def changed(batch: Batch, level: str, **fields: object) -> Batch:
    return batch.with_level(level, replace(batch.levels[level], **fields))


def test_the_table_has_the_columns_and_types_of_the_problem() -> None:
    table = to_table(batch_of("nested"), PROBLEMS["nested"])
    kinds = {name: str(kind) for name, kind in zip(table.schema.names, table.schema.types, strict=True)}
    assert kinds == {
        "batch": "int64", "machine": "string", "started": "timestamp[us]", "run": "int64", "task": "double", "shape": "string",
        "setting": "string", "can_low": "bool", "can_mid": "bool", "can_high": "bool", "p_low": "double", "p_mid": "double",
        "p_high": "double", "step": "int64", "s1": "double", "s2": "double", "dose": "double", "p_dose": "double",
        "purity": "double", "margin": "double", "scrap": "double",
    }  # fmt: skip
    deep = to_table(batch_of("deep"), PROBLEMS["deep"]).schema
    assert [str(deep.field(name).type) for name in ("plant", "day", "crop", "soil", "water", "shade")] == [
        "string", "int64", "string", "int64", "double", "int64",
    ]  # fmt: skip


def test_decision_ids_are_positions_and_unobserved_rewards_are_null() -> None:
    batch = batch_of("nested")
    table = to_table(batch, PROBLEMS["nested"])
    rows = list(zip(table["batch"].to_pylist(), table["run"].to_pylist(), table["step"].to_pylist(), strict=True))
    runs = {(episode, run) for episode, run, _ in rows}
    assert runs == {(k, j) for k in range(6) for j in range(sum(episode == k for episode, _ in runs))}
    assert rows == sorted((*run, j) for run in runs for j in range(sum(row[:2] == run for row in rows)))
    assert batch.observed is not None
    assert [value is None for value in table["margin"].to_pylist()] == (~batch.observed).tolist()


def test_batches_are_written_as_they_come(tmp_path: Path) -> None:
    parts = [batch_of("deep", 5, first) for first in (0, 10, 20)]

    def one_by_one() -> Iterator[Batch]:
        yield from parts

    write_log(one_by_one(), PROBLEMS["deep"], tmp_path / "deep" / "log.parquet")
    assert_same(Source(tmp_path / "deep" / "log.parquet", PROBLEMS["deep"]).read(), concat(parts))
    assert pq.ParquetFile(tmp_path / "deep" / "log.parquet").metadata.row_group(0).column(0).compression == "ZSTD"


def test_nothing_is_left_behind_when_writing_fails(tmp_path: Path) -> None:
    def stops() -> Iterator[Batch]:
        yield batch_of("flat")
        raise LogError("the plant stopped")

    with pytest.raises(LogError, match="the plant stopped"):
        write_log(stops(), PROBLEMS["flat"], tmp_path / "log.parquet")
    assert not list(tmp_path.iterdir())


def test_a_log_that_would_be_misread_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="6 episode ids come more than once"):
        write_log([batch_of("flat"), batch_of("flat")], PROBLEMS["flat"], tmp_path / "log.parquet")
    with pytest.raises(LogError, match="no episodes to write"):
        write_log([], PROBLEMS["flat"], tmp_path / "log.parquet")
    with pytest.raises(OutputError, match=r"ends? in \.parquet"):
        write_log(batch_of("flat"), PROBLEMS["flat"], tmp_path / "log.csv")
    extra = replace(batch_of("flat", 6, 10), extra={"x": np.zeros(len(batch_of("flat", 6, 10).levels["dose"]))})
    with pytest.raises(LogError, match="must be the same"):
        write_log([batch_of("flat"), extra], PROBLEMS["flat"], tmp_path / "log.parquet")
    text = replace(extra, extra={"x": np.array(["a"] * extra.extra["x"].size, dtype=object)}, episode=extra.episode + 10)
    with pytest.raises(LogError, match="another type"):
        write_log([extra, text], PROBLEMS["flat"], tmp_path / "log.parquet")
    assert not list(tmp_path.iterdir())


def test_batches_that_the_problem_cannot_hold_are_refused() -> None:
    nested, deep, loose = PROBLEMS["nested"], PROBLEMS["deep"], PROBLEMS["loose"]
    batch = batch_of("nested")
    cases = [
        (nested, replace(batch, reward=None), "no rewards yet"),
        (nested, replace(batch, levels={"recipe": batch.levels["recipe"]}), "the same"),
        (nested, replace(batch, cluster=None), "the problem has a cluster, the batch has none"),
        (nested, replace(batch, guards={}), "guard 'scrap'"),
        (nested, replace(batch, outcome=None), "outcome 'purity'"),
        (nested, changed(batch, "recipe", mu_full=None), "columns for the propensity of all actions, the batch none"),
        (
            nested,
            changed(batch, "dose", action=batch.levels["dose"].action * 0 - 1),
            "row 1, column 'dose': the action of level 'dose' is missing",
        ),
        (nested, replace(batch, reward=np.full(batch.reward.size, np.inf)), "found inf as reward"),
        (
            nested,
            replace(batch, episode=np.arange(7), time=np.resize(batch.time, 7), cluster=np.resize(batch.cluster, 7)),
            "of 7 episodes .* a reader would find 6",
        ),
        (deep, replace(batch_of("deep"), episode=np.arange(6)), r"\['plant', 'day'\].*structured"),
        (
            deep,
            changed(batch_of("deep"), "season", mu_taken=np.full(6, 0.4)),
            "level 'season', row 0 .* the propensity is 0.4, but a reader would find",
        ),
        (nested, changed(batch, "dose", mu_taken=batch.levels["dose"].mu_taken * 0), "row 1, column 'p_dose': found 0"),
        (nested, changed(batch, "dose", mu_taken=batch.levels["dose"].mu_taken * np.nan), "row 1, column 'p_dose': found nan"),
        (nested, changed(batch, "recipe", mu_full=batch.levels["recipe"].mu_full * 0.9), "row 1, column 'p_low': .*sum to 0.9"),
        (nested, changed(batch, "recipe", available=~batch.levels["recipe"].available), "action taken .* is not available"),
        (
            nested,
            changed(batch, "dose", context={"sensor": batch.levels["dose"].context["sensor"] * np.inf}),
            "column 's1': found (-|)inf as context",
        ),
        (nested, replace(batch, cluster=np.array([None] * 6, dtype=object)), "column 'machine': the cluster is missing"),
        (nested, replace(batch, extra={"x": np.zeros(2)}), "'x' has 2 entries"),
        (nested, replace(batch, extra={"x": np.zeros((2, 2))}), "'x'.*one type"),
        (nested, replace(batch, episode=np.array([1, "a", 2, 3, 4, 5], dtype=object)), "'batch'.*one type"),
        (loose, replace(batch_of("loose"), time=np.arange(6)), "the batch has a time, the problem has none"),
    ]
    for problem, wrong, words in cases:
        with pytest.raises(LogError, match=words):
            to_table(wrong, problem)


def test_several_decisions_need_an_id_and_masks_need_columns() -> None:
    problem, batch = PROBLEMS["loose"], batch_of("loose")
    one_parent = changed(batch, "plan", parent=np.zeros(6, dtype=np.int32))
    with pytest.raises(LogError, match="name a 'decision' id if there are several in one parent"):
        to_table(replace(one_parent, episode=np.arange(1)), problem)
    mask = np.ones((len(batch.levels["dose"]), 3), dtype=np.bool_)
    to_table(changed(batch, "dose", available=mask), problem)
    mask[0] = np.arange(3) == batch.levels["dose"].action[0]
    with pytest.raises(LogError, match="no 'available' columns"):
        to_table(changed(batch, "dose", available=mask), problem)


def test_a_base_action_is_written_as_it_was_read(tmp_path: Path) -> None:
    text = """
episode: v
reward: {column: r}
levels: [{name: a, action: {column: x, values: [0, 1]}, propensity: {base: b, epsilon: 0.5}}]
"""
    problem = parse_problem(text)
    table = pa.table({"v": [1, 2], "x": [0, 1], "b": [0, 0], "r": [1.0, 2.0]})
    pq.write_table(table, tmp_path / "log.parquet")
    batch = Source(tmp_path / "log.parquet", problem).read()
    np.testing.assert_array_equal(batch.levels["a"].mu_taken, [0.75, 0.25])
    np.testing.assert_array_equal(batch.extra["b"], [0, 0])
    assert to_table(batch, problem).select(table.schema.names).equals(table)
    assert_same(Source(tmp_path / "log.parquet", problem).read(["b"]), batch)
    with pytest.raises(LogError, match=r"does not know the base action; put it into Batch.extra\['b'\]"):
        to_table(replace(batch, extra={}), problem)


@pytest.mark.parametrize(
    ("base", "words"),
    [
        (
            [0, 1],
            "row 1 of the batch .* the propensity is 0.25, but a reader would find 0.75",
        ),
        ([0, 7], "row 2, column 'b': found 7, which is not a known base action"),
    ],
)
def test_a_base_action_that_does_not_explain_the_propensities_is_refused(base: list[int], words: str) -> None:
    text = "episode: v\nreward: {column: r}\nlevels: [{name: a, action: {column: x, values: [0, 1]}, propensity: {B}}]"
    problem = parse_problem(text.replace("{B}", "{base: b, epsilon: 0.5}"))
    table = LevelTable(np.arange(2, dtype=np.int32), {}, np.array([0, 1], dtype=np.int32), np.array([0.75, 0.25]))
    batch = Batch(np.arange(2), {"a": table}, np.zeros(2), extra={"b": np.array([0, 0])})
    assert to_table(batch, problem).num_rows == 2
    with pytest.raises(LogError, match=words):
        to_table(replace(batch, extra={"b": np.array(base)}), problem)


def test_an_outer_base_action_is_one_for_the_decision() -> None:
    problem, batch = PROBLEMS["meant"], batch_of("meant", 6)
    last = int(np.flatnonzero(np.diff(batch.levels["dose"].parent) == 0)[0]) + 1
    proposal = batch.extra["proposal"].copy()
    proposal[last] = next(value for value in "abc" if value != proposal[last])
    with pytest.raises(LogError, match=r"'proposal': found .* in the same decision"):
        Source(to_table(replace(batch, extra={**batch.extra, "proposal": proposal}), problem), problem).read()


@pytest.mark.parametrize(
    ("outer", "inner", "column", "content"),
    [
        ("decision: run", "decision: step", "step", [3, 7, 2]),  # the number of the step is a context as well
        ("decision: run", "decision: step", "run", [0, 0, 1]),  # an id without another role is counted anew
        ("decision: run", "decision: time", "time", [4, 5, 6]),  # an extra column, asked for below
        ("decision: time", "decision: time", "time", [4, 5, 6]),  # one inner decision below each outer one
        ("decision: batch", "decision: batch", "batch", [1, 2, 3]),  # one decision in each episode
    ],
)
def test_a_decision_id_with_another_role_keeps_its_content(
    outer: str, inner: str, column: str, content: list[int], tmp_path: Path
) -> None:
    problem = parse_problem(f"""
episode: {"batch" if column == "batch" else "day"}
reward: {{column: r}}
levels:
  - {{name: shift, {outer}, action: {{column: plan, values: [0, 1]}}}}
  - {{name: step, {inner}, context: [step], action: {{column: x, values: [0, 1]}}}}
""")
    rows = {"day": [1, 1, 1], "batch": [1, 2, 3], "run": [5, 5, 8], "plan": [0, 0, 1], "step": [3, 7, 2], "x": [0, 1, 0]}
    rows |= {"time": [4, 5, 6], "r": [0.5, 1.5, 2.5]}
    pq.write_table(pa.table(rows), tmp_path / "log.parquet")
    extra = ["time"] if column == "time" else []
    batch = Source(tmp_path / "log.parquet", problem).read(extra)
    assert to_table(batch, problem)[column].to_pylist() == content
    write_log(batch, problem, tmp_path / "again.parquet")
    assert_same(Source(tmp_path / "again.parquet", problem).read(extra), batch)
    bare = replace(batch, extra={})
    write_log(bare, problem, tmp_path / "bare.parquet")
    assert_same(Source(tmp_path / "bare.parquet", problem).read(), bare)


def test_a_decision_id_that_would_be_read_as_other_decisions_is_refused(tmp_path: Path) -> None:
    text = "episode: v\nreward: {column: r}\nlevels: [{name: a, decision: c, context: [c], action: {column: x, values: [0, 1]}}]"
    problem = parse_problem(text)

    def batch(context: list[float], parent: tuple[int, ...] = (0, 0, 1)) -> Batch:
        table = LevelTable(np.array(parent, dtype=np.int32), {"c": np.array(context)}, np.zeros(3, dtype=np.int32), np.ones(3))
        return Batch(np.arange(2), {"a": table}, np.zeros(3))

    assert to_table(batch([1.0, 2.0, 1.0]), problem).num_rows == 3
    for context, words in (
        ([1.0, 1.0, 2.0], "'c': found 1 again"),
        ([2.0, 1.0, 3.0], "context 'c' is 2.0, but a reader would find 1"),
    ):
        with pytest.raises(LogError, match=words):
            to_table(batch(context), problem)
    outer = parse_problem(
        "episode: v\nreward: {column: r}\nlevels: [{name: b, decision: k, action: {column: y, values: [0, 1]}},"
        " {name: a, context: [k], action: {column: x, values: [0, 1]}}]"
    )
    above = LevelTable(np.arange(2, dtype=np.int32), {}, np.zeros(2, dtype=np.int32), np.ones(2))
    inner = replace(batch([0.0]).levels["a"], context={"k": np.array([1.0, 2.0, 1.0])})
    with pytest.raises(LogError, match="of 2 episodes and 2 decisions a reader would find 2 and 3"):
        to_table(Batch(np.arange(2), {"b": above, "a": inner}, np.zeros(3)), outer)
    missing = replace(batch([1.0, 2.0, 1.0]), extra={"k": np.array([None, "a", "b"], dtype=object)})
    extra = parse_problem(text.replace("decision: c", "decision: k"))
    with pytest.raises(LogError, match="column 'k': the decision id of level 'a' is missing"):
        to_table(missing, extra)


def test_a_column_of_two_roles_has_one_content() -> None:
    problem = parse_problem("episode: v\ntime: v\nreward: {column: r}\nlevels: [{name: a, action: {column: x, values: [0, 1]}}]")
    batch = random_batch(PROBLEMS["flat"], stream(3, "roles"), 4)
    levels = {"a": replace(batch.levels["dose"], context={}, action=batch.levels["dose"].action % 2)}
    assert to_table(replace(batch, levels=levels, time=np.arange(4)), problem).column_names == ["v", "x", "r"]
    with pytest.raises(LogError, match="'v' has two roles"):
        to_table(replace(batch, levels=levels, time=np.arange(4) + 1), problem)
