"""Drift: did the plant change during the log, and did one policy write it?

Plant. Contexts and rewards of the halves of the log are compared on a sample of episodes that does not depend on their order
or content.

Loggers. If one policy wrote the log, its propensities are one function of the context at each level. Several policies that
take turns, or one that changes, may log the right probabilities, and nothing is wrong with such a log. But a gain is then
over their average, unless an incumbent is declared. The check compares the first decisions of each level in every episode,
so that a legacy that follows earlier decisions of its episode is still one policy. It samples episodes by a hash of their
ids: every order and every division of the log into parts gives the same sample. Where probabilities are not one function,
it asks whether they move in time or follow earlier rewards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from aegis.audit.batch_view import BatchView, comparable_times, group_starts, id_words
from aegis.audit.check import PART, AuditSetting, Check, Finding, Known, make_finding, upper_quantile
from aegis.audit.codes import PROPENSITIES_MOVE, SEVERAL_LOGGERS
from aegis.audit.variogram import (
    RANKS,
    SINGLE,
    Following,
    Nugget,
    Variogram,
    fit_nugget,
    followed_past,
    nugget_of_repeats,
    past_of,
)
from aegis.logs import hash_ids
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
    group_means,
    is_atom,
    mix_bits,
)
from aegis.rng import stream

KEPT = 2**14  # episodes in the sample
EFFECT = 0.1  # standard deviations, below which a difference is not worth a finding
MOST_COLUMNS = 32
MOST_VERSIONS = 100


class Drift(Check):
    """A sample of episodes: when they were, their mean reward and their mean contexts; and the versions that acted."""

    adds = ("versions",)

    def __init__(self, setting: AuditSetting) -> None:
        super().__init__(setting)
        self.names = _names(self.problem)
        self.ticket = np.zeros(0)
        self.order: AnyArray | None = None
        self.values = np.zeros((0, len(self.names)))
        self.versions: dict[str, set[str]] = {name: set() for name in self.problem.names}

    def add(self, view: BatchView) -> None:
        """Add the episodes of a batch."""
        batch = view.batch
        for name, table in batch.levels.items():
            if table.version is not None and len(self.versions[name]) < MOST_VERSIONS:
                self.versions[name].add(table.version)
        first, self.next = self.next, self.next + len(batch)
        if view.skimmed:
            return
        part, number = divmod(first, PART)
        key = (part, number) if part else (number,)
        ticket = stream(0, "audit", "drift", *key).random(len(batch))  # the same sample whenever the log is the same
        times = comparable_times(batch)
        order = np.arange(first, self.next) if times is None else np.asarray(times)
        # Once the sample is full few episodes get in; only these are read.
        limit = np.inf if self.ticket.size < KEPT else self.ticket.max()
        chosen = np.flatnonzero(ticket < limit)
        if chosen.size:
            self._keep(ticket[chosen], order[chosen], _values(view, chosen))

    def _keep(self, ticket: Array, order: AnyArray, values: Array) -> None:
        self.ticket = np.concatenate([self.ticket, ticket])
        self.order = order if self.order is None else np.concatenate([self.order, order])
        self.values = np.concatenate([self.values, values])
        if self.ticket.size > KEPT:
            smallest = np.argpartition(self.ticket, KEPT)[:KEPT]
            self.ticket, self.order, self.values = self.ticket[smallest], self.order[smallest], self.values[smallest]

    def merge(self, other: Drift) -> None:
        """Add the sample of a later part of the log."""
        super().merge(other)
        if other.order is not None:
            self._keep(other.ticket, other.order, other.values)

    def findings(self, known: Known) -> list[Finding]:
        """Return the findings."""
        findings = [self._versions(name, versions) for name, versions in self.versions.items() if len(versions) > 1]
        if self.order is None or self.order.size < 20:
            return findings
        arranged = self.values[np.argsort(self.order, kind="stable")]
        half = len(arranged) // 2
        limit = upper_quantile(self.alpha / 2.0 / max(len(self.names), 1))
        for place, (column, level) in enumerate(self.names):
            early, late = (part[np.isfinite(part)] for part in (arranged[:half, place], arranged[half:, place]))
            if min(early.size, late.size) < 10:
                continue
            # Squares of large numbers do not fit; nothing that is compared depends on the unit.
            unit = 2.0 ** float(np.frexp(max(np.abs(early).max(), np.abs(late).max()))[1] - 1)
            early, late = early / unit, late / unit
            sd = math.sqrt((early.var(ddof=1) + late.var(ddof=1)) / 2)
            gap = float(late.mean() - early.mean())
            error = math.sqrt(early.var(ddof=1) / early.size + late.var(ddof=1) / late.size)
            if error <= 1e-12 * max(abs(float(early.mean())), 1e-300) or abs(gap) < max(limit * error, EFFECT * sd):
                continue
            message = (
                f"the mean of '{column}' over episodes went from {early.mean() * unit:.4g} in the first half of the log to "
                f"{late.mean() * unit:.4g} in the second ({gap / sd:+.2f} standard deviations)"
            )
            halves = {"first_half": early.mean() * unit, "second_half": late.mean() * unit}
            findings.append(make_finding("drift", "warning", message, level, column, figures=halves, score=gap / error))
        return findings

    def _versions(self, level: str, versions: set[str]) -> Finding:
        listed = ", ".join(sorted(versions)[:5])
        message = f"level '{level}': {len(versions)} versions of the behaviour policy acted: {listed}"
        return make_finding("several-versions", "warning", message, level, versions=float(len(versions)))


def _names(problem: Problem) -> list[tuple[str, str | None]]:
    """Return column (or category) and level of everything that is watched."""
    names: list[tuple[str, str | None]] = [(problem.reward.column, None)]
    for level in problem.levels:
        for variable in level.context:
            categories = [f"{variable.name} = {value}" for value in variable.values]
            names += [(name, level.name) for name in (categories if variable.kind == "categorical" else variable.columns)]
    return names[:MOST_COLUMNS]


def _values(view: BatchView, chosen: AnyArray) -> Array:
    """Return the mean over each of the chosen episodes `[k, columns]` of what is watched."""
    rows, owner = view.rows_below(view.problem.innermost.name, chosen)
    columns = [group_means(owner, view.reward[rows], chosen.size)]
    for level in view.problem.levels:
        rows, owner = view.rows_below(level.name, chosen)
        for variable in level.context:
            values = view.batch.levels[level.name].context[variable.name][rows]
            if variable.kind == "categorical":
                parts = [(values == code).astype(np.float64) for code in range(len(variable.values))]
            else:
                parts = list(values.reshape(len(values), -1).T)
            columns += [group_means(owner, part, chosen.size) for part in parts]
    return np.column_stack(columns[:MOST_COLUMNS])


KEPT_LOGGERS = 1024  # episodes in the sample
MOST_LOOKS = 24  # of a context; in more of them no two are alike
FEW_ACTIONS = 8  # actions that are compared one by one
MOST_PARTS = 64  # into which probabilities of more actions are added up
SAME_DISTRIBUTION = 1e-3  # total variation below which two distributions are one
LEAST_DIFFERENCE = 0.01  # mean difference between neighbours that is worth a finding
KEY, WHERE, PAST = "key", "where", "past"

LoggerSample = dict[str, AnyArray]  # columns by name, one entry per decision, in the order of keys


class Loggers(Check):
    """A sample of first decisions at each level: what they looked at, and with which probabilities they were taken."""

    def __init__(self, setting: AuditSetting) -> None:
        super().__init__(setting)
        self.problem = setting.problem
        self.levels = [level for level in self.problem.levels if _varies(level)]
        self.keys: Hashes = np.zeros(0, dtype=np.uint64)  # of the episodes in the sample
        self.samples: dict[str, LoggerSample] = {}

    def add(self, view: BatchView) -> None:
        """Add the episodes of a batch, as it is in the log."""
        if self.levels:
            self.add_batch(view.logged)

    def add_batch(self, batch: Batch) -> None:
        """Add the episodes of a batch."""
        keys = _keys(batch.episode)
        chosen = np.flatnonzero(keys < self.keys[-1]) if self.keys.size == KEPT_LOGGERS else np.arange(keys.size)
        if chosen.size > KEPT_LOGGERS:
            chosen = np.sort(chosen[np.argpartition(keys[chosen], KEPT_LOGGERS)[:KEPT_LOGGERS]])
        if chosen.size:
            part = batch.take_episodes(chosen)
            samples = {level.name: self._sample(level, part, keys[chosen]) for level in self.levels}
            for level in self.levels:
                past = past_of(batch, _first_sides(level, batch), self.next)
                owner = part.episode_of(level.name)
                samples[level.name][PAST] = past[chosen[owner[group_starts(owner)]]]
            self._keep(keys[chosen], samples)
        self.next += len(batch)

    def merge(self, other: Loggers) -> None:
        """Add the sample of another part of the log."""
        self._keep(other.keys, other.samples)

    def findings(self, known: Known | None = None) -> list[Finding]:
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
        rows = group_starts(owner)
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
        if sample["numbers"].shape[1] + sample["categories"].shape[1] >= MOST_LOOKS:
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
        logged = level.propensity is not None and level.propensity.base is None  # not derived from the action that was meant
        findings = [_finding(level, left, full, one, other)] if logged else []
        groups = _codes([sample["categories"]], sample, full)
        after = followed_past(sample["numbers"], groups, sample["quantity"], sample[PAST])
        return findings if after is None else [*findings, _moving(level, after)]

    def _exact(self, level: Level) -> bool:
        """Say whether a level looks at nothing but categories, and at actions that were declared one by one."""
        levels = (*self.problem.above(level.name), level)
        kinds = {variable.kind for each in levels for variable in each.context}
        return kinds <= {"categorical"} and not any(each.actions.continuous for each in levels)


def _codes(columns: list[AnyArray], sample: LoggerSample, full: bool) -> AnyArray:
    """Return a number `[n]` for each different row of columns, and of actions if only their propensities are known."""
    looks = np.column_stack([*columns, *([] if full else [sample["action"]])])
    if not looks.shape[1]:
        return np.zeros(len(looks))
    return np.ravel(np.unique(looks, axis=0, return_inverse=True)[1])


def _repeated(sample: LoggerSample, full: bool) -> Nugget | None:
    """Return how propensities differ between contexts that are equal, and actions if only theirs are known."""
    if not len(sample["numbers"]):
        return None
    keys = _codes([sample["numbers"], sample["categories"]], sample, full)
    return nugget_of_repeats(keys, Variogram(sample["quantity"] * (1.0 if full else 2.0), SAME_DISTRIBUTION))


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
    spec = level.propensity
    return spec is not None and not spec.estimated and bool(spec.column or spec.columns or spec.base)


def _first_sides(level: Level, batch: Batch) -> Array:
    """Return for each episode 1 if its first decision is in the upper half of the actions, -1 if not, 0 if there is none."""
    owner = batch.episode_of(level.name)
    rows = group_starts(owner)
    if level.actions.continuous:
        middle = float(np.mean(level.actions.limits))
    else:
        middle = float(level.actions.as_rows(np.array([level.actions.count // 2])).astype(np.float64)[0])
    sides = np.zeros(len(batch))
    sides[owner[rows]] = np.where(_taken(level, batch.levels[level.name], rows) >= middle, 1.0, -1.0)
    return sides


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
        difference = f"probabilities at level '{level.name}' differ: total variation {left.near:.2g} between neighbours"
    else:
        what = "densities" if level.actions.continuous else "probabilities"
        difference = f"{what} at level '{level.name}' differ: by {left.near:.2g} on average between neighbours with like actions"
    message = (
        f"at like contexts the logged {difference}, e.g. {one} against {other}; several policies wrote this log, or one "
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


def logger_findings(problem: Problem, batches: Iterable[Batch]) -> list[Finding]:
    """Return whether the propensities of a log are one function of the context, and whether they move."""
    check = Loggers(AuditSetting(problem))
    for batch in batches if check.levels else ():
        check.add_batch(batch)
    return check.findings()
