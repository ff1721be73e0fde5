"""What grows: one measurement in a process of its own, `python benchmarks/growth_tasks.py SWEEP SIZE`.

Prints the processor time of one round of the work, and the peak memory above what the process held before it was set up.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aegis.certificate import Candidate, certify
from aegis.engine import limit_blas_threads
from aegis.handover import HOSTS, make_gate
from aegis.logs import Source
from aegis.policies import Legacy, Softmax, TargetColumns
from aegis.worlds import make_world
from big_log import ROWS_PER_EPISODE, TARGETS, big_problem
from deep import deep_batch, deep_belief, deep_plan, deep_problem
from full_log import full_problem, write_full_log
from profile_jobs import BUILD, log_of

Work = Callable[[], object]
LONG = 1.0  # seconds of processor time: work that takes less is repeated
REPEATS = 5
SOME_ROWS = 3000  # of a log with full distributions


@dataclass(frozen=True)
class Sweep:
    """One quantity that grows. figure: sweeps of one name are drawn together. by: what a size counts; work: made for a size."""

    figure: str
    title: str
    by: str
    sizes: tuple[int, ...]
    work: Callable[[int], Work]


def certify_rows(rows: int) -> Work:
    """Certify target columns on a log of about so many rows."""
    problem, path = big_problem(), log_of(rows // ROWS_PER_EPISODE)
    policy = TargetColumns(problem, {"recipe": TARGETS[0], "dose": TARGETS[1]})
    candidate = Candidate(policy, "target columns", columns=TARGETS)
    return lambda: certify(Source(path, problem), candidate, ledger=False)


def certify_actions(actions: int) -> Work:
    """Certify a policy by water-filled bets on a log that holds the whole logging distribution over so many actions."""
    problem, path = full_problem(actions), BUILD / f"full-{actions}.parquet"
    if not path.exists():
        BUILD.mkdir(exist_ok=True)
        write_full_log(path, actions, SOME_ROWS)
    slopes = tuple(problem.innermost.actions.numbers.tolist())
    policy = Legacy(problem, {"dose": Softmax((0.0,) * actions, {"x": slopes})})
    return lambda: certify(Source(path, problem), Candidate(policy, "softmax"), method="water-filled", ledger=False)


def plan_actions(actions: int, outer: int | None = None, contexts: int = 20) -> Work:
    """Plan an outermost decision of two levels with so many actions at each, or with `outer` ones at the outer level."""
    problem = deep_problem(2, actions, outer)
    policy, batch = deep_plan(problem, nodes=16), deep_batch(problem, contexts)
    return lambda: policy.full(problem.names[0], batch)


def plan_levels(levels: int) -> Work:
    """Plan the outermost of so many levels."""
    problem = deep_problem(levels, actions=7)
    policy, batch = deep_plan(problem, nodes=8), deep_batch(problem, 4)
    return lambda: policy.full(problem.names[0], batch)


def update(episodes: int, features: int = 128) -> Work:
    """Update a belief about three levels with so many episodes of 20 rows, and solve for mean and Cholesky factor."""
    problem = deep_problem(3)
    belief, batch = deep_belief(problem, count=features), deep_batch(problem, episodes)

    def work() -> None:
        for state in belief.update(batch).states.values():
            state.moments()  # type: ignore[attr-defined]

    return work


def handover(episodes: int) -> Work:
    """Run the gate on the additive world for so many episodes: simulate, learn challengers, test them, hand over."""
    world = make_world("additive")

    def work() -> None:
        make_gate("challenger", world, world.legacy("uniform"), HOSTS["greedy"](), {}, 1).advance(episodes)

    return work


SWEEPS: dict[str, Sweep] = {
    "rows": Sweep("rows", "certify, target columns", "rows", (100_000, 320_000, 1_000_000, 3_200_000, 10_000_000), certify_rows),
    "handover": Sweep("episodes", "handover on a plant", "episodes", (64, 128, 256, 512, 1024), handover),
    "episodes": Sweep("episodes", "posterior update of a batch", "episodes", (64, 256, 1024, 4096, 16384), update),
    "inner actions": Sweep(
        "actions", "planning, inner level, 5 outer actions", "actions", (5, 11, 32, 100, 316, 1000), lambda n: plan_actions(n, 5)
    ),
    "actions": Sweep(
        "actions", "planning, at both levels", "actions", (5, 11, 32, 100, 316, 1000), lambda n: plan_actions(n, contexts=2)
    ),
    "filled": Sweep("actions", "certify, water-filled", "actions", (5, 11, 32, 100, 316, 1000), certify_actions),
    "levels": Sweep("levels", "planning, 7 actions, 8 nodes", "levels", (1, 2, 3, 4), plan_levels),
    "features": Sweep(
        "features",
        "posterior update, 50 episodes of 20 rows",
        "features",
        (16, 32, 64, 128, 256, 512, 1024),
        lambda n: update(50, n),
    ),
}


def memory(line: str) -> float:
    """Return the memory that this process holds now (VmRSS) or held at most (VmHWM), in megabytes."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(text.split()[1]) for text in status if text.startswith(f"{line}:")) / 1000


def seconds(work: Work) -> float:
    """Return the processor time of one round: the median of some after a first one, or the first one if it is long."""
    spent = []
    for _ in range(REPEATS + 1):
        before = time.process_time()
        work()
        spent.append(time.process_time() - before)
        if spent[0] >= LONG:
            return spent[0]
    return statistics.median(spent[1:])


def main() -> None:
    """Make one measurement."""
    sweep, size = SWEEPS[sys.argv[1]], int(sys.argv[2])
    limit_blas_threads()
    start = memory("VmRSS")
    cpu = seconds(sweep.work(size))
    print(json.dumps({"size": size, "cpu": cpu, "megabytes": max(0.0, memory("VmHWM") - start)}))


if __name__ == "__main__":
    main()
