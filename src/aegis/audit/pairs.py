"""Which decisions of an episode come after which: the pairs that a test of carry-over looks at.

Next siblings, those after them, and the last decision below an outer one with the next outer decision of the episode.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from aegis.audit.view import View
from aegis.problem import AnyArray, Problem

MOST_PAIRS = 2**15  # of next siblings in a batch, half as many of those after them; the rest of a larger one is left out


@dataclass(frozen=True, slots=True)
class Pairs:
    """Decisions of one level and what came after them.

    rows `[p]`: the earlier decisions. target: the level of the later ones, later `[p]` their rows. below `[p]`: the first
    decision of the own level at or below the later one. words: where the earlier decision is, seen from the later one.
    """

    rows: AnyArray
    target: str
    later: AnyArray
    below: AnyArray
    words: str


def pairs_of(problem: Problem, view: View, level: str) -> Iterator[Pairs]:
    """Yield the pairs whose earlier decisions are of a level, one kind after the other; only those that may be bet on."""
    parent = view.batch.levels[level].parent
    fresh = view.fresh_at(level)
    for lag, words in ((1, "the decision before it"), (2, "the decision two before it")):
        rows = np.flatnonzero((parent[lag:] == parent[:-lag]) & fresh[:-lag])[: MOST_PAIRS // lag]
        yield Pairs(rows, level, rows + lag, rows + lag, f"the action of {words} in the same parent")
    owner: AnyArray = np.arange(parent.size)
    for outer in [*problem.above(level)][::-1]:
        owner = view.batch.levels[_inside(problem, outer.name)].parent[owner]
        yield _after(view, level, outer.name, owner, fresh)


def _inside(problem: Problem, name: str) -> str:
    inner = problem.child(name)
    return name if inner is None else inner.name


def _after(view: View, level: str, outer: str, owner: AnyArray, fresh: AnyArray) -> Pairs:
    """Return the last decision below an outer one, with the next outer one of the episode; owner `[m]`: the outer one above."""
    episode = view.episodes[outer]
    earlier = np.flatnonzero(episode[1:] == episode[:-1])
    last = np.searchsorted(owner, earlier, side="right") - 1
    first = np.searchsorted(owner, earlier + 1)
    # An outer decision may have nothing of this level below it.
    some = (last >= 0) & (first < owner.size)
    earlier, last, first = earlier[some], last[some], first[some]
    some = (owner[last] == earlier) & (owner[first] == earlier + 1) & fresh[last]
    words = f"the last action of level '{level}' below the '{outer}' before it"
    return Pairs(last[some], outer, earlier[some] + 1, first[some], words)
