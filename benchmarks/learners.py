"""How well and how fast the learners are: `python benchmarks/learners.py [--quick]`, on both cores.

Reward per episode on the stress preset for the four agents of the paper's decomposition (its bench 1b), significance of their
order, the quadratic world, and the CPU time of an episode by part. Writes a section of RESULTS.md.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from aegis.agents import AGENTS, Agent, make_online, run
from aegis.engine import map_parts, one_thread
from aegis.mechanisms import ModelSettings, build_belief, fourier, nig
from aegis.planning import Integration, Thompson, plan
from aegis.problem import Actions, Batch, Level, LevelTable, Problem, Reward, Variable
from aegis.rng import stream
from aegis.worlds import make_world, oracle_value
from results import record, table

BODY = ("nested_cts", "flat_cts", "flat_ts", "joint_cts")
PAPER = {"nested_cts": "113.6 ± 1.9", "flat_cts": "108.8 ± 1.9", "flat_ts": "101.5 ± 3.1", "joint_cts": "69.0 ± 5.8"}


@dataclass(frozen=True)
class Unit:
    """One run: an agent on the unified world with some settings, for one seed."""

    agent: str
    seed: int
    episodes: int
    settings: tuple[tuple[str, Any], ...] = ()


def one_belief(name: str) -> Agent:
    """Return the agent drawing one belief per episode, as in the paper: the law of its actions is the same as with several."""
    return replace(AGENTS[name], rule_settings={"particles": 1})


def run_unit(unit: Unit) -> tuple[Unit, float, float, float]:
    """Return the unit, its mean reward per episode over the first 200 and over all episodes, and CPU seconds."""
    world = make_world("unified", **dict(unit.settings))
    online = make_online(world, one_belief(unit.agent), unit.seed, world.legacy("uniform"))
    before = time.process_time()
    sums = run(online, unit.episodes).sums
    return unit, float(sums[:200].mean()), float(sums.mean()), time.process_time() - before


class Clock:
    """Adds up the CPU time spent inside some functions; nested calls are counted once, for the inner one."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._stack: list[float] = []

    def wrap(self, name: str, function: Any) -> Any:
        """Return `function`, its own time added to `name`."""

        def timed(*arguments: Any, **named: Any) -> Any:
            self._stack.append(0.0)
            before = time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                whole = time.perf_counter() - before
                inner = self._stack.pop()
                self.spent[name] = self.spent.get(name, 0.0) + whole - inner
                if self._stack:
                    self._stack[-1] += whole

        return timed


class TimedNumpy:
    """Numpy as the feature maps see it, with trigonometry timed."""

    def __init__(self, clock: Clock) -> None:
        self.cos, self.sin = clock.wrap("trigonometry", np.cos), clock.wrap("trigonometry", np.sin)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def episode_parts(agent: str, episodes: int = 150) -> dict[str, float]:
    """Return milliseconds per episode by part, after a warm-up."""
    world = make_world("unified")
    online = make_online(world, one_belief(agent), 1, world.legacy("uniform"))
    run(online, 20)
    clock = Clock()
    kept = (fourier.np, fourier.Fourier.evaluate, fourier.Fourier.evaluate_each, fourier.Fourier.__call__)
    solves = (nig.NIG.moments, nig.NIG.draw, nig.NIG.update)
    fourier.np = TimedNumpy(clock)  # type: ignore[assignment]
    for name in ("evaluate", "evaluate_each", "__call__"):
        setattr(fourier.Fourier, name, clock.wrap("matrix products", getattr(fourier.Fourier, name)))
    nig.NIG.update = clock.wrap("matrix products", nig.NIG.update)  # type: ignore[method-assign]
    nig.NIG.moments = clock.wrap("Cholesky and solves", nig.NIG.moments)  # type: ignore[method-assign]
    nig.NIG.draw = clock.wrap("Cholesky and solves", nig.NIG.draw)  # type: ignore[method-assign]
    try:
        before = time.perf_counter()
        run(online, episodes)
        total = time.perf_counter() - before
    finally:
        fourier.np = kept[0]
        fourier.Fourier.evaluate, fourier.Fourier.evaluate_each, fourier.Fourier.__call__ = kept[1:]  # type: ignore[method-assign]
        nig.NIG.moments, nig.NIG.draw, nig.NIG.update = solves  # type: ignore[method-assign]
    parts = {name: 1e3 * spent / episodes for name, spent in clock.spent.items()}
    return {**parts, "Python and small arrays": 1e3 * total / episodes - sum(parts.values()), "total": 1e3 * total / episodes}


def update_cost(episodes: int = 150) -> float:
    """Return milliseconds of the posterior updates (features, products, Cholesky, solves) of one nested episode."""
    world = make_world("unified")
    online = make_online(world, one_belief("nested_cts"), 1, world.legacy("uniform"))
    belief = online.prior()
    batches = [batch for batch, _ in online.steps(belief, 0, 20)]
    before = time.perf_counter()
    for i in range(episodes):
        belief = belief.update(batches[i % 20])
        for name in belief.mechanisms:
            belief.states[name].moments()
    return 1e3 * (time.perf_counter() - before) / episodes


def three_level_cost(actions: int = 11, nodes: int = 16, repeats: int = 5) -> tuple[float, float]:
    """Return milliseconds of one outermost plan over three levels, and of the posterior updates of one episode of 20 rows."""
    names = ("slow", "middle", "fast")
    levels = tuple(Level(n, Actions.grid(f"a_{n}", -1.0, 1.0, actions), (Variable(f"c_{n}"),), decision=f"id_{n}") for n in names)
    parents = {
        "c_middle": ("c_slow", "a_slow"),
        "c_fast": ("c_middle", "a_middle"),
        "y": ("c_fast", "a_fast"),
        "r": ("y",),
    }
    problem = Problem(levels, Reward("r"), Variable("y"), parents=parents)
    rng = stream(1, "three levels")
    tables, rows = {}, 1
    for level, children in zip(levels, (1, 4, 5), strict=True):
        parent = np.repeat(np.arange(rows), children)
        rows = parent.size
        context = {level.context[0].name: rng.standard_normal(rows)}
        tables[level.name] = LevelTable.undecided(parent, context).decided(rng.integers(0, actions, rows), np.ones(rows))
    outcome = rng.standard_normal(rows)
    batch = Batch(np.arange(1), tables, outcome + 0.1, np.ones(rows, dtype=bool), outcome)
    belief = build_belief(problem, ModelSettings(features="fourier", linear_terms=False)).update(batch)
    policy = plan(belief, Thompson(1), rng, integration=Integration("quadrature", nodes))
    policy.values("slow", batch)
    planning, updating = [], []
    for _ in range(repeats):
        before = time.perf_counter()
        policy.values("slow", batch)
        planning.append(time.perf_counter() - before)
        before = time.perf_counter()
        for state in belief.update(batch).states.values():
            state.moments()  # type: ignore[attr-defined]
        updating.append(time.perf_counter() - before)
    return 1e3 * float(np.median(planning)), 1e3 * float(np.median(updating))


def main() -> None:
    """Measure and record."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="3 seeds, 400 episodes, nothing recorded")
    quick = options.parse_args().quick
    seeds, episodes = (3, 400) if quick else (10, 2000)
    one_thread()
    units = [Unit(agent, seed, episodes) for agent in BODY for seed in range(seeds)]
    units += [Unit("nested_cts", seed, 200, (("q", 1),)) for seed in range(seeds)]
    found: dict[str, list[tuple[float, float, float]]] = {}
    started = time.perf_counter()
    for unit, early, whole, cpu in map_parts(run_unit, units, workers=2):
        key = unit.agent if not unit.settings else "nested_cts, q = 1"
        found.setdefault(key, []).append((early, whole, 1e3 * cpu / unit.episodes))
        print(f"{key} seed {unit.seed}: {early:.1f} over 200, {whole:.1f} over {unit.episodes}", flush=True)
    minutes = (time.perf_counter() - started) / 60
    lines = [f"All runs together took {minutes:.1f} minutes on two processes.", ""]
    rows = []
    for key, values in found.items():
        early, whole, cpu = np.array(values).T
        over = f"{whole.mean():.1f} ± {whole.std(ddof=1):.1f}" if "q" not in key else ""
        rows.append([key, f"{early.mean():.1f} ± {early.std(ddof=1):.1f}", over, PAPER.get(key, ""), f"{np.median(cpu):.2f}"])
    head = ["agent", "K = 200", f"K = {episodes}", "paper (K = 2000)", "CPU ms per episode"]
    lines += table(head, rows)
    oracle = 20 * oracle_value(make_world("unified"))
    oracle_q = 20 * oracle_value(make_world("unified", q=1))
    lines += [
        "",
        f"Oracle {oracle:.1f}; with q = 1: {oracle_q:.1f}. Mean ± standard deviation over {seeds} seeds.",
        "",
        "Order, Welch:",
        "",
    ]
    for better, worse in (
        ("nested_cts", "flat_cts"),
        ("nested_cts", "flat_ts"),
        ("flat_cts", "joint_cts"),
        ("flat_ts", "joint_cts"),
    ):
        a, b = ([value[1] for value in found[name]] for name in (better, worse))
        test = stats.ttest_ind(a, b, equal_var=False, alternative="greater")
        lines.append(f"- {better} > {worse}: t = {test.statistic:.1f}, df = {test.df:.1f}, p = {test.pvalue:.1e}")
    parts = {agent: episode_parts(agent) for agent in BODY}
    names = ["trigonometry", "matrix products", "Cholesky and solves", "Python and small arrays", "total"]
    lines += ["", "Milliseconds of one episode by part, one process alone, beliefs drawn once per episode:", ""]
    lines += table(["agent", *names], [[a, *[f"{parts[a].get(n, 0.0):.2f}" for n in names]] for a in BODY])
    updates = update_cost()
    ratio = parts["nested_cts"]["total"] / updates
    lines += ["", f"Posterior updates of one nested episode: {updates:.2f} ms; a nested episode costs {ratio:.1f} times that."]
    deep, deep_updates = three_level_cost()
    lines += [
        "",
        f"Three levels, 11 actions and 16 nodes each: one outermost plan {deep:.0f} ms, posterior updates of an episode "
        f"{deep_updates:.2f} ms, ratio {deep / deep_updates:.0f}.",
    ]
    print("\n".join(lines))
    if not quick:
        record("Learners", "python benchmarks/learners.py", lines)


if __name__ == "__main__":
    main()
