"""Every check of the table keeps the protocol: nothing found in nothing, parts merge, and asking changes nothing."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from audit_cases import logged
from fault_logs import FAULTS

from aegis.audit import CHECKS, Check, make_finding
from aegis.audit.batch_view import BatchView, bin_batch
from aegis.audit.check import AuditSetting, Known
from aegis.policies import Legacy, Uniform

PROBLEM, LOG = logged("clinic", "natural", 120, 3)
SETTING = AuditSetting(PROBLEM)


def view_of(setting: AuditSetting, first: int, last: int) -> BatchView:
    head = LOG.take_episodes(np.arange(40))
    cuts = BatchView.of(setting.binned, bin_batch(PROBLEM, head), None).cuts
    part = LOG.take_episodes(np.arange(first, last))
    return BatchView.of(setting.binned, bin_batch(PROBLEM, part), cuts, cuts.used if first == 0 else 0, logged=part)


@pytest.mark.parametrize("name", [name for name, check in CHECKS.items() if check.applies(SETTING)])
def test_a_check_merges_later_parts_and_findings_do_not_change_it(name: str) -> None:
    whole, first, later = (CHECKS[name](SETTING) for _ in range(3))
    later.begin_part(2**32, 0)
    assert isinstance(whole, Check)
    for check, ends in ((whole, (0, 60)), (whole, (60, 120)), (first, (0, 60)), (later, (60, 120))):
        check.add(view_of(SETTING, *ends))
    first.merge(pickle.loads(pickle.dumps(later)))
    codes = [item.code for item in whole.findings(Known())]
    assert codes == [item.code for item in first.findings(Known())] == [item.code for item in whole.findings(Known())]
    assert whole.figures().keys() == first.figures().keys()


def test_checks_that_do_not_apply_are_left_out() -> None:
    left_out = {name for name, check in CHECKS.items() if not check.applies(AuditSetting(PROBLEM, whole=False))}
    assert left_out == {"density", "incumbent", "overlap"}
    candidate = Legacy(PROBLEM, {name: Uniform() for name in PROBLEM.names})
    assert CHECKS["overlap"].applies(AuditSetting(PROBLEM, candidate))


def test_findings_about_propensities_silence_the_check_of_action_shares() -> None:
    problem, batch = FAULTS["action-shares"]()
    check = CHECKS["action-shares"](AuditSetting(problem))
    check.add(BatchView.of(problem, batch, None))
    (item,) = check.findings(Known())
    wrong = make_finding("miscalibrated-propensities", "refused", "wrong", "dose")
    known = Known({"propensities": [wrong], "independence": [make_finding("actions-held", "refused", "held", "run")]})
    assert item.code == "action-shares" and check.findings(known) == []
    assert known.wrong == {"dose"} and known.levels("actions-held") == {"run"} and known.of("carry-over") == []
