"""Drafts of logs as people have them: each parses, takes the safe reading, and asks what only the user knows.

Answering the questions, with an editor or with options, gives a file that `aegis audit` runs with.
"""

from __future__ import annotations

import os
import random
import re
from datetime import date, timedelta
from pathlib import Path

import pytest
from draft_cases import LOG, OUT, Shell, asked, audited, contexts, drafted, rows

from aegis.problem import parse_problem


def comma(number: float, digits: int = 2) -> str:
    return f"{number:.{digits}f}".replace(".", ",")


def published(name: str) -> str:
    folder = os.environ.get("AEGIS_DATA")
    if not folder or not (Path(folder) / name).exists():
        pytest.skip(f"set AEGIS_DATA to a folder with {name} to draft from the published data")
    return str(Path(folder) / name)


def test_a_trial_without_ids_whose_outcome_is_called_like_one(shell: Shell) -> None:
    log = published("hillstrom/hillstrom.csv")
    first = shell("init", log, "--out", OUT)
    assert first.code == 2 and f"{OUT} was not written" in first.err and not Path(OUT).exists()
    assert asked(first.out, "Which column is the action?", "segment", "--action COLUMN")
    problem, text, questions = drafted(shell, "--action", "segment", log=log)
    assert problem.episode == ("row",) and problem.cluster is None
    before = ["recency", "history_segment", "history", "mens", "womens", "zip_code", "newbie", "channel"]
    assert contexts(problem) == before  # neither visit nor spend, which come after the mail
    assert asked(questions, "each row is taken for one ('episode: row')")
    assert asked(questions, "Is 'conversion' what you want more of, rather than 'spend' or 'visit'?")
    assert asked(questions, "Is every context known", *(f"'{name}'" for name in before), "only its place before 'segment'")
    assert asked(questions, "Is 'visit' known only after 'segment'") or "visit" in text.split("Columns that are not used")[1]
    answered = text.replace("column: conversion", "column: visit").replace(
        "# propensity: {policy: uniform}", "propensity: {policy: uniform}"
    )
    answered = re.sub(r"outcome: .*\n", "", answered)
    assert "64000 episodes" in audited(shell, answered, log=log)


def test_a_trial_with_people_as_clusters(shell: Shell) -> None:
    log = published("heartsteps/decisions.csv")
    problem, _, questions = drafted(shell, log=log)
    assert (problem.episode, problem.cluster) == (("episode",), "cluster")
    assert "prop_recovered" not in contexts(problem) and "x_logpre" in contexts(problem)
    assert asked(questions, "Do episodes of one 'cluster' depend on each other?")


def test_a_field_trial(shell: Shell) -> None:
    log = published("oats/yates.oats.tsv")
    problem, text, questions = drafted(shell, "--action", "nitro", "--action", "gen", log=log)
    assert [level.actions.column for level in problem.levels] == ["gen", "nitro"]
    assert not {"grain", "straw", "yield"} & set(contexts(problem))
    assert asked(questions, "'straw' (it stands behind 'nitro' in the log)")
    uniform = text.replace("# propensity: {policy: uniform}", "propensity: {policy: uniform}")
    assert "6 episodes" in audited(shell, uniform, log=log)


def works(parts: bool = True, seed: int = 1) -> str:
    """Return a German export: a program for each shift, a spray for each part, decimal commas, rows of separators at the end."""
    rng = random.Random(seed)
    head = [
        "Datum",
        "Schicht",
        *(["Teil-Nr."] if parts else []),
        "Programm",
        "p_Programm",
        "Feuchte",
        "Material",
        "Spray",
        "p_Spray",
    ]
    lines, number = [";".join([*head, "Ausschuss"])], 0
    for day in range(40):
        when = date(2025, 1, 6) + timedelta(days=day)
        for shift in ("Früh", "Spät", "Nacht"):
            program = rng.choices([1, 2, 3], [0.5, 0.3, 0.2])[0]
            for _ in range(6):
                number += 1
                spray = rng.choices(["kurz", "lang"], [0.6, 0.4])[0]
                row = [
                    f"{when:%d.%m.%Y}",
                    shift,
                    *([str(number)] if parts else []),
                    str(program),
                    comma((0.5, 0.3, 0.2)[program - 1], 1),
                ]
                row += [
                    comma(rng.uniform(30, 60), 1),
                    rng.choice(["Stahl", "Messing"]),
                    spray,
                    "0,6" if spray == "kurz" else "0,4",
                ]
                lines.append(";".join([*row, comma(abs(rng.gauss(3, 1) + program))]))
    blank = ";" * lines[0].count(";")
    return "\r\n".join([*lines, blank, blank, ""])


@pytest.mark.parametrize("parts", [True, False])
def test_a_german_export_with_date_and_shift(parts: bool, shell: Shell) -> None:
    Path(LOG).write_text(works(parts), encoding="utf-8-sig", newline="")
    problem, text, questions = drafted(shell, "--action", "Programm", "--action", "Spray")
    assert problem.episode == ("Datum", "Schicht") and problem.time == "Datum"
    assert [level.actions.column for level in problem.levels] == ["Programm", "Spray"]
    assert problem.reward.goal == "minimise" and problem.reward.column == "Ausschuss"
    assert problem.innermost.context[1].values == ("Messing", "Stahl")
    assert asked(questions, "Was 'Programm' decided once for each 'Datum' and 'Schicht' (120 of them)?")
    assert asked(questions, "Is less of 'Ausschuss' better?", "goal: minimise")
    assert asked(questions, "'Feuchte', 'Material' (the log shows no effect of 'Spray' on it)")
    assert "without 2 blank rows at its end" in " ".join(text.replace("#", "").split())
    assert "fit: 120 episodes, 720 decisions" in audited(shell, text)


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y"])
def test_dates_of_all_kinds_make_units_with_shifts(form: str, shell: Shell) -> None:
    rng = random.Random(4)
    lines = ["date,shift,setting,p_setting,speed,cost"]
    for day in range(24):
        for shift in "ABC":
            setting, when = rng.choice([1, 2]), f"{date(2025, 3, 1) + timedelta(days=day):{form}}"
            lines += [f"{when},{shift},{setting},0.5,{rng.random():.2f},{rng.random():.2f}" for _ in range(5)]
    Path(LOG).write_text("\n".join(lines))
    problem, _, questions = drafted(shell)
    assert problem.episode == ("date", "shift")
    assert problem.time == (None if "/" in form else "date")
    assert asked(questions, "Was 'setting' decided once for each 'date' and 'shift' (72 of them)?")
    assert asked(questions, "'setting' is repeated over several rows", "keep one row of it")
    assert not asked(questions, "month comes first") or "/" in form


def test_an_action_of_each_row_stays_one_of_each_row(shell: Shell) -> None:
    """The same columns with a program that is drawn for each part: date and shift are no unit, but may be a cluster."""
    rng = random.Random(3)
    lines = ["date,shift,part_id,arm,pscore,profit"]
    for number in range(360):
        day = date(2025, 1, 6) + timedelta(days=number // 12)
        lines.append(f"{day},{'ab'[number // 6 % 2]},{number},{rng.choice('xy')},0.5,{rng.random():.3f}")
    Path(LOG).write_text("\n".join(lines))
    problem, text, questions = drafted(shell)
    assert problem.episode == ("part_id",) and len(problem.levels) == 1
    assert asked(questions, "Do episodes of one 'date' and 'shift' depend on each other", "write 'cluster: [date, shift]'")
    clustered = text.replace("episode: part_id", "cluster: [date, shift]\nepisode: part_id")
    assert parse_problem(clustered).cluster == ("date", "shift")
    assert audited(shell, clustered).startswith("fit")


def test_a_log_without_ids(shell: Shell) -> None:
    def row(rng: random.Random, _: int) -> str:
        arm = rng.choice("ab")
        return f"{rng.randint(20, 70)},{rng.gauss(0, 1):.3f},{arm},0.5,{rng.random() + (arm == 'b'):.3f}"

    Path(LOG).write_text(rows("age,x,arm,pscore,profit", 200, row))
    problem, text, questions = drafted(shell)
    assert problem.episode == ("row",)
    assert asked(questions, "No column tells independent units apart", "'episode: row'")
    assert asked(questions, "Can a decision affect another row", "A 'cluster' does not mend that")
    assert "fit: 200 episodes" in audited(shell, text)


COSTS = ["cost", "scrap_rate", "Energy", "waste", "defects", "downtime_min", "complaints", "co2_kg", "NOx", "emission_rate"]

COSTS += ["Reklamationen", "Reklamationsquote", "Kundenbeschwerden", "CO2kg", "Emissionswerte", "Stromverbrauch", "Energie_kWh"]

COSTS += ["Abfallmenge", "Ausfallzeit", "Störungen", "Mängel"]


@pytest.mark.parametrize("name", COSTS)
def test_a_cost_is_minimised(name: str, shell: Shell) -> None:
    Path(LOG).write_text(rows(f"batch,arm,pscore,{name}", 100, lambda rng, n: f"{n},{rng.choice('ab')},0.5,{rng.random():.3f}"))
    problem, text, questions = drafted(shell)
    assert problem.reward.column == name and problem.reward.goal == "minimise"
    assert "goal: minimise  # CHECK" in text
    assert asked(questions, f"Is less of '{name}' better?")
    assert audited(shell, text).startswith("fit")


@pytest.mark.parametrize("name", ["cost_saved", "co2_avoided", "Energieeinsparung", "CO2-Einsparung"])
def test_savings_are_maximised_and_asked_about(name: str, shell: Shell) -> None:
    Path(LOG).write_text(rows(f"batch,arm,pscore,{name}", 100, lambda rng, n: f"{n},{rng.choice('ab')},0.5,{rng.random():.3f}"))
    problem, _, questions = drafted(shell)
    assert problem.reward.goal == "maximise" and asked(questions, f"Is more of '{name}' better?")


@pytest.mark.parametrize("name", ["remission", "Verbraucher", "transmission", "disco2"])
def test_words_that_only_hold_the_letters_of_a_cost_are_maximised(name: str, shell: Shell) -> None:
    Path(LOG).write_text(rows(f"batch,arm,pscore,{name}", 100, lambda rng, n: f"{n},{rng.choice('ab')},0.5,{rng.random():.3f}"))
    problem, _, questions = drafted(shell)
    assert problem.reward.goal == "maximise" and asked(questions, f"Is '{name}' what you want more of?")


@pytest.mark.parametrize("chances", [True, False])
def test_results_are_no_contexts(chances: bool, shell: Shell) -> None:
    def row(rng: random.Random, number: int) -> str:
        arm = rng.choice("ab")
        purity = rng.gauss(5, 1) + (arm == "b")
        profit = 2 * purity + rng.gauss(0, 1)
        cells = [
            number,
            rng.randint(20, 70),
            arm,
            *([0.5] if chances else []),
            f"{purity:.2f}",
            rng.randint(0, 1),
            f"{profit:.2f}",
            f"{profit * 1.1:.2f}",
        ]
        return ",".join(map(str, cells))

    header = "order,weight,arm," + ("pscore," if chances else "") + "purity,passed,profit,profit_usd"
    Path(LOG).write_text(rows(header, 500, row))
    problem, text, questions = drafted(shell)
    assert contexts(problem) == ["weight"]
    if chances:
        assert problem.outcome is not None
        assert asked(questions, "known before 'arm' is decided", "'passed' (its name is that of a result)")
        assert asked(questions, "'weight' (the log shows no effect of 'arm' on it)")
    else:
        assert asked(questions, "known before 'arm' is decided", "'purity' (it stands behind 'arm' in the log)")
        assert asked(questions, "'weight' (only its place before 'arm' in the log says so)", "The log cannot tell")
        text = text.replace("# propensity: {policy: uniform}", "propensity: {policy: uniform}")
    assert "purity" in text and "passed" in text
    assert audited(shell, text).startswith("fit")


def test_every_context_is_listed_with_its_reason(shell: Shell) -> None:
    names = [f"sensor_{letter}" for letter in "abcdefghijkl"]
    header = ",".join(["batch", *names, "arm", "pscore", "profit"])
    Path(LOG).write_text(
        rows(
            header,
            100,
            lambda rng, n: ",".join(
                [str(n), *(f"{rng.gauss(0, 1):.2f}" for _ in names), rng.choice("ab"), "0.5", f"{rng.random():.2f}"]
            ),
        )
    )
    problem, text, questions = drafted(shell)
    assert contexts(problem) == names
    assert asked(questions, "Is every context known", *(f"'{name}'" for name in names))
    assert all(f"      - {name}  # the log shows no effect of 'arm' on it\n" in text for name in names)


@pytest.mark.parametrize("name", ["meant_dose", "dose_planned", "intended", "dose_setpoint"])
def test_what_was_meant_is_the_incumbent_and_epsilon_is_asked_for(name: str, shell: Shell) -> None:
    def row(rng: random.Random, number: int) -> str:
        meant = rng.choice([1, 2, 3])
        dose = meant if rng.random() > 0.2 else rng.choice([1, 2, 3])
        return f"{number},{rng.gauss(70, 3):.1f},{meant},{dose},{rng.gauss(5, 1) + dose:.2f}"

    Path(LOG).write_text(rows(f"batch,temperature,{name},dose,margin", 400, row))
    problem, text, questions = drafted(shell)
    level = problem.innermost
    assert level.actions.column == "dose" and level.propensity is None  # nothing is certified from an estimate
    assert level.incumbent is not None and level.incumbent.base == name
    assert asked(questions, f"Did the controller do '{name}', except for a fixed share", "an estimate, which cannot be certified")
    assert asked(questions, f"Is '{name}' what the controller does at 'dose' if nothing is handed over?")
    estimate = re.search(r"as with epsilon ([\d.]+);", questions)
    assert estimate is not None and abs(float(estimate[1]) - 0.2) < 0.1
    line = f"propensity: {{base: {name}, epsilon: FILL}}"
    assert f"    # {line}\n" in text and estimate[1] not in text.split("levels:")[1]
    unfilled = text.replace(f"# {line}", line)
    Path(OUT).write_text(unfilled)
    answer = shell("audit", LOG, "--problem", OUT)
    assert answer.code == 2 and "epsilon' should be a number, found 'FILL'" in answer.err
    assert audited(shell, unfilled.replace("epsilon: FILL", "epsilon: 0.2")).startswith("fit")


def test_thousands_are_asked_about_before_anything_is_made_of_them(shell: Shell) -> None:
    def row(rng: random.Random, number: int) -> str:
        amount = f"{rng.randint(1, 9)}.{rng.randint(100, 999)},{rng.randint(10, 99)}"
        return f"{number};{comma(rng.uniform(10, 30), 1)};{rng.choice('ab')};0,5;{amount}"

    Path(LOG).write_text(rows("order;temp;arm;pscore;profit", 100, row))
    first = shell("init", LOG, "--out", OUT)
    assert first.code == 2 and not Path(OUT).exists()
    assert asked(first.out, "'profit' looks like numbers with thousands points", "write them without")
    assert asked(first.out, "Which column is the reward? 'profit' by its name, but its numbers cannot be read yet")
    Path(LOG).write_text(Path(LOG).read_text().replace(".", ""))
    problem, text, _ = drafted(shell)  # the retry needs no --force
    assert problem.reward.column == "profit" and contexts(problem) == ["temp"]
    assert audited(shell, text).startswith("fit")


def test_blank_rows_at_the_end_are_left_out_and_others_are_errors(shell: Shell) -> None:
    whole = rows(
        "batch,x,arm,pscore,profit", 60, lambda rng, n: f"{n},{rng.random():.2f},{rng.choice('ab')},0.5,{rng.random():.2f}"
    )
    Path(LOG).write_text(whole + ",,,,\n" * 3)
    _, text, _ = drafted(shell)
    assert "without 3 blank rows at its end" in text.replace("\n# ", " ")
    assert "fit: 60 episodes" in audited(shell, text)
    Path(OUT).unlink()
    lines = whole.splitlines()
    Path(LOG).write_text("\n".join([*lines[:8], ",,,,", *lines[8:]]))
    answer = shell("init", LOG, "--out", OUT)
    assert answer.code == 2 and "log.csv, row 8: the row is blank" in answer.err and not Path(OUT).exists()
    lines[8] = re.sub(",[ab],", ",,", lines[8])
    Path(LOG).write_text("\n".join(lines))
    answer = shell("init", LOG, "--out", OUT)
    assert answer.code == 2 and asked(answer.out, "Is 'arm' an action?", "nothing in 1 row (row 8)") and not Path(OUT).exists()


@pytest.mark.parametrize("beside", [";", ";;", "; ;"])
def test_empty_columns_at_the_right_are_left_out_and_others_are_errors(beside: str, shell: Shell) -> None:
    def row(rng: random.Random, number: int) -> str:
        return f"{number};{comma(rng.random())};{rng.choice('ab')};0,5;{comma(rng.random())}{beside}"

    whole = rows(f"batch;temp;arm;pscore;profit{beside}", 60, row) + (";;;;" + beside + "\n") * 2
    Path(LOG).write_text(whole)
    problem, text, _ = drafted(shell)
    assert contexts(problem) == ["temp"]
    assert f"without {beside.count(';')} empty column" in " ".join(text.replace("#", "").split())
    assert "fit: 60 episodes" in audited(shell, text)
    Path(OUT).unlink()
    lines = whole.splitlines()
    lines[41] = lines[41].rstrip("; ") + ";late" + beside[1:]
    Path(LOG).write_text("\n".join(lines))
    answer = shell("init", LOG, "--out", OUT)
    assert answer.code == 2 and "log.csv, row 41, column 6: 'late' stands in a column without a name" in answer.err
    assert not Path(OUT).exists()


def test_a_title_above_the_header_is_no_column(shell: Shell) -> None:
    table = rows("batch;arm;pscore;profit", 40, lambda rng, n: f"{n};{rng.choice('ab')};0.5;{rng.random():.2f}")
    Path(LOG).write_text("Report;;;\n" + table)
    answer = shell("init", LOG)
    assert answer.code == 2 and "the header is the first line: remove the lines above it" in answer.err


def test_a_text_context_is_declared_with_its_values(shell: Shell) -> None:
    def row(rng: random.Random, number: int) -> str:
        return f"{number},{rng.choice(['steel', 'brass', 'zinc'])},{rng.choice('ab')},0.5,{rng.random():.2f}"

    Path(LOG).write_text(rows("batch,material,arm,pscore,profit", 100, row))
    problem, text, questions = drafted(shell)
    assert problem.innermost.context[0].values == ("brass", "steel", "zinc")
    assert "- {column: material, values: [brass, steel, zinc]}" in text and asked(questions, "'material'")
    wrong = text.replace("{column: material, values: [brass, steel, zinc]}", "material")
    Path(OUT).write_text(wrong)
    answer = shell("audit", LOG, "--problem", OUT)
    assert answer.code == 2 and "{column: material, values: [brass, steel, zinc]}" in answer.err
    assert audited(shell, text).startswith("fit")
