"""The e-mail test: every customer is kept, the incumbent sends nothing, and a gain over it is certified on the published file."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from published_samples import customers, write_customers
from real_data import published
from scipy import stats
from walk_through import blocks

from aegis.adapters import ConvertedLog
from aegis.adapters.datasets.hillstrom import EMAILS, hillstrom_problem, read_hillstrom
from aegis.agents import learn
from aegis.audit import audit_log
from aegis.certificate import Candidate, certify
from aegis.errors import LogError, SettingError
from aegis.logs import Source, Split
from aegis.policies import Function
from aegis.problem import Level, Rows, load_problem

TEXTS = ("history_segment", "zip_code", "channel")
NUMBERS = ("recency", "history", "mens", "womens", "newbie", "visit", "conversion", "spend")


def read(folder: Path, rows: list[dict[str, str]]) -> ConvertedLog:
    return read_hillstrom([write_customers(folder / "hillstrom.csv", rows)])


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 80))
def test_every_row_is_kept_and_says_what_the_file_says(tmp_path_factory: pytest.TempPathFactory, seed: int, count: int) -> None:
    rows = customers(count, seed)
    found = read(tmp_path_factory.mktemp("hillstrom"), rows)
    log = found.table.to_pylist()
    assert [row["customer"] for row in log] == list(range(1, count + 1))
    for row, made in zip(rows, log, strict=True):
        assert made["email"] == row["segment"]
        assert all(made[name] == row[name] for name in TEXTS)
        assert all(made[name] == float(row[name]) for name in NUMBERS)


def test_the_log_reads_with_its_problem(tmp_path: Path) -> None:
    written = read(tmp_path, customers()).write(tmp_path / "out")
    problem = load_problem(written["problem"])
    assert problem == hillstrom_problem()
    (level,) = problem.levels
    assert level.incumbent is not None and level.incumbent.plain() == {"action": "No E-Mail"}
    named = {column for variable in level.context for column in variable.columns}
    assert not named & {"visit", "conversion", "spend"}, "outcomes are no contexts"
    batch = Source(written["log"], problem).read()
    np.testing.assert_allclose(batch.levels["email"].mu_taken, 1 / 3)


def test_a_guard_is_offered(tmp_path: Path) -> None:
    path = write_customers(tmp_path / "hillstrom.csv", customers())
    found = read_hillstrom([path], guard="conversion")
    (guard,) = found.problem.guards
    assert (guard.column, guard.goal, guard.max_worsening) == ("conversion", "maximise", 0.005)
    Source(found.table, found.problem).read()
    with pytest.raises(SettingError, match="unknown guard 'spend'"):
        read_hillstrom([path], guard="spend")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("segment", "Kids E-Mail", "found 'Kids E-Mail'; expected one of 'No E-Mail', 'Mens E-Mail', 'Womens E-Mail'"),
        ("segment", "", "found ''; expected one of 'No E-Mail'"),
        ("history_segment", "8) more", "found '8) more'; expected one of '1) "),
        ("zip_code", "Suburban", "found 'Suburban'; expected one of 'Rural', 'Surburban', 'Urban'"),
        ("channel", "Fax", "found 'Fax'; expected one of 'Multichannel'"),
        ("recency", "ten", "found 'ten'; expected a number of months from 1 to 12"),
        ("recency", "13", "found '13'; expected a number of months from 1 to 12"),
        ("history", "-1", "found '-1'; expected an amount from 0 on"),
        ("history", "$142.44", "expected an amount from 0 on"),
        ("mens", "yes", "found 'yes'; expected 0 or 1"),
        ("womens", "2", "found '2'; expected 0 or 1"),
        ("newbie", "", "found ''; expected 0 or 1"),
        ("visit", "0.5", "found '0.5'; expected 0 or 1"),
        ("conversion", "nan", "found 'nan'; expected 0 or 1"),
        ("spend", "inf", "found 'inf'; expected an amount from 0 on"),
    ],
)
def test_a_value_that_does_not_belong_there_is_named(tmp_path: Path, column: str, value: str, message: str) -> None:
    rows = customers()
    rows[2][column] = value
    with pytest.raises(LogError) as error:
        read(tmp_path, rows)
    assert f"{tmp_path / 'hillstrom.csv'}, row 3, column '{column}': " in str(error.value) and message in str(error.value)


def test_contradictions_are_named(tmp_path: Path) -> None:
    for change, message in (
        ({"visit": "0", "conversion": "1", "spend": "9"}, "row 3, column 'visit': found '0'; expected 1 where conversion is 1"),
        ({"conversion": "0", "spend": "9"}, "row 3, column 'conversion': found '0'; expected 1 where spend is above 0"),
    ):
        rows = customers()
        rows[2] |= change
        with pytest.raises(LogError, match=message):
            read(tmp_path, rows)


@pytest.mark.parametrize("column", customers(1)[0])
def test_a_missing_column_is_named(tmp_path: Path, column: str) -> None:
    rows = [{name: value for name, value in row.items() if name != column} for row in customers()]
    with pytest.raises(LogError, match=rf"hillstrom\.csv: the column '{column}' is there not at all"):
        read(tmp_path, rows)


def mens(level: str | Level, rows: Rows) -> npt.NDArray[np.float64]:
    """The men's e-mail, for every customer."""
    return np.tile([0.0, 1.0, 0.0], (len(rows["recency"]), 1))


@cache
def _tidied(path: Path, guard: str) -> ConvertedLog:
    return read_hillstrom([path], guard=guard)


def data(guard: str = "none") -> ConvertedLog:
    """Return the published file as a log, or skip."""
    return _tidied(published("hillstrom") / "hillstrom" / "hillstrom.csv", guard)


def student(values: npt.NDArray[np.float64], risk: float = 0.05) -> float:
    """Return the one-sided bound of Student's t."""
    return float(values.mean() + stats.t.ppf(risk, values.size - 1) * stats.sem(values))


def column(found: ConvertedLog, name: str) -> npt.NDArray[Any]:
    return np.array(found.table[name].to_pylist())


def test_the_published_file() -> None:
    found = data()
    assert found.table.num_rows == 64_000
    email, visit = column(found, "email"), column(found, "visit")
    assert Counter(email.tolist()) == {"No E-Mail": 21_306, "Mens E-Mail": 21_307, "Womens E-Mail": 21_387}
    share = stats.chisquare([int((email == name).sum()) for name in EMAILS])
    assert share.pvalue > 0.05, "a third each, up to chance"
    assert visit.sum() == 9394 and column(found, "conversion").sum() == 578 and column(found, "spend").max() == 499
    source = Source(found.table, found.problem)
    assert audit_log(source).verdict == "fit"


def test_always_mens_in_the_published_file() -> None:
    found = data()
    email, visit = column(found, "email"), column(found, "visit")
    sent, none = email == "Mens E-Mail", email == "No E-Mail"
    over_log, over_none = (3.0 * sent - 1.0) * visit, 3.0 * (sent * 1.0 - none) * visit
    assert over_log.mean() == pytest.approx(0.036, abs=0.001) and stats.sem(over_log) == pytest.approx(0.002, abs=0.0005)
    assert student(over_log) == pytest.approx(0.0320, abs=0.0001)
    assert over_none.mean() == pytest.approx(0.0765, abs=0.0001) and student(over_none) == pytest.approx(0.0704, abs=0.0001)
    shares = {name: visit[email == name].mean() for name in EMAILS}
    assert shares["Mens E-Mail"] - visit.mean() == pytest.approx(0.0360, abs=0.0001)
    assert shares["Mens E-Mail"] - shares["No E-Mail"] == pytest.approx(0.0766, abs=0.0001)


def test_a_fixed_candidate_alone_is_certified_on_nearly_every_customer() -> None:
    found = data()
    certificate = certify(
        Source(found.table, found.problem), [Candidate(Function(found.problem, mens))], what=["gain"], ledger=False
    )
    (level,) = certificate.levels
    assert certificate.verdict.verdict == "certified" and level.units == 60_725
    assert level.gain_lower == pytest.approx(0.0613, rel=0.02)
    assert level.gain_lower < student(_gains(found, np.ones(64_000, dtype=bool))) < 0.0765


def test_the_learned_policy_sends_the_mens_e_mail_to_everyone_and_is_certified() -> None:
    found = data()
    source = Source(found.table, found.problem)
    learned = learn(source)
    np.testing.assert_array_equal(learned.policy.full("email", source.read())[0].mean(axis=0), [0, 1, 0])
    split = Split.of(learned.record["split"])
    certificate = certify(source, [learned, Candidate(Function(found.problem, mens))], what=["gain"], ledger=False)
    kept = column(found, "customer").astype(np.int64)
    units = source.read(side="certify", split=split)
    gains = _gains(found, np.isin(kept, units.episode.astype(np.int64)))
    assert [level.verdict for level in certificate.levels] == ["certified", "certified"]
    for level in certificate.levels:
        assert level.units == gains.size == 31_908
        assert level.gain_lower == pytest.approx(0.0528, rel=0.02) and level.gain_lower < student(gains, 0.025)
    assert student(gains) == pytest.approx(0.0651, abs=0.0001)


def test_purchases_do_not_fall() -> None:
    found = data("conversion")
    certificate = certify(
        Source(found.table, found.problem), [Candidate(Function(found.problem, mens))], what=["gain"], ledger=False
    )
    (level,) = certificate.levels
    (guard,) = level.guards
    assert certificate.verdict.verdict == guard.verdict == "certified"
    assert guard.change_lower is not None and guard.change_lower > 0, "purchases rise, too"


def test_the_answers_on_the_page_are_those_of_the_problem_file(tmp_path: Path) -> None:
    (text,) = [text for kind, text in blocks("hillstrom.md") if kind == "yaml"]
    page = yaml.safe_load(text)
    written = read(tmp_path, customers()).write(tmp_path / "out")
    file = yaml.safe_load(written["problem"].read_text(encoding="utf-8"))
    assert page["episode"] == file["episode"]
    assert page["reward"].items() <= file["reward"].items()
    (stated,), (kept,) = page["levels"], file["levels"]
    assert stated.items() <= kept.items()


def _gains(found: ConvertedLog, rows: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Return what each customer says about the gain of the men's e-mail over none, weighted by the documented probabilities."""
    email, visit = column(found, "email")[rows], column(found, "visit")[rows]
    return 3.0 * ((email == "Mens E-Mail") * 1.0 - (email == "No E-Mail")) * visit
