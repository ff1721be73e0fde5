"""One run of the study of actions on an interval: a log, a candidate, its certificate, and the same after binning the action.

The binned problem has 21 cells. Its propensity is the legacy's probability of the cell, by the normal distribution function; its
candidate takes the three cells nearest to a* with equal probability, which together are as wide as the window of the smoothed
one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from aegis.agents import CandidateSettings, learn
from aegis.certificate import Candidate, Request, UnitSplit, scan_log
from aegis.logs import Source, Split, to_table
from aegis.mechanisms import MODELS
from aegis.policies import FullColumns, Function, Hybrid, TargetColumns
from aegis.problem import Actions, Array, Batch, Level, Policy, Problem, Propensity, Rows, augmented_context
from aegis.validation import Oracle
from aegis.worlds import World, make_world, true_value
from coverage_study import Study, replicate

CELLS = 21
WIDTH = 10.0 / CELLS
EPISODES, FRACTION = 240, 0.3
LEGACIES = {"cut": "natural", "clip": "natural"}
SCOPE = (("dose",),)


def world_of(ends: str) -> World:
    """Return the world; a window is as wide as three cells, and points lie half as far apart as cells."""
    return make_world("dosing", ends=ends, bandwidth=1.5 * WIDTH, points=2 * CELLS - 1)


@dataclass(frozen=True)
class Quadratic:
    """Chooses the dose at which a quadratic in dose and marker, fitted by least squares, is best; any number."""

    weights: tuple[float, ...]

    def __call__(self, level: Level, rows: Rows) -> Array:
        """Return a* `[n]`: where the derivative in the dose is 0, or the better end if it bends the wrong way."""
        _, linear, square, _, _, both = self.weights
        slope = linear + both * rows["marker"]
        best = -slope / (2 * min(square, -1e-9))
        return np.clip(best, *level.actions.limits)

    @classmethod
    def fitted(cls, problem: Problem, batch: Batch) -> Quadratic:
        """Fit to the rewards of a batch."""
        rows = augmented_context(problem, batch, "dose", with_action=True)
        dose, marker = rows["dose"], rows["marker"]
        design = np.column_stack([np.ones(dose.size), dose, dose**2, marker, marker**2, dose * marker])
        return cls(tuple(np.linalg.lstsq(design, np.asarray(batch.reward), rcond=None)[0].tolist()))


@dataclass(frozen=True)
class Always:
    """Chooses the same dose in every context."""

    dose: float

    def __call__(self, level: Level, rows: Rows) -> Array:
        """Return `[n]`."""
        return np.full(rows["marker"].size, self.dose)


class Relearned:
    """A candidate learned anew in every run from one side of its log: greedy over the points, or a number of its own, in turn."""

    last: tuple[Candidate, UnitSplit]

    def __call__(self, problem: Problem, log: Batch, run: int) -> tuple[Candidate, UnitSplit]:
        """Learn, and remember what was learned."""
        split = Split("hash", f"run {run}", FRACTION)
        sides = UnitSplit((split,))
        if run % 2:
            prior = log.take_episodes(~sides.certified(problem, log))
            found = Candidate(Function(problem, Quadratic.fitted(problem, prior), ["dose"]))
        else:
            settings = CandidateSettings("greedy")
            found = Candidate(learn(Source(to_table(log, problem), problem), split, settings, ["dose"], MODELS).policy)
        self.last = found, sides
        return self.last


class Fixed:
    """A candidate that takes the same dose always, on all of a log."""

    def __init__(self, dose: float) -> None:
        self.dose = dose

    def __call__(self, problem: Problem, log: Batch, run: int) -> tuple[Candidate, UnitSplit]:
        """Return the candidate."""
        return Candidate(Function(problem, Always(self.dose), ["dose"])), UnitSplit(())


def null_dose(world: World, gain: float = 0.0) -> float:
    """Return the dose, below the best one, that earns as much as the legacy, and `gain` more, if it is always taken."""
    legacy = world.legacy("natural")
    target = true_value(world, legacy) + gain

    def excess(dose: float) -> float:
        policy = Function(world.problem, Always(dose), ["dose"])
        return true_value(world, Hybrid(world.problem, ["dose"], policy, legacy)) - target

    return float(brentq(excess, 0.5, 4.0, xtol=1e-6))


def study_of(name: str) -> Study:
    """Return a study by name: relearned candidates under a legacy that cuts or clips, or a fixed one without a true gain."""
    world = world_of("clip" if "clip" in name else "cut")
    if name.startswith("null"):
        return Study(world, "natural", Fixed(null_dose(replace(world, doses=1))), EPISODES, 0.05, ("plain",), SCOPE, 2, 0.0)  # type: ignore[type-var]
    return Study(world, "natural", Relearned(), EPISODES, 0.05, ("plain",), SCOPE, 10_000)


def run(study: Study, oracle: Oracle, number: int) -> list[dict[str, Any]]:
    """Return what one run says: of the continuous certificate, and of the binned ones of the same candidate."""
    found = [
        {"run": number, "form": "continuous", "what": item.what, "truth": item.truth, "bound": item.bound, "above": item.alone,
         "moved": item.moved}
        for item in replicate(study, oracle, number)
    ]  # fmt: skip
    if isinstance(study.learner, Relearned) and study.world.problem.innermost.actions.atoms == ():
        found += binned_runs(study, study.log(oracle.legacy, number), *study.learner.last, number)
    return found


def binned_runs(study: Study, log: Batch, candidate: Candidate, sides: UnitSplit, number: int) -> list[dict[str, Any]]:
    """Return the bounds after binning: with the probability of the cell taken, and with those of all cells."""
    problem, table = study.world.problem, log.levels["dose"]
    if table.value is None:
        return []
    centres = chosen(problem, candidate.policy, log)
    chances = nearest_cells(centres)
    mu = cell_masses(study.world, table.context["marker"])
    cell = np.minimum((table.value / WIDTH).astype(np.int32), CELLS - 1)
    rows = np.arange(cell.size)
    names = tuple(f"t{place}" for place in range(CELLS))
    extra = {name: chances[:, place] for place, name in enumerate(names)} | {"taken": chances[rows, cell]}
    found = []
    for form, full in (("binned", False), ("binned, all cells logged", True)):
        finite = binned_problem(problem, full)
        level = replace(table, action=cell, mu_taken=mu[rows, cell], mu_full=mu if full else None, value=None)
        batch = replace(log.with_level("dose", level), extra=extra)
        policy = FullColumns(finite, {"dose": names}) if full else TargetColumns(finite, {"dose": "taken"})
        request = Request.of(finite, Candidate(policy), SCOPE, study.delta, "auto" if full else "plain")
        for item in scan_log(request, iter([batch]), sides).evidence:
            low, high = item.claim.bracket
            bound = low if item.blend is None else item.blend.lower(study.delta, low, high)
            found.append({"run": number, "form": form, "what": item.claim.what, "bound": bound})
    return found


def chosen(problem: Problem, policy: Policy, log: Batch) -> Array:
    """Return the number a* `[n]` around which a policy acts."""
    before = log.before("dose")
    numbers = policy.centres("dose", before) if isinstance(policy, Function) else None
    if numbers is not None:
        return numbers
    return problem.innermost.actions.numbers[policy.full("dose", before)[0].argmax(axis=1)]


def nearest_cells(centres: Array) -> Array:
    """Return `[n, 21]`: a third each on the three cells nearest to a number."""
    middle = np.clip((centres / WIDTH).astype(np.int64), 1, CELLS - 2)
    return (np.abs(np.arange(CELLS) - middle[:, None]) <= 1) / 3.0


def cell_masses(world: World, marker: Array) -> Array:
    """Return the legacy's probability of each cell, `[n, 21]`: differences of the normal distribution function."""
    mean = 4.0 + 0.5 * marker
    steps = ndtr((np.linspace(0.0, 10.0, CELLS + 1) - mean[:, None]) / world.natural_sd)  # type: ignore[attr-defined]
    return np.diff(steps, axis=1) / (steps[:, -1:] - steps[:, :1])


def binned_problem(problem: Problem, full: bool) -> Problem:
    """Return the problem with cells in place of the interval."""
    actions = Actions.grid("dose", WIDTH / 2, 10.0 - WIDTH / 2, CELLS)
    columns = tuple(f"p{place}" for place in range(CELLS))
    given = Propensity(columns=columns) if full else Propensity(column="p_dose")
    return replace(problem, levels=(problem.levels[0], replace(problem.innermost, actions=actions, propensity=given)))
