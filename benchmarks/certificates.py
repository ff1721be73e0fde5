"""How tight the bounds are and after how many units a gain is certified: `python benchmarks/certificates.py`.

Trials are kept in a file, one line each, so that an interrupted measurement goes on where it was.
Additive world, one test at the stated risk. Candidates and reward models are learned on a prior log of their own.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from aegis.agents import CandidateSettings, learn
from aegis.certificate import Candidate, ClaimEvidence, Request, UnitSplit, declare_claims, place_grid, scan_log
from aegis.certificate.scan import ScanResult
from aegis.engine import limit_blas_threads, map_parts
from aegis.files import write_text
from aegis.logs import Source, Split, to_table
from aegis.ope import CandidateView, Comparator, RewardModels
from aegis.policies import known_incumbent
from aegis.problem import Batch, Policy, Problem
from aegis.rng import stream
from aegis.validation import Oracle, crossing, handover_policy, wealth_path
from aegis.worlds import World, make_world
from coverage_page import CERTIFICATES, COVERAGE, SIZES, rewrite_page, tight_lines, units_lines
from coverage_studies import LEGACIES
from results import lines_of, machine, record

FILE = Path(__file__).parents[1] / "build" / "certificates.jsonl"
METHODS = ("plain", "robust", "auto")
PRIOR = 100  # episodes to learn from and to place grids on
SPLIT = Split("time", cut=PRIOR)
FILLED_RUNS = 10  # water-filled factors of long logs take long: fewer runs of them
TIGHT_DELTA = 0.05
GAIN_DELTA = 0.0101
CAPS = {"uniform": 2.0, "sign": 2.0, "constant": 1.5}
# An incumbent that always acts at 1.6 is nearly the best there is: what could be certified over its log was the end of
# exploration. At 0 there is something to gain.
CONTROLLERS = {**LEGACIES, "constant": "constant:value=0,epsilon=0.2"}
EFFECTS = (2.0, 1.0, 0.5)
MOST_UNITS = {2.0: 800, 1.0: 1400, 0.5: 2800}  # of a run; what needs more is shown as such
EXPLORING = ("sign", "constant")  # legacies whose incumbent is deterministic: the full policy is certified beside the capped one
LEAST_TIGHT = {200: 0.84, 1000: 0.93, 5000: 0.97}
MOST_MEDIANS = {2.0: 35, 1.0: 65, 0.5: 125}  # asked of the uniform legacy, which is its own incumbent
MOST_OUTER = 120


@dataclass(frozen=True, slots=True)
class Trial:
    """One log and its candidate. task: 'tight', 'inner' or 'outer'; most: units that are certified."""

    task: str
    legacy: str
    effect: float
    cap: float
    most: int
    run: int


def numbered(world: World, legacy: Policy) -> Problem:
    """Return the world's problem with the incumbent stated, and the episode number as its time: a log is split at an episode."""
    return replace(known_incumbent(world.problem, legacy), time="number")


def log_of(world: World, policy: Policy, episodes: int, *key: str | int) -> Batch:
    """Return a log with episode numbers as times."""
    batch = world.episodes(0, episodes, policy, int(stream(1, "certificates", *key).integers(2**62)))
    return replace(batch, time=batch.episode)


def learned(problem: Problem, log: Batch, settings: CandidateSettings, scope: tuple[str, ...]) -> Candidate:
    """Learn from the first episodes of a log; all others are left for the certificate."""
    found = learn(Source(to_table(log, problem), problem), SPLIT, settings, scope)
    return Candidate(found.policy, rewards=found.fitted.rewards)


def certified(problem: Problem, candidate: Candidate, log: Batch, scope: str, method: str) -> ScanResult:
    """Certify the gain at a scope, one claim, on all but the first episodes."""
    request = Request.of(problem, candidate, [[scope]], GAIN_DELTA, method, ("gain",))
    return scan_log(request, iter([log]), UnitSplit((SPLIT,)))


def tight(trial: Trial) -> dict[str, float]:
    """Return the bound of the value as a share of the value, scaled to rewards in [0, 1], by method and number of units.

    Units of evidence are computed once; the grid, which depends on how many are expected, is placed anew for each number.
    """
    world = make_world("additive", f_a=trial.effect)
    legacy = world.legacy(LEGACIES[trial.legacy])
    problem = numbered(world, legacy)
    log = log_of(world, legacy, PRIOR + trial.most, "tight", trial.legacy, trial.run)
    candidate = learned(problem, log, CandidateSettings("planned", seed=trial.run), ("inner",))
    low, high = problem.reward.range or (0.0, 1.0)
    truth = (Oracle(world, legacy, 4000).truth(candidate.policy, ("inner",)).value - low) / (high - low)
    before, after = np.arange(PRIOR), np.arange(PRIOR, len(log))
    models = RewardModels(rewards={problem.reward.column: candidate.rewards} if candidate.rewards else {})
    prior, rest = (CandidateView(problem, log.take_episodes(rows), candidate.policy, models) for rows in (before, after))
    found = {}
    for method in METHODS if trial.run < FILLED_RUNS else METHODS[:2]:
        request = Request.of(problem, candidate, [["inner"]], 2 * TIGHT_DELTA, method)  # shared with the gain
        claim = next(claim for claim in declare_claims(request, log.take_episodes(before[:2])) if claim.what == "value")
        values = [part.compute(rest, np.zeros(0), 1.0) if part.kind == "values" else None for part in claim.parts]
        for size in SIZES:
            grids = tuple(place_grid(part, claim, prior, size) for part in claim.parts)
            item = ClaimEvidence.start(claim, grids, problem)
            known = [
                part.compute(rest, grid.bets, 1.0) if once is None else once
                for part, grid, once in zip(claim.parts, grids, values, strict=True)
            ]
            item.add([array[:size] for array in known], None)
            if item.blend is not None:
                found[f"{method} {size}"] = item.blend.lower(claim.delta, 0.0, 1.0) / truth
    return found


def units(trial: Trial) -> dict[str, float]:
    """Return after how many units the gain is certified, by method; infinite if not within the log."""
    world = make_world("additive", f_a=trial.effect)
    legacy = world.legacy(CONTROLLERS[trial.legacy])
    problem = numbered(world, legacy)
    scope = "inner"
    if trial.task == "outer":
        scope = "meta"
        before = log_of(world, legacy, PRIOR, "before", trial.legacy, trial.run)
        found = learn(Source(to_table(before, problem), problem), Split("hash", "half", 0.5), CandidateSettings(), ("inner",))
        legacy = handover_policy(problem, found.policy, legacy, ("inner",))  # the controller in charge of this log
        problem = numbered(world, legacy)
    log = log_of(world, legacy, PRIOR + trial.most, trial.task, trial.legacy, str(trial.effect), trial.run)
    candidate = learned(problem, log, CandidateSettings("capped", cap=trial.cap), (scope,))
    result = {}
    for method in METHODS:
        collected = certified(problem, candidate, log, scope, method)
        (item,) = collected.evidence
        rest, comparator = log.take_episodes(np.arange(PRIOR, len(log))), Comparator.of(problem)
        view = CandidateView(problem, rest, candidate.policy, collected.models[0], comparator)
        result[method] = float(crossing(wealth_path(item, view, 0.0), GAIN_DELTA) or np.inf)
    return result


def perform(trial: Trial) -> tuple[Trial, dict[str, float]]:
    """Run one trial."""
    return trial, tight(trial) if trial.task == "tight" else units(trial)


def trials(runs: int) -> list[Trial]:
    """Return all trials, run by run, so that what there is after an interruption is balanced."""
    found = []
    for run in range(runs):
        found += [Trial("tight", name, 2.0, np.inf, max(SIZES), run) for name in LEGACIES]
        found += [Trial("inner", name, effect, CAPS[name], MOST_UNITS[effect], run) for name in LEGACIES for effect in EFFECTS]
        found += [Trial("inner", name, effect, np.inf, MOST_UNITS[effect], run) for name in EXPLORING for effect in EFFECTS]
        found += [Trial("outer", "uniform", 2.0, cap, MOST_UNITS[2.0], run) for cap in (2.0, 1.5)]
    return found


def stored(path: Path) -> dict[Trial, dict[str, float]]:
    """Return the trials that are on disk."""
    return {Trial(**line["trial"]): line["found"] for line in lines_of(path)}


def medians(results: list[tuple[Trial, dict[str, float]]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return medians over runs by task, setting and measured quantity, with the number of runs of each method."""
    groups: dict[str, dict[str, list[dict[str, float]]]] = {"tight": {}, "inner": {}, "outer": {}}
    for trial, found in results:
        key = trial.legacy if trial.task == "tight" else f"{trial.legacy}, f_a = {trial.effect:g}, W = {trial.cap:g}"
        groups[trial.task].setdefault(key, []).append(found)
    summary: dict[str, dict[str, dict[str, Any]]] = {task: {} for task in groups}
    for task, settings in groups.items():
        for key, found in settings.items():
            names = {name: None for item in found for name in item}
            values = {name: [item[name] for item in found if name in item] for name in names}
            runs = {name.split()[0]: len(column) for name, column in values.items()}
            summary[task][key] = {"runs": runs} | {name: _finite(float(np.median(column))) for name, column in values.items()}
    return summary


def kept(found: dict[str, dict[str, dict[str, Any]]]) -> dict[str, Any]:
    """Return what was found, and what was recorded before of settings that were not measured again."""
    before = json.loads(CERTIFICATES.read_text(encoding="utf-8")) if CERTIFICATES.exists() else {}
    return {"made": machine(), **{task: {**before.get(task, {}), **rows} for task, rows in found.items()}}


def write(content: dict[str, Any]) -> None:
    """Write the results as JSON, as a section of RESULTS.md and into the page on coverage."""
    write_text(CERTIFICATES, json.dumps(content, indent=1) + "\n")
    lines = [
        f"Additive world. Candidates and reward models are learned on {PRIOR} episodes that are not certified.",
        "",
        "Lower bound of the value as a share of the value (rewards scaled to [0, 1]), inner level, 11 actions, one test at risk "
        f"{TIGHT_DELTA:g}, particle mixture, medians (water-filled: of the first {FILLED_RUNS} runs):",
        "",
        *tight_lines(content),
        "",
        f"Median units to a certified gain over the incumbent (the legacy without its exploration), one test at risk "
        f"{GAIN_DELTA:g}, candidate capped at W over the legacy (inf: the full policy):",
        "",
        *units_lines(content),
    ]
    record("Certificates", "python benchmarks/certificates.py", lines)
    if COVERAGE.exists():
        rewrite_page()


def _finite(value: float) -> float | None:
    return round(value, 4) if np.isfinite(value) else None


def main() -> None:
    """Measure and record."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=100)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--table", action="store_true", help="write the tables from the trials there are")
    options.add_argument("--no-table", action="store_true", help="run only")
    options.add_argument("--file", type=Path, default=FILE, help="where single trials are kept")
    options.add_argument("--task", choices=("tight", "inner", "outer"), help="only this one")
    options.add_argument("--legacy", action="append", choices=sorted(LEGACIES), help="only these")
    given = options.parse_args()
    if given.table:
        given.runs = 0
    limit_blas_threads()
    given.file.parent.mkdir(parents=True, exist_ok=True)
    done = stored(given.file)
    wanted = [
        trial
        for trial in trials(given.runs)
        if trial not in done and given.task in (None, trial.task) and (not given.legacy or trial.legacy in given.legacy)
    ]
    for place, (trial, found) in enumerate(map_parts(perform, wanted, given.workers), 1):
        with given.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"trial": asdict(trial), "found": found}) + "\n")
        print(f"{place}/{len(wanted)}", trial, {name: round(value, 3) for name, value in found.items()}, flush=True)
    if not given.no_table:
        write(kept(medians(list(stored(given.file).items()))))


if __name__ == "__main__":
    main()
