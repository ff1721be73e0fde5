"""The simulated coating line: nothing to fetch, the same batches every time, and a gain that a capped policy certifies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import aegis
from aegis.adapters import read_dataset
from aegis.errors import LogError
from aegis.logs import Source

LOGGED = read_dataset("coating", [])


def test_the_log_has_400_batches_of_six_parts_with_margins_in_the_declared_range() -> None:
    batch = LOGGED.source.read()
    assert len(batch) == 400 and len(batch.levels["spray"]) == 2400
    assert batch.reward is not None
    assert 0 <= batch.reward.min() < batch.reward.max() <= 10


def test_actions_are_drawn_with_the_probabilities_in_the_log() -> None:
    later = read_dataset("coating", [], batches="401-800").source.read()
    for log in (LOGGED.source.read(), later):
        for name, level in log.levels.items():
            shares = np.bincount(level.action, minlength=3) / len(level)
            spread = np.sqrt(np.array([0.16, 0.24, 0.16]) / len(level))
            assert np.all(np.abs(shares - [0.2, 0.6, 0.2]) < 4 * spread), name
            np.testing.assert_allclose(level.mu_taken, np.array([0.2, 0.6, 0.2])[level.action])


def test_later_batches_continue_the_log() -> None:
    first, longer = (read_dataset("coating", [], batches=which).table for which in ("401-500", "401-800"))
    assert longer.slice(0, first.num_rows).equals(first) and longer.num_rows == 2400
    assert set(longer["batch"].to_pylist()) == set(range(401, 801))
    assert read_dataset("coating", []).table.equals(LOGGED.table)


def test_a_log_without_propensities_is_the_same_log_and_is_refused() -> None:
    plain = read_dataset("coating", [], propensities="none")
    assert plain.table.equals(LOGGED.table.select(plain.table.column_names))
    assert all(level.propensity is None for level in plain.problem.levels)
    audit = aegis.audit_log(plain.source)
    assert audit.verdict == "refused" and {finding.code for finding in audit.findings} == {"no-propensity"}


def test_a_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"mine\.csv: the coating line is simulated and reads no file"):
        read_dataset("coating", [tmp_path / "mine.csv"])


def test_a_capped_policy_certifies_a_gain_over_the_incumbent() -> None:
    source = Source(LOGGED.table, LOGGED.problem)
    learned = aegis.learn(source, settings=aegis.CandidateSettings("capped", cap=2.0))
    certificate = aegis.certify(source, learned)
    assert certificate.verdict.verdict == "certified"
    assert "than the incumbent ('program': always 'normal'; 'spray': always '2')" in certificate.verdict.sentence
