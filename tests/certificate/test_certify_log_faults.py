"""Single faults in a log that is in order: each is told, or does at least not make a worse candidate look certified.

What no reading of a log can tell: a reward, context, action or propensity that is wrong and looks like any other (a changed
digit), rewards or contexts that belong to other rows, actions under each other's names where only the probability of the one
taken is logged, rows that never arrived, propensities off by less than chance, and a goal that is the wrong way round. For these
the tests assert what holds nevertheless: they do not certify a candidate that is worse, or the claim is true of what the log
says.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from log_faults import CellFault, ColumnFault, cell_faults, changed, column_faults, lines, swapped, values, with_cell, written
from small_logs import best_dose, better_policy, make_table, problem_of, source_of, worse, worse_policy

from aegis.certificate import CERTIFIED, REFUSED, certify
from aegis.errors import AegisError
from aegis.logs import Source
from aegis.policies import TargetColumns
from aegis.problem import Policy

CELLS = list(cell_faults())
COLUMNS = list(column_faults())


@pytest.fixture(scope="module")
def small() -> pa.Table:
    return make_table(60, target="worse")


@pytest.fixture(scope="module")
def large() -> pa.Table:
    return make_table(400, target="worse")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults") / "log.csv"


def outcome(source: Source, candidate: Policy, level: str) -> tuple[str, str]:
    """Return 'error' or the verdict, and what is said."""
    try:
        certificate = certify(source, candidate, scopes=[[level]], what=("gain",), ledger=False)
    except AegisError as error:
        return "error", str(error)
    return certificate.verdict.verdict, certificate.verdict.sentence


def test_there_are_more_than_two_hundred_faults() -> None:
    assert len({fault.name for fault in CELLS} | {fault.name for fault in COLUMNS}) >= 200
    assert len([fault for fault in [*CELLS, *COLUMNS] if fault.expected != "hidden"]) >= 200


@pytest.mark.parametrize("full", [True, False])
def test_the_log_without_a_fault_certifies_what_is_true(small: pa.Table, large: pa.Table, place: Path, full: bool) -> None:
    problem = problem_of(full)
    place.write_text(written(lines(small)))
    for source in (Source([place], problem), source_of(large, problem)):
        for level in problem.names:
            assert outcome(source, worse_policy(problem), level)[0] == "not yet"
    for level in problem.names:
        assert outcome(source_of(large, problem), better_policy(problem), level)[0] == CERTIFIED


@pytest.mark.parametrize("fault", CELLS, ids=lambda fault: fault.name)
def test_a_wrong_cell(fault: CellFault, small: pa.Table, place: Path) -> None:
    place.write_text(with_cell(small, fault))
    problem = problem_of(fault.full)
    found, message = outcome(Source([place], problem), worse_policy(problem), "dose")
    if fault.expected == "hidden":
        assert found != CERTIFIED
        return
    assert found == fault.expected, message
    assert any(word in message for word in fault.words), message
    assert f"row {fault.row + 1}," in message, message


@pytest.mark.parametrize("fault", COLUMNS, ids=lambda fault: fault.name)
def test_a_wrong_column(fault: ColumnFault, large: pa.Table) -> None:
    problem = problem_of(fault.full)
    candidate: Policy = TargetColumns(problem, {"dose": "new_dose"}) if fault.target else worse_policy(problem)
    found, message = outcome(source_of(fault.change(large), problem), candidate, fault.level)
    if fault.expected == "hidden":
        assert found != CERTIFIED, message
        return
    assert found == fault.expected, message
    assert any(word in message for word in fault.words), message


@pytest.mark.parametrize("line", [1, 90, 180])
@pytest.mark.parametrize("fault", ["a field too few", "a field too many", "half a line"])
def test_a_line_that_is_not_whole(small: pa.Table, place: Path, line: int, fault: str) -> None:
    rows = lines(small)
    rows[line] = {"a field too few": rows[line][:-1], "a field too many": [*rows[line], "1"], "half a line": rows[line][:7]}[
        fault
    ]
    place.write_text(written(rows))
    problem = problem_of()
    found, message = outcome(Source([place], problem), worse_policy(problem), "dose")
    assert found == "error" and "log.csv" in message


def test_two_columns_of_one_name(small: pa.Table, place: Path) -> None:
    rows = lines(small)
    rows[0][rows[0].index("scrap")] = "margin"
    place.write_text(written(rows))
    found, message = outcome(Source([place], problem_of()), worse_policy(problem_of()), "dose")
    assert found == "error" and "'margin'" in message


@pytest.mark.parametrize("full", [True, False])
def test_the_order_of_rows_changes_nothing(large: pa.Table, full: bool) -> None:
    problem = problem_of(full)
    tables = [large, large.sort_by("margin"), large.take(pa.array(np.arange(large.num_rows)[::-1]))]
    found = [
        certify(source_of(t, problem), worse_policy(problem), scopes=[["dose"]], method="plain", ledger=False) for t in tables
    ]
    assert len({certificate.level("dose").gain_lower for certificate in found}) == 1


def test_contexts_of_other_rows_cannot_be_told_and_the_claim_is_about_what_the_log_says(large: pa.Table) -> None:
    """A candidate that reads the temperature of the row before is another policy; of that one the claim is true."""
    problem = problem_of()
    late = changed("temperature", lambda t: np.roll(t, 1))(large)
    result = certify(source_of(late, problem), worse_policy(problem), scopes=[["dose"]], ledger=False).level("dose")
    seen, true = values(late, "temperature"), best_dose(values(large, "temperature"))
    chances = np.asarray(worse(problem.level("dose"), {"temperature": seen}))[np.arange(true.size), true]
    assert result.gain_lower is not None and result.gain_lower < 0.45 * (chances.mean() - 0.25)


def test_a_goal_the_wrong_way_round_cannot_be_told_and_is_stated(large: pa.Table) -> None:
    problem = problem_of(reward=", goal: minimise")
    assert outcome(source_of(large, problem), better_policy(problem), "dose")[0] == "not yet"
    certificate = certify(source_of(large, problem), worse_policy(problem), scopes=[["dose"]], ledger=False)
    assert certificate.certified and certificate.problem["reward"]["goal"] == "minimise"


def test_labels_of_other_actions_are_told_where_whole_distributions_are_logged(large: pa.Table) -> None:
    relabelled = changed("dose", lambda a: np.where(a == 1, 2, np.where(a == 2, 1, 3)))(large)
    full, taken = problem_of(), problem_of(full=False)
    assert outcome(source_of(relabelled, full), better_policy(full), "dose")[0] == REFUSED
    assert outcome(source_of(relabelled, taken), worse_policy(taken), "dose")[0] != "error"  # what is there is consistent


def test_two_faults_are_both_told(small: pa.Table, place: Path) -> None:
    rows = lines(small)
    rows[4][rows[0].index("p_dose")] = "-1"
    rows[9][rows[0].index("temperature")] = "warm"
    place.write_text(written(rows))
    problem = problem_of(full=False)
    found, message = outcome(Source([place], problem), worse_policy(problem), "dose")
    assert found == "error" and "row 4, column 'p_dose'" in message and "row 9, column 'temperature'" in message


def test_swapped_propensities_of_two_levels(large: pa.Table) -> None:
    """Both levels are at fault: neither scope is certified, for the better candidate neither."""
    taken = problem_of(full=False)
    for policy in (better_policy(taken), worse_policy(taken)):
        found = outcome(source_of(swapped("p_dose", "p_setting")(large), taken), policy, "dose")
        assert found[0] == "error"
