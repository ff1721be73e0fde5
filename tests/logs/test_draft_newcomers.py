"""Drafts from small CSVs as people have them who never heard of propensities: what is there is found, or said to be missing."""

from __future__ import annotations

import csv
import datetime
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import draft_logs as logs
import pytest

from aegis.errors import InputError, ProblemError
from aegis.logs import Draft, Source, draft_problem
from aegis.problem import Problem, parse_problem

SHARES = {"a": 0.6, "b": 0.3, "c": 0.1}


def written(folder: Path, rows: list[dict[str, Any]], separator: str = ",") -> Path:
    path = folder / "log.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=separator)
        writer.writeheader()
        writer.writerows(rows)
    return path


def read(path: Path, **said: Any) -> tuple[Problem, Draft]:
    """Return a draft that is complete, and with which the log reads."""
    draft = draft_problem(path, **said)
    return logs.checked(draft, path), draft


def doses(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Return batches whose dose was any number, drawn uniformly from 0 to 10."""
    rng = Random(seed)
    found = []
    for batch in range(count):
        temperature, dose = rng.gauss(70, 3), rng.uniform(0, 10)
        margin = round(10 - abs(dose - 5) + rng.random(), 2)
        found.append({"batch": batch, "temperature": round(temperature, 2), "spray": round(dose, 3), "margin": margin})
    return found


def recipes(chance: str | None = "wert", count: int = 200, seed: int = 1) -> list[dict[str, Any]]:
    """Return orders whose recipe was drawn with fixed shares; chance: what the column with its probability is called."""
    rng = Random(seed)
    found = []
    for order in range(count):
        recipe = rng.choices(list(SHARES), list(SHARES.values()))[0]
        row: dict[str, Any] = {"auftrag": order, "feuchte": round(rng.uniform(20, 80), 1), "rezept": recipe}
        row |= {} if chance is None else {chance: SHARES[recipe]}
        found.append({**row, "ertrag": round(rng.gauss(5, 1), 2)})
    return found


@pytest.mark.parametrize("count", [60, 400])
def test_any_number_without_a_density_becomes_an_interval_that_says_what_to_log(count: int, tmp_path: Path) -> None:
    problem, draft = read(written(tmp_path, doses(count)), actions=("spray",))
    level = problem.innermost
    assert level.actions.continuous and level.propensity is None
    assert level.actions.limits[0] <= 0.5 and 9.5 <= level.actions.limits[1] <= 10.0
    assert "MISSING: the density with which 'spray' was drawn" in draft.text
    assert any("--propensity spray=COLUMN" in question for question in draft.questions)
    completed = draft.text.replace("    # propensity: {column: density_spray", "    propensity: {column: density_spray")
    assert completed != draft.text
    filled = parse_problem(completed).innermost
    assert filled.propensity is not None and filled.propensity.column == "density_spray" and filled.propensity.density


def test_the_density_may_be_pointed_at(tmp_path: Path) -> None:
    path = written(tmp_path, [{**row, "log_value": 0.1} for row in doses(60)])
    for said in ({"propensities": ("spray=log_value",)}, {"actions": ("spray",), "propensities": ("log_value",)}):
        problem, _ = read(path, **said)
        given = problem.innermost.propensity
        assert given is not None and (given.column, given.density) == ("log_value", True)


def test_a_density_under_another_name_is_asked_about(tmp_path: Path) -> None:
    problem, draft = read(written(tmp_path, [{**row, "Dichte X": 0.1} for row in doses(60)]), actions=("spray",))
    assert problem.innermost.propensity is None and "# propensity: {column: Dichte X, density: true}" in draft.text
    assert [name for name, _ in draft.unused] == ["Dichte X"]


def test_a_column_called_an_action_may_be_any_number(tmp_path: Path) -> None:
    rows = [{("dose" if name == "spray" else name): value for name, value in row.items()} for row in doses(60)]
    problem, _ = read(written(tmp_path, rows))
    assert problem.innermost.actions.column == "dose" and problem.innermost.actions.continuous


def test_points_of_a_grid_are_no_interval_however_short_the_log(tmp_path: Path) -> None:
    rows = [{**row, "spray": round(row["spray"], 1)} for row in doses(40)]
    problem, _ = read(written(tmp_path, rows), actions=("spray",))
    assert not problem.innermost.actions.continuous


@pytest.mark.parametrize("name", ["p_taken", "chance", "Wahrscheinlichkeit_X", "probabilité", "Probabilidad de la receta"])
def test_a_probability_is_recognised_by_name_and_numbers(name: str, tmp_path: Path) -> None:
    problem, draft = read(written(tmp_path, recipes(name)), actions=("rezept",))
    given = problem.innermost.propensity
    assert given is not None and given.column == name
    assert [variable.name for variable in problem.innermost.context] == ["feuchte"] and not draft.unused


def test_numbers_that_fit_are_asked_about_and_are_no_context(tmp_path: Path) -> None:
    path = written(tmp_path, recipes("wert"))
    problem, draft = read(path, actions=("rezept",))
    assert problem.innermost.propensity is None
    assert [variable.name for variable in problem.innermost.context] == ["feuchte"]
    assert any("Perhaps 'wert' tells" in question and "--propensity rezept=wert" in question for question in draft.questions)
    assert dict(draft.unused)["wert"].startswith("perhaps the probability with which 'rezept' was chosen")
    assert "    # propensity: {column: wert}\n" in draft.text
    again, _ = read(path, actions=("rezept",), propensities=("wert",))
    assert again.innermost.propensity is not None and again.innermost.propensity.column == "wert"


def test_a_constant_probability_is_asked_about(tmp_path: Path) -> None:
    rng = Random(2)
    rows = [{"order": n, "coat": rng.choice("ab"), "k": 0.5, "speed": rng.gauss(0, 1), "profit": rng.random()} for n in range(80)]
    _, draft = read(written(tmp_path, rows), actions=("coat",))
    assert any("Perhaps 'k' tells" in question for question in draft.questions)


def test_shares_of_something_else_stay_contexts(tmp_path: Path) -> None:
    rng = Random(3)
    rows = [{"fill": round(rng.uniform(0.01, 1), 3), "wet": round(rng.uniform(0.6, 0.9), 3), **row} for row in recipes(None)]
    problem, draft = read(written(tmp_path, rows), actions=("rezept",))
    assert {variable.name for variable in problem.innermost.context} >= {"fill"} and not draft.unused


def test_several_actions_have_several_probabilities(tmp_path: Path) -> None:
    rng = Random(4)
    rows = []
    for row in recipes("u"):
        oven = rng.choice([1, 2])
        rows.append({**row, "oven": oven, "v": {1: 0.5, 2: 0.5}[oven]})
    path = written(tmp_path, rows)
    problem, _ = read(path, propensities=("rezept=u", "oven=v"))
    found = {level.actions.column: level.propensity and level.propensity.column for level in problem.levels}
    assert found == {"rezept": "u", "oven": "v"}
    with pytest.raises(InputError, match=r"not clear of which action 'u' is the propensity; actions: rezept, oven: .*ACTION=u"):
        draft_problem(path, actions=("rezept", "oven"), propensities=("u",))


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("wertt", r"no column 'wertt' for a propensity \(did you mean 'wert'"),
        ("rezpet=wert", "no column 'rezpet' for an action"),
        ("rezept=feuchte", "cannot be the probability of 'rezept': it goes up to .* at most 1 .divide percentages by 100"),
        ("rezept", "'rezept' cannot be a propensity: it holds text"),
        ("wert", "not clear of which action 'wert' is the propensity: write --propensity ACTION=wert"),
        ("leer=wert", "'leer' cannot be an action: it is the same in every row"),
    ],
)
def test_what_cannot_be_a_probability_is_refused(said: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, [{**row, "leer": "-"} for row in recipes()])
    with pytest.raises(InputError, match=message):
        draft_problem(path, propensities=(said,))


def test_known_shares_are_offered_and_cannot_be_left_unfilled(tmp_path: Path) -> None:
    path = written(tmp_path, recipes(None))
    _, draft = read(path, actions=("rezept",))
    offered = draft.text.replace("    # propensity: {shares", "    propensity: {shares")
    with pytest.raises(ProblemError, match=r"levels\.1\.propensity\.shares\.1"):
        parse_problem(offered)
    problem = parse_problem(offered.replace("[FILL, FILL, FILL]", "[0.6, 0.3, 0.1]"))
    table = Source(path, problem).read().levels["rezept"]
    assert table.mu_full is not None and table.mu_full[7].tolist() == [0.6, 0.3, 0.1]
    assert "    # propensity: {policy: uniform}\n" in draft.text


@pytest.mark.parametrize(
    "label",
    [
        lambda number: f"{number:g}".replace(".", ","),
        lambda number: f"{number:.2f}".replace(".", ","),
        lambda number: f"{number:.1f}",
        lambda number: f"{number:g}".replace(".", "_"),
    ],
    ids=["0,5", "0,50", "0.5", "0_5"],
)
@pytest.mark.parametrize("between", ["_", "-", " "])
def test_numbers_in_names_may_be_written_in_any_way(label: Callable[[float], str], between: str, tmp_path: Path) -> None:
    rng = Random(5)
    chances = {0.0: 0.2, 0.5: 0.5, 1.0: 0.2, 1.5: 0.1}  # the last one is never taken
    rows = []
    for number in range(100):
        taken = rng.choices([0.0, 0.5, 1.0], [0.2, 0.5, 0.3])[0]
        row = {"charge": number, "dosis": f"{taken:g}", **{f"p{between}{label(value)}": p for value, p in chances.items()}}
        row = {name: str(value).replace(".", ",") for name, value in row.items()}
        rows.append({**row, "profit": f"{rng.gauss(5, 1):.2f}".replace(".", ",")})
    problem, _ = read(written(tmp_path, rows, ";"), actions=("dosis",))
    level = problem.innermost
    assert level.actions.values == (0.0, 0.5, 1.0, 1.5)
    assert level.propensity is not None and level.propensity.columns == tuple(f"p{between}{label(value)}" for value in chances)


def dated(form: str, each: int = 1) -> list[dict[str, Any]]:
    """Return rows of ninety days with two variants; form: how dates are written, each: rows a day."""
    rng = Random(6)
    found = []
    for day in range(90):
        date = datetime.date(2025, 1 + day // 12, 1 + day % 12)
        for _ in range(each):
            variant = {"variant": rng.choice("ab"), "pscore": 0.5, "profit": round(rng.gauss(5, 1), 2)}
            found.append({"datum": date.strftime(form), **variant})
    return found


@pytest.mark.parametrize("form", ["%d.%m.%Y", "%d.%m.%Y 06:30", "%Y-%m-%d"])
def test_dates_with_points_are_times(form: str, tmp_path: Path) -> None:
    path = written(tmp_path, [{"charge": number, **row} for number, row in enumerate(dated(form))])
    problem, _ = read(path)
    assert (problem.episode, problem.time) == (("charge",), "datum")
    times = Source(path, problem).read().time
    assert times is not None and times.dtype.kind == "M" and (times[1:] > times[:-1]).all()
    assert str(times[12])[:10] == "2025-02-01"


@pytest.mark.parametrize("each", [1, 3])
def test_dates_may_be_the_only_id(each: int, tmp_path: Path) -> None:
    path = written(tmp_path, dated("%d.%m.%Y", each))
    problem, draft = read(path)
    assert (problem.episode, problem.time) == (("datum",), "datum")
    assert len(Source(path, problem).read()) == 90
    assert any("Is each date in 'datum' one unit" in question for question in draft.questions)


def test_days_that_may_be_months_are_asked_about(tmp_path: Path) -> None:
    path = written(tmp_path, [{"charge": number, **row} for number, row in enumerate(dated("%d/%m/%Y"))])
    problem, draft = read(path)
    assert problem.time is None
    assert any("01/01/2025 (day or month first" in question for question in draft.questions)
    assert "dates such as" in dict(draft.unused)["datum"]


def test_columns_of_some_files_only_are_named(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    one = written(tmp_path, recipes("pscore"))
    two = written(tmp_path / "more", [{**row, "auftrag": row["auftrag"] + 1000, "extra": 1} for row in recipes("pscore", seed=2)])
    draft = draft_problem([one, two], actions=("rezept",))
    assert "not in every file" in dict(draft.unused)["extra"] and str(one) in dict(draft.unused)["extra"]
    assert "# - extra: not in every file" in draft.text


def test_every_question_is_asked_once(tmp_path: Path) -> None:
    rows = [{name: value for name, value in row.items() if name not in ("auftrag", "feuchte", "ertrag")} for row in recipes()]
    path = written(tmp_path, [{**row, "clicks": number % 2} for number, row in enumerate(rows)])
    draft = draft_problem(path, actions=("rezept",))
    assert len(set(draft.questions)) == len(draft.questions)
    flat = " ".join(line.strip("# ") for line in draft.text.splitlines())
    assert flat.count("No column tells independent units apart") == 1 and "each row is one" in flat


def test_a_number_that_comes_in_blocks_is_the_id_before_the_date(tmp_path: Path) -> None:
    """`Charge-Nr.` ends like the number of a step; but it never starts again, and a day may hold several."""
    rows = [{"Charge-Nr.": f"2025/{place // 3:03d}", **row} for place, row in enumerate(dated("%d.%m.%Y", 6))]
    draft = draft_problem([written(tmp_path, rows)])
    assert "episode: Charge-Nr." in draft.text and "time: datum" in draft.text
