"""`aegis demo`: a nested agent learns on a simulated plant; then a policy is certified from a log alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from aegis.cli import options
from aegis.cli.exits import resumable
from aegis.cli.show import console, print_json, progress, sparkline, table

WINDOW = 25  # episodes in the first and last averages


@click.command("demo")
@click.option("--episodes", type=click.IntRange(min=2), default=120, show_default=True)
@click.option("--out", type=options.Place(path_type=Path), default=Path("demo-run"), show_default=True, metavar="FOLDER")
@options.seed
@options.as_json
def command(episodes: int, out: Path, seed: int, as_json: bool) -> None:
    """Run the story on a simulated plant: an agent learns next to the legacy; then a policy is certified from a log alone.

    The plant has three timescales: the blend of a batch sets the viscosity that the recipe's temperature must suit, and that sets
    the acidity that each dose must suit. The agent's data is kept in FOLDER; an interrupted run goes on where it stopped, a
    finished one is run again. Then a log of an exploring legacy is audited, a candidate learned from one half of it and certified
    on the other; the verdict and a page to read end it.
    """
    from aegis.agents import AGENTS, make_online, run_to
    from aegis.agents.folder import discard
    from aegis.cli.demo_certificate import certify_from_log
    from aegis.worlds import make_world, oracle_value, true_value

    screen = console()
    world, legacy_name, agent_name = make_world("plant"), "natural", "nested_cts"
    legacy = world.legacy(legacy_name)
    names = world.problem.names
    low, high = true_value(world, legacy), oracle_value(world)
    if not as_json:
        screen.print(f"[bold]AEGIS[/bold]  a plant with {len(names)} timescales: {' -> '.join(names)}")
        screen.print(f"The legacy ({legacy_name}) earns {low:.3f} per decision; the best possible is {high:.3f}.")
        screen.print(
            f"{agent_name} starts knowing the causal graph, and from a short log of the legacy the spread of each variable.\n"
        )
    agent = replace(AGENTS[agent_name], rule_settings={"particles": 4})  # few beliefs keep three nested levels quick
    online = make_online(world, agent, seed, legacy)
    about = {"world": "plant", "legacy": legacy_name, "propensities": "full"}
    folder = out / f"seed-{seed}-episodes-{episodes}"
    discard(folder)
    with progress(episodes, "learning", as_json) as report, resumable(folder):
        result = run_to(folder, online, episodes, about, progress=lambda done, mean: report(done, f"reward {mean:.3f}"))
    means = result.means
    baseline = world.episodes(0, episodes, legacy, seed)
    legacy_means = baseline.episode_means(baseline.reward)  # type: ignore[arg-type]
    ceiling = _oracle_means(world, episodes, seed)
    window = min(WINDOW, episodes)
    rows = [("legacy", legacy_means, low), (agent_name, means, None), ("oracle", ceiling, high)]
    closed = (float(means[-window:].mean()) - low) / (high - low)
    if as_json:
        print_json(
            {
                "world": "plant",
                "levels": list(names),
                "legacy": legacy_name,
                "agent": agent_name,
                "episodes": episodes,
                "seed": seed,
                "legacy_value": low,
                "oracle_value": high,
                "agent_first": float(means[:window].mean()),
                "agent_last": float(means[-window:].mean()),
                "share_of_gap_closed": closed,
                "log": str(folder / "log.parquet"),
                **certify_from_log(out / "certify", seed, None).plain(),
            }
        )
        return
    top, bottom = max(high, float(ceiling.max())), min(low, float(means.min()))
    shown = [
        [name, *_averages(values, window), "" if truth is None else f"{truth:.3f}", sparkline(list(values), bottom, top, 24)]
        for name, values, truth in rows
    ]
    heads = ["who acts", f"first {window}", f"last {window}", "true value", f"over {episodes} episodes"]
    screen.print(table("Mean reward per decision, all three on the same noise", heads, shown))
    screen.print(f"\nOver its last {window} episodes {_moral(closed)} This is an average, not a certificate.")
    screen.print(f"Its log, with the exact probability of every action: {folder / 'log.parquet'}", soft_wrap=True)
    certify_from_log(out / "certify", seed, screen)


def _moral(closed: float) -> str:
    if closed <= 0:
        return "the agent earned less than the legacy: its model is stuck, and only a certificate would have told beforehand."
    return f"the agent closed {closed:.0%} of the gap between the legacy and the oracle."


def _averages(values: Any, window: int) -> list[str]:
    return [f"{values[:window].mean():.3f}", f"{values[-window:].mean():.3f}"]


def _oracle_means(world: Any, episodes: int, seed: int) -> Any:
    from aegis.worlds import OraclePolicy

    batch = world.episodes(0, episodes, OraclePolicy(world), seed)
    return batch.episode_means(batch.reward)
