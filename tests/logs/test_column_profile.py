"""Numbers that are written for people, in drafts: what is said of them, and that nothing else is made of them."""

from __future__ import annotations

import random
import shlex
from pathlib import Path

import pyarrow as pa
import pytest

from aegis.errors import InputError
from aegis.logs import draft_problem
from aegis.logs.draft.column_profile import LogProfile, SampleGroups, describe_formatted_numbers


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["900,84", "1.663,77"], "thousands points (1.663,77): write them without (1663,77)"),
        (["1.000.663", "2.000.000"], "thousands points (1.000.663): write them without (1000663)"),
        (["1,663.77", "12.5"], "thousands commas (1,663.77): write them without (1663.77)"),
        (["1 663,77", "3"], "gaps between thousands (1 663,77): write them without (1663,77)"),
        (["-1'663.77"], "gaps between thousands (-1'663.77): write them without (-1663.77)"),
        (["60 %", "40%", "2,5 %"], "percent signs (60 %): write them without, as shares (0.6)"),
        (["60 %", "much"], ""),
        (["1.663,77", "b"], ""),
        (["10.1.1.5", "10.1.1.6"], ""),
        (["2025/0001", "a-100", "01.02.2025"], ""),
    ],
)
def test_what_is_said_of_numbers_that_are_read_as_text(texts: list[str], said: str) -> None:
    told = describe_formatted_numbers(LogProfile.of(pa.table({"x": texts})).looks["x"])
    assert told.endswith(said) if said else told == ""


def orders(folder: Path, name: str = "Ertrag") -> Path:
    """Return orders with a share in per cent and an amount with points between thousands."""
    rng = random.Random(2)
    path = folder / "orders.csv"
    lines = [f"Auftrag;Temp;Variante;Anteil;{name}"]
    for number in range(300):
        first = rng.random() < 0.6
        amount = f"{rng.randint(0, 2)}.{rng.randint(100, 999)},{rng.randint(10, 99)}"
        lines.append(
            f"{number + 1};{rng.random() * 30:.3f};{'A' if first else 'B'};{60 if first else 40} %;{amount}".replace(".", ",", 1)
        )
    path.write_text("\n".join(lines))
    return path


def test_such_columns_are_asked_about_and_nothing_is_made_of_them(tmp_path: Path) -> None:
    draft = draft_problem(orders(tmp_path, "Menge"), actions=("Variante",))
    assert any(text.startswith("'Menge' looks like numbers with thousands points") for text in draft.questions)
    assert any(text.startswith("'Anteil' looks like numbers with percent signs (") for text in draft.questions)
    assert {"Menge", "Anteil"} <= {name for name, _ in draft.unused}
    assert draft.problem is not None and draft.problem.episode == ("Auftrag",)
    used = {*draft.problem.variables, *draft.problem.episode, draft.problem.cluster, draft.problem.reward.column}
    assert not {"Menge", "Anteil"} & used
    with pytest.raises(InputError, match="'Anteil' cannot be a propensity as it is: it looks like numbers with percent signs"):
        draft_problem(orders(tmp_path), actions=("Variante",), propensities=("Anteil",))


def test_a_reward_that_cannot_be_read_is_not_replaced_by_another_column(tmp_path: Path) -> None:
    draft = draft_problem(orders(tmp_path), actions=("Variante",))
    assert draft.problem is None and "column: Temp" not in draft.text
    assert any(text.startswith("'Ertrag' looks like numbers with thousands points") for text in draft.questions)
    assert any(text.startswith("Which column is the reward? 'Ertrag' by its name") for text in draft.questions)


def test_labels_in_per_cent_may_be_an_action(tmp_path: Path) -> None:
    draft = draft_problem(orders(tmp_path, "Menge"), actions=("Anteil",))
    assert draft.problem is not None and draft.problem.innermost.actions.values == ("40 %", "60 %")


def test_doses_are_offered_as_actions_and_commands_are_quoted(tmp_path: Path) -> None:
    rng = random.Random(3)
    path = tmp_path / "log.csv"
    lines = ["nr,menge (ml),w'keit,gewinn"]
    lines += [f"{number},{rng.random() * 3:.6f},{rng.choice((0.25, 0.5))},{rng.random():.4f}" for number in range(300)]
    path.write_text("\n".join(lines))
    (asked,) = [text for text in draft_problem(path).questions if text.startswith("Which column is the action?")]
    assert "Columns with any number, as a dose or set-point has: menge (ml)" in asked
    assert "--action COLUMN" in asked
    draft = draft_problem(path, actions=("menge (ml)",))
    (asked,) = [text for text in draft.questions if "--propensity" in text]
    command = asked.split("draft again with ")[1].split(" if it does")[0].rstrip(".")
    assert shlex.split(command)[1].startswith("menge (ml)=")


def test_groups() -> None:
    sheet = LogProfile.of(
        pa.table({"e": [1, 1, 2, 2], "s": [0, 1, 0, 1], "x": [5.0, 5.0, 6.0, 6.0], "gap": [1.0, None, float("nan"), 2.0]})
    )
    episodes = SampleGroups.by(sheet.looks["e"].codes)
    assert episodes.constant(sheet.looks["x"]) and not episodes.constant(sheet.looks["s"])
    assert episodes.split_by(sheet.looks["s"]).single
    assert sheet.looks["gap"].missing == 2 and not sheet.looks["gap"].key
