"""`aegis simulate`: the log of a simulated plant, under a legacy or under an agent that learns while it acts."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from aegis.cli import describe_kept_episodes, note_resumption, options
from aegis.cli.output import console, print_json, print_line, progress
from aegis.errors import OutputError, SettingError, check_choice

MOST_PARTICLES = 10_000
LOG_FILE, PROBLEM_FILE, SUMMARY_FILE = OWN_FILES = ("log.parquet", "problem.yaml", "summary.json")
WRITER = "aegis simulate --legacy"  # what the summary says, and by which this command knows its own files
EPISODES_AT_ONCE, DECISIONS_AT_ONCE = 2048, 1 << 20  # simulated at once, at most


@click.command("simulate")
@options.word_option("--world", "world", "{words}.", default="additive", show_default=True)
@click.option("--preset", metavar="NAME", help="Parameters that go together: stress, quadratic, linear or heteroscedastic.")
@click.option("--shift", metavar="NAME", help="Simulate the world after a distribution shift: T, N_Q or U.")
@click.option("--legacy", default="uniform", show_default=True, metavar="SPEC", help="For example natural or sign:epsilon=0.3.")
@click.option(
    "--agent",
    metavar="NAME",
    help="Let this agent learn and act (Algorithm 1); without it the legacy acts. nested_cts, flat_cts, flat_ts, joint_cts, "
    "aegis_cts, aegis_handover, flat_joint, icts_type1, icts_type2, nested_nig, greedy_nig, ucb_nig, lcb_nig, ids_nig, "
    "d_optimal_nig, top_k_nig, mix_nig or nested_poly; docs/agents.md tells them apart.",
)
@options.repeated_option("--scope", "LEVEL", "Levels the agent controls; repeatable. Default: all.")
@click.option("--episodes", type=click.IntRange(min=1), default=200, show_default=True, help="How many to simulate.")
@click.option(
    "--particles",
    type=click.IntRange(1, MOST_PARTICLES),
    help="Beliefs an agent draws per episode (one of them acts), if one of its rules draws any.",
)
@click.option("--features", metavar="NAME", help="Of the agent's mechanisms: linear, polynomial or fourier.")
@click.option("--temper", type=float, help="Power of the agent's likelihood: 1 is Bayes, below 1 it learns more cautiously.")
@click.option("--nodes", type=int, help="Quadrature nodes per number with which the agent integrates over contexts.")
@click.option("--propensities", type=click.Choice(["full", "taken"]), default="full", show_default=True, help="What is logged.")
@options.path_option("--out", "FOLDER", "Gets log.parquet and problem.yaml.", required=True)
@options.seed
@options.settings
@options.as_json
def command(
    world: str,
    preset: str | None,
    shift: str | None,
    legacy: str,
    agent: str | None,
    scope: tuple[str, ...],
    episodes: int,
    propensities: str,
    out: Path,
    seed: int,
    overrides: tuple[str, ...],
    as_json: bool,
    **changes: Any,
) -> None:
    """Write the log of a simulated plant into FOLDER, with its problem.yaml.

    With --agent the run is kept step by step: if it is interrupted, the same command goes on where it stopped. A log of the
    legacy is written whole; the same folder may be used again.

    \b
    Examples:
      aegis simulate --world additive --legacy sign:epsilon=0.3 --episodes 500 --out log/
      aegis simulate --world unified --preset quadratic --agent nested_cts --features polynomial --seed 3 --out run/
      aegis simulate --world additive --set f_a=1 --agent nested_cts --scope inner --out run/
      aegis simulate --world unified --shift N_Q --episodes 500 --out shifted/
    """
    from aegis.api import load_world
    from aegis.policies import with_incumbent

    settings = options.parse_settings(overrides)
    plant = load_world(world, settings, preset, shift)
    behaviour = plant.legacy(legacy)
    about: dict[str, Any] = {"world": world, "preset": preset, "shift": shift, "settings": settings, "legacy": legacy}
    about["propensities"] = propensities
    if agent is not None:
        problem = _logged_problem(plant.problem, propensities)
        online = _make_online(plant, behaviour, agent, scope, seed, changes)
        summary = _run_agent(online, episodes, problem, out, about, as_json)
    else:
        superfluous = [f"--{name}" for name, value in {"scope": scope or None, **changes}.items() if value is not None]
        if superfluous:
            raise SettingError(f"{', '.join(superfluous)}: what an agent does; name one with --agent")
        problem = _logged_problem(with_incumbent(plant.problem, behaviour), propensities)
        with progress("simulating", as_json) as report:
            summary = write_legacy_log(out, plant, behaviour, episodes, seed, problem, about, report)
    if as_json:
        print_json(summary)
        return
    mean = f"mean reward per decision {summary['mean_reward']:.4f}"
    console().print(f"{episodes} episodes of '{world}' under {agent or legacy}: {mean}")
    print_line(f"log:     {out / LOG_FILE}\nproblem: {out / PROBLEM_FILE}")


def _logged_problem(problem: Any, propensities: str) -> Any:
    """Return the problem as its log will show it: whole distributions, or the taken action's probability only."""
    from aegis.problem import Propensity

    if propensities == "full":
        return problem
    levels = tuple(replace(level, propensity=Propensity(column=f"p_{level.actions.column}")) for level in problem.levels)
    return replace(problem, levels=levels)


def _make_online(plant: Any, behaviour: Any, name: str, scope: tuple[str, ...], seed: int, changes: dict[str, Any]) -> Any:
    """Return an agent of the table on a plant. changes: particles, features, temper and nodes, None for the agent's own."""
    from aegis.agents import AGENTS, make_online
    from aegis.planning import default_integration

    check_choice(name, AGENTS, "agent")
    agent = AGENTS[name]
    model = {name: changes[name] for name in ("features", "temper") if changes[name] is not None}
    if "features" in model and agent.model.structure == "cells":
        raise SettingError(f"agent '{name}' keeps a table of the reward by actions, without features; leave out --features")
    if changes["particles"] is not None:
        agent = agent.with_particles(changes["particles"])
    integration = agent.integration or default_integration(plant.problem)
    if changes["nodes"] is not None:
        integration = replace(integration, nodes=changes["nodes"])
    agent = replace(agent, model=replace(agent.model, **model), integration=integration)
    return make_online(plant, agent, seed, behaviour, scope or None)


def _run_agent(online: Any, episodes: int, problem: Any, out: Path, about: dict[str, Any], quiet: bool) -> dict[str, Any]:
    """Run an agent, kept in a folder step by step, and return the summary."""
    from aegis.agents import checkpoint_episode, run_to

    agent = online.agent
    kept = note_resumption(lambda: describe_kept_episodes(checkpoint_episode(out), out))
    with progress(agent.name, quiet) as report, kept:
        on_episode = lambda done, mean: report(done, episodes, f"reward {mean:.3f}")  # noqa: E731
        result = run_to(out, online, episodes, about, problem, progress=on_episode)
    tail = result.means[-max(1, episodes // 4) :]
    return {
        **about,
        "agent": agent.name,
        "features": agent.model.features,
        "temper": agent.model.temper,
        "nodes": agent.integration.nodes,
        "scope": sorted(online.scope),
        "seed": online.seed,
        "episodes": episodes,
        "mean_reward": float(result.means.mean()),
        "mean_reward_last_quarter": float(tail.mean()),
        "log": str(out / LOG_FILE),
    }


def write_legacy_log(
    out: Path,
    plant: Any,
    behaviour: Any,
    episodes: int,
    seed: int,
    problem: Any,
    about: dict[str, Any],
    report: Callable[[int, int, str], None],
) -> dict[str, Any]:
    """Write log, problem and summary into `out` and return the summary; `report(done, total, note)` is called now and then.

    The summary comes first, with `complete: false`, and again last: after an interruption the folder shows that it
    is not complete, and the same command may use it again. Raises OutputError if the folder holds files of that name that
    this command did not write.
    """
    from aegis.files import folder_lock, write_text
    from aegis.logs import write_log
    from aegis.problem import save_problem

    log, summary_file = out / LOG_FILE, out / SUMMARY_FILE
    summary = {"written_by": WRITER, "complete": False, **about, "seed": seed, "episodes": episodes, "log": str(log)}
    total = 0.0

    def batches() -> Iterator[Any]:
        nonlocal total
        step = max(1, min(EPISODES_AT_ONCE, DECISIONS_AT_ONCE // math.prod(plant.steps)))
        for first in range(0, episodes, step):
            batch = plant.episodes(first, min(step, episodes - first), behaviour, seed)
            total += float(batch.episode_means(batch.reward).sum())
            report(first + len(batch), episodes, "")
            yield batch

    with folder_lock(out):
        _refuse_other_files(out)
        for name in OWN_FILES:
            for stale in out.glob(f".{name}.*.part"):
                stale.unlink(missing_ok=True)
        write_text(summary_file, json.dumps(summary, indent=2) + "\n")
        try:
            write_log(batches(), problem, log)
        except BaseException:
            if not log.exists():  # nothing came of it: leave the folder as it was found
                summary_file.unlink(missing_ok=True)
            raise
        save_problem(problem, out / PROBLEM_FILE)
        summary |= {"complete": True, "mean_reward": total / episodes}
        write_text(summary_file, json.dumps(summary, indent=2) + "\n")
    return summary


def _refuse_other_files(out: Path) -> None:
    present = [name for name in (*OWN_FILES, "settings.json") if (out / name).exists()]
    own = False
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        own = json.loads((out / SUMMARY_FILE).read_text(encoding="utf-8"))["written_by"] == WRITER
    if present and ("settings.json" in present or not own):
        raise OutputError(f"{out} holds {', '.join(present)}, not written by '{WRITER}'; choose another folder")
