"""Certificates of long logs, read in pieces: the numbers of one pass, whoever reads the pieces; what is refused is told alike."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_logs import better, better_policy, make_table, problem_of, replaced

from aegis.agents import CandidateSettings, learn
from aegis.certificate import Candidate, Certificate, certify, verify
from aegis.errors import LogError
from aegis.logs import Source, Split
from aegis.logs.formats import base
from aegis.policies import Function, TargetColumns
from aegis.problem import Problem, parent_means

GUARD = "guards: [{column: scrap, range: [0, 1], max_worsening: 0.05}]"
EPISODES = 200


@pytest.fixture(autouse=True)
def _short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "CHUNK_ROWS", 100)


def written(folder: Path, table: pa.Table, files: int = 2, group: int = 25) -> list[Path]:
    """Write a table as files with small row groups; episodes go on from one to the next."""
    bounds = np.linspace(0, table.num_rows, files + 1).astype(int) + 1
    bounds[0], bounds[-1] = 0, table.num_rows
    paths = []
    for number, (start, stop) in enumerate(itertools.pairwise(bounds)):
        paths.append(folder / f"part-{number}.parquet")
        pq.write_table(table.slice(start, stop - start), paths[-1], row_group_size=group)
    return paths


def in_pieces(paths: list[Path], problem: Problem, candidate: Any, **asked: Any) -> Certificate:
    source = Source(paths, problem)
    assert source.chunks() is not None
    return certify(source, candidate, ledger=False, now="now", **asked)


def in_one_pass(paths: list[Path], problem: Problem, candidate: Any, **asked: Any) -> Certificate:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "CHUNK_ROWS", 10**9)
        source = Source(paths, problem)
        assert source.chunks() is None
        return certify(source, candidate, ledger=False, now="now", **asked)


def numbers(certificate: Certificate) -> Any:
    """Return everything that is certified, estimated, counted and found; not how weights are described and how bounds grew."""
    found = certificate.to_json()
    levels = [{key: value for key, value in level.items() if key not in ("path", "weights")} for level in found["levels"]]
    findings = [item["code"] for item in found["findings"]]
    return found["verdict"], found["counts"], levels, findings, found["assumptions"], found["diagnostics"]["subgroups"]


@pytest.mark.parametrize(
    ("head", "asked"),
    [
        ("", {}),
        (GUARD, {"method": "plain"}),
        (GUARD, {"method": "robust", "by": ["task"]}),
        ("cluster: line", {}),
        ("time: started", {"scopes": [["dose"]]}),
    ],
)
def test_the_numbers_of_one_pass(tmp_path: Path, head: str, asked: dict[str, Any]) -> None:
    problem, paths = problem_of(head=head), written(tmp_path, make_table(EPISODES))
    candidate = Candidate(better_policy(problem), "better")
    pieces = in_pieces(paths, problem, candidate, **asked)
    assert numbers(pieces) == numbers(in_one_pass(paths, problem, candidate, **asked))
    assert pieces.verdict.verdict == "certified"


@pytest.mark.parametrize("method", ["auto", "plain", "robust"])
@pytest.mark.parametrize("full", [True, False])
def test_missing_rewards_leave_units_beside_them_alone(tmp_path: Path, method: str, full: bool) -> None:
    table = make_table(EPISODES)
    rewards = table["margin"].to_pylist()
    for row in (3, 4, 350):
        rewards[row] = None
    problem, paths = problem_of(full), written(tmp_path, replaced(table, "margin", rewards))
    columns = TargetColumns(problem, {"recipe": "new_setting", "dose": "new_dose"})
    pieces = in_pieces(paths, problem, columns, method=method)
    assert numbers(pieces) == numbers(in_one_pass(paths, problem, columns, method=method))


def test_columns_and_learned_policies(tmp_path: Path) -> None:
    problem, paths = problem_of(), written(tmp_path, make_table(EPISODES))
    columns = TargetColumns(problem, {"recipe": "new_setting", "dose": "new_dose"})
    learned = learn(Source(paths, problem), Split("hash", "mine", 0.5), CandidateSettings("capped", 2.0, 3, 1))
    for candidate in (columns, learned):
        assert numbers(in_pieces(paths, problem, candidate)) == numbers(in_one_pass(paths, problem, candidate))


@pytest.mark.ci
def test_two_processes_give_the_same_bits(tmp_path: Path) -> None:
    problem, paths = problem_of(), written(tmp_path, make_table(EPISODES))
    candidate = Candidate(better_policy(problem), "better")
    alone = in_pieces(paths, problem, candidate)
    together = in_pieces(paths, problem, candidate, workers=2)
    assert together.to_json() == alone.to_json()
    assert verify(alone.to_json(), Source(paths, problem), [candidate]).holds


def test_what_cannot_be_sent_is_done_here(tmp_path: Path) -> None:
    problem, paths = problem_of(), written(tmp_path, make_table(EPISODES))
    local = Candidate(Function(problem, lambda level, rows: better(level, rows)), "better")
    assert numbers(in_pieces(paths, problem, local, workers=2)) == numbers(in_one_pass(paths, problem, local))


def test_a_refusal_in_a_later_piece_names_its_row_and_keeps_the_audit(tmp_path: Path) -> None:
    table, problem = make_table(EPISODES), problem_of()
    rewards = table["margin"].to_pylist()
    rewards[500] = 3.0
    paths = written(tmp_path, replaced(table, "margin", rewards))
    pieces = in_pieces(paths, problem, better_policy(problem), workers=2)
    assert pieces.verdict.verdict == "refused"
    codes = [item["code"] for item in pieces.findings]
    assert "reward-outside-range" in codes
    one = in_one_pass(paths, problem, better_policy(problem))
    assert [item["code"] for item in one.findings if item["severity"] == "refused"] == [
        item["code"] for item in pieces.findings if item["severity"] == "refused"
    ]
    place = "part-1.parquet, row 200"
    assert all(place in str(level.reason) for level in (*pieces.levels, *one.levels))


def test_a_fault_in_a_later_piece_is_an_error(tmp_path: Path) -> None:
    table = make_table(EPISODES)
    chances = table["p_1"].to_pylist()
    chances[550] = -0.25
    paths = written(tmp_path, replaced(table, "p_1", chances))
    for workers in (1, 2):
        with pytest.raises(LogError, match=r"part-1\.parquet, row 250, column 'p_1'"):
            certify(Source(paths, problem_of()), better_policy(problem_of()), ledger=False, workers=workers)


def test_what_was_seen_is_recognised_in_every_piece(tmp_path: Path) -> None:
    problem, table = problem_of(), make_table(EPISODES)
    learned = learn(Source(table, problem), Split("hash", "mine", 0.5), CandidateSettings("capped", 2.0, 3, 1))
    renamed = replaced(table, "batch", [f"x{name[1:]}" for name in table["batch"].to_pylist()])
    certificate = in_pieces(written(tmp_path, renamed), problem, learned)
    assert certificate.verdict.verdict == "refused"
    assert "was learned from" in str(certificate.levels[0].reason)


def test_how_bounds_grew_is_told_piece_by_piece(tmp_path: Path) -> None:
    problem, paths = problem_of(), written(tmp_path, make_table(EPISODES))
    candidate = Candidate(better_policy(problem), "better")
    pieces, one = (found(paths, problem, candidate) for found in (in_pieces, in_one_pass))
    for level, other in zip(pieces.levels, one.levels, strict=True):
        units = [point.units for point in level.path]
        assert units == sorted(units)
        early = [point for point in other.path if point.units <= 20]
        assert early
        assert list(level.path[: len(early)]) == early


def test_everybody_is_told_how_far_it_is(tmp_path: Path) -> None:
    problem, paths = problem_of(), written(tmp_path, make_table(EPISODES))
    told: list[int] = []
    in_pieces(paths, problem, better_policy(problem), report=told.append)
    assert told == sorted(told)
    assert len(told) > 3


def test_what_stands_beside_a_unit_makes_no_difference_to_it() -> None:
    value, zero = np.array([0.1234567890123456]), np.zeros(1, dtype=np.int64)
    beside = parent_means(np.array([0, 1, 1]), np.array([value[0], 0.5, 0.25]), 2)
    assert parent_means(zero, value, 1)[0] == beside[0]
