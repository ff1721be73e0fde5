"""One pass, in pieces or in parts: the same findings, and asking changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow.parquet as pq
import pytest
from audit_cases import audited, in_parts, logged, taken_only
from fault_logs import FAULTS, Log, base, found, run
from hostile_logs import certified, one_level, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.audit import Audit, Auditor, audit_log
from aegis.audit.check import Thinning
from aegis.errors import LogError, SettingError
from aegis.logs import Source, formats, write_log
from aegis.policies import Legacy, Uniform
from aegis.problem import Batch, Problem
from aegis.rng import stream
from case_choice import few

PARTS = 2


def split(batch: Batch, parts: int = PARTS) -> list[Batch]:
    return [batch.take_episodes(part) for part in np.array_split(np.arange(len(batch)), parts)]


@cache
def two_audits(make: Callable[[], Log]) -> tuple[Audit, Audit]:
    """Return the audit of a log in two batches and the one in two parts: several codes may name the same log."""
    problem, batch = make()
    parts = split(batch)
    return audited(problem, *parts), in_parts(problem, parts)


MERGED = [code for code in FAULTS if code != "several-versions"]


@pytest.mark.parametrize("code", few(MERGED, MERGED[::4]))
def test_faults_are_found_in_parts(code: str) -> None:
    whole, audit = two_audits(FAULTS[code])
    if code in whole.codes():  # a fault that two batches hide from one auditor is hidden from two
        assert found(audit, code).severity == found(run(code), code).severity
    counted = ("episodes", "decisions", "clusters", "smallest_reward", "largest_reward")
    assert [audit.figures.get(name) for name in counted] == [whole.figures.get(name) for name in counted]


def test_sums_are_those_of_one_auditor() -> None:
    problem, batch = logged("clinic", "natural", 240, 3)
    policy = Legacy(problem, {name: Uniform() for name in problem.names})
    parts = split(batch, 4)
    whole, audit = audited(problem, *parts, policy=policy), in_parts(problem, parts, policy)
    assert (audit.verdict, audit.codes()) == (whole.verdict, whole.codes())
    assert audit.figures.keys() == whole.figures.keys()
    for name, value in whole.figures.items():
        assert audit.figures[name] == (value if isinstance(value, str) else pytest.approx(value, abs=1e-9))


def test_costly_checks_leave_out_what_is_skimmed() -> None:
    problem, batch = FAULTS["miscalibrated-propensities"]()
    auditor = Auditor(problem)
    auditor.place(batch)
    skimmed = auditor.part(0, skimmed=True)
    skimmed.add(batch)
    audit = skimmed.result()
    assert "miscalibrated-propensities" not in audit.codes()
    assert audit.figures["decisions"] == len(batch.levels["inner"])
    assert not Thinning(10).wants(5, skimmed=True)


@pytest.mark.ci
def test_a_log_in_pieces_is_audited_as_a_whole(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, batch = FAULTS["miscalibrated-propensities"]()
    path = f"{tmp_path}/log.parquet"
    write_log(batch, problem, path)
    pq.write_table(pq.read_table(path), path, row_group_size=500)
    whole = audit_log(Source(path, problem))
    monkeypatch.setattr(formats.base, "CHUNK_ROWS", 1500)
    source = Source(path, problem)
    assert source.chunks() is not None
    told: list[int] = []
    alone = audit_log(source, report=told.append)
    assert alone.codes() == whole.codes()
    assert told[-1] <= len(batch)
    assert audit_log(source, workers=2).plain() == alone.plain()


def alike(one: Audit, other: Audit) -> None:
    assert (one.verdict, one.codes()) == (other.verdict, other.codes())
    assert one.figures.keys() == other.figures.keys()
    for name, value in one.figures.items():
        assert value == (other.figures[name] if isinstance(value, str) else pytest.approx(other.figures[name], abs=1e-9))


@cache
def of_two_batches(taken: bool) -> tuple[Problem, Batch, Legacy, Audit]:
    problem, batch = logged("clinic", "natural", 160, 3)
    if taken:
        problem, batch = taken_only(problem, batch)
    policy = Legacy(problem, {name: Uniform() for name in problem.names})
    batches = (batch.take_episodes(np.arange(40)), batch.take_episodes(np.arange(40, 160)))
    return problem, batch, policy, audited(problem, *batches, policy=policy)


@settings(max_examples=6, deadline=None)
@given(st.lists(st.integers(1, 119), min_size=1, max_size=4), st.booleans())
def test_pieces_do_not_matter(cuts: list[int], taken: bool) -> None:
    problem, batch, policy, whole = of_two_batches(taken)
    first, rest = batch.take_episodes(np.arange(40)), np.arange(40, 160)
    pieces = np.split(rest, sorted(set(cuts)))
    alike(audited(problem, first, *[batch.take_episodes(piece) for piece in pieces], policy=policy), whole)


def test_asking_changes_nothing() -> None:
    problem, batch = logged("additive", "uniform", 50, 4)
    auditor = Auditor(problem)
    auditor.add(batch)
    once = auditor.result()
    alike(auditor.result(), once)


def test_refusals_come_first() -> None:
    rng = stream(4, "order of findings")
    action = np.repeat(rng.integers(0, 2, 100), 10)
    table = rows_of(action, np.linspace(0.0, 0.1, 1000) * rng.random(1000), x=np.linspace(0, 1, 1000))
    severities = [item["severity"] for item in certified(one_level(), table).findings]
    assert severities[0] == "refused" and "warning" in severities
    assert severities == sorted(severities, key=["refused", "warning", "note"].index)


def test_what_does_not_fit_is_an_error() -> None:
    problem, batch = base()
    with pytest.raises(LogError, match="no rewards"):
        audited(problem, replace(batch, reward=None))
    with pytest.raises(LogError, match="levels"):
        audited(logged("clinic", "uniform", 2, 1)[0], batch)
    with pytest.raises(SettingError, match="alpha"):
        audited(problem, batch, alpha=0.0)
    with pytest.raises(SettingError, match="at least one level"):
        audited(problem, batch, scope=[])
    assert audited(problem).codes("refused") == ("few-units",)
