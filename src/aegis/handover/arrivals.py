"""What a plant sends back is looked at before anything is believed: whole episodes, in order, with probabilities that can be.

Whether they are the probabilities of the policy that was asked to act is checked, too: a plant that goes on with another
version of a policy logs something else, and nothing that follows would be about the policies that are tested.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TypeVar

import numpy as np

from aegis.errors import AegisError, InputError, PolicyError, RefusedError
from aegis.handover.hosts.proposal import check_chances
from aegis.handover.particle_units import logged_chances
from aegis.problem import AnyArray, Array, Batch, Policy, Problem

SAME = 1e-6  # by how much a logged probability may differ from that of the policy asked to act
SILENT = 32  # episodes without a reward after which a gate pauses
Judged = TypeVar("Judged")


@dataclass(slots=True)
class Arrivals:
    """Looks at what a plant sends, and remembers by hashes of their ids the episodes that were taken.

    Ids that are whole numbers count the episodes from 0; others must differ from each other, however long the run.
    """

    problem: Problem
    _ids: set[bytes] = field(default_factory=set)

    def check(self, batch: Batch, first: int) -> None:
        """Raise an AegisError unless these can be the episodes after the first ones: not seen before, and sound."""
        self._check_ids(batch.episode, first)
        for name in self.problem.names:
            _check_chances(batch, name)
        _check_finite(self.problem, batch)

    def take(self, batch: Batch) -> None:
        """Remember episodes that were counted."""
        if not _counted(batch.episode):
            self._ids.update(map(_hashed, batch.episode.tolist()))

    def _check_ids(self, ids: AnyArray, first: int) -> None:
        if _counted(ids):
            wanted = np.arange(first, first + ids.size)
            if not np.array_equal(ids, wanted):
                place = int(np.argmax(ids != wanted))
                raise PolicyError(
                    f"the plant was asked for episode {wanted[place]} and sent {ids[place]}: episodes are counted in the order "
                    "in which they start"
                )
            return
        new: set[bytes] = set()
        for place, item in enumerate(ids.tolist()):
            known = _hashed(item)
            if known in self._ids or known in new:
                raise PolicyError(
                    f"the plant was asked for an episode after the first {first + place} and sent {item!r}, which it has sent "
                    "before: every episode counts once, and has an id of its own"
                )
            new.add(known)


def _counted(ids: AnyArray) -> bool:
    return np.issubdtype(ids.dtype, np.integer)


def _hashed(item: object) -> bytes:
    return blake2b(repr(item).encode(), digest_size=8).digest()


def received(batch: Batch, first: int, count: int) -> Batch:
    """Return what a plant sent, rewards that are nan marked as missing; PolicyError unless it is as much as was asked for."""
    if len(batch) != count:
        raise PolicyError(f"the plant was asked for {count} episodes after the first {first} and sent {len(batch)}")
    if batch.reward is None or not np.isnan(batch.reward).any():
        return batch
    known = ~np.isnan(batch.reward)
    return replace(batch, observed=known if batch.observed is None else known & batch.observed)


def readable(batch: Batch, judge: Callable[[Batch], Judged]) -> tuple[Batch, Judged, AegisError | None]:
    """Return episodes, judged; only those before the first that cannot be, and why. Raises if that is the first of all."""
    try:
        return batch, judge(batch), None
    except AegisError as error:
        good, bad = 0, len(batch)
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                judge(batch.take_episodes(np.arange(middle)))
                good = middle
            except AegisError:
                bad = middle
        if not good:
            raise
        part = batch.take_episodes(np.arange(good))
        return part, judge(part), error


def _check_chances(batch: Batch, level: str) -> None:
    taken, table = logged_chances(level, batch), batch.levels[level]
    full = table.mu_full
    if full is None:
        raise RefusedError(f"level '{level}': the gate needs the probabilities of all actions, and the plant logs none")
    episodes = batch.episode[batch.episode_of(level)]
    check_chances(full, f"level '{level}', as the plant logs it", episodes)
    listed = full[np.arange(len(table)), table.action]
    off = np.abs(listed - taken) > SAME
    off |= listed <= 0.0
    if off.any():
        row = int(np.argmax(off))
        raise RefusedError(
            f"level '{level}', row {row} (episode {episodes[row]}): the action taken, {table.action[row]}, is logged with the "
            f"probability {taken[row]}, and has {listed[row]} among those of all actions; what was done must have been possible, "
            "and both must be the same"
        )


def _check_finite(problem: Problem, batch: Batch) -> None:
    """Raise InputError for a reward or a guard that is infinite; one that is missing is nan."""
    columns = {problem.reward.column: batch.reward, **batch.guards}
    for column, values in columns.items():
        if values is None:
            continue
        wrong = np.isinf(values)
        if wrong.any():
            row = int(np.argmax(wrong))
            innermost = problem.innermost.name
            episode = batch.episode[batch.episode_of(innermost)[row]]
            raise InputError(
                f"episode {episode}, level '{innermost}', row {row}: '{column}' is {values[row]}; expected a finite number, or "
                "nan where it is missing"
            )


def acted_otherwise(policy: Policy, batch: Batch) -> tuple[int, str] | None:
    """Return where logged probabilities differ from those of the policy asked to act, and how; None if they do not.

    Where: the place of the first such episode in the batch. The probabilities of a mixture depend on the form in which they are
    logged, of its particle or of several weighed in some way: they lie between the smallest and the largest of its particles.
    """
    found: tuple[int, str] | None = None
    for level, table in batch.levels.items():
        if table.mu_full is None:
            continue
        asked: Array = policy.full(level, batch)
        low, high = asked.min(axis=0), asked.max(axis=0)
        off = np.maximum(low - table.mu_full, table.mu_full - high).max(axis=1) > SAME
        if not off.any():
            continue
        row, owner = int(np.argmax(off)), batch.episode_of(level)
        place = int(owner[row])
        if found is None or place < found[0]:
            decision = row - int(np.searchsorted(owner, place)) + 1
            own = [f"{np.round(edge[row], 6).tolist()}" for edge in (low, high)]
            words = (
                f"level '{level}', episode {batch.episode[place]}, decision {decision}: the plant logs the probabilities "
                f"{np.round(table.mu_full[row], 6).tolist()}, the policy in control has {' to '.join(dict.fromkeys(own))}: "
                "another version of the policy acts"
            )
            found = place, words
    return found
