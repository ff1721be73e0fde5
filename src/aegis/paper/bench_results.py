"""Results of a bench: metrics by arm, swept value and seed, and the rows of its table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aegis.errors import check_choice
from aegis.paper.bench_file import Bench, BenchClaim, PaperNumber
from aegis.paper.bench_runs import ResultStore, RunMetrics
from aegis.paper.bench_units import BenchPlan, BenchUnit, flat_settings, key_of
from aegis.problem import Array

FLIP = "flip_"  # what names the episode of a flip begins with

FLIPPED = "flipped_"  # what names whether a level changed hands begins with

NAMING_ARMS = ("above", "below", "left", "right", "arm")  # entries of a claim that name an arm

OF_FIRST_FLIP = ("before", "after")  # numbers that there are only if some level changed hands


class MissingResult(Exception):
    """A result that a claim or a figure needs is not there; the message says which."""


@dataclass(frozen=True)
class BenchResults:
    """The results of a plan. runs: by arm and value, the metrics of each seed that was run. settings: see `settings_of`.

    changes: by dotted key, what was run with beside the preset.
    """

    bench: Bench
    preset: str
    seeds: int
    runs: dict[tuple[str, Any], dict[int, RunMetrics]]
    settings: dict[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def changed(self) -> dict[str, Any]:
        """Return the changes that decide numbers: all but the number of seeds."""
        return {key: value for key, value in self.changes.items() if key != "seeds"}

    @property
    def complete(self) -> bool:
        """Say whether every seed of every unit is there."""
        return all(len(own) >= self.seeds for own in self.runs.values())

    def values(self) -> list[Any]:
        """Return the values of what is swept, `[None]` if nothing is."""
        return list(dict.fromkeys(value for _, value in self.runs))

    def episodes(self, arm: str) -> int | None:
        """Return how many episodes an arm was run for, `arm` or `arm@value`; None if that is not known.

        Where episodes are swept, an arm without a value has the fewest.
        """
        arm, _, key = arm.partition("@")
        if self.bench.sweep is not None and self.bench.sweep.key == "episodes":
            return min((value for name, value in self.runs if name == arm and key in ("", key_of(value))), default=None)
        common, own = self.settings.get("common", {}), self.settings.get("arms", {}).get(arm, {})
        episodes: int | None = own.get("episodes", common.get("episodes"))
        return episodes

    def of(self, arm: str, metric: str, value: Any = None, at: int | None = None) -> Array:
        """Return a metric of an arm `[seeds]`, in the order of the seeds, nan where a run has none.

        at: the place in a metric that is a list. Raises MissingResult if there are no runs, or no such metric.
        """
        return self._numbers(arm, metric, value, at, sorted(self._own(arm, value)))

    def _numbers(self, arm: str, metric: str, value: Any, at: int | None, seeds: Iterable[int]) -> Array:
        own = self._own(arm, value)
        metric, at = self._place(metric, at)
        numbers = []
        for seed in seeds:
            if metric not in own[seed]:
                raise MissingResult(f"{arm}: there is no '{metric}'; there are {', '.join(sorted(own[seed]))}")
            item = own[seed][metric]
            if at is not None and at >= len(item):
                raise MissingResult(f"{arm}: '{metric}' was not computed so far out; it has {len(item)} places")
            numbers.append(item if at is None else item[at])
        return np.array(numbers, dtype=float)

    def missing_words(self, arm: str, metric: str, value: Any = None, at: int | None = None) -> str:
        """Return why runs of an arm have no number of a metric, empty if all have one."""
        known = np.isfinite(self.of(arm, metric, value, at))
        if known.all():
            return ""
        if known.any():
            return f"{arm}: {int((~known).sum())} of {known.size} runs have no '{metric}'"
        runs = list(self._own(arm, value).values())
        levels = [name.removeprefix(FLIPPED) for name in runs[0] if name.startswith(FLIPPED)]
        own = [level for level in levels if metric.endswith(f"_{level}")] or (levels if metric in OF_FIRST_FLIP else [])
        if own and not any(run[f"{FLIPPED}{level}"] for run in runs for level in own):
            return f"{arm}: no run flipped ({', '.join(own)})"
        return f"{arm}: no run has '{metric}'"

    def _place(self, metric: str, at: int | None) -> tuple[str, int | None]:
        """Return a metric and the place in it for `bound@500`."""
        name, sign, point = metric.partition("@")
        if not sign:
            return metric, at
        known = [key_of(value) for value in self.bench.points]
        check_choice(point, known, f"point of '{name}'")
        return name, known.index(point)

    def pairs(self, left: tuple[str, Any], right: tuple[str, Any], metric: str, at: int | None = None) -> tuple[Array, Array]:
        """Return a metric of two arms at the seeds that both have."""
        common = sorted(set(self._own(*left)) & set(self._own(*right)))
        if not common:
            raise MissingResult(f"{left[0]} and {right[0]} have no seed in common")
        first, second = (self._numbers(arm, metric, value, at, common) for arm, value in (left, right))
        return first, second

    def _own(self, arm: str, value: Any) -> dict[int, RunMetrics]:
        own = self.runs.get((arm, value))
        if not own:
            raise MissingResult(f"{arm}{'' if value is None else f' at {value}'} was not run")
        return own

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each arm, value and metric: mean and standard deviation, oracle, what the paper reports.

        mean, sd: of the runs that have the number; never: how many have not: a flip that never came, or what no gate computed.
        between: the standard deviation between means, where the values of the sweep are repetitions.
        """
        return [row for arm in self.bench.arms for metric in self.bench.metrics for row in self._rows(arm, metric)]

    def _rows(self, arm: str, metric: str) -> list[dict[str, Any]]:
        there = [value for value in self.values() if self.runs[arm, value] and self._computed(arm, metric, value)]
        if self.bench.sweep is None or not self.bench.sweep.pool:
            return [self._row(arm, metric, [value], value) for value in there]
        return [self._row(arm, metric, there, None)] if there else []

    def _computed(self, arm: str, metric: str, value: Any) -> bool:
        """Say whether a place of a list was reached: a short run does not reach the last ones."""
        name, at = self._place(metric, None)
        return at is None or all(at < len(item.get(name, ())) for item in self._own(arm, value).values())

    def _row(self, arm: str, metric: str, values: list[Any], shown: Any) -> dict[str, Any]:
        each = [self.of(arm, metric, value) for value in values]
        numbers = np.concatenate(each)
        known = numbers[np.isfinite(numbers)]
        reported = paper_number(self.bench, arm, metric if len(self.bench.metrics) > 1 else shown)
        names = (f"oracle_{metric}", *(["oracle"] if metric == "reward" else []))  # a flip's episode has no best reward
        best = [item[name] for v in values for item in self.runs[arm, v].values() for name in names if name in item]
        return {
            "agent": arm,
            "value": shown,
            "metric": metric,
            "mean": float(known.mean()) if known.size else None,
            "sd": float(known.std(ddof=1)) if known.size > 1 else None,
            "never": int(numbers.size - known.size),
            "between": float(np.std([own.mean() for own in each], ddof=1)) if len(each) > 1 else None,
            "runs": int(numbers.size),
            "oracle": float(np.mean(best)) if best else None,
            "paper": None if reported is None else reported.model_dump(),
        }


def collect_results(plan: BenchPlan, store: ResultStore) -> BenchResults:
    """Return the results of a plan that are in the store."""
    runs = {(u.arm, u.value): _own(u, store, plan.seeds) for u in plan.units}
    return BenchResults(
        bench=plan.bench, preset=plan.preset, seeds=plan.seeds, runs=runs, settings=settings_of(plan), changes=plan.changes
    )


def settings_of(plan: BenchPlan) -> dict[str, Any]:
    """Return what all units of a plan have in common, and under 'arms' what each arm has beside it; the sweep is left out."""
    swept = None if plan.bench.sweep is None else plan.bench.sweep.key
    units = [
        (unit.arm, {key: value for key, value in flat_settings(unit.settings).items() if key != swept}) for unit in plan.units
    ]
    first = units[0][1]
    common = {key: value for key, value in first.items() if all(own.get(key, _NO) == value for _, own in units)}
    arms = {arm: {key: value for key, value in own.items() if key not in common} for arm, own in units}
    return {"common": common, "arms": {arm: own for arm, own in arms.items() if own}}


_NO = object()


def _own(unit: BenchUnit, store: ResultStore, seeds: int) -> dict[int, RunMetrics]:
    return {seed: metrics for seed, metrics in sorted(store.read(unit).items()) if seed < seeds}


def paper_number(bench: Bench, arm: str, key: Any) -> PaperNumber | None:
    """Return what the paper reports for an arm: of a metric, or at a value of what is swept."""
    known = bench.paper.get(arm)
    return known.get(key_of(key)) if isinstance(known, dict) else known


def check_scope(claim: BenchClaim, results: BenchResults) -> None:
    """Raise MissingResult if results are not of what a claim speaks of.

    A claim of the paper speaks of the settings of its bench, with any number of seeds. A claim with a `horizon` speaks of so
    many episodes.
    """
    if claim.whose == "paper" and results.changed:
        raise MissingResult(f"settings were changed: {change_words(results.changed)}")
    if claim.horizon is None:
        return
    episodes = [results.episodes(claim.entries[entry]) for entry in NAMING_ARMS if entry in claim.entries]
    run = min((number for number in episodes if number is not None), default=None)
    if run is None or None in episodes:
        raise MissingResult(f"it speaks of {claim.horizon} episodes, and how many were run is not known")
    if run < claim.horizon:
        raise MissingResult(f"it speaks of {claim.horizon} episodes, {run} were run")


def change_words(changes: Mapping[str, Any]) -> str:
    """Return changes of settings in words, such as `world.sigma_q = 6`."""
    return ", ".join(f"{key} = {value if isinstance(value, str) else json.dumps(value)}" for key, value in changes.items())
