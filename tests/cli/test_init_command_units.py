"""Drafts of logs: which rows make a unit, and which columns are no ids."""

from __future__ import annotations

import random
from datetime import date, timedelta
from pathlib import Path

import pytest
from draft_cases import LOG, OUT, Shell, asked, audited, contexts, drafted, rows


def test_an_outcome_of_0_and_1_is_no_id(shell: Shell) -> None:
    """Without the published data: `visit` names episodes elsewhere; here it says whether a customer came."""

    def row(rng: random.Random, _: int) -> str:
        return f"{rng.randint(20, 70)},{rng.choice('abc')},{rng.randint(0, 1)},{rng.randint(0, 9)}"

    Path(LOG).write_text(rows("age,segment,visit,spend", 400, row))
    problem, text, questions = drafted(shell, "--action", "segment")
    assert problem.episode == ("row",) and contexts(problem) == ["age"]
    assert asked(questions, "Is 'spend' what you want more of, rather than 'visit'?")
    uniform = text.replace("# propensity: {policy: uniform}", "propensity: {policy: uniform}")
    assert "fit: 400 episodes" in audited(shell, uniform)


ANSWERS = {
    "yes and no": ["no", "yes"],
    "ja und nein": ["Ja", "Nein"],
    "how many": [0, 1, 2, 3],
    "how much": ["none", "short", "long"],
}


@pytest.mark.parametrize("name", ["session", "visit", "order", "run"])
@pytest.mark.parametrize("kind", ANSWERS)
def test_an_outcome_that_is_called_a_unit_is_no_id(kind: str, name: str, shell: Shell) -> None:
    def row(rng: random.Random, _: int) -> str:
        return f"{rng.choice(ANSWERS[kind])},{rng.random():.2f},{rng.choice('ab')},0.5,{rng.random():.2f}"

    Path(LOG).write_text(rows(f"{name},temp,arm,p_arm,profit", 600, row))
    problem, text, questions = drafted(shell)
    assert problem.episode == ("row",) and contexts(problem) == ["temp"]
    assert asked(questions, "No column tells independent units apart")
    assert " and " in kind or " und " in kind or asked(questions, f"Is '{name}' an outcome, a count", f"write 'episode: {name}'")
    assert kind != "how many" or asked(questions, f"Is 'profit' what you want more of, rather than '{name}'?")
    assert "fit: 600 episodes" in audited(shell, text)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("units", [4, 150])
def test_a_unit_is_asked_about_if_it_is_rare_or_scattered(units: int, together: bool, shell: Shell) -> None:
    def row(rng: random.Random, number: int) -> str:
        unit = number * units // 600 if together else number % units
        return f"s{unit},{rng.random():.2f},{rng.choice('ab')},0.5,{rng.random():.2f}"

    Path(LOG).write_text(rows("session,temp,arm,p_arm,profit", 600, row))
    problem, _, questions = drafted(shell)
    assert problem.episode == (("row",) if units == 4 and not together else ("session",))
    assert asked(questions, "Does 'session' tell independent units apart?", "only 4 values in 600 rows") == (
        units == 4 and together
    )
    assert asked(questions, "'session'", "rows with the same value are not next to each other") == (units > 4 and not together)
    assert asked(questions, "Is 'session' an outcome, a count") == (units == 4 and not together)


def test_a_step_that_starts_again_is_no_unit_beside_one(shell: Shell) -> None:
    Path(LOG).write_text(
        rows("lot,run,arm,p_arm,profit", 600, lambda rng, n: f"{n // 4},{n % 4},{rng.choice('ab')},0.5,{rng.random():.2f}")
    )
    problem, _, questions = drafted(shell)
    assert problem.episode == ("lot",) and not asked(questions, "'run' an outcome")


def test_a_result_is_no_id_though_it_is_different_in_every_row(shell: Shell) -> None:
    Path(LOG).write_text(
        rows("temp,arm,p_arm,revenue_cents", 200, lambda rng, n: f"{rng.random():.2f},{rng.choice('ab')},0.5,{n * 37 % 1009}")
    )
    problem, _, _ = drafted(shell)
    assert problem.episode == ("row",) and problem.reward.column == "revenue_cents"


def shared(units: list[str], header: str, spray: bool = False, seed: int = 3) -> str:
    """Return a log in which a program was drawn once for each unit, for five parts, and with `spray` a spray for each part."""
    rng = random.Random(seed)
    lines = [f"{header},program,p_program,{'spray,p_spray,' if spray else ''}profit"]
    for unit in units:
        program = rng.choice("xy")
        for _ in range(5):
            sprayed = f"{rng.choice('ab')},0.5," if spray else ""
            lines.append(f"{unit},{program},0.5,{sprayed}{rng.random():.3f}")
    return "\n".join(lines) + "\n"


DATES = [str(date(2025, 1, 6) + timedelta(days=day)) for day in range(20)]

MACHINE_DAYS = [f"{day},M{machine}" for day in DATES for machine in range(12)]

SHIFTS = [f"{day},{line},{shift}" for day in DATES for line in (1, 2, 3) for shift in "ED"]


@pytest.mark.parametrize("mixed", [True, False])
@pytest.mark.parametrize(
    ("header", "units"), [("date,machine", MACHINE_DAYS), ("date,line,shift", SHIFTS)], ids=["two columns", "three columns"]
)
def test_a_program_of_each_machine_and_date_is_decided_once_for_it(
    header: str, units: list[str], mixed: bool, shell: Shell
) -> None:
    head, *lines = shared(units, header).splitlines()
    Path(LOG).write_text("\n".join([head, *(random.Random(1).sample(lines, len(lines)) if mixed else lines)]))
    problem, text, questions = drafted(shell)
    assert problem.episode == tuple(header.split(",")) and problem.time == "date"
    assert asked(questions, "Was 'program' decided once for each 'date'", f"({len(units)} of them)", "'carry_over: within'")
    assert asked(questions, "'program' is repeated over several rows", "keep one row of it")
    assert f": {len(units)} episodes, {5 * len(units)} decisions" in audited(shell, text)


def test_an_outer_program_of_each_machine_and_date_has_a_level_of_its_own(shell: Shell) -> None:
    Path(LOG).write_text(shared(MACHINE_DAYS, "date,machine", spray=True))
    problem, text, _ = drafted(shell, "--action", "program", "--action", "spray")
    assert problem.episode == ("date", "machine") and [level.actions.column for level in problem.levels] == ["program", "spray"]
    assert ": 240 episodes, 1200 decisions, levels program, spray" in audited(shell, text)


def test_rows_that_share_a_draw_without_an_id_are_asked_about(shell: Shell) -> None:
    log = shared([f"{number * 7 % 11}" for number in range(100)], "pressure")
    Path(LOG).write_text(log)
    problem, _, questions = drafted(shell)
    assert problem.episode == ("row",) and asked(questions, "Was 'program' decided once for several rows?", "probabilities allow")
    Path(OUT).unlink()
    Path(LOG).write_text(log.replace(",0.5,", ",").replace("p_program,", ""))
    _, _, questions = drafted(shell, "--action", "program")
    assert asked(questions, "Was 'program' decided once for several rows?", "more often than its values come")


def test_a_program_of_each_row_is_no_shared_draw(shell: Shell) -> None:
    """Contexts that stay, columns that describe the program, and a program that tends to stay with the chances of that."""
    rng = random.Random(5)
    lines, program = ["part,date,machine,brand,size,program,p_program,profit"], "ax"
    for number in range(1200):
        keeps = rng.random() < 0.7
        before, program = program, program if keeps else rng.choice(["ax", "ay", "bx", "by"])
        chance = 0.7 * (program == before) + 0.3 / 4
        cells = [number, DATES[number // 60], f"M{number // 5 % 12}", program[0], program[1], program, chance, rng.random()]
        lines.append(",".join(map(str, cells)))
    Path(LOG).write_text("\n".join(lines))
    problem, _, questions = drafted(shell)
    assert problem.episode == ("machine",) and not asked(questions, "decided once for")
