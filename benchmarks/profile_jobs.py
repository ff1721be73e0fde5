"""The jobs that are profiled, each set up and run in a process of its own: `python benchmarks/profile_jobs.py JOB SECONDS`.

The process says `ready` once everything is loaded and has run once. For every line that it reads it repeats the job for so many
seconds, and prints how much processor time it took in all and in threads that the interpreter knows nothing of (Arrow's).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from aegis.agents import CandidateSettings, execution, learn
from aegis.certificate import Candidate, certify
from aegis.cli.commands.decide import action_probabilities, command, draw_actions
from aegis.cli.commands.learn import save_learned
from aegis.engine import limit_blas_threads
from aegis.logs import Source, Split, read_contexts
from aegis.mechanisms import StackedBelief
from aegis.planning import load_policy
from aegis.policies import TargetColumns
from aegis.problem import save_problem
from aegis.rng import stream
from big_log import TARGETS, big_problem, write_big_log
from deep import deep_batch, deep_belief, deep_plan, deep_problem
from learners import runs_of

BUILD = Path(__file__).parents[1] / "build"
Work = Callable[[], object]
CONTEXTS = 100_000
LEARNING = 2_000  # episodes that the policies of the jobs `decide` are learned from


def certify_job() -> Work:
    """Certify target columns on a Parquet log of 10^6 rows: audit, all scopes, gain and value, the digest of the file."""
    problem, path = big_problem(), log_of(50_000)
    policy = TargetColumns(problem, {"recipe": TARGETS[0], "dose": TARGETS[1]})
    candidate = Candidate(policy, "target columns", columns=TARGETS)
    return lambda: certify(Source(path, problem), candidate, ledger=False)


def planning_job(levels: int, contexts: int, nodes: int, particles: int = 1) -> Work:
    """Plan the outermost decision in many contexts."""
    problem = deep_problem(levels)
    policy, batch = deep_plan(problem, nodes, particles), deep_batch(problem, contexts)
    return lambda: policy.full(problem.names[0], batch)


def update_job(features: str, episodes: int) -> Work:
    """Update a belief about three levels with a batch of episodes of 20 rows, and solve for mean and Cholesky factor."""
    problem = deep_problem(3)
    belief, batch = deep_belief(problem, features), deep_batch(problem, episodes)

    def update() -> None:
        for state in belief.update(batch).states.values():
            state.moments()  # type: ignore[attr-defined]

    return update


def lockstep_job(runs: int) -> Work:
    """Update the beliefs of several runs in lockstep with an episode of each, and solve: what a step of learning does."""
    onlines = runs_of("nested_cts", runs)
    stacked = StackedBelief.of([online.prior() for online in onlines])
    batch = next(iter(execution.lockstep_episodes(onlines, stacked, 0, 1)))[0]

    return lambda: stacked.update(batch).solved()


def learning_job(runs: int) -> Work:
    """Learn for a few episodes in lockstep: draw, plan, simulate, update."""
    onlines = runs_of("nested_cts", runs)
    stacked = StackedBelief.of([online.prior() for online in onlines])
    return lambda: list(execution.lockstep_episodes(onlines, stacked, 0, 20))


def decide_job(kind: str, level: str, rows: int, as_command: bool) -> Work:
    """Apply a learned policy to a table of contexts: the policy's answer and the draw, or the whole command on CSV files."""
    problem, folder = big_problem(), Path(tempfile.mkdtemp(prefix="aegis-profile-"))
    found = learn(Source(log_of(LEARNING), problem), Split(), CandidateSettings(kind))
    save_learned(found, folder / "policy")
    save_problem(problem, folder / "problem.yaml")
    rng = stream(1, "contexts")
    columns = {"task": rng.normal(size=rows), "temperature": rng.normal(size=rows), "pressure": rng.normal(size=rows)}
    columns["setting"] = rng.integers(1, 6, rows).astype(float)
    pa.csv.write_csv(pa.table(columns), folder / "contexts.csv")
    scope = found.scope if found.policy.weights.size == 1 else problem.scope([level])  # a mixture: whoever acted above
    if as_command:
        arguments = [str(folder / "policy"), str(folder / "contexts.csv"), "--problem", str(folder / "problem.yaml")]
        arguments += ["--level", level, "--out", str(folder / "decisions.csv"), *[w for n in scope for w in ("--scope", n)]]

        def whole() -> None:
            with contextlib.redirect_stdout(io.StringIO()):
                command.main(arguments, standalone_mode=False)

        return whole
    policy = load_policy(folder / "policy", problem)
    batch, _ = read_contexts(folder / "contexts.csv", problem, level)
    return lambda: draw_actions(action_probabilities(problem, policy, scope, level, batch), level, 1)


JOBS: Mapping[str, tuple[str, Callable[[], Work]]] = {
    "certify": ("certify, target columns, 10^6 rows", certify_job),
    "plan-2": ("planning, 2 levels, 11 actions, 32 nodes, 2000 contexts", lambda: planning_job(2, 2000, 32)),
    "plan-3": ("planning, 3 levels, 11 actions, 8 nodes, 100 contexts", lambda: planning_job(3, 100, 8)),
    "plan-3-8": ("planning, 3 levels, 8 particles, 11 actions, 8 nodes, 10 contexts", lambda: planning_job(3, 10, 8, 8)),
    "plan-4": ("planning, 4 levels, 11 actions, 4 nodes, 10 contexts", lambda: planning_job(4, 10, 4)),
    "update-fourier": ("posterior update, RFF-GP, 500 episodes of 20 rows", lambda: update_job("fourier", 500)),
    "update-linear": ("posterior update, NIG, 5000 episodes of 20 rows", lambda: update_job("linear", 5000)),
    "update-lockstep": ("posterior update, RFF-GP, an episode of each of 40 runs", lambda: lockstep_job(40)),
    "update-one": ("posterior update, RFF-GP, one episode of 20 rows", lambda: update_job("fourier", 1)),
    "learn-lockstep": ("learning, 40 runs in lockstep, whole loop", lambda: learning_job(40)),
    "decide": ("decide, greedy, inner level, 10^5 contexts", lambda: decide_job("greedy", "dose", CONTEXTS, False)),
    "decide-mixture": ("decide, 16 particles, 10^5 contexts", lambda: decide_job("planned", "dose", CONTEXTS, False)),
    "decide-outer": ("decide, greedy, outer level, 1000 contexts", lambda: decide_job("greedy", "recipe", 1000, False)),
    "decide-command": (
        "`aegis decide`, greedy, 10^5 contexts, CSV in and out",
        lambda: decide_job("greedy", "dose", CONTEXTS, True),
    ),
}


def log_of(episodes: int) -> Path:
    """Return a log of so many episodes of about 20 rows, written if it is not there yet."""
    BUILD.mkdir(exist_ok=True)
    path = BUILD / f"large-{episodes}.parquet"
    if not path.exists():
        aside = path.with_suffix(".part")
        write_big_log(aside, episodes)
        aside.rename(path)
    return path


def unknown_threads() -> float:
    """Return the processor time of the threads of this process that are not Python's: seconds, of those still there.

    The housekeeper of Arrow's allocator is left out: all it does here is to be stopped by the profiler.
    """
    known = {thread.native_id for thread in threading.enumerate()}
    total = 0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            if int(task.name) not in known and not (task / "comm").read_text().startswith("jemalloc"):
                total += sum(int(word) for word in (task / "stat").read_text().rpartition(")")[2].split()[11:13])
    return total / os.sysconf("SC_CLK_TCK")


def repeated(work: Work, seconds: float) -> dict[str, float]:
    """Do some work for so many seconds and return what it took."""
    others, cpu, started, rounds = unknown_threads(), time.process_time(), time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        work()
        rounds += 1
    return {"rounds": rounds, "cpu": time.process_time() - cpu, "others": unknown_threads() - others}


def main() -> None:
    """Set a job up, say so, and run it for a while as often as asked."""
    name, seconds = sys.argv[1], float(sys.argv[2])
    limit_blas_threads()
    work = JOBS[name][1]()
    work()
    print("ready", flush=True)
    while sys.stdin.readline():
        print(json.dumps(repeated(work, seconds)), flush=True)


if __name__ == "__main__":
    main()
