"""Drafted problems: a sensible one for logs of every shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import draft_logs as logs
import numpy as np
import pyarrow as pa
import pytest

from aegis.errors import LogError, SettingError
from aegis.logs import Draft, Source, draft_problem
from aegis.problem import Problem


def drafted(columns: dict[str, Any], folder: Path) -> tuple[Problem, Draft]:
    path = logs.parquet(pa.table(columns), folder)
    draft = draft_problem(path)
    return logs.checked(draft, path), draft


def test_several_files(tmp_path: Path) -> None:
    table, truth = logs.world_log("additive")
    half = table.num_rows // 2
    paths = [logs.parquet(table.slice(0, half), tmp_path, "a.parquet"), logs.parquet(table.slice(half), tmp_path, "b.parquet")]
    draft = draft_problem(paths)
    assert draft.problem is not None
    assert logs.essence(draft.problem) == logs.essence(truth)
    assert Source(paths, draft.problem).read().reward is not None


def test_a_nested_log_with_taken_probabilities(tmp_path: Path) -> None:
    problem, draft = drafted(logs.nested_log(), tmp_path)
    assert problem.episode == ("batch",)
    assert (problem.cluster, problem.time) == ("machine", "started_at")
    assert problem.names == ("recipe", "dose")
    recipe, dose = problem.levels
    assert recipe.decision == "recipe_run"
    assert [v.name for v in recipe.context] == ["task"]
    assert [v.name for v in dose.context] == ["temperature"]
    assert recipe.propensity is not None and recipe.propensity.column == "p_setting"
    assert dose.propensity is not None and dose.propensity.column == "dose_prob"
    assert (dose.actions.kind, dose.actions.count) == ("grid", 5)
    assert problem.outcome is not None and problem.outcome.name == "purity"
    assert (problem.reward.column, problem.reward.per) == ("margin", "decision")
    assert any("machine" in question for question in draft.questions)


def test_what_the_innermost_action_moves_is_no_context_whatever_it_is_called(tmp_path: Path) -> None:
    columns = logs.nested_log()
    columns["inflow"] = columns.pop("purity")
    order = ["inflow", *[name for name in columns if name != "inflow"]]
    problem, draft = drafted({name: columns[name] for name in order}, tmp_path)
    assert problem.outcome is not None and problem.outcome.name == "inflow"
    assert any("'inflow' is the outcome" in note for note in draft.notes)


def test_an_outer_action_moves_an_inner_context_inwards(tmp_path: Path) -> None:
    # One dose per recipe: only the drawn settings tell that the temperature comes after them.
    columns = logs.nested_log(episodes=400, runs=1, steps=1)
    del columns["recipe_run"]
    problem, _ = drafted(columns, tmp_path)
    assert [[v.name for v in level.context] for level in problem.levels] == [["task"], ["temperature"]]
    assert [level.actions.column for level in problem.levels] == ["setting", "dose"]


def test_a_reward_of_the_episode(tmp_path: Path) -> None:
    columns = logs.nested_log()
    columns["margin"] = np.repeat(np.random.default_rng(0).normal(size=80), 6)
    problem, _ = drafted(columns, tmp_path)
    assert problem.reward.per == "episode"


def test_a_reward_of_an_outer_decision(tmp_path: Path) -> None:
    columns = logs.nested_log()
    columns["margin"] = np.repeat(np.random.default_rng(0).normal(size=160), 3)
    problem, _ = drafted(columns, tmp_path)
    assert problem.reward.per == "recipe"


def test_a_reward_in_one_row_of_each_episode_is_asked_about(tmp_path: Path) -> None:
    columns = logs.nested_log()
    columns["margin"] = pa.array(columns["margin"], mask=np.arange(480) % 6 > 0)
    problem, draft = drafted(columns, tmp_path)
    assert problem.reward.per == "decision"
    assert any("once in each episode" in question for question in draft.questions)


def test_costs_are_minimised(tmp_path: Path) -> None:
    columns = logs.nested_log()
    columns["cost"] = columns.pop("margin")
    assert drafted(columns, tmp_path)[0].reward.goal == "minimise"


@pytest.mark.parametrize("id_name", ["", "index", "round_id"])
def test_a_bandit_log_with_an_index(id_name: str, tmp_path: Path) -> None:
    path = logs.csv(pa.table({id_name: np.arange(600), **logs.bandit_log()}), tmp_path)
    problem = logs.checked(draft_problem(path), path)
    assert problem.episode == (id_name,)
    (level,) = problem.levels
    assert (level.actions.column, level.actions.values) == ("action", (0, 1, 2, 3))
    assert level.propensity is not None and level.propensity.column == "pscore"
    assert [(v.name, v.kind) for v in level.context] == [("position", "real"), ("x", "vector")]
    assert problem.reward.range == (0, 1)


def test_in_a_bandit_log_without_any_id_each_row_is_an_episode(tmp_path: Path) -> None:
    columns = logs.bandit_log()
    path = logs.csv(pa.table(columns), tmp_path)
    draft = draft_problem(path)
    problem = logs.checked(draft, path)
    assert problem.episode == ("row",)
    assert "each row is taken for one ('episode: row'). Is it?" in draft.questions[0]
    assert len(Source(path, problem).read()) == len(columns["action"])


def test_the_action_is_found_by_what_its_probabilities_say(tmp_path: Path) -> None:
    columns = logs.bandit_log()
    columns = {"id": np.arange(600), "shown": columns.pop("action"), **columns}
    problem, draft = drafted(columns, tmp_path)
    assert problem.innermost.actions.column == "shown"
    assert any("'shown'" in question and "'pscore'" in question for question in draft.questions)


def test_without_probabilities_nothing_can_be_certified_and_the_draft_says_so(tmp_path: Path) -> None:
    columns = {name: values for name, values in logs.nested_log().items() if name not in ("p_setting", "dose_prob")}
    problem, draft = drafted(columns, tmp_path)
    assert [level.propensity for level in problem.levels] == [None, None]
    assert [level.actions.column for level in problem.levels] == ["setting", "dose"]
    assert draft.text.count("Nothing can be certified at this level") == 2
    assert sum("Nothing can be certified there" in question for question in draft.questions) == 2


def test_percentages_are_not_probabilities(tmp_path: Path) -> None:
    columns = logs.nested_log()
    columns["dose_prob"] = columns["dose_prob"] * 100
    problem, draft = drafted(columns, tmp_path)
    assert problem.innermost.propensity is None
    assert any("'dose_prob' a probability?" in question for question in draft.questions)


def test_probabilities_of_unknown_values_are_not_used(tmp_path: Path) -> None:
    columns = {name: values for name, values in logs.nested_log().items() if name != "dose_prob"}
    columns["dose"] = np.minimum(columns["dose"], 1.0)
    problem, draft = drafted({**columns, **{f"p_dose_{index}": np.full(480, 0.2) for index in range(5)}}, tmp_path)
    assert problem.innermost.propensity is None
    assert any("Which 5 values do 'p_dose_0' to 'p_dose_4' stand for?" in question for question in draft.questions)


def test_a_copy_of_the_reward_is_no_context(tmp_path: Path) -> None:
    columns = {name: values for name, values in logs.nested_log().items() if name not in ("p_setting", "dose_prob")}
    problem, draft = drafted({"euros": np.asarray(columns["margin"]) * 3, **columns}, tmp_path)
    assert "euros" not in {v.name for level in problem.levels for v in level.context}
    assert "it can only be known with it" in draft.text.replace("\n# ", " ") + " ".join(draft.notes)


def test_a_base_action_is_suggested_where_probabilities_are_missing(tmp_path: Path) -> None:
    columns = logs.nested_log()
    del columns["dose_prob"]
    columns["planned_dose"] = np.repeat([0.5, 1.0], 240)
    _, draft = drafted(columns, tmp_path)
    assert "base: planned_dose" not in draft.text  # it is not what was mostly done
    columns["planned_dose"] = np.where(np.arange(480) % 10 < 8, columns["dose"], np.roll(columns["dose"], 1))
    problem, draft = drafted(columns, tmp_path)
    assert "# propensity: {base: planned_dose, epsilon: FILL}" in draft.text
    own = problem.innermost.incumbent
    assert own is not None and own.base == "planned_dose" and problem.innermost.propensity is None


def test_a_number_that_starts_again_for_each_person_needs_the_person(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns = {
        "patient": np.repeat(np.arange(40), 6),
        "visit": np.tile(np.repeat([1, 2, 3], 2), 40),
        "action": rng.integers(0, 2, 240),
        "pscore": np.full(240, 0.5),
        "age": np.repeat(rng.normal(size=40), 6),
        "reward": rng.random(240),
    }
    problem, draft = drafted(columns, tmp_path)
    assert problem.episode == ("patient", "visit")
    assert problem.cluster == "patient"
    assert any("each pair" in question for question in draft.questions)


def test_a_person_without_visits_is_the_episode(tmp_path: Path) -> None:
    columns = logs.bandit_log()
    problem, _ = drafted({"user_id": np.repeat(np.arange(60), 10), **columns}, tmp_path)
    assert (problem.episode, problem.cluster) == (("user_id",), None)


def test_columns_that_cannot_be_contexts_are_listed_with_the_reason(tmp_path: Path) -> None:
    columns = logs.nested_log()
    columns["operator_note"] = [f"note {number}" for number in range(480)]
    columns["version"] = ["v1"] * 480
    columns["pressure"] = pa.array(columns["task"], mask=np.arange(480) % 5 == 0)
    columns["seen_at"] = np.datetime64("2024-01-01", "s") + np.arange(480)
    columns["target_prob"] = np.full(480, 0.3) + 0.1 * (np.arange(480) % 2)
    problem, draft = drafted(columns, tmp_path)
    used = {v.name for level in problem.levels for v in level.context}
    assert used == {"task", "temperature"}
    for column, why in (
        ("operator_note", "an id"),
        ("version", "the same in every row"),
        ("pressure", "missing in 96 of 480"),
        ("seen_at", "a date"),
        ("target_prob", "of another policy"),
    ):
        assert f"# - {column}: " in draft.text
        assert why in draft.text.split(f"# - {column}: ")[1].split("# - ")[0].replace("\n# ", " ")


def test_further_results_are_suggested_as_guards(tmp_path: Path) -> None:
    columns = logs.nested_log()
    columns["scrap"] = columns["dose"] / 4 + 0.1 * np.random.default_rng(0).random(480)
    problem, draft = drafted(columns, tmp_path)
    assert not problem.guards
    assert "#   - {column: scrap, range: [0, 1], max_worsening: 0.01, goal: minimise}" in draft.text


def test_two_actions_per_row_without_ids_leave_one_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns = {
        "block": np.repeat(np.arange(6), 12),
        "treatment": np.tile(np.repeat(["a", "b", "c"], 4), 6),
        "dose": np.tile([0, 1, 2, 3], 18),
        "yield": rng.random(72),
    }
    problem, draft = drafted(columns, tmp_path)
    assert problem.episode == ("block",)
    assert [level.actions.column for level in problem.levels] == ["dose"]
    assert any("'treatment' changes as often" in question for question in draft.questions)


def test_one_row(tmp_path: Path) -> None:
    columns = {"episode": ["e"], "dose": ["low"], "p_low": [0.25], "p_high": [0.75], "reward": [2.0]}
    problem, _ = drafted(columns, tmp_path)
    assert problem.innermost.actions.values == ("low", "high")
    assert problem.reward.range is not None


def test_one_value_is_no_choice(tmp_path: Path) -> None:
    path = logs.parquet(pa.table({"episode": [1, 2], "action": ["a", "a"], "reward": [0.0, 1.0]}), tmp_path)
    draft = draft_problem(path)
    assert draft.problem is None
    assert "No action was found" in draft.text
    assert any("Which column is the action" in question for question in draft.questions)


def test_no_reward(tmp_path: Path) -> None:
    path = logs.parquet(pa.table({"episode": [1, 2], "action": ["a", "b"], "pscore": [0.5, 0.5]}), tmp_path)
    draft = draft_problem(path)
    assert draft.problem is None
    assert any("Which column is the reward" in question for question in draft.questions)


def test_only_the_first_rows_are_looked_at(tmp_path: Path) -> None:
    table, _ = logs.world_log("additive")
    path = logs.parquet(table, tmp_path)
    draft = draft_problem(path, rows=500)
    assert draft.problem is not None
    assert any("first 500 rows" in note for note in draft.notes)
    assert "its first 500 rows" in draft.text


def test_an_empty_log_is_refused(tmp_path: Path) -> None:
    path = logs.parquet(pa.table({"episode": pa.array([], pa.int64())}), tmp_path)
    with pytest.raises(LogError, match="no rows"):
        draft_problem(path)
    with pytest.raises(LogError):
        draft_problem([])
    with pytest.raises(SettingError, match="'rows'"):
        draft_problem(path, rows=0)


def test_a_column_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("episode,action,action\n1,a,b\n")
    with pytest.raises(LogError, match="twice"):
        draft_problem(path)


def test_an_action_whose_probability_changes_was_decided_again(tmp_path: Path) -> None:
    columns = logs.nested_log()
    columns["p_setting"] = 0.2 + 0.1 * (np.arange(480) % 2)
    problem, draft = drafted(columns, tmp_path)
    assert [level.actions.column for level in problem.levels] == ["dose"]
    assert any("'setting' changes as often" in question for question in draft.questions)


@pytest.mark.parametrize("allowed", [True, False])
def test_a_mask_must_allow_what_was_done(allowed: bool, tmp_path: Path) -> None:
    columns = logs.nested_log()
    for label in ("low", "mid", "high"):
        mask = np.repeat(np.random.default_rng(len(label)).random(160) < 0.7, 3)
        columns[f"can_{label}"] = mask | (columns["setting"] == label) if allowed else mask
    problem, draft = drafted(columns, tmp_path)
    assert problem.outermost.available == (("can_low", "can_mid", "can_high") if allowed else ())
    assert any("a mask of 'setting'?" in question for question in draft.questions) != allowed
    if allowed:
        assert problem.outermost.actions.values == ("low", "mid", "high")  # the order of the columns


def test_what_is_called_a_result_is_one(tmp_path: Path) -> None:
    columns = {"result": np.random.default_rng(1).normal(size=480), **logs.nested_log()}
    problem, draft = drafted(columns, tmp_path)
    assert "result" not in {v.name for level in problem.levels for v in level.context}
    assert any("'result' known only after" in question for question in draft.questions)


def test_a_probability_that_fits_no_column_makes_none_an_action(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns = {"id": np.arange(300), "shape": rng.integers(0, 3, 300), "pscore": np.full(300, 0.9), "reward": rng.random(300)}
    draft = draft_problem(logs.parquet(pa.table(columns), tmp_path))
    assert draft.problem is None
    assert any("Which column is the action" in question and "shape" in question for question in draft.questions)


def test_rows_that_repeat_a_decision_are_asked_about(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns = {
        "batch": np.repeat(np.arange(40), 6),
        "run": np.tile(np.repeat([0, 1], 3), 40),
        "action": np.repeat(rng.integers(0, 2, 80), 3),
        "pscore": np.full(240, 0.5),
        "reward": rng.random(240),
    }
    problem, draft = drafted(columns, tmp_path)
    assert problem.innermost.decision is None
    assert any("is repeated over several rows" in question for question in draft.questions)


def test_what_stands_behind_the_reward_waits_in_a_comment_where_the_log_cannot_tell(tmp_path: Path) -> None:
    columns = {name: values for name, values in logs.nested_log().items() if name not in ("p_setting", "dose_prob")}
    rng = np.random.default_rng(1)
    columns |= {"stirring": rng.normal(size=480), "x_light": rng.normal(size=480)}
    problem, draft = drafted(columns, tmp_path)
    used = {v.name for level in problem.levels for v in level.context}
    assert "x_light" in used and "stirring" not in used  # one of them is called a context
    assert "    #   - stirring  # it stands behind 'dose' in the log\n" in draft.text
    assert any("known before 'dose' is decided: " in text and "'stirring' (it stands behind" in text for text in draft.questions)
