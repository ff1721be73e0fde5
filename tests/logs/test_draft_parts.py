"""The parts of a draft: names, sets of columns, ranges, texts, and what moves with a drawn action."""

from __future__ import annotations

from pathlib import Path
from random import Random

import draft_logs as logs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.logs import Source, draft_problem
from aegis.logs.draft.actions import find_actions
from aegis.logs.draft.column_profile import LogProfile, SampleGroups
from aegis.logs.draft.column_sets import align_values, find_column_sets, widen_column_set
from aegis.logs.draft.effects import CLEAR_EFFECT, LIKELY_EFFECT, ActionDraws, action_draws
from aegis.logs.draft.logging_policy import propensity_misfit
from aegis.logs.draft.reward_column import wide_range
from aegis.logs.draft.vocabulary import EPISODE, id_word_rank, name_words, word_rank
from aegis.logs.draft.yaml_text import comment_text, is_even_grid, yaml_list, yaml_scalar
from aegis.problem import parse_problem, read_yaml

names = st.text(min_size=1, max_size=12).filter(
    lambda text: "\x00" not in text and not any("\ud800" <= c <= "\udfff" for c in text)
)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("p_Setting2", ("p", "setting", "2")),
        ("batchNo", ("batch", "no")),
        ("DOSE mg", ("dose", "mg")),
        ("", ()),
        ("größe", ("grosse",)),
        ("Prüfung OK", ("prufung", "ok")),
        ("Ausschussquote", ("ausschuss", "quote")),
        ("Solldrehzahl", ("soll", "drehzahl")),
        ("вода_2", ("вода", "2")),
    ],
)
def test_words(name: str, found: tuple[str, ...]) -> None:
    assert name_words(name) == found


def test_a_whole_name_counts_before_a_word_in_it_and_only_ids_are_ids() -> None:
    assert word_rank("batch_id", EPISODE) == EPISODE.index("batch")
    assert (word_rank("my_episode", EPISODE) or 0) > (word_rank("experiment", EPISODE) or 0)
    assert id_word_rank("batch_run", EPISODE) is not None
    assert id_word_rank("batch_size", EPISODE) is None


@given(st.one_of(names, st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False)))
@settings(max_examples=200, deadline=None)
def test_a_scalar_reads_back_as_itself(value: str | bool | int | float) -> None:
    for text, inside in ((yaml_scalar(value), lambda x: x), (f"{{a: [{yaml_scalar(value)}, 1]}}", lambda x: x["a"][0])):
        found = inside(read_yaml(text, "test"))
        assert found == value and type(found) is type(value)


@given(st.lists(names, min_size=1, max_size=30))
@settings(max_examples=60, deadline=None)
def test_long_lists_are_broken_and_read_back(values: list[str]) -> None:
    assert read_yaml(f"a: {yaml_list(values, 3, width=40)}", "test") == {"a": values}


@given(names)
@settings(max_examples=100, deadline=None)
def test_remarks_stay_on_their_line(text: str) -> None:
    assert read_yaml(f"a: 1  # {comment_text(text)}\nb: 2", "test") == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("values", "columns", "expected"),
    [
        ((1, 2, 5), ["p_1", "p_2", "p_5"], ["p_1", "p_2", "p_5"]),
        ((0, 5, 10), ["p_dose_0", "p_dose_1", "p_dose_2"], ["p_dose_0", "p_dose_1", "p_dose_2"]),
        ((0.5, 1.5), ["p_0_5", "p_1_5"], ["p_0_5", "p_1_5"]),
        (("day care", "ward"), ["Ward.ok", "Day_care.ok"], ["Day_care.ok", "Ward.ok"]),
        ((False, True), ["p0", "p1"], ["p0", "p1"]),
        ((7, 9), ["x1", "x2"], ["x1", "x2"]),
    ],
)
def test_sets_of_columns(values: tuple[object, ...], columns: list[str], expected: list[str]) -> None:
    assert list(next(find_column_sets(values, columns)).columns) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", [["p_10", "p_20"], ["lowest", "high"], ["p_1", "q_2"]])
def test_parts_of_longer_words_are_no_labels(columns: list[str]) -> None:
    assert list(find_column_sets((1, 2), columns)) == []
    assert list(find_column_sets(("low", "high"), columns)) == []


def test_numbered_columns_do_not_say_which_label_they_are() -> None:
    assert list(find_column_sets(("low", "high"), ["p_0", "p_1"])) == []


def test_actions_that_were_never_taken_are_known_from_the_columns() -> None:
    columns = ["p_1", "p_2.5", "p_4"]
    found = widen_column_set(next(find_column_sets((1, 4), columns)), columns)
    assert found is not None and found.values == (1, 2.5, 4) and list(found.columns) == columns
    words = ["can high", "can low", "can mid"]
    found = widen_column_set(next(find_column_sets(("high", "low"), words)), words)
    assert found is not None and set(found.values) == {"high", "low", "mid"}
    # numbers that only count do not say which values they stand for
    counted = [f"p_{index}" for index in range(5)]
    found = widen_column_set(next(find_column_sets((1, 2), counted)), counted)
    assert found is not None and (found.values, list(found.columns)) == ((), counted)


def peaked(values: np.ndarray, taken: np.ndarray, where: np.ndarray, width: float) -> tuple[LogProfile, np.ndarray]:
    """Return actions drawn near `where` from a grid of values, those in `taken` only, and their chances."""
    rng = np.random.default_rng(1)
    chances = np.exp(-(((values[None, :] - where[:, None]) / width) ** 2))
    chances /= chances.sum(axis=1, keepdims=True)
    drawn = values[(chances.cumsum(axis=1) < rng.random(where.size)[:, None]).sum(axis=1)]
    kept = np.isin(drawn, taken)
    return LogProfile.of(pa.table({"a": drawn[kept]})), chances[kept]


def test_counted_columns_are_assigned_by_what_makes_the_log_likely() -> None:
    values = np.linspace(-2, 2, 7)
    where = np.random.default_rng(0).normal(scale=0.5, size=400)
    sheet, chances = peaked(values, values[2:5], where, 0.7)
    assert sheet.looks["a"].count == 3
    found = align_values(sheet.looks["a"], chances)
    assert found is not None and found == pytest.approx(values)
    shifted, chances = peaked(np.arange(1.0, 6.0), np.arange(2.0, 5.0), 3 + where, 0.7)
    assert align_values(shifted.looks["a"], chances) == (1, 2, 3, 4, 5)


def test_counted_columns_of_even_chances_are_not_assigned() -> None:
    sheet = LogProfile.of(pa.table({"a": np.tile([1.0, 2.0, 3.0], 100)}))
    assert align_values(sheet.looks["a"], np.full((300, 5), 0.2)) is None


@pytest.mark.parametrize(
    ("values", "is_even"), [((-2.0, 0.0, 2.0), True), ((1, 2, 3), False), ((0.0, 1.0, 3.0), False), (("a", "b", "c"), False)]
)
def test_grids(values: tuple[object, ...], is_even: bool) -> None:
    assert is_even_grid(values) == is_even  # type: ignore[arg-type]
    assert is_even_grid(tuple(range(20)))


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=20))
@settings(max_examples=120, deadline=None)
def test_a_suggested_range_holds_everything_seen(numbers: list[float]) -> None:
    low, high = wide_range(np.asarray(numbers))
    assert low < high and np.isfinite([low, high]).all()
    assert low <= min(numbers) and max(numbers) <= high


def test_ranges_are_round_and_respect_zero() -> None:
    assert wide_range(np.array([0.2, 0.9])) == (0, 1)
    assert wide_range(np.array([3.0, 17.0])) == (0, 24)
    assert wide_range(np.array([-17.0, -3.0])) == (-24, 0)


def test_groups() -> None:
    sheet = LogProfile.of(
        pa.table({"e": [1, 1, 2, 2], "s": [0, 1, 0, 1], "x": [5.0, 5.0, 6.0, 6.0], "gap": [1.0, None, float("nan"), 2.0]})
    )
    episodes = SampleGroups.by(sheet.looks["e"].codes)
    assert episodes.constant(sheet.looks["x"]) and not episodes.constant(sheet.looks["s"])
    assert episodes.split_by(sheet.looks["s"]).single
    assert sheet.looks["gap"].missing == 2 and not sheet.looks["gap"].key


def drawn(rows: int, full: bool, seed: int = 0) -> LogProfile:
    """Return decisions whose chances depend on a context, what it was, and what came of them; one row per episode."""
    rng = np.random.default_rng(seed)
    before = rng.normal(size=rows)
    chance = 1 / (1 + np.exp(-2 * before))
    action = (rng.random(rows) < chance).astype(int)
    columns = {
        "id": np.arange(rows),
        "before": before,
        "copy": np.exp(before),
        "action": action,
        "after": before + action + rng.normal(size=rows),
        "kind": np.where(action + rng.normal(size=rows) > 0.5, "yes", "no"),
        "reward": rng.normal(size=rows),
    }
    if full:
        columns |= {"p_0": 1 - chance, "p_1": chance}
    else:
        columns["pscore"] = np.where(action == 1, chance, 1 - chance)
    return LogProfile.of(pa.table(columns))


@pytest.mark.parametrize("full", [True, False])
def test_what_came_before_is_told_from_what_came_after(full: bool) -> None:
    sheet = drawn(2000, full)
    (action,) = find_actions(sheet)
    told = action_draws(action, sheet.every_row, sheet.every_row)
    assert told is not None
    found = {name: told.strength(sheet.looks[name]) for name in ("before", "copy", "after", "kind")}
    assert found["before"] < CLEAR_EFFECT and found["copy"] < CLEAR_EFFECT
    assert found["after"] > CLEAR_EFFECT and found["kind"] > CLEAR_EFFECT


def test_contexts_are_rarely_taken_for_results() -> None:
    largest = []
    for seed in range(30):
        sheet = drawn(200, full=True, seed=seed)
        (action,) = find_actions(sheet)
        told = action_draws(action, sheet.every_row, sheet.every_row)
        assert told is not None
        largest.append(told.strength(sheet.looks["before"]))
    assert max(largest) < CLEAR_EFFECT
    assert np.mean(np.asarray(largest) > LIKELY_EFFECT) <= 0.05


def test_what_might_have_varied_counts_although_it_did_not() -> None:
    # An action with a chance of one in a hundred that never came: its surprises are small and all alike, and prove nothing.
    sheet = LogProfile.of(pa.table({"x": np.arange(100)}))
    rows, place = np.arange(100), np.linspace(-1, 1, 100)[:, None]
    never = ActionDraws(rows, 0.01 * place, np.full((100, 1), 0.01), rows)
    assert never.strength(sheet.looks["x"]) < 1
    assert ActionDraws(rows, 0.01 * place, np.zeros((100, 1)), rows).strength(sheet.looks["x"]) > CLEAR_EFFECT


def test_nothing_is_said_about_few_episodes_or_chances_that_do_not_add_up() -> None:
    few = drawn(20, full=True)
    assert action_draws(find_actions(few)[0], few.every_row, few.every_row) is None
    columns = {"id": np.arange(500), "action": np.arange(500) % 2, "pscore": np.full(500, 0.9), "reward": np.arange(500) % 3}
    wrong = LogProfile.of(pa.table(columns))
    assert action_draws(find_actions(wrong)[0], wrong.every_row, wrong.every_row) is None


def test_a_column_drawn_with_other_chances_does_not_fit() -> None:
    sheet = LogProfile.of(pa.table(logs.bandit_log(3000)))
    assert propensity_misfit(sheet.looks["action"], sheet.looks["pscore"]) < 4
    assert propensity_misfit(sheet.looks["position"], sheet.looks["pscore"]) > 4


@given(st.lists(names, min_size=4, max_size=4, unique=True), st.lists(names, min_size=3, max_size=3, unique=True), st.randoms())
@settings(max_examples=15, deadline=None)
def test_any_names_and_labels_give_a_draft_that_loads_and_reads(columns: list[str], labels: list[str], random: Random) -> None:
    found = logs.nested_log(episodes=40)
    if set(columns) & set(found):
        return
    renamed = dict(zip(("task", "temperature", "purity", "machine"), columns, strict=True))
    found["setting"] = [labels[("low", "mid", "high").index(value)] for value in found["setting"]]
    table = pa.table({renamed.get(name, name): values for name, values in found.items()})
    table = table.select(sorted(table.column_names, key=lambda name: random.random()))
    draft = draft_problem(table)
    assert draft.problem is not None
    assert parse_problem(draft.text) == draft.problem
    assert Source(table, draft.problem).read().reward is not None
    assert not any("does not read" in question for question in draft.questions)


def test_what_cannot_be_read_with_the_draft_is_said(tmp_path: Path) -> None:
    columns = logs.nested_log()
    columns["setting"] = ["low", "mid"] * 60 + ["high"] * 360
    draft = draft_problem(logs.parquet(pa.table(columns), tmp_path), rows=120)
    assert draft.problem is not None
    assert any("does not read with this draft yet" in question and "'high'" in question for question in draft.questions)
    assert "does not read with this draft yet" in draft.text
