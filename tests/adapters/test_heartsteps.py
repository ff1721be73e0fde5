"""HeartSteps: every row is kept, propensities follow availability, and a file that is not the published one is named."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from published_samples import suggestions, write_suggestions
from real_data import published

from aegis.adapters.datasets.heartsteps import read_heartsteps
from aegis.audit import audit_log
from aegis.certificate import Candidate, certify
from aegis.errors import LogError
from aegis.logs import Source
from aegis.policies import Function
from aegis.problem import Level, Rows


def read(path: Path, rows: list[dict[str, str]]):  # type: ignore[no-untyped-def]
    return read_heartsteps([write_suggestions(path / "suggestions.csv", rows)])


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 4))
def test_every_row_is_kept_and_says_what_the_file_says(tmp_path_factory, seed: int, people: int, days: int) -> None:  # type: ignore[no-untyped-def]
    rows = suggestions(people, days, seed)
    found = read(tmp_path_factory.mktemp("hs"), rows)
    log = found.table.to_pylist()
    assert len(log) == len(rows)
    for row, made in zip(rows, log, strict=True):
        available, sent = row["avail"] == "TRUE", row["send"] == "TRUE"
        assert (str(made["person"]), str(made["decision"]), made["slot"]) == (
            *(row["user.index"], row["decision.index"]),
            row["sugg.select.slot"],
        )
        assert made["send"] == ("yes" if sent else "no")
        assert (made["p_skip"], made["p_send"]) == ((0.4, 0.6) if available else (1.0, 0.0))
        assert (made["can_skip"], made["can_send"]) == (1, int(available))
        assert made["type"] == ("none" if not sent else "active" if row["send.active"] == "TRUE" else "sedentary")
        assert (made["p_none"], made["p_active"], made["p_sedentary"]) == ((0, 0.5, 0.5) if sent else (1, 0, 0))
        steps = row["jbsteps30"]
        assert made["log_steps"] == (None if steps == "" else pytest.approx(math.log(int(steps) + 0.5)))


def test_the_log_reads_with_its_problem(tmp_path: Path) -> None:
    rows = suggestions()
    found = read(tmp_path, rows)
    written = found.write(tmp_path / "out")
    batch = Source(written["log"], found.problem).read()
    assert len(batch) == len(rows)
    assert len(np.unique(batch.cluster)) == 4
    assert int((~batch.observed).sum()) == sum(row["jbsteps30"] == "" for row in rows)
    available = np.array([row["avail"] == "TRUE" for row in rows])
    assert (batch.levels["send"].mu_taken[~available] == 1).all()
    assert set(np.round(batch.levels["send"].mu_taken[available], 9)) <= {0.4, 0.6}
    assert (batch.levels["type"].mu_taken[batch.levels["send"].action == 0] == 1).all()


def test_what_does_not_fit_the_design_is_kept_and_said(tmp_path: Path) -> None:
    rows = suggestions()
    rows[0] |= {"avail": "FALSE", "send": "TRUE", "send.active": "TRUE", "send.sedentary": "FALSE"}
    rows[1] |= {"avail": "TRUE", "send": "TRUE", "send.active": "", "send.sedentary": ""}
    found = read(tmp_path, rows)
    first, second = found.table.to_pylist()[:2]
    assert (first["p_skip"], first["p_send"], first["can_skip"], first["can_send"]) == (0, 1, 0, 1)
    assert (second["send"], second["p_send"], second["type"], second["p_none"]) == ("yes", 0.6, "none", 1)
    assert "sent although not available: row 1; kept" in found.notes[-2]
    assert "of no recorded type: row 2; kept" in found.notes[-1]
    Source(found.table, found.problem).read()


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("avail", "yes", "row 3, column 'avail': found 'yes'; expected one of 'TRUE', 'FALSE'"),
        ("sugg.select.slot", "6", "row 3, column 'sugg.select.slot': found '6'"),
        ("sugg.select.update", "22.7.2015", "row 3, column 'sugg.select.update': found '22.7.2015'; expected a date"),
        ("sugg.select.update", "2015/13/1", "column 'sugg.select.update'"),
        ("jbsteps30", "-3", "row 3, column 'jbsteps30': found '-3'; expected a number of steps from 0 on, or nothing"),
        ("jbsteps30pre.zero", "", "row 3, column 'jbsteps30pre.zero'"),
        ("recognized.activity", "DANCING", "row 3, column 'recognized.activity': found 'DANCING'; expected one of 'STILL'"),
        ("decision.index", "0", "row 3, column 'decision.index': found '0'; expected each decision of a person once"),
        ("user.index", "anna", "row 3, column 'user.index': found 'anna'"),
    ],
)
def test_a_value_that_does_not_belong_there_is_named(tmp_path: Path, column: str, value: str, message: str) -> None:
    rows = suggestions()
    rows[2][column] = value
    with pytest.raises(LogError, match=message):
        read(tmp_path, rows)


def test_contradictions_are_named(tmp_path: Path) -> None:
    for change, message in (
        ({"avail": "TRUE", "send": ""}, "column 'send': found ''; expected TRUE or FALSE where avail is TRUE"),
        ({"send": "TRUE", "send.active": "TRUE", "send.sedentary": "TRUE"}, "expected one type, not both"),
        ({"send": "FALSE", "send.active": "TRUE", "send.sedentary": "FALSE"}, "expected TRUE where a suggestion has a type"),
    ):
        rows = suggestions()
        rows[2] |= change
        with pytest.raises(LogError, match=f"row 3, .*{message}"):
            read(tmp_path, rows)


def test_the_published_file() -> None:
    path = published("heartsteps") / "heartsteps" / "suggestions.csv"
    found = read_heartsteps([path])
    assert found.table.num_rows == 8274
    log = found.table.to_pylist()
    assert len({row["person"] for row in log}) == 37
    assert sum(row["log_steps"] is None for row in log) == 1041
    drawn = [row for row in log if row["can_skip"] and row["can_send"]]
    assert len(drawn) == 6590 and sum(row["send"] == "yes" for row in drawn) == 3915
    assert Counter(row["type"] for row in drawn if row["can_active"]) == {"active": 2187, "sedentary": 1727}
    source = Source(found.table, found.problem)
    assert audit_log(source, scope=found.problem.scope(["send"])).verdict != "refused"
    refused = audit_log(source, scope=found.problem.scope(["type"]))
    assert refused.verdict == "refused"
    assert "miscalibrated-propensities" in [finding.code for finding in refused.findings if finding.level == "type"]


def test_what_is_wrong_with_the_type_is_not_held_against_sending(tmp_path: Path) -> None:
    rows = suggestions(25, 10)
    for row in rows:
        if row["send"] == "TRUE":
            row |= {"send.active": "TRUE", "send.sedentary": "FALSE"}
    found = read(tmp_path, rows)
    source = Source(found.table, found.problem)
    assert audit_log(source, scope=found.problem.scope(["type"])).verdict == "refused"
    certificate = certify(source, [Candidate(Function(found.problem, always, ["send"]))], scopes=[["send"]])
    assert certificate.verdict.verdict == "not yet"
    assert "miscalibrated-propensities" in [finding["code"] for finding in certificate.findings]
    checked = {assumption.code: assumption.checked for assumption in certificate.assumptions}
    assert checked["propensities"].endswith(": no evidence against")


def always(level: Level, rows: Rows) -> np.ndarray:
    yes = np.where(rows["can_send"] > 0, 1.0, 0.0)
    return np.stack([1 - yes, yes], axis=1)
