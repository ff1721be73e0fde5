"""An audit whose parts are made apart and put together finds what one that saw everything finds."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow.parquet as pq
import pytest
from audit_cases import audited, logged
from test_audit_findings import FAULTS, found, run

from aegis.audit import Audit, Auditor, audit_log
from aegis.audit.checks.base import Thinning
from aegis.logs import Source, write_log
from aegis.logs.formats import base
from aegis.policies import Legacy, Uniform
from aegis.problem import Batch, Policy, Problem

PARTS = 3


def split(batch: Batch, parts: int = PARTS) -> list[Batch]:
    return [batch.take_episodes(part) for part in np.array_split(np.arange(len(batch)), parts)]


def in_parts(problem: Problem, batches: list[Batch], policy: Policy | None = None) -> Audit:
    auditor = Auditor(problem, policy)
    auditor.place(batches[0])
    template = pickle.loads(pickle.dumps(auditor.part(0)))
    for number, batch in enumerate(batches):
        part = template.part(number)
        part.add(batch)
        auditor.merge(pickle.loads(pickle.dumps(part)))
    return auditor.result()


@pytest.mark.parametrize("code", [code for code in FAULTS if code != "several-versions"])
def test_faults_are_found_in_parts(code: str) -> None:
    problem, batch = FAULTS[code]()
    parts = split(batch)
    whole = audited(problem, *parts)
    audit = in_parts(problem, parts)
    if code in whole.codes():  # a fault that three batches hide from one auditor is hidden from three
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


def test_versions_of_parts_are_told() -> None:
    problem, batch = FAULTS["several-versions"]()
    named = [
        batch.with_level("meta", type(batch.levels["meta"])(**{**_fields(batch.levels["meta"]), "version": version}))
        for version in ("a", "b")
    ]
    assert "several-versions" in in_parts(problem, named).codes()


def _fields(table: object) -> dict[str, object]:
    return {name: getattr(table, name) for name in type(table).__dataclass_fields__}  # type: ignore[attr-defined]


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


def test_a_log_in_pieces_is_audited_as_a_whole(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, batch = FAULTS["miscalibrated-propensities"]()
    path = f"{tmp_path}/log.parquet"
    write_log(batch, problem, path)
    pq.write_table(pq.read_table(path), path, row_group_size=500)
    whole = audit_log(Source(path, problem))
    monkeypatch.setattr(base, "CHUNK_ROWS", 1500)
    source = Source(path, problem)
    assert source.chunks() is not None
    told: list[int] = []
    alone = audit_log(source, report=told.append)
    assert alone.codes() == whole.codes()
    assert told[-1] <= len(batch)
    assert audit_log(source, workers=2).plain() == alone.plain()
