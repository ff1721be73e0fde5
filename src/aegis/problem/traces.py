"""Fingerprints of single decisions to about three digits, which recognise a rounded copy of a log.

Of every level the decisions are kept whose contexts, and all decisions above them, occurred once: a hash of these, and the
action taken (on an interval the exact number too). Rewards and ids do not count. Numbers are rounded to cells of a grid
that suits the spread of their column. A number at the edge of a cell may fall on either side after rounding, so there is a
second grid, moved by half a cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from aegis.errors import PolicyError
from aegis.files import json_digest
from aegis.problem.batch import AnyArray, Batch, LevelTable
from aegis.problem.fingerprints import Hashes, fold_hash, hashed_columns, mix_bits
from aegis.problem.problem import Problem

MOST_TRACES = 2048  # decisions that are kept of each level, on each grid

OFFSETS = (0.0, 0.5)  # of the grids, in steps

FINE, WIDE = 0.01, 0.05  # steps in standard deviations: for each number that counts, and at most

NORMAL = 1.349  # quartiles of the normal distribution are this many standard deviations apart

SEVERAL = -1  # stands for the action where contexts occurred more than once


Codes = npt.NDArray[np.int32]

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class KeptDecisions:
    """Hashes `[k]` of what decisions knew, sorted, and the actions `int32[k]` they took.

    values: where actions are an interval, the exact ones `f64[k]`; None elsewhere, and in records of earlier versions.
    """

    hashes: Hashes
    actions: Codes
    values: Numbers | None = None

    def chosen(self, places: AnyArray | slice) -> KeptDecisions:
        """Return those at some places: indices, a mask or a slice."""
        values = None if self.values is None else self.values[places]
        return KeptDecisions(self.hashes[places], self.actions[places], values)


CellWidths = Mapping[str, Mapping[str, Sequence[float]]]


@dataclass(frozen=True, slots=True)
class Traces:
    """The decisions that were seen: by level one `Kept` for each of OFFSETS. content: what was hashed (`path_digest`)."""

    steps: CellWidths
    levels: Mapping[str, tuple[KeptDecisions, ...]]
    content: str

    @property
    def empty(self) -> bool:
        """Say whether no decision could be kept: contexts repeat too much to tell one from another."""
        return not any(kept.hashes.size for grids in self.levels.values() for kept in grids)

    def plain(self) -> dict[str, Any]:
        """Return plain data, for the record of a policy."""
        return {
            "steps": {
                name: {key: [_number(width) for width in widths] for key, widths in own.items()}
                for name, own in self.steps.items()
            },
            "levels": {name: [_plain(kept) for kept in grids] for name, grids in self.levels.items()},
            "content": self.content,
        }

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Traces:
        """Return what `plain` gave; PolicyError for anything else."""
        try:
            steps = {
                name: {key: [float("inf") if width is None else float(width) for width in widths] for key, widths in own.items()}
                for name, own in plain["steps"].items()
            }
            levels = {name: tuple(_kept(kept) for kept in grids) for name, grids in plain["levels"].items()}
            if set(steps) != set(levels) or any(len(grids) != len(OFFSETS) for grids in levels.values()):
                raise ValueError(f"levels {', '.join(levels)} with {len(OFFSETS)} grids each are needed")
            return cls(steps, levels, str(plain["content"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise PolicyError(
                f"the record of a policy: its traces cannot be read ({type(error).__name__}: {error}); learn it again"
            ) from error


@dataclass(slots=True)
class TraceCollector:
    """Decisions as batches come by; memory does not grow with them."""

    content: str
    steps: CellWidths | None = None
    levels: dict[str, list[KeptDecisions]] = field(default_factory=dict)

    def add(self, batch: Batch) -> None:
        """Add all decisions of a batch; the first one tells how wide the cells are."""
        if not len(batch):
            return
        if self.steps is None:
            self.steps = steps_of(batch)
            self.levels = {name: [_nothing(table) for _ in OFFSETS] for name, table in batch.levels.items()}
        for position, offset in enumerate(OFFSETS):
            for name, hashes in coarse_path_hashes(batch, self.steps, offset).items():
                grids, table = self.levels[name], batch.levels[name]
                grids[position] = _joined(grids[position], KeptDecisions(hashes, table.action.astype(np.int32), table.value))

    def done(self) -> Traces:
        """Return those that are kept."""
        levels = {name: tuple(_single(kept) for kept in grids) for name, grids in self.levels.items()}
        return Traces(self.steps or {}, levels, self.content)


def steps_of(batch: Batch) -> dict[str, dict[str, list[float]]]:
    """Return the width of a cell for every number of the contexts, by level and context.

    The more numbers count, the wider each may be and tell decisions apart still: all have to fall into their cells again.
    """
    numbers = {
        (name, key): values[:, None] if values.ndim == 1 else values
        for name, table in batch.levels.items()
        for key, values in table.context.items()
        if values.dtype.kind == "f"
    }
    share = min(WIDE, FINE * sum(values.shape[1] for values in numbers.values()))
    found: dict[str, dict[str, list[float]]] = {name: {} for name in batch.levels}
    for (name, key), values in numbers.items():
        found[name][key] = [share * _scale(column) for column in values.T]
    return found


def _scale(values: AnyArray) -> float:
    """Return the spread of numbers `[n]`, told by their quartiles so that a few large ones do not count; infinite without any."""
    known = values[np.isfinite(values)]
    if not known.size:
        return float("inf")
    low, high = np.quantile(known, [0.25, 0.75])
    with np.errstate(over="ignore"):
        spread = float(high - low) / NORMAL or float(known.std())
    return spread if np.isfinite(spread) and spread > 0 else float("inf")


def _nothing(table: LevelTable) -> KeptDecisions:
    return KeptDecisions(np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int32), None if table.value is None else np.zeros(0))


def _joined(one: KeptDecisions, other: KeptDecisions) -> KeptDecisions:
    """Return both, each hash once, the smallest of them only: what is left out now would have been left out of the whole too."""
    hashes = np.concatenate([one.hashes, other.hashes])
    both = KeptDecisions(hashes, np.concatenate([one.actions, other.actions]), _values(one, other))
    _, first, counts = np.unique(hashes, return_index=True, return_counts=True)
    found = both.chosen(first)
    found.actions[counts > 1] = SEVERAL
    return found.chosen(slice(8 * MOST_TRACES))


def _values(one: KeptDecisions, other: KeptDecisions) -> Numbers | None:
    return None if one.values is None or other.values is None else np.concatenate([one.values, other.values])


def _single(kept: KeptDecisions) -> KeptDecisions:
    return kept.chosen(kept.actions != SEVERAL).chosen(slice(MOST_TRACES))


def _number(width: float) -> float | None:
    """Return a width as JSON has it: None if it is infinite."""
    return width if np.isfinite(width) else None


def _plain(kept: KeptDecisions) -> dict[str, str]:
    found = {"hashes": kept.hashes.astype(">u8").tobytes().hex(), "actions": kept.actions.astype(">i4").tobytes().hex()}
    return found if kept.values is None else {**found, "values": kept.values.astype(">f8").tobytes().hex()}


def _kept(plain: Mapping[str, str]) -> KeptDecisions:
    hashes = np.frombuffer(bytes.fromhex(plain["hashes"]), dtype=">u8").astype(np.uint64)
    actions = np.frombuffer(bytes.fromhex(plain["actions"]), dtype=">i4").astype(np.int32)
    exact = plain.get("values")
    values = None if exact is None else np.frombuffer(bytes.fromhex(exact), dtype=">f8").astype(np.float64)
    if hashes.size != actions.size or (values is not None and values.size != hashes.size):
        numbers = "" if values is None else f", {values.size} values"
        raise ValueError(f"{hashes.size} hashes, {actions.size} actions{numbers}")
    return KeptDecisions(hashes, actions, values)


def coarse_path_hashes(batch: Batch, steps: CellWidths, offset: float) -> dict[str, Hashes]:
    """Return by level a hash `[n]` of what each decision knew: its contexts, and the contexts and actions above it.

    Numbers count as cells of a grid: steps by level and context, one per number (infinite: the number does not count), moved by
    `offset` steps. Contexts without steps, the categories, count as they are. The decision's own action does not count.
    """
    found: dict[str, Hashes] = {}
    above = np.ones(len(batch), dtype=np.uint64)
    for name, table in batch.levels.items():
        total = above[table.parent]
        for variable in sorted(table.context):
            values, widths = table.context[variable], steps[name].get(variable)
            if widths is not None:
                with np.errstate(over="ignore", invalid="ignore"):
                    values = np.floor(values / np.asarray(widths if values.ndim > 1 else widths[0]) + offset)
            total = fold_hash(total, values)
        found[name] = mix_bits(total)
        above = fold_hash(total, table.action)
    return found


def path_digest(problem: Problem) -> str:
    """Return a digest of what `coarse_path_hashes` looks at: the columns of contexts and actions, not that of the reward."""
    return json_digest(hashed_columns(problem))
