"""`aegis simulate`: the log of a simulated plant, under a legacy or under an agent that learns while it acts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from aegis.cli import options
from aegis.cli.show import console, print_json, progress

CHUNK = 2048  # episodes simulated at once


@click.command("simulate")
@click.option(
    "--world", default="additive", show_default=True, metavar="NAME", help="unified, additive, linear, plant or clinic."
)
@click.option("--legacy", default="uniform", show_default=True, metavar="SPEC", help="For example natural or sign:epsilon=0.3.")
@click.option("--agent", metavar="NAME", help="Let this agent learn and act (Algorithm 1); without it the legacy acts.")
@click.option("--scope", multiple=True, metavar="LEVEL", help="Levels the agent controls; repeatable. Default: all.")
@click.option("--episodes", type=click.IntRange(min=1), default=200, show_default=True)
@click.option("--particles", type=click.IntRange(min=1), help="Beliefs a Thompson agent draws per episode (one of them acts).")
@click.option("--propensities", type=click.Choice(["full", "taken"]), default="full", show_default=True, help="What is logged.")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), metavar="FOLDER", help="Gets log.parquet and problem.yaml."
)
@options.seed
@options.settings
@options.as_json
def command(
    world: str,
    legacy: str,
    agent: str | None,
    scope: tuple[str, ...],
    episodes: int,
    particles: int | None,
    propensities: str,
    out: Path,
    seed: int,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write the log of a simulated plant into FOLDER, with its problem.yaml.

    With --agent the run is kept step by step: if it is interrupted, the same command goes on where it stopped.

    \b
    Examples:
      aegis simulate --world additive --legacy sign:epsilon=0.3 --episodes 500 --out log/
      aegis simulate --world unified --agent nested_cts --episodes 200 --seed 3 --out run/
      aegis simulate --world additive --set f_a=1 --agent nested_cts --scope inner --out run/
    """
    from aegis.errors import SettingError
    from aegis.worlds import make_world

    settings = options.parse_settings(overrides)
    plant = make_world(world, **settings)
    behaviour = plant.legacy(legacy)
    about: dict[str, Any] = {"world": world, "settings": settings, "legacy": legacy, "propensities": propensities}
    if agent is None:
        if scope or particles:
            raise SettingError("--scope and --particles say what an agent does; name one with --agent")
        summary = _legacy_log(plant, behaviour, episodes, seed, propensities, out, {**about, "seed": seed}, as_json)
    else:
        summary = _agent_run(plant, behaviour, agent, scope, episodes, seed, particles, propensities, out, about, as_json)
    if as_json:
        print_json(summary)
        return
    screen = console()
    screen.print(
        f"{episodes} episodes of '{world}' under {agent or legacy}: mean reward per decision {summary['mean_reward']:.4f}"
    )
    screen.print(f"log:     {out / 'log.parquet'}\nproblem: {out / 'problem.yaml'}", soft_wrap=True)


def _logged_problem(problem: Any, propensities: str) -> Any:
    """Return the problem as its log will show it: whole distributions, or the taken action's probability only."""
    from aegis.problem import Propensity

    if propensities == "full":
        return problem
    levels = tuple(replace(level, propensity=Propensity(column=f"p_{level.actions.column}")) for level in problem.levels)
    return replace(problem, levels=levels)


def _legacy_log(
    plant: Any, behaviour: Any, episodes: int, seed: int, propensities: str, out: Path, about: dict[str, Any], quiet: bool
) -> dict[str, Any]:
    from aegis.errors import OutputError
    from aegis.files import write_text
    from aegis.logs import write_log
    from aegis.problem import save_problem

    if (out / "settings.json").exists() or (out.exists() and not out.is_dir()):
        raise OutputError(f"{out} is not a folder for a simulated log; choose another")
    problem = _logged_problem(plant.problem, propensities)
    total = 0.0

    with progress(episodes, "simulating", quiet) as report:

        def batches() -> Iterator[Any]:
            nonlocal total
            for first in range(0, episodes, CHUNK):
                batch = plant.episodes(first, min(CHUNK, episodes - first), behaviour, seed)
                total += float(batch.episode_means(batch.reward).sum())
                report(first + len(batch), "")
                yield batch

        save_problem(problem, out / "problem.yaml")
        write_log(batches(), problem, out / "log.parquet")
    summary = {**about, "episodes": episodes, "mean_reward": total / episodes, "log": str(out / "log.parquet")}
    write_text(out / "summary.json", json.dumps(summary, indent=2) + "\n")
    return summary


def _agent_run(
    plant: Any,
    behaviour: Any,
    name: str,
    scope: tuple[str, ...],
    episodes: int,
    seed: int,
    particles: int | None,
    propensities: str,
    out: Path,
    about: dict[str, Any],
    quiet: bool,
) -> dict[str, Any]:
    from aegis.agents import AGENTS, Online, run_to
    from aegis.errors import choose

    choose(name, AGENTS, "agent")
    agent = AGENTS[name]
    if particles is not None:
        agent = replace(agent, rule_settings={**agent.rule_settings, "particles": particles})
    online = Online(plant, agent, plant.problem.scope(scope or None), seed, behaviour)
    problem = _logged_problem(plant.problem, propensities)
    with progress(episodes, name, quiet) as report:
        result = run_to(out, online, episodes, about, problem, progress=lambda done, mean: report(done, f"reward {mean:.3f}"))
    tail = result.means[-max(1, episodes // 4) :]
    return {
        **about,
        "agent": name,
        "scope": sorted(online.scope),
        "seed": seed,
        "episodes": episodes,
        "mean_reward": float(result.means.mean()),
        "mean_reward_last_quarter": float(tail.mean()),
        "log": str(out / "log.parquet"),
    }
