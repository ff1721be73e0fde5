"""Everything that can be wrong with a log is refused with file, row and column."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from log_samples import PROBLEMS, TEXTS, columns_of, random_batch, write_csv

from aegis.errors import LogError, SettingError
from aegis.logs import Source
from aegis.problem import Problem, RowOrigins, parse_problem
from aegis.rng import stream

Columns = dict[str, list[Any]]


def flat_log() -> Columns:
    return {
        "visit": [1, 2, 3, 4, 5],
        "age": [0.5, 1.5, 2.5, 3.5, 4.5],
        "dose": [1, 2, 3, 1, 2],
        "p": [0.5, 0.25, 1.0, 0.5, 0.5],
        "score": [1.0, 0.0, 0.5, 1.0, 0.0],
    }


def nested_log() -> Columns:
    return columns_of(PROBLEMS["nested"], random_batch(PROBLEMS["nested"], stream(11, "nested"), 4))


def refused(problem: Problem, log: Columns | pa.Table, tmp_path: Path, csv: bool = False) -> str:
    """Write a log, read it both ways, and return the one message without further rows; the file is called log."""
    table = log if isinstance(log, pa.Table) else pa.table(log)
    path = tmp_path / ("log.csv" if csv else "log.parquet")
    if csv:
        write_csv(table, path)
    else:
        pq.write_table(table, path)
    messages = []
    for read in (lambda: Source(path, problem).read(), lambda: list(Source(path, problem).batches(rows=2))):
        with pytest.raises(LogError) as caught:
            read()
        messages.append(re.sub(r" \(and [0-9,]+ more rows? like it nearby\)", "", str(caught.value)))
    assert messages[0] == messages[1]
    assert messages[0].startswith(str(path))
    return messages[0].removeprefix(str(path))


def spoil(log: Columns, column: str, row: int, value: Any) -> Columns:
    """Return the log with another value in a row counted from 1."""
    return {**log, column: [value if index == row - 1 else kept for index, kept in enumerate(log[column])]}


@pytest.mark.parametrize("csv", [False, True])
@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("p", 0.0, ["found 0", "above 0 and at most 1"]),
        ("p", -0.7, ["-0.7", "log-probability"]),
        ("p", 25.0, ["25", "density (of a continuous action", "percentage"]),
        ("p", 1.0000001, ["above 1"]),
        ("p", float("inf"), ["inf", "propensity"]),
        ("p", None, ["missing (null)", "cannot be guessed"]),
        ("dose", 7, ["found", "7", "not a known action of level 'dose'", "allowed: 1, 2, 3", "the nearest is 3"]),
        ("dose", None, ["action of level 'dose' is missing"]),
        ("age", None, ["context of level 'dose' is missing"]),
        ("age", float("-inf"), ["-inf", "finite"]),
        ("score", float("inf"), ["inf as reward", "leave the field empty"]),
        ("visit", None, ["episode id is missing"]),
    ],
)
def test_one_wrong_entry_is_named(csv: bool, column: str, value: Any, words: list[str], tmp_path: Path) -> None:
    said = refused(PROBLEMS["flat"], spoil(flat_log(), column, 4, value), tmp_path, csv)
    assert said.startswith(f", row 4, column '{column}': ")
    for word in words:
        assert word in said


@pytest.mark.parametrize(
    ("column", "in_parquet", "in_text"),
    [
        ("p", "found nan as propensity", "propensity of level 'dose' is missing"),
        ("age", "found nan as context", "context of level 'dose' is missing"),
        ("score", "found nan as reward", ""),
    ],
)
def test_not_a_number_is_a_wrong_number_but_a_missing_text(column: str, in_parquet: str, in_text: str, tmp_path: Path) -> None:
    log = spoil(flat_log(), column, 4, float("nan"))
    said = refused(PROBLEMS["flat"], log, tmp_path)
    assert said.startswith(f", row 4, column '{column}': {in_parquet}")
    if in_text:
        said = refused(PROBLEMS["flat"], log, tmp_path, csv=True)
        assert said.startswith(f", row 4, column '{column}': ") and in_text in said
        return
    for word in ("nan", "NaN", "NA", "NULL", "None", ""):
        text = pa.table({**log, "score": [word if index == 3 else str(value) for index, value in enumerate(log["score"])]})
        observed = Source(write_csv(text, tmp_path / "log.csv"), PROBLEMS["flat"]).read().observed
        assert observed is not None and observed.tolist() == [True, True, True, False, True]


@pytest.mark.parametrize("csv", [False, True])
@pytest.mark.parametrize("column", ["age", "p", "score", "dose"])
def test_text_in_place_of_a_number_is_named(csv: bool, column: str, tmp_path: Path) -> None:
    log = {name: [str(value) for value in values] if name == column else values for name, values in flat_log().items()}
    said = refused(PROBLEMS["flat"], spoil(spoil(log, column, 3, "a lot"), column, 5, "more"), tmp_path, csv)
    assert said.startswith(f", row 3, column '{column}': found 'a lot'")


def test_numbers_written_as_text_are_numbers(tmp_path: Path) -> None:
    log = {name: [str(value) for value in values] if name != "visit" else values for name, values in flat_log().items()}
    pq.write_table(pa.table(log), tmp_path / "log.parquet")
    batch = Source(tmp_path / "log.parquet", PROBLEMS["flat"]).read()
    assert batch.levels["dose"].action.tolist() == [0, 1, 2, 0, 1]
    assert batch.reward is not None and batch.reward.tolist() == flat_log()["score"]


def test_dates_are_not_numbers_and_broken_numbers_are_not_ids(tmp_path: Path) -> None:
    date = pa.array([0, 1, 2, 3, 4], pa.timestamp("us"))
    said = refused(PROBLEMS["flat"], pa.table({**flat_log(), "age": date}), tmp_path)
    assert said.startswith(", row 1, column 'age': ") and "number is needed" in said
    said = refused(PROBLEMS["flat"], {**flat_log(), "visit": [1.0, 2.0, 2.5, 3.0, 4.0]}, tmp_path)
    assert said.startswith(", row 3, column 'visit': found 2.5") and "whole numbers" in said
    said = refused(PROBLEMS["flat"], {**flat_log(), "visit": [[1]] * 5}, tmp_path)
    assert "column 'visit'" in said and "list" in said


def test_a_propensity_above_one_by_round_off_is_kept_as_it_stands(tmp_path: Path) -> None:
    above = float(np.nextafter(1.0, 2.0))
    pq.write_table(pa.table(spoil(flat_log(), "p", 3, above)), tmp_path / "log.parquet")
    assert Source(tmp_path / "log.parquet", PROBLEMS["flat"]).read().levels["dose"].mu_taken[2] == above


@pytest.mark.parametrize("csv", [False, True])
def test_a_time_that_is_not_finite_is_named(csv: bool, tmp_path: Path) -> None:
    problem = parse_problem("episode: v\ntime: t\nreward: {column: r}\nlevels: [{name: a, action: {column: x, values: [0, 1]}}]")
    said = refused(problem, {"v": [1, 2, 3], "t": [0.5, float("nan"), 1.5], "x": [0, 1, 0], "r": [1.0, 1.0, 1.0]}, tmp_path, csv)
    assert said.startswith(f", row 2, column 't': {'the time is missing' if csv else 'found nan as time'}")


@pytest.mark.parametrize("offset", [1e-10, -1e-10])
def test_round_off_within_a_billionth_of_the_span_is_accepted(offset: float, tmp_path: Path) -> None:
    log = {**flat_log(), "dose": [value + offset for value in flat_log()["dose"]]}
    pq.write_table(pa.table(log), tmp_path / "log.parquet")
    assert Source(tmp_path / "log.parquet", PROBLEMS["flat"]).read().levels["dose"].action.tolist() == [0, 1, 2, 0, 1]
    assert "column 'dose'" in refused(PROBLEMS["flat"], spoil(log, "dose", 2, 2 + 1e-7), tmp_path)


def test_unknown_labels_offer_the_nearest(tmp_path: Path) -> None:
    problem, log = PROBLEMS["nested"], nested_log()
    said = refused(problem, spoil(log, "setting", 1, "hihg"), tmp_path)
    assert said.startswith(", row 1, column 'setting': found 'hihg'")
    assert "allowed: low, mid, high" in said and "did you mean 'high'" in said
    said = refused(problem, spoil(log, "shape", 2, "rund"), tmp_path, csv=True)
    assert said.startswith(", row 2, column 'shape': found 'rund'") and "did you mean 'round'" in said


def _two_rows_of_one_run(log: Columns) -> tuple[int, int]:
    """Return two rows, from 1, that belong to the same outer decision."""
    seen: dict[tuple[Any, Any], int] = {}
    for row, pair in enumerate(zip(log["batch"], log["run"], strict=True), start=1):
        if pair in seen:
            return seen[pair], row
        seen[pair] = row
    raise ValueError("the sample has no decision with two rows")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("task", 123.0),
        ("shape", None),
        ("setting", None),
        ("can_mid", None),
        ("p_low", 0.123),
        ("machine", "m9"),
    ],
)
def test_rows_of_one_decision_must_agree(column: str, value: Any, tmp_path: Path) -> None:
    log = nested_log()
    first, second = _two_rows_of_one_run(log)
    other = {
        "shape": {"round": "square", "square": "NA", "NA": "round"},
        "setting": {"low": "mid", "mid": "high", "high": "low"},
        "can_mid": {True: False, False: True},
    }
    before = log[column][second - 1]
    if value is None:
        value = other[column][before]
    said = refused(PROBLEMS["nested"], spoil(log, column, second, value), tmp_path)
    assert said.startswith(f", row {second}, column '{column}': found {value!r}, but {before!r} at ")
    assert f"row {first}, in the same " in said


def test_a_level_without_decision_ids_has_one_decision_per_parent(tmp_path: Path) -> None:
    log = {"visit": [1, 1], "plan": ["a", "b"], "dose": [1, 1], "p": [0.5, 0.5], "score": [0.0, 1.0]}
    said = refused(PROBLEMS["loose"], log, tmp_path)
    assert said.startswith(", row 2, column 'plan': ") and "'decision' id" in said


def test_a_decision_id_comes_once_below_its_parent(tmp_path: Path) -> None:
    log = nested_log()
    first, second = _two_rows_of_one_run(log)
    said = refused(PROBLEMS["nested"], spoil(log, "step", second, log["step"][first - 1]), tmp_path)
    assert said.startswith(f", row {second}, column 'step': found {log['step'][first - 1]} again, after ")
    assert f"row {first}, below the same parent" in said


@pytest.mark.parametrize(("one", "other"), [(0, 5), (5, 0)])
def test_the_first_of_several_repeated_decisions_is_named(one: int, other: int, tmp_path: Path) -> None:
    log = nested_log()
    pq.write_table(pa.table({name: [*values, values[one], values[other]] for name, values in log.items()}), tmp_path / "log.pq")
    with pytest.raises(LogError) as caught:
        Source(tmp_path / "log.pq", PROBLEMS["nested"]).read()
    first = f"log.pq, row {len(log['step']) + 1}, column 'step': found {log['step'][one]} again, after "
    assert first in str(caught.value) and f"row {one + 1}, below" in str(caught.value)


def test_the_first_of_several_wrong_entries_is_named(tmp_path: Path) -> None:
    for column, wrong in (("p", 1.5), ("age", float("inf")), ("dose", 9)):
        said = refused(PROBLEMS["flat"], spoil(spoil(flat_log(), column, 4, wrong), column, 2, wrong), tmp_path)
        assert said.startswith(f", row 2, column '{column}'")


def test_the_first_file_comes_before_the_first_row() -> None:
    places = RowOrigins(("a", "b"), np.array([1, 0, 0], dtype=np.int32), np.array([1, 9, 8]))
    assert places.earliest(np.array([0, 1, 2])) == 2
    assert places.at(2) == "a, row 8"


def test_a_row_exported_twice_is_found_by_a_decision_id_and_only_by_one(tmp_path: Path) -> None:
    """docs/problem.md: two rows that are alike may be two decisions; an id, the episode's own if it has one decision, tells."""
    twice = pa.concat_tables([pa.table(flat_log()), pa.table(flat_log()).slice(1, 1)])
    path = tmp_path / "log.parquet"
    pq.write_table(twice, path)
    assert Source(path, PROBLEMS["flat"]).read().levels["dose"].parent.tolist() == [0, 1, 1, 2, 3, 4]
    with_id = parse_problem(TEXTS["flat"].replace("- name: dose", "- name: dose\n    decision: visit"))
    message = refused(with_id, twice, tmp_path)
    assert message.startswith(", row 6, column 'visit': found 2 again") and "remove the repeated row" in message


def test_a_reward_of_an_episode_is_one_number(tmp_path: Path) -> None:
    text = "episode: v\nreward: {column: r, per: episode}\nlevels: [{name: a, action: {column: x, values: [0, 1]}}]"
    problem = parse_problem(text)
    said = refused(problem, {"v": [1, 2, 1], "x": [0, 0, 0], "r": [1.0, 1.0, None]}, tmp_path)
    assert said.startswith(", row 3, column 'r': found None, but 1.0 at ") and "row 1" in said
    assert said.endswith("(reward 'per: episode' says so): copy the value into all rows of the episode")
    pq.write_table(pa.table({"v": [1, 2, 1], "x": [0, 0, 0], "r": [None, 1.0, None]}), tmp_path / "log.parquet")
    assert len(Source(tmp_path / "log.parquet", problem).read()) == 2


def small(propensity: str, available: bool = False) -> Problem:
    mask = "available: [m0, m1, m2], " if available else ""
    level = f"{{name: a, action: {{column: x, values: [0, 1, 2]}}, {mask}propensity: {propensity}}}"
    return parse_problem(f"episode: v\nreward: {{column: r}}\nlevels: [{level}]")


def small_log(**further: list[Any]) -> Columns:
    return {"v": [1, 2, 3], "x": [0, 1, 2], "r": [0.0, 1.0, 0.5], **further}


def test_whole_distributions_are_checked(tmp_path: Path) -> None:
    problem = small("{columns: [q0, q1, q2]}", available=True)
    good = small_log(
        q0=[0.2, 0.5, 0.0], q1=[0.8, 0.5, 0.5], q2=[0.0, 0.0, 0.5],
        m0=[True, True, False], m1=[True, True, True], m2=[False, True, True],
    )  # fmt: skip
    pq.write_table(pa.table(good), tmp_path / "log.parquet")
    table = Source(tmp_path / "log.parquet", problem).read().levels["a"]
    np.testing.assert_array_equal(table.mu_taken, [0.2, 0.5, 0.5])
    assert table.mu_full is not None and table.mu_full.shape == (3, 3)
    said = refused(problem, spoil(good, "q1", 1, 0.80001), tmp_path)
    assert said.startswith(", row 1, column 'q0': ") and "sum to 1.00001" in said
    said = refused(problem, spoil(spoil(good, "q2", 1, 0.1), "q1", 1, 0.7), tmp_path)
    assert said.startswith(", row 1, column 'q2': found 0.1 for an action that is not available")
    said = refused(problem, spoil(spoil(good, "q1", 2, 0.0), "q0", 2, 1.0), tmp_path)
    assert said.startswith(", row 2, column 'q1': found 0: ")
    said = refused(problem, spoil(spoil(good, "q0", 2, -0.5), "q2", 2, 1.0), tmp_path)
    assert said.startswith(", row 2, column 'q0': found -0.5, below 0")
    said = refused(problem, spoil(good, "m2", 3, False), tmp_path)
    assert said.startswith(", row 3, column 'x': ") and "'m2' is false" in said
    said = refused(problem, spoil(good, "m1", 2, None), tmp_path)
    assert said.startswith(", row 2, column 'm1': the action mask of level 'a' is missing")
    said = refused(problem, {**good, "m1": [1, 2, 1]}, tmp_path)
    assert said.startswith(", row 2, column 'm1': found 2") and "true or false" in said


def test_sums_are_checked_to_a_millionth(tmp_path: Path) -> None:
    problem = small("{columns: [q0, q1, q2]}")
    log = small_log(q0=[0.2, 0.5, 0.0], q1=[0.8, 0.5, 0.5], q2=[0.0, 0.0, 0.5])
    pq.write_table(pa.table(spoil(log, "q1", 1, 0.8 + 5e-7)), tmp_path / "log.parquet")
    Source(tmp_path / "log.parquet", problem).read()
    assert "row 1" in refused(problem, spoil(log, "q1", 1, 0.8 + 2e-6), tmp_path)


def test_a_uniform_policy_is_uniform_over_what_is_available(tmp_path: Path) -> None:
    masks = {"m0": ["true", "1", "0"], "m1": ["FALSE", "1", "True"], "m2": ["true", "1", "1"]}
    pq.write_table(pa.table(small_log(**masks)), tmp_path / "log.parquet")
    table = Source(tmp_path / "log.parquet", small("{policy: uniform}", available=True)).read().levels["a"]
    np.testing.assert_allclose(table.mu_full, [[0.5, 0, 0.5], [1 / 3, 1 / 3, 1 / 3], [0, 0.5, 0.5]])
    np.testing.assert_allclose(table.mu_taken, [0.5, 1 / 3, 0.5])


def test_a_base_action_with_exploration_gives_the_whole_distribution(tmp_path: Path) -> None:
    problem = small("{base: b, epsilon: 0.3}", available=True)
    log = small_log(b=[2, 1, 1], m0=[1, 1, 0], m1=[0, 1, 1], m2=[1, 1, 1])
    pq.write_table(pa.table(log), tmp_path / "log.parquet")
    table = Source(tmp_path / "log.parquet", problem).read().levels["a"]
    np.testing.assert_allclose(table.mu_full, [[0.15, 0, 0.85], [0.1, 0.8, 0.1], [0, 0.85, 0.15]])
    np.testing.assert_allclose(table.mu_taken, [0.15, 0.8, 0.15])
    said = refused(problem, spoil(log, "b", 1, 1), tmp_path)
    assert said.startswith(", row 1, column 'b': the base action 1 is not available")


def test_policies_not_known_by_name_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table(small_log()), tmp_path / "log.parquet")
    with pytest.raises(LogError, match=r"'unifrom' are not known .did you mean 'uniform'.*'column'"):
        Source(tmp_path / "log.parquet", small("{policy: unifrom}")).read()


def test_missing_columns_are_listed_with_what_may_have_been_meant(tmp_path: Path) -> None:
    log = flat_log()
    log = {"visit": log["visit"], "agee": log["age"], "dose": log["dose"], "pscore": log["p"], "other": log["score"]}
    said = refused(PROBLEMS["flat"], log, tmp_path)
    assert "3 columns are missing" in said
    assert "'age' (context of level 'dose') (did you mean 'agee'?)" in said
    assert "'p' (propensity of level 'dose'), perhaps 'pscore', as other tools call it" in said
    assert "'score' (reward)" in said and "The file has: visit, agee, dose, pscore, other" in said


@pytest.mark.parametrize("name", ["pscore", "action_prob", "probability", "propensity", "prob"])
def test_names_of_other_tools_are_offered(name: str, tmp_path: Path) -> None:
    log = flat_log()
    said = refused(PROBLEMS["flat"], {**{key: log[key] for key in log if key != "p"}, name: log["p"]}, tmp_path)
    assert f"perhaps '{name}'" in said


def test_a_missing_extra_column_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table(flat_log()), tmp_path / "log.parquet")
    with pytest.raises(LogError, match=r"log\.parquet: a column is missing: 'scoer' \(extra column\)"):
        Source(tmp_path / "log.parquet", PROBLEMS["flat"]).batches(["scoer"])


@pytest.mark.parametrize(
    ("name", "write", "words"),
    [
        ("gone.parquet", lambda path: None, "does not exist"),
        ("folder.parquet", lambda path: path.mkdir(), "no file in this folder ends in"),
        ("log.xlsx", lambda path: path.write_text("x"), r"ends in .parquet, .pq, .csv, .*; found '.xlsx'"),
        ("log.parquet", lambda path: path.write_text("not parquet at all"), "cannot be read as Parquet"),
        ("log.parquet", lambda path: path.write_bytes(b""), "cannot be read as Parquet"),
        ("log.csv", lambda path: path.write_text(""), "header"),
        ("log.csv", lambda path: path.write_text("visit,age,dose,p,score\n"), "no rows"),
        ("log.csv", lambda path: path.write_text("visit,age,dose,p,score\n1,2,3,1,0\n1,2\n"), "Row #3"),
        ("log.csv", lambda path: path.write_bytes(b"visit,\xe9,dose,p,score\n1,2,3,1,0\n"), "missing: 'age'.*not UTF-8"),
        ("log.csv", lambda path: path.write_text("visit,age,dose,p,score,p\n1,2,3,1,0,1\n"), "'p' is there twice"),
        ("log.csv", lambda path: path.write_text("visit age dose p score\n1 2 3 1 0\n"), "one column, 'visit age dose p score'"),
    ],
)
def test_files_that_are_no_log_are_refused(name: str, write: Callable[[Path], None], words: str, tmp_path: Path) -> None:
    path = tmp_path / name
    write(path)
    with pytest.raises(LogError, match=words) as caught:
        Source(path, PROBLEMS["flat"]).read()
    assert str(path) in str(caught.value)


def test_an_empty_parquet_file_has_no_rows(tmp_path: Path) -> None:
    assert "no rows" in refused(PROBLEMS["flat"], pa.table(flat_log()).slice(0, 0), tmp_path)


def test_no_file_at_all_and_no_rows_at_a_time(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="name at least one file"):
        Source([], PROBLEMS["flat"]).read()
    with pytest.raises(SettingError, match="found 0"):
        Source("log.csv", PROBLEMS["flat"]).batches(rows=0)


def test_truncated_and_damaged_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    many = {name: values * 400 for name, values in flat_log().items()} | {"visit": list(range(2000))}
    pq.write_table(pa.table(many), path, write_page_checksum=True, compression="zstd")
    whole = path.read_bytes()
    for end in (len(whole) // 2, len(whole) - 4):
        path.write_bytes(whole[:end])
        with pytest.raises(LogError, match="cannot be read as Parquet"):
            Source(path, PROBLEMS["flat"]).read()
    # Without compression nothing but the checksum of a page gives a changed digit away.
    pq.write_table(pa.table(many), path, write_page_checksum=True, compression="none", use_dictionary=False)
    whole = path.read_bytes()
    place = whole.index(np.array([1.5, 2.5]).tobytes())
    path.write_bytes(whole[:place] + np.array([1.25]).tobytes() + whole[place + 8 :])
    with pytest.raises(LogError, match="cannot be read as Parquet"):
        Source(path, PROBLEMS["flat"]).read()


def test_after_which_row_a_file_is_damaged_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aegis.logs.source.BLOCK_ROWS", 100)
    path = tmp_path / "log.parquet"
    many = {name: values * 400 for name, values in flat_log().items()} | {"visit": list(range(2000))}
    options = {"compression": "none", "use_dictionary": False, "row_group_size": 500}
    pq.write_table(pa.table(many), path, write_page_checksum=True, **options)
    whole = path.read_bytes()
    place = whole.index(np.arange(1600, 1610).tobytes())  # ids in the last row group
    path.write_bytes(whole[:place] + b"damaged" + whole[place + 7 :])
    with pytest.raises(LogError, match=r"cannot be read as Parquet after row 1500 \(truncated, damaged or something else\?\)"):
        Source(path, PROBLEMS["flat"]).read()


def test_rows_are_right_in_the_second_file_and_after_spilling(tmp_path: Path) -> None:
    log = flat_log()
    pq.write_table(pa.table(log), tmp_path / "a.parquet")
    scattered = {**{key: value * 3 for key, value in log.items()}, "visit": [7, 8, 9, 7, 8, 9, 7, 8, 9, 1, 2, 3, 4, 5, 7]}
    write_csv(pa.table(spoil(scattered, "p", 14, 1.5)), tmp_path / "b.csv")
    source = Source([tmp_path / "a.parquet", tmp_path / "b.csv"], PROBLEMS["flat"])
    for read in (lambda: source.read(), lambda: list(source.batches(rows=2))):
        with pytest.raises(LogError) as caught:
            read()
        assert str(caught.value).startswith(f"{tmp_path / 'b.csv'}, row 14, column 'p': found 1.5")


def test_files_with_types_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    log = flat_log()
    pq.write_table(pa.table(log), tmp_path / "a.parquet")
    pq.write_table(pa.table({**log, "visit": pa.array([0, 1, 2, 3, 4], pa.date32())}), tmp_path / "b.parquet")
    with pytest.raises(LogError, match=r"b\.parquet, column 'visit': the episode id has the type date32.*int64"):
        Source([tmp_path / "a.parquet", tmp_path / "b.parquet"], PROBLEMS["flat"]).read()
