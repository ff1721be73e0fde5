"""Candidates as a user names them: a policy folder, `columns:A,B`, `full-columns:A,B,C`, or `module:object`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from aegis.cli.references import importable, load_object
from aegis.errors import PolicyError
from aegis.problem import Policy, Problem

if TYPE_CHECKING:
    from aegis.certificate.candidate import Candidate

COLUMNS, FULL = "columns:", "full-columns:"
REWARDS = "rewards"  # the folder, inside the policy's, in which `aegis learn` puts the reward models
FORMS = (
    "a policy folder (`aegis learn` writes one), 'columns:COLUMN,COLUMN' (target probabilities in the log), "
    "'full-columns:COLUMN,COLUMN,...' (of every action) or 'module:object' (your own Python)"
)


def load_candidate(reference: str, problem: Problem, scope: Iterable[str] | None = None) -> Candidate:
    """Return the candidate that a reference names, with record and reward models of its folder; PolicyError if it cannot be used.

    columns: one target-probability column for each level of the scope, outermost first (or for each level of the problem).
    full-columns: for each such level in turn as many columns as it has actions, in their order.
    module:object: a policy, what `fitted` returned, or a callable `function(level, rows) -> [n, A]` that acts at the levels of
    the scope; modules in the current folder are found, those in another one as `folder/module:object`.
    """
    if reference.startswith(COLUMNS):
        return _columns(reference, problem, scope)
    if reference.startswith(FULL):
        return _full_columns(reference, problem, scope)
    if Path(reference).is_dir():
        return _folder(reference, problem)
    if ":" in reference:
        return _object(reference, problem, scope)
    raise PolicyError(f"there is no folder '{reference}'; a candidate is {FORMS}")


def candidate_files(references: Iterable[str]) -> list[Path]:
    """Return the folders and the files of code that loaded candidates came from."""
    found = [Path(reference) for reference in references if Path(reference).is_dir()]
    objects = [
        reference for reference in references if not reference.startswith((COLUMNS, FULL)) and not Path(reference).is_dir()
    ]
    modules = [sys.modules.get(importable(reference).partition(":")[0]) for reference in objects]
    return [*found, *[Path(module.__file__) for module in modules if module is not None and module.__file__]]


def _columns(reference: str, problem: Problem, scope: Iterable[str] | None) -> Candidate:
    from aegis.certificate.candidate import Candidate
    from aegis.policies import TargetColumns

    columns = _named(reference, COLUMNS)
    chosen = problem.scope(scope)
    levels = [name for name in problem.names if name in chosen]
    if len(columns) == len(problem.names):
        levels = list(problem.names)
    if len(columns) != len(levels):
        raise PolicyError(
            f"'{reference}' names {len(columns)} columns for {len(levels)} levels ({', '.join(levels)}); name one for each level "
            "of the scope, outermost first, or choose the scope with --scope"
        )
    policy = TargetColumns(problem, dict(zip(levels, columns, strict=True)))
    return Candidate(policy, reference, reference, tuple(dict.fromkeys(columns)))


def _full_columns(reference: str, problem: Problem, scope: Iterable[str] | None) -> Candidate:
    from aegis.certificate.candidate import Candidate
    from aegis.policies import FullColumns, columns_read

    columns = list(_named(reference, FULL))
    chosen = problem.scope(scope)
    levels = [level for level in problem.levels if level.name in chosen]
    counts = {level.name: level.actions.count for level in levels}
    if len(columns) != sum(counts.values()):
        wanted = ", ".join(f"{count} for '{name}'" for name, count in counts.items())
        raise PolicyError(
            f"'{reference}' names {len(columns)} columns, expected {sum(counts.values())}: {wanted}, in the order of the "
            "actions, outermost level first; choose the scope with --scope"
        )
    parts = {name: [columns.pop(0) for _ in range(count)] for name, count in counts.items()}
    policy = FullColumns(problem, parts)
    return Candidate(policy, reference, reference, columns_read(policy))


def _named(reference: str, form: str) -> tuple[str, ...]:
    columns = tuple(name.strip() for name in reference.removeprefix(form).split(","))
    if not all(columns):
        raise PolicyError(f"'{reference}' has an empty column name; write {form}COLUMN,COLUMN, outermost level first")
    return columns


def _folder(reference: str, problem: Problem) -> Candidate:
    from aegis.certificate.candidate import Candidate
    from aegis.planning import load_policy, load_rewards
    from aegis.policies import columns_read, load_record, policy_digest

    record = load_record(reference)
    if "challenge" in record:
        from aegis.handover.recounting import load_challenge

        return load_challenge(reference, reference, problem, record)
    policy = load_policy(reference, problem)
    place = Path(reference) / REWARDS
    rewards = load_rewards(place, problem) if place.is_dir() else None
    if rewards is not None and record.get("rewards") not in (None, policy_digest(rewards)):
        raise PolicyError(
            f"{place} holds other reward models than those the policy was learned with: learning was interrupted, or folders "
            "were mixed; learn the policy again"
        )
    return Candidate(policy, reference, reference, columns_read(policy), record, rewards)


def _object(reference: str, problem: Problem, scope: Iterable[str] | None) -> Candidate:
    from aegis.certificate.candidate import Candidate, Learned
    from aegis.policies import Function, columns_read, load_callable

    found = load_object(reference, "a callable", "plant.control:dose", PolicyError)
    if isinstance(found, Policy) and not isinstance(found, type):
        return Candidate(found, reference, reference, columns_read(found))
    if isinstance(found, Learned) and not isinstance(found, type):
        return Candidate(found.policy, reference, reference, columns_read(found.policy), found.record, found.rewards)
    name = importable(reference)  # without its folder: a policy is the same wherever it lies
    return Candidate(Function(problem, load_callable(name), scope, name=name), reference, reference)
