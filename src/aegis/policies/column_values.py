"""Probabilities found in columns of the log: one value for each decision, repeated on the rows below it."""

from __future__ import annotations

import numpy as np

from aegis.errors import PolicyError, nearest
from aegis.policies.support import table_of
from aegis.problem import AnyArray, Array, Batch, Problem, at_atom


def column_values(problem: Problem, level: str, column: str, batch: Batch, density: bool = False) -> Array:
    """Return the probabilities `[n]` that a column of `Batch.extra` holds for the decisions of a level.

    density: it holds densities at the numbers taken, as for one action of an interval. PolicyError names column and row of what
    is missing, outside [0, 1] (a density: below 0) or contradictory.
    """
    values = _numbers(problem, column, batch)
    if density:
        _check_densities(problem, level, column, values, batch)
    elif values.size and not (values.min() >= 0 and values.max() <= 1):  # a nan is neither
        row = int(np.argmax(~((values >= 0) & (values <= 1))))
        raise PolicyError(f"{_at(column, row, batch)}: {values[row]} is not a probability; expected a number in [0, 1]")
    if level == problem.innermost.name:
        return values
    owner = _owners(batch, level)
    first = np.concatenate([np.zeros(min(1, owner.size), dtype=np.int64), np.flatnonzero(owner[1:] != owner[:-1]) + 1])
    if first.size != len(table_of(batch, level)):
        childless = np.bincount(owner, minlength=len(table_of(batch, level))) == 0
        raise PolicyError(
            f"column '{column}': decision {int(np.argmax(childless))} of level '{level}' has no innermost row to read it from"
        )
    found: Array = values[first]
    # Equal to the first row everywhere is equal to the row before everywhere.
    if bool(((values[1:] != values[:-1]) & (owner[1:] == owner[:-1])).any()):
        row = int(np.argmax(values != found[owner]))
        raise PolicyError(
            f"{_at(column, row, batch)}: {values[row]}, but {found[owner[row]]} on the first row of the same decision "
            f"of level '{level}'; repeat one value on all rows below a decision"
        )
    return found


def _check_densities(problem: Problem, level: str, column: str, values: Array, batch: Batch) -> None:
    """Refuse what is no density of a policy without atoms: it is 0 where the legacy has a probability.

    The legacy's own column is the one exception: it is the same at atoms.
    """
    wrong = ~((values >= 0) & (values < np.inf))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise PolicyError(f"{_at(column, row, batch)}: {values[row]} is not a density; expected a finite number from 0")
    spec, table = problem.level(level), table_of(batch, level)
    if table.value is None or (spec.propensity is not None and column == spec.propensity.column):
        return
    atoms = at_atom(spec.actions, table.value)
    mixed = (atoms if level == problem.innermost.name else atoms[_owners(batch, level)]) & (values != 0)
    if mixed.any():
        row = int(np.argmax(mixed))
        raise PolicyError(
            f"{_at(column, row, batch)}: {values[row]} at an atom of the legacy, where a policy with a density takes nothing; "
            "write 0 there: a density is never divided by a probability"
        )


def _numbers(problem: Problem, column: str, batch: Batch) -> Array:
    """Return a column `[n]` as numbers, one per innermost decision."""
    innermost = table_of(batch, problem.innermost.name)
    if column not in batch.extra:
        held = ", ".join(batch.extra) or "none"
        raise PolicyError(
            f"the batch does not hold the target column '{column}'{nearest(column, batch.extra)}; columns read: {held}"
        )
    given: AnyArray = batch.extra[column]
    if given.shape != (len(innermost),):
        raise PolicyError(f"column '{column}': {list(given.shape)} values for {len(innermost)} innermost decisions")
    try:
        return given.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise PolicyError(f"column '{column}': target probabilities are numbers; {error}") from error


def _at(column: str, row: int, batch: Batch) -> str:
    return f"{batch.where(row)}, column '{column}'"


def _owners(batch: Batch, level: str) -> AnyArray:
    """Return the decision of an outer level `[n]` above each innermost decision."""
    names = list(batch.levels)
    owner: AnyArray = batch.levels[names[-1]].parent
    for name in names[-2 : names.index(level) : -1]:
        owner = batch.levels[name].parent[owner]
    return owner
