"""Problems and ragged batches for the tests of this room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from aegis.problem import Actions, Batch, Level, LevelTable, Problem, Variable


def nested(depth: int, outcome: bool = True, **changes: Any) -> Problem:
    """Return the scalar problem with levels named l3, l2, l1 (outermost first), contexts c3.., actions a3.., outcome y."""
    levels = tuple(Level(f"l{i}", Actions(f"a{i}", (0.5, 1.5, 2.5)), (Variable(f"c{i}"),)) for i in range(depth, 0, -1))
    return Problem(**({"levels": levels, "outcome": Variable("y") if outcome else None} | changes))


def tree(counts: Sequence[Sequence[int]], seed: int = 0, **changes: Any) -> Batch:
    """Return a batch for `nested(len(counts))`; counts[d][i] is the number of children of row i at depth d (0 = episodes)."""
    rng = np.random.default_rng(seed)
    depth = len(counts)
    levels: dict[str, LevelTable] = {}
    size = 0
    for position, children in enumerate(counts):
        index = depth - position
        parent = np.repeat(np.arange(len(children)), children).astype(np.int32)
        size = parent.size
        full = rng.dirichlet(np.ones(3), size)
        action = rng.integers(0, 3, size).astype(np.int32)
        available = rng.random((size, 3)) < 0.7
        context = {f"c{index}": rng.normal(size=size)}
        taken = full[np.arange(size), action]
        levels[f"l{index}"] = LevelTable(parent, context, action, taken, full, available, "legacy-1")
    episodes = len(counts[0])
    fields: dict[str, Any] = {
        "episode": np.array([f"e{seed}-{k}" for k in range(episodes)], dtype=np.str_),
        "levels": levels,
        "reward": rng.normal(size=size),
        "observed": rng.random(size) < 0.8,
        "outcome": rng.normal(size=(size, 2)),
        "guards": {"scrap": rng.random(size)},
        "cluster": rng.integers(0, 2, episodes),
        "time": np.arange(episodes, dtype=np.float64),
        "extra": {"note": rng.integers(0, 9, size)},
        "closed": rng.random(size) < 0.9,
    }
    return Batch(**(fields | changes))


@st.composite
def trees(draw: st.DrawFn, depth: int | None = None, least: int = 1) -> Batch:
    """Draw a ragged batch: 1 to 3 levels (or `depth`), 0 to 5 episodes, `least` to 3 children each."""
    levels = draw(st.integers(1, 3)) if depth is None else depth
    counts: list[list[int]] = []
    rows = draw(st.integers(0, 5))
    for _ in range(levels):
        counts.append(draw(st.lists(st.integers(least, 3), min_size=rows, max_size=rows)))
        rows = sum(counts[-1])
    return tree(counts, draw(st.integers(0, 1000)))


def same(a: Batch, b: Batch) -> bool:
    """Say whether two batches hold the same values, field by field and with the same types."""
    plain = ("episode", "reward", "observed", "outcome", "cluster", "time", "closed")
    if list(a.levels) != list(b.levels) or not all(_equal(getattr(a, name), getattr(b, name)) for name in plain):
        return False
    if not (_equal_columns(a.guards, b.guards) and _equal_columns(a.extra, b.extra)):
        return False
    for name, one in a.levels.items():
        other = b.levels[name]
        arrays = ("parent", "action", "mu_taken", "mu_full", "available")
        if not all(_equal(getattr(one, field), getattr(other, field)) for field in arrays):
            return False
        if one.version != other.version or not _equal_columns(one.context, other.context):
            return False
    return True


def _equal(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    return a.dtype.kind == b.dtype.kind and a.shape == b.shape and bool(np.array_equal(a, b))


def _equal_columns(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return list(a) == list(b) and all(_equal(a[name], b[name]) for name in a)
