"""What single columns of a draft are taken for: what was meant, results behind the action, flags, running numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import draft_logs as logs
import pytest

from aegis.errors import ProblemError
from aegis.logs import Draft, draft_problem
from aegis.logs.draft.yaml_text import yaml_scalar
from aegis.problem import Problem, parse_problem


def drafted(folder: Path, header: str, row: Callable[[Random, int], str], count: int = 400) -> tuple[Problem, Draft]:
    """Return the draft of a log of so many rows, without any option; the log reads with it."""
    rng, path = Random(1), folder / "log.csv"
    path.write_text("\n".join([header, *(row(rng, number) for number in range(count))]) + "\n", encoding="utf-8")
    draft = draft_problem(path)
    return logs.checked(draft, path), draft


def contexts(problem: Problem) -> list[str]:
    return [column for level in problem.levels for variable in level.context for column in variable.columns]


def asked(draft: Draft, *parts: str) -> bool:
    return any(all(part in question for part in parts) for question in draft.questions)


# ---- what was meant --------------------------------------------------------------------------------------------------


def explored(rng: Random, number: int, share: float = 0.2) -> str:
    """Return a row whose action is what was meant, but for a share of uniform draws."""
    meant = rng.choice([100, 120, 140])
    speed = meant if rng.random() > share else rng.choice([100, 120, 140])
    return f"{number};{rng.uniform(20, 60):.1f};{meant};{speed};{rng.gauss(5, 1) + speed / 100:.2f}"


@pytest.mark.parametrize(
    ("meant", "action"),
    [
        ("meant_speed", "speed"),
        ("Soll-Drehzahl", "Drehzahl"),
        ("Solldrehzahl", "Ist-Drehzahl"),
        ("speed_planned", "speed_actual"),
        ("recommended_speed", "speed"),
        ("speed_setpoint", "speed"),
    ],
)
def test_a_column_beside_what_was_meant_is_an_action_without_being_named(meant: str, action: str, tmp_path: Path) -> None:
    problem, draft = drafted(tmp_path, f"batch;Feuchte;{meant};{action};profit", explored)
    level = problem.innermost
    assert level.actions.column == action and level.actions.values == (100, 120, 140)
    assert level.propensity is None  # asked, never assumed
    assert level.incumbent is not None and level.incumbent.base == meant
    assert f"    # propensity: {{base: {meant}, epsilon: FILL}}\n" in draft.text
    assert asked(draft, f"Is '{action}' an action, decided after '{meant}' was computed?", "If", "is a measurement")
    assert asked(draft, f"Did the controller do '{meant}', except for a fixed share", "an estimate, which cannot be certified")
    estimate = re.search(r"as with epsilon ([\d.]+);", " ".join(draft.questions))
    assert estimate is not None and abs(float(estimate[1]) - 0.2) < 0.08
    assert contexts(problem) == ["Feuchte", meant]
    filled = parse_problem(
        draft.text.replace("# propensity: {base", "propensity: {base").replace("epsilon: FILL", "epsilon: 0.2")
    )
    assert filled.innermost.propensity is not None and filled.innermost.propensity.epsilon == 0.2


def test_a_plan_that_does_not_agree_or_is_of_the_reward_is_no_intention(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rng = Random(3)
    rows = [f"{n},{rng.choice('ab')},{rng.randint(1, 9)},{rng.randint(1, 9)},{rng.randint(1, 2)},1" for n in range(200)]
    path.write_text("\n".join(["batch,colour,meant_speed,speed,cost,planned_cost", *rows]))
    draft = draft_problem(path)
    assert draft.problem is None and any(question.startswith("Which column is the action?") for question in draft.questions)


# ---- results behind the action ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["result", "quality", "Qualität", "part_ok", "is_ok", "yield", "Ausschussquote", "default", "Prüfung"]
)
@pytest.mark.parametrize("chances", [True, False])
def test_a_column_behind_the_action_that_is_called_a_result_is_no_context(name: str, chances: bool, tmp_path: Path) -> None:
    """The action does not move it, so that the log alone would let it pass."""

    def row(rng: Random, number: int) -> str:
        cells = [number, rng.randint(20, 70), rng.choice("ab"), *([0.5] if chances else []), f"{rng.random():.2f}", rng.random()]
        return ",".join(map(str, cells))

    problem, draft = drafted(tmp_path, "batch,humidity,arm," + ("pscore," if chances else "") + f"{name},profit", row)
    assert contexts(problem) == ["humidity"]
    assert asked(draft, f"'{name}'", "known")
    assert problem.outcome is not None or f"    #   - {yaml_scalar(name)}  # its name is that of a result\n" in draft.text


def test_the_same_name_before_the_action_may_be_that_of_a_material(tmp_path: Path) -> None:
    def row(rng: Random, number: int) -> str:
        return f"{number},{rng.random():.2f},{rng.choice('ab')},0.5,{rng.random():.2f}"

    problem, _ = drafted(tmp_path, "batch,material_quality,arm,pscore,profit", row)
    assert contexts(problem) == ["material_quality"]


@pytest.mark.parametrize("text", [True, False])
def test_a_column_behind_the_action_that_goes_with_the_reward_is_no_context(text: bool, tmp_path: Path) -> None:
    def row(rng: Random, number: int) -> str:
        level = rng.randint(0, 2)
        shown = ["low", "mid", "high"][level] if text else level
        return f"{number},{rng.choice('ab')},0.5,{shown},{rng.randint(0, 9)},{level + rng.gauss(0, 0.5):.3f}"

    problem, draft = drafted(tmp_path, "batch,arm,pscore,viscosity,hall,profit", row)
    assert contexts(problem) == ["hall"]
    assert asked(draft, "known before 'arm' is decided", "'viscosity' (it goes closely with the reward 'profit')")
    assert asked(draft, "'hall' (the log shows no effect of 'arm' on it, though it stands behind it)")
    assert "# it goes closely with the reward 'profit'\n" in draft.text


# ---- flags and running numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Prüfung OK", "p_ok", "Probe"])
def test_a_column_of_0_and_1_is_no_probability(name: str, tmp_path: Path) -> None:
    def row(rng: Random, number: int) -> str:
        return f"{number};{rng.choice('ab')};0.5;{rng.randint(0, 1)};{rng.random():.2f}"

    _, draft = drafted(tmp_path, f"batch;arm;pscore;{name};profit", row)
    assert "looks like a probability" not in draft.text and name in draft.text


@pytest.mark.parametrize("kind", ["from 1", "from 4711", "with gaps", "in any order", "last"])
def test_a_running_number_is_no_context_and_no_reward(kind: str, tmp_path: Path) -> None:
    order = list(range(200))
    Random(2).shuffle(order)
    counts: dict[str, Callable[[int], int]] = {
        "from 1": lambda n: n + 1,
        "from 4711": lambda n: n + 4711,
        "with gaps": lambda n: n + n // 7,
        "in any order": lambda n: order[n] + 1,
        "last": lambda n: n + 1,
    }

    def row(rng: Random, number: int) -> str:
        cells = [f"B{number:04d}", rng.randint(20, 70), rng.choice("ab"), 0.5, f"{rng.random():.2f}"]
        cells.insert(5 if kind == "last" else 1, counts[kind](number))
        return ",".join(map(str, cells))

    header = ["batch", "humidity", "arm", "pscore", "amount"]
    header.insert(5 if kind == "last" else 1, "lfd")
    problem, draft = drafted(tmp_path, ",".join(header), row, 200)
    assert contexts(problem) == ["humidity"] and problem.reward.column == "amount"
    assert dict(draft.unused)["lfd"].startswith("a running number of the rows")


def test_a_number_that_starts_again_stays_a_context(tmp_path: Path) -> None:
    """The place of a decision in its batch may well matter."""

    def row(rng: Random, number: int) -> str:
        return f"{number // 4},{number % 4 + 1},{rng.choice('ab')},0.5,{rng.random():.2f}"

    problem, draft = drafted(tmp_path, "batch,layer,arm,pscore,profit", row, 200)
    assert contexts(problem) == ["layer"] and not draft.unused


def test_a_default_on_a_loan_is_not_what_was_meant(tmp_path: Path) -> None:
    """Both columns are mostly 0, and so agree in most rows."""

    def row(rng: Random, number: int) -> str:
        return f"{number},{rng.randint(20, 70)},{int(rng.random() < 0.2)},{int(rng.random() < 0.1)},{rng.gauss(5, 1):.2f}"

    problem, draft = drafted(tmp_path, "batch,income,offer,default,profit", row)
    assert problem.innermost.actions.column == "offer" and problem.innermost.incumbent is None
    assert contexts(problem) == ["income"] and "epsilon" not in draft.text
    assert asked(draft, "known before 'offer' is decided", "'default' (its name is that of a result)")


def test_units_in_brackets_do_not_hide_what_was_meant(tmp_path: Path) -> None:
    problem, _ = drafted(tmp_path, "batch;Feuchte;Soll-Drehzahl;Drehzahl [1/min];profit", explored)
    assert problem.innermost.actions.column == "Drehzahl [1/min]" and problem.innermost.incumbent is not None


# ---- times and guards ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "time"), [("delivered_on", None), ("Lieferdatum", None), ("end_time", None), ("logged", "logged")]
)
def test_a_time_behind_the_action_is_asked_about_and_an_end_is_none(name: str, time: str | None, tmp_path: Path) -> None:
    def row(rng: Random, number: int) -> str:
        return f"L{number},{rng.choice('ab')},0.5,2025-{number // 28 % 12 + 1:02d}-{number % 28 + 1:02d},{rng.random():.2f}"

    problem, draft = drafted(tmp_path, f"lot,arm,pscore,{name},profit", row, 200)
    assert problem.time == time
    assert asked(draft, f"'{name}' is not taken for the time" if time is None else f"Is '{name}' when the episode began?")


def test_a_guard_whose_goal_is_not_known_has_to_be_filled_in(tmp_path: Path) -> None:
    def row(rng: Random, number: int) -> str:
        visit = int(rng.random() < 0.3)
        bought = visit * int(rng.random() < 0.3)
        return f"{rng.randint(20, 70)},{rng.choice('ab')},{visit},{bought},{bought * rng.uniform(5, 50):.2f}"

    _, draft = drafted(tmp_path, "age,treatment,visit,conversion,spend", row)
    assert "#   - {column: visit, range: [0, 1], max_worsening: 0.01, goal: FILL}" in draft.text
    uncommented = draft.text.replace("# guards:", "guards:").replace("#   - {column: visit", "  - {column: visit")
    with pytest.raises(ProblemError, match="goal"):
        parse_problem(uncommented)


def test_whether_something_was_settled_is_no_context(tmp_path: Path) -> None:
    def row(rng: Random, number: int) -> str:
        return f"T{number},{rng.choice('xy')},{rng.choice(['bot', 'human'])},0.5,{rng.choice(['yes', 'no'])},{rng.random():.2f}"

    problem, draft = drafted(tmp_path, "ticket,product,assigned,p,resolved,score", row)
    assert contexts(problem) == ["product"] and asked(draft, "'resolved' (its name is that of a result)")


@pytest.mark.parametrize("separator", [";", ","])
def test_points_that_may_mark_thousands_are_asked_about(separator: str, tmp_path: Path) -> None:
    """`873` and `1.234`: read with decimals, the larger number is the smaller one."""

    def row(rng: Random, number: int) -> str:
        amount = rng.randint(500, 9000)
        shown = f"{amount // 1000}.{amount % 1000:03d}" if amount >= 1000 else str(amount)
        return separator.join([f"B{number}", rng.choice("ab"), shown])

    _, draft = drafted(tmp_path, separator.join(["batch", "arm", "revenue"]), row, 100)
    assert asked(draft, "in column 'revenue'", "if points mark thousands, write the numbers without them")


def test_decimals_of_several_lengths_are_not_asked_about(tmp_path: Path) -> None:
    _, draft = drafted(tmp_path, "batch,arm,profit", lambda rng, n: f"{n},{rng.choice('ab')},{round(rng.uniform(1, 9), 3)}", 200)
    assert not asked(draft, "thousands")
