"""Every code has a log: one small log for each, and the same log without the fault does not have it."""

from __future__ import annotations

import numpy as np
import pytest
from audit_cases import audited
from fault_logs import BY_CERTIFICATE, BY_POLICY, FAULTS, REFUSED, base, found, miscalibrated, run, without_ids

from aegis.audit import CODES


def test_every_code_has_a_log() -> None:
    assert set(FAULTS) | BY_POLICY | BY_CERTIFICATE == set(CODES)


def test_a_log_in_order_has_no_finding() -> None:
    problem, batch = base()
    audit = audited(without_ids(problem), batch)
    assert (audit.verdict, audit.findings) == ("fit", ())
    assert audit.figures["episodes"] == 60 and audit.figures["decisions"] == 1200


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_is_found_with_words_and_what_to_do(code: str) -> None:
    item = found(run(code), code)
    assert item.message and item.fix
    assert all(isinstance(value, float | str) for value in item.figures.values())
    assert not any(isinstance(value, float) and np.isnan(value) for value in item.figures.values())


@pytest.mark.parametrize("code", FAULTS)
def test_severities(code: str) -> None:
    audit = run(code)
    severity = found(audit, code).severity
    assert (severity == "refused") == (code in REFUSED)
    assert (severity == "note") == (code in ("open-units", "behaviour-reacts"))
    assert audit.verdict == "refused" or not audit.refused


def test_what_is_found_outside_the_scope_does_not_refuse() -> None:
    for code in ("no-propensity", "estimated-propensities", "deterministic-level"):
        problem, batch = FAULTS[code]()
        assert found(audited(problem, batch, scope=["meta"]), code).severity == "note"
        assert found(audited(problem, batch, scope=["inner"]), code).severity == "refused"
    problem, batch = miscalibrated()
    assert found(audited(problem, batch, scope=["meta"]), "miscalibrated-propensities").severity == "warning"
