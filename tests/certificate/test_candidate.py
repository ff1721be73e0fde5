"""Policies that are code: a changed function is noticed by what it does, also under the same name."""

from __future__ import annotations

import functools
import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_logs import better, better_policy, make_table, problem_of, source_of, worse

from aegis.agents import CandidateSettings, learn
from aegis.certificate import Candidate, certify, code_digest, is_code, verify
from aegis.certificate.candidate import CodeBehaviour
from aegis.errors import PolicyError
from aegis.logs import Source, Split
from aegis.policies import Function, Hybrid, Logged, Mixture, TargetColumns
from aegis.problem import Batch

MODULE = """
import numpy as np

SHARE = {share}

def bold(level, rows):
    count = level.actions.count
    n = len(next(iter(rows.values())))
    return np.tile(np.eye(count)[0] * SHARE + (1 - SHARE) / count, (n, 1))
"""


class Own:
    """A policy of somebody's own class, which looks as if it could be stored."""

    kind = "own"

    @property
    def weights(self) -> Any:
        return np.ones(1)

    def taken(self, level: str, batch: Batch) -> Any:
        return np.full((1, len(batch.levels[level])), 0.5)

    def full(self, level: str, batch: Batch) -> Any:
        raise PolicyError("this policy knows the probability of the action taken only")


def test_which_policies_are_code() -> None:
    problem = problem_of()
    function = better_policy(problem)
    for policy in (function, Own(), Hybrid(problem, ["dose"], function, Logged(problem)), Mixture([Logged(problem), function])):
        assert is_code(policy) and code_digest(policy) is not None
        assert Candidate(policy).is_code
    for policy in (Logged(problem), TargetColumns(problem, {"dose": "new_dose"}), Mixture([Logged(problem), Logged(problem)])):
        assert not is_code(policy) and code_digest(policy) is None
    partial = Function(problem, functools.partial(better))
    assert code_digest(partial) == code_digest(function)


def module(folder: Path, share: float, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module as it is in the folder now."""
    (folder / "my_control.py").write_text(MODULE.format(share=share))
    monkeypatch.syspath_prepend(str(folder))
    sys.modules.pop("my_control", None)
    importlib.invalidate_caches()
    sys.dont_write_bytecode = True
    return importlib.import_module("my_control")


def candidate(source: Source) -> Candidate:
    return Candidate(Function.named(source.problem, "my_control:bold"), "my_control:bold", "my_control:bold")


def test_a_changed_function_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of(make_table(60))
    module(tmp_path, 0.9, monkeypatch)
    first = certify(source, candidate(source), ledger=tmp_path / "looks")
    again = certify(source, candidate(source), ledger=tmp_path / "looks")
    assert [look["same"] for look in again.looks["earlier"]] == [True]
    assert verify(first.to_json(), source, [candidate(source)]).holds
    module(tmp_path, 0.7, monkeypatch)
    other = certify(source, candidate(source), ledger=tmp_path / "looks")
    assert other.candidates[0]["digest"] == first.candidates[0]["digest"]  # which knows the name only
    assert [look["same"] for look in other.looks["earlier"]] == [False, False]
    found = verify(first.to_json(), source, [candidate(source)])
    assert "the policy my_control:bold behaves differently at recipe, dose" in [item.what for item in found.differences]


def test_what_a_function_reads_elsewhere_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is the same, a number it reads is not."""
    source = source_of(make_table(60))
    loaded = module(tmp_path, 0.9, monkeypatch)
    first = certify(source, candidate(source), ledger=tmp_path / "looks")
    loaded.SHARE = 0.9 + 1e-12
    assert certify(source, candidate(source), ledger=tmp_path / "looks").looks["earlier"][0]["same"]  # beyond what is told apart
    loaded.SHARE = 0.90001
    other = certify(source, candidate(source), ledger=tmp_path / "looks")
    assert other.candidates[0]["code"] == first.candidates[0]["code"]
    assert [look["same"] for look in other.looks["earlier"]] == [False, False]
    assert not verify(first.to_json(), source, [candidate(source)]).holds


def test_another_file_that_does_the_same_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of(make_table(60))
    module(tmp_path, 0.9, monkeypatch)
    first = certify(source, candidate(source), ledger=tmp_path / "looks")
    (tmp_path / "my_control.py").write_text(MODULE.format(share=0.9) + "\n# the same\n")
    assert not certify(source, candidate(source), ledger=tmp_path / "looks").looks["earlier"][0]["same"]
    found = verify(first.to_json(), source, [candidate(source)])
    assert found.holds and "the file that the code of my_control:bold is in has changed" in found.notes[0]


def test_only_code_is_watched_and_the_assumption_says_so() -> None:
    table, problem = make_table(60), problem_of()
    source = source_of(table, problem)
    learned = learn(source, Split("hash", "k", 0.5), CandidateSettings("capped", 2.0))
    certificate = certify(source, [learned, Candidate(better_policy(problem), "mine")], ledger=False)
    assert certificate.candidates[0]["behaviour"] is None and certificate.candidates[0]["code"] is None
    assert set(certificate.candidates[1]["behaviour"]) == {"recipe", "dose"}
    (line,) = [item for item in certificate.assumptions if item.code == "policy-code"]
    assert "mine is code" in line.statement


def test_sums_depend_on_rows_and_probabilities_and_on_nothing_else() -> None:
    table, problem = make_table(80), problem_of()

    def found(rows: Any, function: Any, size: int = 10**6) -> dict[str, str]:
        item = CodeBehaviour(["recipe", "dose"])
        for batch in Source(rows, problem).batches(rows=size):
            item.add(Function(problem, function), batch, {})
        return item.plain()

    whole = found(table, better)
    order = np.random.default_rng(1).permutation(table.num_rows)
    assert found(table.take(order), better, 50) == whole == found(table, better, 31)
    assert all(found(table, worse)[level] != whole[level] for level in whole)
    assert all(found(table.slice(3), better)[level] != whole[level] for level in whole)


def test_what_is_not_certified_does_not_count() -> None:
    problem = problem_of()
    batch = Source(make_table(30), problem).read()
    kept = np.arange(30) % 3 == 0
    masked, taken = CodeBehaviour(["dose"]), CodeBehaviour(["dose"])
    masked.add(better_policy(problem), batch, {"dose": kept[batch.episode_of("dose")]})
    taken.add(better_policy(problem), batch.take_episodes(kept), {})
    assert masked.plain() == taken.plain()
