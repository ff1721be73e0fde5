"""How well a plan foresees the number of units to a certified gain: `python benchmarks/planner.py`.

Every setting is simulated many times: a candidate is learned from a prior log and certified on fresh episodes, one test at the
stated risk; the median number of units is what a plan has to foresee, from a guess (of the truth) and from
pilot logs. A pilot is the log the candidate was learned from. Trials are kept in a file, one line each, so that an interrupted
measurement goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from aegis.agents import CandidateSettings, learn
from aegis.certificate import Candidate, Request, UnitSplit, scan_log
from aegis.engine import limit_blas_threads, map_parts
from aegis.logs import Source, Split, to_table
from aegis.ope import CandidateView
from aegis.policies import Capped, Hybrid, Legacy, Uniform, known_incumbent
from aegis.problem import Array, Batch, Policy, RewardModel, subtree_means
from aegis.rng import stream
from aegis.validation import Oracle, crossing, handover_policy, plan, wealth_path
from aegis.worlds import World, make_world
from results import record, table

FILE = Path(__file__).parents[1] / "build" / "planner.jsonl"
PRIOR = 100  # episodes of a pilot, which are learned from as well
DELTA = 0.0101
SPLIT = Split("time", cut=PRIOR)
UNCAPPED = 1e9  # a number of JSON, which infinity is not


@dataclass(frozen=True, slots=True)
class Setting:
    """A world under a legacy, a level and a cap; most: units that are certified at most.

    guess: exploration rate of the guess, None if the legacy is not an action of its own with a uniform choice mixed in. handed:
    the inner level was handed over before, to a policy learned from another log.
    """

    world: str
    effect: float | None
    legacy: str
    level: str
    cap: float
    most: int
    guess: float | None
    handed: bool = False

    @property
    def name(self) -> str:
        """Return the setting in words."""
        effect = "" if self.effect is None else f", f_a = {self.effect:g}"
        return f"{self.world}{effect}, {self.legacy}, {self.level}, {'no cap' if self.cap == UNCAPPED else f'W = {self.cap:g}'}"

    def make(self) -> World:
        """Return the world."""
        return make_world(self.world) if self.effect is None else make_world(self.world, f_a=self.effect)


SIGN, CONSTANT = "sign:epsilon=0.3", "constant:value=0.4,epsilon=0.2"
SETTINGS = (
    Setting("additive", 2.0, "uniform", "inner", 2.0, 100, 1.0),
    Setting("additive", 0.5, "uniform", "inner", 2.0, 300, 1.0),
    Setting("additive", 2.0, SIGN, "inner", UNCAPPED, 400, 0.3),
    Setting("additive", 0.5, SIGN, "inner", UNCAPPED, 1600, 0.3),
    Setting("additive", 2.0, CONSTANT, "inner", UNCAPPED, 1200, 0.2),
    Setting("additive", 0.5, CONSTANT, "inner", UNCAPPED, 4800, 0.2),
    Setting("additive", 2.0, "uniform", "meta", 2.0, 300, 1.0, True),
    Setting("additive", 2.0, "uniform", "meta", 1.5, 300, 1.0, True),
    Setting("clinic", None, "natural", "dose", 2.0, 300, None),
    Setting("clinic", None, "uniform", "plan", 2.0, 500, 1.0),
    Setting("plant", None, "natural:epsilon=0.3", "batch", 1.5, 300, None),
    Setting("additive", 1.0, "constant:value=-1,epsilon=0.4", "inner", UNCAPPED, 800, 0.4),
)


def perform(job: tuple[Setting, int]) -> dict[str, Any]:
    """Run one trial: units until the gain was certified, what the pilot foresees, and the truth that a guess would be made of."""
    setting, run = job
    world = setting.make()
    legacy = _legacy(setting, world, run)
    problem = replace(known_incumbent(world.problem, legacy), time="number")
    log = world.episodes(0, PRIOR + setting.most, legacy, int(stream(2, "planner", setting.name, run).integers(2**62)))
    log = replace(log, time=log.episode)
    settings = CandidateSettings("capped", cap=setting.cap)
    learned = learn(Source(to_table(log, problem), problem), SPLIT, settings, (setting.level,))
    candidate = Candidate(learned.policy, rewards=learned.fitted.rewards)
    request = Request.of(problem, candidate, [[setting.level]], DELTA, "auto", ("gain",))
    collected = scan_log(request, iter([log]), UnitSplit((SPLIT,)))
    rest = log.take_episodes(np.arange(PRIOR, len(log)))
    view = CandidateView(problem, rest, candidate.policy, collected.models[0], request.comparator)
    units = crossing(wealth_path(collected.evidence[0], view, 0.0), DELTA)
    pilot = log.take_episodes(np.arange(PRIOR))
    found = plan(problem, pilot, levels=[setting.level], explore=[1.0], caps=[setting.cap], delta=DELTA, tests=1)
    row = found.levels[0].rows[0]
    return {
        "setting": asdict(setting),
        "run": run,
        "units": units,
        "pilot": row.episodes,
        "likely": row.likely,
        **_truth(setting, world, legacy, learned.fitted.rewards),
        "spread": float(_residuals(setting, learned.fitted.rewards, rest).std()),
        "decisions": max(1, round(len(pilot.levels[setting.level]) / PRIOR)),
    }


def guessed(setting: Setting, found: list[dict[str, Any]], decisions: int | None) -> int | None:
    """Return what the guess of the true gain foresees; decisions: None if nobody says how many an episode has."""
    if setting.guess is None:
        return None
    names = ("gain", "loss", "spread", "typical")
    gain, loss, spread, typical = (float(np.median([trial[name] for trial in found])) for name in names)
    made = plan(
        setting.make().problem,
        gain=gain,
        loss=loss,
        spread=spread,
        typical=typical,
        decisions=decisions,
        levels=[setting.level],
        explore=[setting.guess],
        caps=[setting.cap],
        delta=DELTA,
        tests=1,
    )
    return made.levels[0].rows[0].episodes


def summary(setting: Setting, found: list[dict[str, Any]]) -> list[str]:
    """Return a row of the table: the measured median, the guesses, and pilots from the smallest to the largest forecast."""
    median = float(np.median([np.inf if trial["units"] is None else trial["units"] for trial in found]))
    pilots = np.array([np.inf if trial["pilot"] is None else trial["pilot"] for trial in found], dtype=np.float64)
    low, middle, high = (float(np.quantile(pilots, share, method="nearest")) for share in (0.0, 0.5, 1.0))
    one, told = (guessed(setting, found, decisions) for decisions in (None, found[0]["decisions"]))
    ratios = pilots / median
    return [
        setting.name + (", inner handed over" if setting.handed else ""),
        f"{median:g}",
        *["-" if guess is None else f"{guess} ({guess / median:.2f})" for guess in (one, told)],
        f"{middle:g} ({middle / median:.2f})",
        f"{low / median:.2f} to {high / median:.2f}",
        f"{np.mean((ratios >= 0.9) & (ratios <= 1.5)):.0%}",
        str(len(found)),
    ]


def _legacy(setting: Setting, world: World, run: int) -> Policy:
    legacy = world.legacy(setting.legacy)
    if not setting.handed:
        return legacy
    before = world.episodes(0, PRIOR, legacy, int(stream(2, "planner before", run).integers(2**62)))
    source = Source(to_table(before, world.problem), world.problem)
    found = learn(source, Split("hash", "half", 0.5), CandidateSettings(), ("inner",))
    return handover_policy(world.problem, found.policy, legacy, ("inner",))


def _truth(setting: Setting, world: World, legacy: Policy, rewards: RewardModel) -> dict[str, float]:
    """Return what a guess would have to guess: gain of the best action, by what was learned, loss of a random one, and earnings.

    The legacy's own action is its rule without exploration; a uniform legacy has none, it is its own.
    """
    own = legacy
    if setting.guess not in (None, 1.0):
        own = world.legacy(re.sub(r"epsilon=[0-9.]+", "epsilon=0", setting.legacy))
    value, random = (Oracle(world, policy, 2000).legacy_value for policy in (own, _random(setting, world, legacy)))
    best = Capped(world.problem, rewards, Legacy(world.problem, {name: Uniform() for name in world.problem.names}), np.inf)
    found = Oracle(world, legacy, 2000).truth(best, (setting.level,)).value
    return {"gain": found - value, "loss": value - random, "typical": value}


def _random(setting: Setting, world: World, legacy: Policy) -> Policy:
    return Hybrid(world.problem, (setting.level,), Legacy(world.problem, {n: Uniform() for n in world.problem.names}), legacy)


def _residuals(setting: Setting, rewards: RewardModel, fresh: Batch) -> Array:
    """Return rewards below the decisions of the level minus what the model predicts, in episodes that it has not seen."""
    decisions = fresh.levels[setting.level]
    predicted = rewards.predict(setting.level, fresh)[np.arange(len(decisions)), decisions.action]
    return np.asarray(subtree_means(fresh)[setting.level] - predicted)


def stored(path: Path) -> list[dict[str, Any]]:
    """Return the trials that are on disk; a line that was cut off by an interruption is left out."""
    found = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            found.append(json.loads(text))
        except json.JSONDecodeError:
            continue
    return found


def main() -> None:
    """Measure and record."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=40)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--file", type=Path, default=FILE, help="where single trials are kept")
    given = options.parse_args()
    limit_blas_threads()
    given.file.parent.mkdir(parents=True, exist_ok=True)
    done = {(json.dumps(trial["setting"]), trial["run"]) for trial in stored(given.file)}
    jobs = [(setting, run) for run in range(given.runs) for setting in SETTINGS]
    wanted = [job for job in jobs if (json.dumps(asdict(job[0])), job[1]) not in done]
    for place, trial in enumerate(map_parts(perform, wanted, given.workers), 1):
        with given.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(trial) + "\n")
        print(f"{place}/{len(wanted)}", trial["setting"]["legacy"], trial["units"], trial["pilot"], flush=True)
    trials = stored(given.file)
    rows = []
    for setting in SETTINGS:
        own = [trial for trial in trials if trial["setting"] == asdict(setting)]
        if own:
            rows.append(summary(setting, own))
    head = ["setting", "measured", "guess", "guess, decisions told", "pilot, median", "pilots, ratio", "0.9 to 1.5", "runs"]
    record(
        "Planner",
        "python benchmarks/planner.py",
        [
            f"Median units to a certified gain over the incumbent, one test at risk {DELTA:g}, candidate learned from {PRIOR} "
            "episodes, and "
            "what a plan foresees (in brackets: as a multiple of what was measured). Guess: the true gain, loss, spread and "
            "reward of the legacy, with one decision in an episode or as many as there are. Pilot: the log of a run; how far the "
            "forecasts of single pilots lie apart, and which share of them is between 0.9 and 1.5 times what was measured.",
            "",
            *table(head, rows),
        ],
    )
    print("\n".join(table(head, rows)))


if __name__ == "__main__":
    main()
