"""Loggers: did one policy write the log, and can the stated incumbent belong to it?

If one policy wrote the log, its propensities are one function of the context at each level. Several policies that take
turns, or one that changes, may log the right probabilities, and nothing is wrong with such a log. But a gain is then over
their average, unless an incumbent is declared. The check compares the first decisions of each level in every episode, so
that a legacy that follows earlier decisions of its episode is still one policy. It samples episodes by a hash of their ids:
every order and every division of the log into parts gives the same sample. Where probabilities are not one function,
`drift` asks whether they move in time or follow earlier rewards.

Incumbent. Every row is compared with what the problem promises of the stated incumbent. With the whole distribution in the
log a promised largest ratio of incumbent to logger is checked at every action; with the propensity of the action taken
alone, at that action.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from aegis.audit.batch_view import id_words
from aegis.audit.checks.drift import Following, followed_past, past_of
from aegis.audit.codes import PROPENSITIES_MOVE, SEVERAL_LOGGERS
from aegis.audit.finding import Finding, make_finding
from aegis.audit.variogram import RANKS, SINGLE, Nugget, Variogram, fit_nugget, nugget_of_repeats
from aegis.errors import RefusedError
from aegis.logs import hash_ids
from aegis.ope import INCUMBENT_FIX, INCUMBENT_IMPOSSIBLE, incumbent_message
from aegis.policies import StatedIncumbent, incumbent_misfit, stated_levels
from aegis.problem import (
    AnyArray,
    Array,
    Batch,
    Hashes,
    Level,
    LevelTable,
    Problem,
    augmented_context,
    fold_hash,
    is_atom,
    mix_bits,
)

KEPT_LOGGERS = 1024  # episodes in the sample

MOST_COLUMNS = 24  # of a context; in more of them no two are alike

FEW_ACTIONS = 8  # so many are looked at one by one

MOST_PARTS = 64  # into which probabilities of more actions are added up

SAME_DISTRIBUTION = 1e-3  # total variation below which two distributions are one

LEAST_DIFFERENCE = 0.01  # mean difference between neighbours that is worth a word

KEY, WHERE, PAST = "key", "where", "past"

LoggerSample = dict[str, AnyArray]  # columns by name, one entry per decision, in the order of keys


class Loggers:
    """A sample of first decisions at each level: what they looked at, and with which probabilities they were taken."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.levels = [level for level in problem.levels if _varies(level)]
        self.seen = 0  # episodes
        self.keys: Hashes = np.zeros(0, dtype=np.uint64)  # of the episodes in the sample
        self.samples: dict[str, LoggerSample] = {}

    def add(self, batch: Batch) -> None:
        """Add the episodes of a batch, as it is in the log."""
        if not self.levels:
            return
        keys = _keys(batch.episode)
        chosen = np.flatnonzero(keys < self.keys[-1]) if self.keys.size == KEPT_LOGGERS else np.arange(keys.size)
        if chosen.size > KEPT_LOGGERS:
            chosen = np.sort(chosen[np.argpartition(keys[chosen], KEPT_LOGGERS)[:KEPT_LOGGERS]])
        if chosen.size:
            part = batch.take_episodes(chosen)
            samples = {level.name: self._sample(level, part, keys[chosen]) for level in self.levels}
            for level in self.levels:
                past = past_of(batch, _first_sides(level, batch), self.seen)
                owner = part.episode_of(level.name)
                samples[level.name][PAST] = past[chosen[owner[_firsts(owner)]]]
            self._keep(keys[chosen], samples)
        self.seen += len(batch)

    def merge(self, other: Loggers) -> None:
        """Add what another part of the log holds."""
        self._keep(other.keys, other.samples)

    def findings(self) -> list[Finding]:
        """Return a finding for each level at which the propensities are not one function of the context."""
        return [item for level in self.levels if level.name in self.samples for item in self._level(level)]

    def _keep(self, keys: Hashes, samples: Mapping[str, LoggerSample]) -> None:
        self.keys = np.sort(np.concatenate([self.keys, keys]))[:KEPT_LOGGERS]
        for name, sample in samples.items():
            own = self.samples.get(name)
            if own is not None and any(own[column].shape[1:] != values.shape[1:] for column, values in sample.items()):
                continue  # batches that know different things of their propensities cannot be compared
            joint = sample if own is None else {column: np.concatenate([own[column], sample[column]]) for column in sample}
            order = np.argsort(joint[KEY], kind="stable")
            order = order[joint[KEY][order] <= self.keys[-1]] if self.keys.size else order
            self.samples[name] = {column: values[order] for column, values in joint.items()}

    def _sample(self, level: Level, batch: Batch, keys: Hashes) -> LoggerSample:
        """Return the first decision of a level in each episode: its context as numbers and categories, and its propensities."""
        table, owner = batch.levels[level.name], batch.episode_of(level.name)
        rows = _firsts(owner)
        kinds = {variable.name: variable.kind for each in self.problem.levels for variable in each.context}
        kinds |= {each.actions.column: "real" if each.actions.numeric else "categorical" for each in self.problem.levels}
        numbers: list[Array] = []
        categories: list[AnyArray] = []
        for name, values in augmented_context(self.problem, batch, level.name).items():
            part = values[rows].reshape(rows.size, -1)
            if kinds[name] == "categorical":
                categories.append(part.astype(np.float64))
            else:
                numbers.append(part.astype(np.float64))
        if level.actions.continuous and table.value is not None:
            categories.append(is_atom(level.actions, table.value[rows]).astype(np.float64)[:, None])
        if table.available is not None:
            categories.append(_masks(table.available[rows]))
        nothing = np.zeros((rows.size, 0))
        return {
            KEY: keys[owner[rows]],
            "numbers": np.column_stack([nothing, *numbers]),
            "categories": np.column_stack([nothing, *categories]),
            "quantity": _distributions(table.mu_full[rows]) if table.mu_full is not None else table.mu_taken[rows][:, None],
            "action": _taken(level, table, rows),
            WHERE: _where(batch, level.name, rows),
        }

    def _level(self, level: Level) -> list[Finding]:
        sample = self.samples[level.name]
        known = np.isfinite(sample["numbers"]).all(axis=1) & (sample["quantity"].sum(axis=1) > 0)
        sample = {name: values[known] for name, values in sample.items()}
        full = sample["quantity"].shape[1] > 1
        if sample["numbers"].shape[1] + sample["categories"].shape[1] >= MOST_COLUMNS:
            return []
        if self._exact(level):
            left = _repeated(sample, full)
        elif full:
            left = _of_whole(level, sample)
        else:
            left, sample = _of_taken(level, sample)
        if left is None or left.near < LEAST_DIFFERENCE:
            return []
        one, other = (str(sample[WHERE][row]) for row in left.rows)
        found = [_finding(level, left, full, one, other)] if _logged(level) else []
        looks = np.column_stack([sample["categories"], *([] if full else [sample["action"]])])
        _, groups = np.unique(looks, axis=0, return_inverse=True) if looks.shape[1] else (None, np.zeros(len(looks)))
        after = followed_past(sample["numbers"], np.ravel(groups), sample["quantity"], sample[PAST])
        return found if after is None else [*found, _moving(level, after)]

    def _exact(self, level: Level) -> bool:
        """Say whether a level looks at nothing but categories, and at actions that were declared one by one."""
        levels = (*self.problem.above(level.name), level)
        kinds = {variable.kind for each in levels for variable in each.context}
        return kinds <= {"categorical"} and not any(each.actions.continuous for each in levels)


def _repeated(sample: LoggerSample, full: bool) -> Nugget | None:
    """Return how propensities differ between contexts that are equal, and actions if only theirs are known."""
    looks = np.column_stack([sample["numbers"], sample["categories"], *([] if full else [sample["action"]])])
    if not len(looks):
        return None
    _, keys = np.unique(looks, axis=0, return_inverse=True) if looks.shape[1] else (None, np.zeros(len(looks)))
    return nugget_of_repeats(np.ravel(keys), Variogram(sample["quantity"] * (1.0 if full else 2.0), SAME_DISTRIBUTION))


def _of_whole(level: Level, sample: LoggerSample) -> Nugget | None:
    """Return how whole distributions differ. On a fine grid of actions they jump from step to step, but cumulated sums do not."""
    numbers, categories, full = sample["numbers"], sample["categories"], sample["quantity"]
    left = fit_nugget(numbers, categories, Variogram(full, SAME_DISTRIBUTION))
    if left is None or not level.actions.numeric:
        return left
    cumulated = np.cumsum(full, axis=1)[:, :-1] * (2.0 / (full.shape[1] - 1))
    return left if fit_nugget(numbers, categories, Variogram(cumulated, SAME_DISTRIBUTION)) is not None else None


def _of_taken(level: Level, sample: LoggerSample) -> tuple[Nugget | None, LoggerSample]:
    """Return how probabilities of the action taken differ, and of which decisions: among those that took the same action first.

    Numeric actions, if there are many, may also be compared with their neighbours: few decisions took the same one.
    """
    if not level.actions.continuous:
        _, codes, counts = np.unique(sample["action"], return_inverse=True, return_counts=True)
        part = {name: values[(counts > RANKS)[codes]] for name, values in sample.items()}
        left = fit_nugget(
            part["numbers"], part["categories"], Variogram(2.0 * part["quantity"], SAME_DISTRIBUTION, SINGLE, part["action"])
        )
        if left is not None or not level.actions.numeric or level.actions.count <= FEW_ACTIONS:
            return left, part
    numbers = np.column_stack([sample["numbers"], sample["action"]])
    return fit_nugget(
        numbers, sample["categories"], Variogram(np.log(sample["quantity"]), SAME_DISTRIBUTION, SINGLE, relative=True)
    ), sample


def _varies(level: Level) -> bool:
    """Say whether the propensities of a level come from columns of the log. Those in the problem file follow one rule."""
    given = level.propensity
    return given is not None and not given.estimated and bool(given.column or given.columns or given.base)


def _logged(level: Level) -> bool:
    """Say whether the propensities of a level were logged as they are, and not derived from the action that was meant."""
    given = level.propensity
    return _varies(level) and given is not None and given.base is None


def _firsts(owner: AnyArray) -> AnyArray:
    """Return the first decision of each episode."""
    return np.flatnonzero(np.concatenate([np.ones(min(1, owner.size), dtype=np.bool_), owner[1:] != owner[:-1]]))


def _first_sides(level: Level, batch: Batch) -> Array:
    """Return for each episode 1 if its first decision is in the upper half of the actions, -1 if not, 0 if there is none."""
    owner = batch.episode_of(level.name)
    rows = _firsts(owner)
    found = np.zeros(len(batch))
    found[owner[rows]] = np.where(_taken(level, batch.levels[level.name], rows) >= _middle(level), 1.0, -1.0)
    return found


def _middle(level: Level) -> float:
    """Return the number, or the code of a label, at which the upper half of the actions begins."""
    if level.actions.continuous:
        return float(np.mean(level.actions.limits))
    return float(level.actions.as_rows(np.array([level.actions.count // 2])).astype(np.float64)[0])


def _keys(ids: AnyArray) -> Hashes:
    """Return a hash `[E]` of each id that depends on nothing else."""
    if ids.dtype.kind in "iu":
        return mix_bits(ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    return hash_ids([pa.array(ids[name]) for name in ids.dtype.names] if ids.dtype.names else [pa.array(ids)])


def _distributions(full: Array) -> Array:
    """Return distributions `[n, A]`, the probabilities of neighbouring actions added up if there are many."""
    if full.shape[1] <= MOST_PARTS:
        return full
    starts = np.linspace(0, full.shape[1], MOST_PARTS, endpoint=False).astype(np.int64)
    return np.asarray(np.add.reduceat(full, starts, axis=1))


def _masks(available: AnyArray) -> Array:
    """Return which actions were available: a column for each `[n, A]` if they are few, else a hash `[n, 1]`."""
    if available.shape[1] <= FEW_ACTIONS:
        return available.astype(np.float64)
    return (fold_hash(np.zeros(len(available), dtype=np.uint64), available) >> np.uint64(11)).astype(np.float64)[:, None]


def _taken(level: Level, table: LevelTable, rows: AnyArray) -> Array:
    """Return the actions `[n]` as numbers, or as codes of labels."""
    if table.value is not None:
        return table.value[rows]
    return level.actions.as_rows(table.action[rows]).astype(np.float64)


def _where(batch: Batch, level: str, rows: AnyArray) -> AnyArray:
    """Return in words where decisions of a level came from: file and row if they are known, else their episodes."""
    if batch.places is None:
        words = [f"episode {id_words(batch.episode, int(row))}" for row in batch.episode_of(level)[rows]]
    else:
        innermost = list(batch.levels)[-1]
        below = np.searchsorted(batch.ancestors(innermost)[level], rows)
        words = [batch.places.at(min(int(row), len(batch.levels[innermost]) - 1)) for row in below]
    return np.array(words, dtype=object)


def _finding(level: Level, left: Nugget, full: bool, one: str, other: str) -> Finding:
    if full:
        seen = f"probabilities at level '{level.name}' differ: total variation {left.near:.2g} between neighbours"
    else:
        what = "densities" if level.actions.continuous else "probabilities"
        seen = f"{what} at level '{level.name}' differ: by {left.near:.2g} on average between neighbours with like actions"
    message = (
        f"at like contexts the logged {seen}, e.g. {one} against {other}; several policies wrote this log, or one "
        "that changed or looks at something outside the context"
    )
    stated = level.comparator is not None and not level.comparator.logged
    message += "; gains are over the stated incumbent all the same" if stated else ""
    figures: dict[str, float | str] = {"near": left.near, "random": left.random, "share": left.share}
    fix = "none for a gain over the stated incumbent; a candidate must not be capped by such probabilities" if stated else None
    return make_finding(SEVERAL_LOGGERS, "note" if stated else "warning", message, level.name, fix=fix, figures=figures)


def _moving(level: Level, after: Following) -> Finding:
    message = (
        f"at like contexts the logged probabilities at level '{level.name}' go with {after.what}: the controller learns, or was "
        "changed in time; rows on both sides of a split by hash then depend on each other's rewards"
    )
    return make_finding(
        PROPENSITIES_MOVE, "warning", message, level.name, follows=after.what, score=after.score, chance=after.chance
    )


class IncumbentFit:
    """The first decision of each level that its stated incumbent does not fit."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.levels = sorted(stated_levels(problem))
        self.policy = StatedIncumbent(problem) if self.levels else None
        self.broken: dict[str, str] = {}

    def add(self, batch: Batch) -> None:
        """Add the episodes of a batch, as it is in the log."""
        for name in self.levels:
            if self.policy is None or name in self.broken:
                continue
            known = batch.levels[name].mu_full is not None
            full = self.policy.full(name, batch)[0] if known else None
            found = incumbent_misfit(name, batch, self.policy.taken(name, batch)[0], full, self.problem.level(name).ratio_bound)
            if found is not None:
                self.broken[name] = incumbent_message(name, batch, *found)

    def merge(self, other: IncumbentFit) -> None:
        """Add what a later part of the log holds."""
        self.broken = {**other.broken, **self.broken}

    def findings(self) -> list[Finding]:
        """Return a finding for each level whose incumbent does not fit."""
        return [
            make_finding(INCUMBENT_IMPOSSIBLE, "refused", message, name, fix=INCUMBENT_FIX)
            for name, message in self.broken.items()
        ]


def check_incumbent(problem: Problem, batch: Batch) -> None:
    """Raise RefusedError, naming the row, where the stated incumbent does not fit the episodes of a batch."""
    fit = IncumbentFit(problem)
    if fit.levels:
        fit.add(batch)
    for message in fit.broken.values():
        raise RefusedError(message, INCUMBENT_IMPOSSIBLE, INCUMBENT_FIX)
