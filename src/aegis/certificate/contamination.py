"""Was a candidate learned from the episodes that are to be certified? They are recognised whatever their ids and files are now.

A learned policy records a sample of the hashes of the episodes it saw (`Seen`). Episodes to be certified are hashed the same
way, and more of them among those seen than chance explains refuse the certificate. Copies with rounded numbers, other rewards
or joined episodes are recognised by single decisions (`Traces`): where the contexts of a certified decision are those of one
that was learned from, it takes the same action with the logged probability p, so that a bet which pays 1 / p is fair; in a copy
of the log it always wins. An honest candidate is refused with probability ALPHA at most (Markov's inequality).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import bdtrc

from aegis.audit import COARSE_LATTICE
from aegis.certificate.candidate import Candidate
from aegis.errors import RefusedError
from aegis.problem import (
    OFFSETS,
    Actions,
    Array,
    Batch,
    EpisodeFingerprints,
    Hashes,
    LevelTable,
    Problem,
    Traces,
    atom_index,
    cell_probability,
    coarse_path_hashes,
    content_digest,
    episode_hashes,
    path_digest,
)

_RepeatMask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Repeats:
    """For n decisions in contexts that were seen: did the action come again, `bool[n]`, and what a stake of 1 pays, `f64[n]`."""

    same: _RepeatMask
    pays: Array


def repeats(
    table: LevelTable, actions: Actions | None, seen: npt.NDArray[np.int64], exact: Array | None, wrong_by: float = 1.0
) -> Repeats:
    """Compare the decisions of a table `[n]`, all with a logged propensity, with the actions seen in the same contexts.

    seen `[n]`: their indices. exact `[n]`: on an interval the numbers themselves; None if only their points are known. wrong_by:
    logged propensities may be wrong by this factor; the bet pays for the largest that is possible.
    """
    matched = table.action == seen
    if table.value is None or actions is None:
        return Repeats(matched, _fair_payment(matched, np.minimum(1.0, wrong_by * table.mu_taken)))
    cell = _fair_payment(matched, wrong_by * cell_probability(actions, table.value, table.mu_taken))
    if exact is None:
        return Repeats(matched, cell)
    at, before = atom_index(actions, table.value), atom_index(actions, exact)
    step = 2.0 * COARSE_LATTICE * float(actions.bandwidth or 0.0)
    near = (before < 0) & (at < 0) & (np.abs(table.value - exact) <= step)
    again = (before >= 0) & (at == before)
    narrow = 0.5 * (_fair_payment(near, wrong_by * 3.0 * step * table.mu_taken) + cell)
    atom = _fair_payment(again, np.minimum(1.0, wrong_by * table.mu_taken))
    return Repeats(near | again, np.where(before < 0, narrow, atom))


def _fair_payment(matched: _RepeatMask, chance: Array) -> Array:
    """Return 1 / chance `[n]` where matched, else 0."""
    return np.where(matched, 1.0 / chance, 0.0)


CONTAMINATION_ALPHA = 1e-4  # the chance that an honest candidate is refused

CONTAMINATION_STAKES = np.array(
    [1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 0.9]
)  # shares of the wealth; the average over them is what counts


_TraceMask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class SeenDecisions:
    """Bets on the actions of certified decisions whose contexts were seen. wealth `f64[stakes]`: logarithms, 0 at the start.

    compared: decisions whose contexts were seen; same: those of them with the same action. wrong_by: by level, the factor by
    which logged probabilities may be wrong; the bet then pays for the largest that is possible, which is fair or worse.
    actions: by level, needed where they are an interval.
    """

    traces: Traces
    wrong_by: Mapping[str, float] = field(default_factory=dict)
    actions: Mapping[str, Actions] = field(default_factory=dict)
    compared: int = 0
    same: int = 0
    wealth: Array = field(default_factory=lambda: np.zeros(CONTAMINATION_STAKES.size))

    def add(self, batch: Batch, mask: _TraceMask) -> int | None:
        """Add the decisions of the episodes that `mask` `[E]` names; return an episode where an action is the same, or None."""
        example: int | None = None
        paths = [coarse_path_hashes(batch, self.traces.steps, offset) for offset in OFFSETS]
        for name, table in batch.levels.items():
            owner = batch.episode_of(name)
            seen, exact = self._seen_actions(name, [found[name] for found in paths])
            known = np.flatnonzero((seen >= 0) & mask[owner] & _have_propensity(table))
            own = None if exact is None else exact[known]
            found = repeats(_table_rows(table, known), self.actions.get(name), seen[known], own, self.wrong_by.get(name, 1.0))
            self.wealth += np.log1p(CONTAMINATION_STAKES[:, None] * (found.pays - 1.0)).sum(axis=1)
            self.compared += known.size
            self.same += int(found.same.sum())
            if example is None and found.same.any():
                example = int(owner[known[int(np.argmax(found.same))]])
        return example

    def merge(self, other: SeenDecisions) -> None:
        """Add the decisions of another part of the log."""
        self.compared += other.compared
        self.same += other.same
        self.wealth = self.wealth + other.wealth

    def _seen_actions(self, level: str, paths: list[Hashes]) -> tuple[npt.NDArray[np.int64], Array | None]:
        """Return the action `[n]` that was seen in the same contexts, on the first grid that knows them, and its exact number.

        -1 for none; None in place of the numbers if only points are known.
        """
        found, grids = np.full(paths[0].size, -1, dtype=np.int64), self.traces.levels[level]
        exact = None if any(kept.values is None for kept in grids) else np.full(found.size, np.nan)
        for hashes, kept in zip(paths, grids, strict=True):
            if kept.hashes.size and hashes.size:
                near = np.flatnonzero(hashes <= kept.hashes[-1])  # the smallest hashes are kept: of a long log that is a few
                place = np.searchsorted(kept.hashes, hashes[near])
                same = (kept.hashes[place] == hashes[near]) & (found[near] < 0)
                hit, place = near[same], place[same]
                found[hit] = kept.actions[place]
                if exact is not None and kept.values is not None:
                    exact[hit] = kept.values[place]
        return found, exact

    @property
    def beyond_chance(self) -> bool:
        """Say whether so many actions would be the same by chance with probability below ALPHA only."""
        return bool(np.logaddexp.reduce(self.wealth) - np.log(CONTAMINATION_STAKES.size) >= -np.log(CONTAMINATION_ALPHA))


def _have_propensity(table: LevelTable) -> _TraceMask:
    """Return which decisions `[n]` have a logged probability: without one there is nothing to bet at."""
    with np.errstate(invalid="ignore"):
        found: _TraceMask = table.mu_taken > 0
    return found


def _table_rows(table: LevelTable, rows: npt.NDArray[np.int64]) -> LevelTable:
    """Return what bets look at, of some rows: actions, exact ones, and their propensities."""
    value = None if table.value is None else table.value[rows]
    return LevelTable(table.parent[rows], {}, table.action[rows], table.mu_taken[rows], value=value)


UNSEEN_WORDS = (
    "a certificate needs units that the policy has not seen; certify on other data, or on the log it was learned from, with its "
    "ids as they were and without --fresh"
)


@dataclass(slots=True)
class SeenEpisodes:
    """Which of the episodes and decisions that a candidate has seen came again among those that were tested.

    seen, retraced: what they are compared with; None if the record holds no such hashes of the columns of this problem.
    """

    name: str
    seen: EpisodeFingerprints | None
    retraced: SeenDecisions | None = None
    tested: int = 0
    example: str | None = None
    met: npt.NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.met = np.zeros(0 if self.seen is None else self.seen.hashes.size, dtype=bool)

    def add(self, hashes: Hashes, batch: Batch, rows: npt.NDArray[np.int64]) -> None:
        """Add episodes by their hashes `[k]`; rows `[k]`: which episodes of the batch they are."""
        self.tested += hashes.size
        if self.seen is None or not self.seen.hashes.size or not hashes.size:
            return
        known = self.seen.hashes
        place = np.minimum(np.searchsorted(known, hashes), known.size - 1)
        hit = known[place] == hashes
        if hit.any():
            self.met[place[hit]] = True
            self._show(batch, int(rows[int(np.argmax(hit))]))

    def retrace(self, batch: Batch, mask: npt.NDArray[np.bool_]) -> None:
        """Add the decisions of the episodes that `mask` `[E]` names."""
        row = None if self.retraced is None else self.retraced.add(batch, mask)
        if row is not None:
            self._show(batch, row)

    def merge(self, other: SeenEpisodes) -> None:
        """Add what came again elsewhere in the log."""
        self.tested += other.tested
        self.met |= other.met
        self.example = self.example or other.example
        if self.retraced is not None and other.retraced is not None:
            self.retraced.merge(other.retraced)

    def _show(self, batch: Batch, row: int) -> None:
        if self.example is None:
            value = batch.episode[row]
            self.example = ", ".join(map(str, value)) if batch.episode.dtype.names else str(value)

    @property
    def hits(self) -> int:
        """Return how many different episodes of those kept came again."""
        return int(self.met.sum())

    @property
    def episodes_beyond_chance(self) -> bool:
        """Say whether so many episodes would come again by chance with probability below ALPHA only."""
        if self.seen is None or not self.hits:
            return False
        return float(bdtrc(self.hits - 1, max(self.tested, self.hits), self.seen.chance)) < CONTAMINATION_ALPHA

    @property
    def beyond_chance(self) -> bool:
        """Say whether more episodes, or more single decisions, came again than chance explains."""
        return self.episodes_beyond_chance or (self.retraced is not None and self.retraced.beyond_chance)

    def check(self) -> None:
        """Raise RefusedError if more came again than chance explains."""
        if self.seen is not None and self.episodes_beyond_chance:
            number = f"at least {self.hits}" if self.seen.sampled else f"{self.hits}"
            verb = "is" if self.hits == 1 else "are"
            raise RefusedError(
                f"{number} of the certified episodes {verb} among those that {self.name} was learned from, with the same "
                f"contexts, actions and rewards, for example episode {self.example}: {UNSEEN_WORDS}"
            )
        if self.retraced is not None and self.retraced.beyond_chance:
            raise RefusedError(
                f"{self.retraced.compared} of the certified decisions have the contexts, to about three digits, of decisions "
                f"that {self.name} was learned from, and {self.retraced.same} of them the same action, more than the logged "
                f"probabilities explain, for example in episode {self.example}: they are the same decisions with rounded "
                f"numbers, other rewards or other ids; {UNSEEN_WORDS}"
            )


def start_recognition(
    problem: Problem, candidates: Sequence[Candidate], fresh: bool = False
) -> tuple[list[SeenEpisodes], list[str]]:
    """Return one for each candidate that recorded what it has seen; and the names of those that did not, though learned.

    fresh: the log is said to be new to all of them, which has to be shown: RefusedError if there is nothing to compare.
    """
    found: list[SeenEpisodes] = []
    unknown: list[str] = []
    for candidate in candidates:
        seen, traces = recorded_episodes(candidate), recorded_traces(candidate)
        same = seen is not None and seen.content == content_digest(problem)
        alike = traces is not None and traces.content == path_digest(problem) and not traces.empty
        if same or alike:
            actions = {level.name: level.actions for level in problem.levels}
            retraced = SeenDecisions(traces, problem.wrong_by(), actions) if traces is not None and alike else None
            found.append(SeenEpisodes(candidate.name, seen if same else None, retraced))
        elif candidate.record:
            unknown.append(candidate.name)
            if fresh:
                raise RefusedError(_not_shown(candidate, seen))
    return found, unknown


def _not_shown(candidate: Candidate, seen: EpisodeFingerprints | None) -> str:
    reason = (
        "holds no fingerprints of the episodes it was learned from (an earlier version wrote it)"
        if seen is None
        else "holds fingerprints of other columns of contexts, actions or rewards than those of this problem"
    )
    return (
        f"the record of {candidate.name} {reason}, so that nothing shows that this log is new to it, as --fresh says; learn it "
        "again with this version and this problem file, or leave out --fresh, if the ids of the log are those of learning"
    )


def recorded_episodes(candidate: Candidate) -> EpisodeFingerprints | None:
    """Return what a candidate recorded of the episodes it has seen; None if nothing."""
    plain = candidate.record.get("fingerprints")
    return None if plain is None else EpisodeFingerprints.of(plain)


def recorded_traces(candidate: Candidate) -> Traces | None:
    """Return what a candidate recorded of single decisions; None if nothing, as in older records."""
    plain = (candidate.record.get("fingerprints") or {}).get("traces")
    return None if plain is None else Traces.of(plain)


def add_to_recognition(found: Sequence[SeenEpisodes], batch: Batch, mask: npt.NDArray[np.bool_]) -> None:
    """Add the episodes of a batch that `mask` `[E]` names."""
    if not found or not mask.any():
        return
    rows = np.flatnonzero(mask)
    hashes = episode_hashes(batch)[rows]
    for item in found:
        item.add(hashes, batch, rows)
        item.retrace(batch, mask)
