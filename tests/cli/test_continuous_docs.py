"""docs/continuous.md does what it says: its commands run one after the other, its file and its callable fit the world."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest
from typed import done

from aegis.problem import load_problem, parse_problem

PAGE = (Path(__file__).parents[2] / "docs" / "continuous.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    aegis (.*)$", PAGE, flags=re.M)


def block(kind: str) -> str:
    return str(re.findall(rf"```{kind}\n(.*?)```", PAGE, flags=re.S)[0])


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Return the folder in which the commands of the page were typed, and what each printed."""
    place = tmp_path_factory.mktemp("docs")
    (place / "mine.py").write_text(block("python"))
    (place / "today.csv").write_text(block("csv"))
    printed = {}
    with contextlib.chdir(place), pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "200")
        for line in COMMANDS:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                assert done(*shlex.split(line)) == 0, line
            printed[line] = out.getvalue()
    return place, printed


def test_the_shown_verdict_is_the_one_printed(typed: tuple[Path, dict[str, str]]) -> None:
    printed = next(text for line, text in typed[1].items() if line.startswith("certify") and "policy/" in line)
    assert printed.splitlines()[0] == block("text").strip()
    assert "acting exactly at the chosen number" in printed


def test_the_file_on_the_page_fits_the_log(typed: tuple[Path, dict[str, str]]) -> None:
    shown, written = parse_problem(block("yaml")), load_problem(typed[0] / "log" / "problem.yaml")
    assert shown.innermost.propensity == written.innermost.propensity
    assert shown.innermost.actions.values == written.innermost.actions.values
    assert shown.innermost.actions.bandwidth == written.innermost.actions.bandwidth
    assert shown.reward.range == written.reward.range


def test_decisions_come_with_densities_to_log(typed: tuple[Path, dict[str, str]]) -> None:
    table = pyarrow.csv.read_csv(typed[0] / "decisions.csv")
    doses, densities = table["drawn_dose"].to_numpy(), table["density_dose"].to_numpy()
    assert ((doses >= 0) & (doses <= 10)).all() and densities == pytest.approx(np.full(2, 1 / 1.2))
    with contextlib.chdir(typed[0]), contextlib.redirect_stdout(io.StringIO()) as out:
        arguments = "policy/ today.csv --problem log/problem.yaml --level dose --json"
        assert done("decide", *shlex.split(arguments)) == 0
    found = json.loads(out.getvalue())
    assert found["interval"] == [0, 10] and [item["action"] for item in found["decisions"]] == pytest.approx(doses.tolist())
    with contextlib.chdir(typed[0]), contextlib.redirect_stdout(io.StringIO()) as out:
        assert done("decide", *shlex.split("policy/ today.csv --problem log/problem.yaml")) == 0
    assert "its density" in out.getvalue()


def test_a_plan_says_that_it_is_for_finite_actions(typed: tuple[Path, dict[str, str]]) -> None:
    with contextlib.chdir(typed[0]), contextlib.redirect_stdout(io.StringIO()) as out:
        assert done("plan", "--problem", "log/problem.yaml", "--gain", "0.1", "--level", "dose", "--json") == 0
    found = json.loads(out.getvalue())
    (level,) = found["levels"]
    assert not level["rows"] and "there is no planner for intervals" in level["notes"][0]
    assert found["assumed"] == [] and not any("not yet" in note for note in level["notes"])


def test_the_draft_of_the_log_names_the_interval(typed: tuple[Path, dict[str, str]]) -> None:
    with contextlib.chdir(typed[0]), contextlib.redirect_stdout(io.StringIO()) as out:
        assert done("init", "log/log.parquet", "--out", "draft.yaml") == 0
    assert "dose (from 0 to" in out.getvalue()
    assert load_problem(typed[0] / "draft.yaml").innermost.actions.continuous


def test_every_key_of_an_interval_is_on_the_page() -> None:
    for key in ("interval", "bandwidth", "points", "atoms", "lipschitz"):
        assert f"| `{key}` |" in PAGE
