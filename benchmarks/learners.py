"""How well and how fast the learners are: `python benchmarks/learners.py [--quick]`, on both cores.

Reward per episode on the stress preset for the four agents of the paper's decomposition (its bench 1b), significance of their
order, the quadratic world, and the CPU time of an episode by part, of a run alone and of runs in lockstep. Writes a section of
RESULTS.md.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from aegis.agents import AGENTS, Agent, Online, execution, make_online, run_in_lockstep
from aegis.engine import limit_blas_threads, map_parts
from aegis.mechanisms import ModelSettings, StackedBelief, build_belief, fourier, normal_inverse_gamma, run_stacks
from aegis.planning import Integration, Thompson, plan_policy
from aegis.problem import Actions, Batch, Level, LevelTable, Problem, Reward, Variable
from aegis.rng import stream
from aegis.worlds import make_world, oracle_value
from results import record, table

BODY = ("nested_cts", "flat_cts", "flat_ts", "joint_cts")
PAPER = {"nested_cts": "113.6 ± 1.9", "flat_cts": "108.8 ± 1.9", "flat_ts": "101.5 ± 3.1", "joint_cts": "69.0 ± 5.8"}


PREAMBLE = (
    "CPU milliseconds of one episode of one run by part, the whole loop with simulation, beliefs drawn once per episode. Python",
    "is all that is not inside a feature map, a posterior's update, or a posterior's factorisation and draw:",
)
NOTES = (
    "The aim is a share of Python below 10 %. Forty to a hundred runs in lockstep bring all agents but flat_ts there or",
    "close to it; ten do not. What was done: runs in lockstep; one generator per episode by a jump within a stream (41 to 6",
    "microseconds); posterior sums written into memory that is used again (fresh memory cost 0.12 to 0.18 ms per episode in",
    "page faults); units of the target folded into the drawn weights instead of two passes over all predictions; rows of a",
    "level gathered once for all its mechanisms; rules and scopes made once per run; plans of all runs in one call, in",
    "parts of at most 2^18 points (2^16 and 2^17 were slower). What is left has two halves. About 1900 Python calls per",
    "step, shared by the runs: the more runs, the smaller. And a cost of each run: its generator and the objects of its",
    "draw, picking and checking its actions, and passes over planned values, each cheap, and about twice as dear in the",
    "loop as when timed alone. flat_ts has one small mechanism and so little arithmetic that it stays above 10 % even with",
    "a hundred runs; it would need a compiled episode loop.",
)
PARTS = ["trigonometry", "matrix products", "Cholesky and solves", "Python and small arrays", "total"]
EPISODES = 64  # noise is drawn in blocks of so many
TOGETHER = (1, 10, 40, 100)  # runs in lockstep whose parts are measured; 1 is a run alone


@dataclass(frozen=True)
class Unit:
    """Runs in lockstep: an agent on the unified world with some settings, for several seeds."""

    agent: str
    seeds: int
    episodes: int
    settings: tuple[tuple[str, Any], ...] = ()


def one_belief(name: str) -> Agent:
    """Return the agent drawing one belief per episode, as in the paper: the law of its actions is the same as with several."""
    return replace(AGENTS[name], rule_settings={"particles": 1})


def runs_of(agent: str, seeds: int, settings: dict[str, Any] | None = None) -> list[Online]:
    """Return the runs of an agent on the unified world, seeds from 0."""
    plant = make_world("unified", **(settings or {}))
    return [make_online(plant, one_belief(agent), seed, plant.legacy("uniform")) for seed in range(seeds)]


def run_unit(unit: Unit) -> tuple[Unit, list[tuple[float, float]], float]:
    """Return the unit, each seed's mean reward per episode over the first 200 and over all episodes, and CPU seconds."""
    onlines = runs_of(unit.agent, unit.seeds, dict(unit.settings))
    before = time.process_time()
    found = run_in_lockstep(onlines, unit.episodes)
    spent = time.process_time() - before
    return unit, [(float(own.sums[:200].mean()), float(own.sums.mean())) for own in found], spent


class Clock:
    """Adds up the CPU time spent inside some functions; nested calls are counted once, for the inner one."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._stack: list[float] = []
        self._kept: list[tuple[Any, str, Any]] = []

    def wrap(self, name: str, function: Any) -> Any:
        """Return `function`, its own time added to `name`."""

        def timed(*arguments: Any, **named: Any) -> Any:
            self._stack.append(0.0)
            before = time.process_time()
            try:
                return function(*arguments, **named)
            finally:
                whole = time.process_time() - before
                inner = self._stack.pop()
                self.spent[name] = self.spent.get(name, 0.0) + whole - inner
                if self._stack:
                    self._stack[-1] += whole

        return timed

    def replace(self, owner: Any, attribute: str, value: Any) -> None:
        """Put something in the place of an attribute until `restore`."""
        self._kept.append((owner, attribute, getattr(owner, attribute)))
        setattr(owner, attribute, value)

    def watch(self, name: str, owner: Any, *methods: str) -> None:
        """Time methods of a class under `name`."""
        for method in methods:
            self.replace(owner, method, self.wrap(name, getattr(owner, method)))

    def restore(self) -> None:
        """Undo every replacement."""
        for owner, attribute, value in reversed(self._kept):
            setattr(owner, attribute, value)


class TimedNumpy:
    """Numpy as the feature maps see it, with trigonometry timed."""

    def __init__(self, clock: Clock) -> None:
        self.cos, self.sin = clock.wrap("trigonometry", np.cos), clock.wrap("trigonometry", np.sin)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def episode_parts(agent: str, seeds: int, episodes: int) -> dict[str, float]:
    """Return CPU milliseconds per episode of one run by part, the whole loop with simulation; after a warm-up.

    What is not inside a feature map, a posterior's update, or a posterior's factorisation and draw counts as Python.
    """
    onlines = runs_of(agent, seeds)
    priors = [online.prior() for online in onlines]

    def loop(count: int) -> None:
        alone = onlines[0].steps(priors[0], 0, count)
        for batch, _ in alone if seeds == 1 else execution.lockstep_episodes(onlines, StackedBelief.of(priors), 0, count):
            batch.episode_means(batch.reward)
            batch.episode_sums(batch.reward)

    loop(20)
    clock = Clock()
    clock.replace(fourier, "np", TimedNumpy(clock))
    clock.replace(run_stacks, "np", TimedNumpy(clock))
    for owner in (fourier.Fourier, run_stacks.FourierStack):
        clock.watch("matrix products", owner, "evaluate", "evaluate_each", "__call__")
    clock.watch("matrix products", normal_inverse_gamma.NIG, "update")
    clock.watch("matrix products", run_stacks.StackedNIG, "update")
    clock.watch("Cholesky and solves", normal_inverse_gamma.NIG, "moments", "draw")
    try:
        before = time.process_time()
        loop(episodes)
        total = time.process_time() - before
    finally:
        clock.restore()
    each = 1e3 / episodes / seeds
    parts = {name: each * spent for name, spent in clock.spent.items()}
    return {**parts, "Python and small arrays": each * total - sum(parts.values()), "total": each * total}


def parts_table() -> tuple[list[str], dict[tuple[str, int], dict[str, float]]]:
    """Return the parts of every agent's episode, alone and in lockstep, as lines and by agent and number of runs."""
    found = {(a, seeds): episode_parts(a, seeds, EPISODES) for a in BODY for seeds in TOGETHER}
    rows = []
    for (agent, seeds), parts in found.items():
        share = f"{100 * parts['Python and small arrays'] / parts['total']:.0f} %"
        rows.append([agent, str(seeds), *[f"{parts.get(name, 0.0):.2f}" for name in PARTS], share])
    return table(["agent", "runs in lockstep", *PARTS, "Python"], rows), found


def update_cost(episodes: int = 150) -> float:
    """Return CPU milliseconds of the posterior updates (features, products, Cholesky, solves) of one nested episode."""
    online = runs_of("nested_cts", 1)[0]
    belief = online.prior()
    batches = [batch for batch, _ in online.steps(belief, 0, 20)]
    before = time.process_time()
    for i in range(episodes):
        belief = belief.update(batches[i % 20])
        for name in belief.mechanisms:
            belief.states[name].moments()  # type: ignore[attr-defined]
    return 1e3 * (time.process_time() - before) / episodes


def three_level_cost(actions: int = 11, nodes: int = 16, repeats: int = 5) -> tuple[float, float]:
    """Return CPU milliseconds of one outermost plan over three levels, and of the posterior updates of one episode of 20 rows."""
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
    policy = plan_policy(belief, Thompson(1), rng, integration=Integration("quadrature", nodes))
    policy.values("slow", batch)
    planning, updating = [], []
    for _ in range(repeats):
        before = time.process_time()
        policy.values("slow", batch)
        planning.append(time.process_time() - before)
        before = time.process_time()
        for state in belief.update(batch).states.values():
            state.moments()  # type: ignore[attr-defined]
        updating.append(time.process_time() - before)
    return 1e3 * float(np.median(planning)), 1e3 * float(np.median(updating))


def main() -> None:
    """Measure and record."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="3 seeds, 400 episodes, nothing recorded")
    options.add_argument("--parts", action="store_true", help="only the CPU time by part, nothing recorded")
    chosen = options.parse_args()
    quick = chosen.quick
    seeds, episodes = (3, 400) if quick else (10, 2000)
    limit_blas_threads()
    if chosen.parts:
        print("\n".join(parts_table()[0]))
        return
    units = [Unit(agent, seeds, episodes) for agent in ("nested_cts", "joint_cts", "flat_cts", "flat_ts")]
    units.append(Unit("nested_cts", seeds, 200, (("q", 1),)))
    found: dict[str, list[tuple[float, float]]] = {}
    cost: dict[str, float] = {}
    each: dict[str, float] = {}
    started = time.perf_counter()
    for unit, rewards, cpu in map_parts(run_unit, units, workers=2):
        key = unit.agent if not unit.settings else "nested_cts, q = 1"
        found[key], cost[key], each[key] = rewards, cpu, 1e3 * cpu / unit.episodes / unit.seeds
        print(f"{key}: {np.mean(rewards, axis=0).round(1)} over 200 and {unit.episodes}", flush=True)
    minutes = (time.perf_counter() - started) / 60
    worked = sum(cost.values()) / 60
    took = f"took {minutes:.1f} minutes on two processes, {worked:.1f} minutes of CPU time in all"
    lines = [f"All runs together, {seeds} seeds of an agent in lockstep, {took}.", ""]
    rows = []
    for key in (*BODY, "nested_cts, q = 1"):
        early, whole = np.array(found[key]).T
        over = f"{whole.mean():.1f} ± {whole.std(ddof=1):.1f}" if "q" not in key else ""
        rows.append([key, f"{early.mean():.1f} ± {early.std(ddof=1):.1f}", over, PAPER.get(key, ""), f"{each[key]:.2f}"])
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
    by_part, parts = parts_table()
    lines += ["", *PREAMBLE, "", *by_part, "", *NOTES]
    updates = update_cost()
    ratio = parts["nested_cts", 1]["total"] / updates
    lines += [
        "",
        f"Posterior updates of one nested episode: {updates:.2f} ms; a nested episode alone costs {ratio:.1f} times that.",
    ]
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
