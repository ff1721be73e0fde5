"""The first half of the demo: control changes hands level by level; and a gate that hands over to a worse agent."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from aegis.agents.folder import LOG, PROBLEM, SETTINGS, SUMMARY
from aegis.cli.handover import REPORT, run
from aegis.cli.handover_asked import Asked
from aegis.cli.show import table
from aegis.files import locked
from aegis.handover import GateSettings, Handover
from aegis.handover.counter_example import CounterExample
from aegis.handover.exported import OTHERS
from aegis.handover.folder import EVENTS, POLICIES
from aegis.handover.hosts import HOSTS
from aegis.handover.published import Published, PublishedSettings

LEGACY = "uniform"
GATE = {"upgrades": False}  # what comes after all levels have changed hands is not shown
LOOKED_AT = 1300  # episodes of the counter-example


@dataclass(frozen=True, slots=True)
class Counter:
    """The counter-example: what legacy and the published gate's agent really earn, and what each gate did."""

    legacy: float
    agent: float
    published_flip: int | None
    challenger_flip: int | None

    def plain(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "legacy_value": self.legacy,
            "agent_value": self.agent,
            "published_hands_over_after": self.published_flip,
            "challenger_hands_over_after": self.challenger_flip,
        }


def hand_over(folder: Path, episodes: int, seed: int, screen: Console | None) -> dict[str, Any]:
    """Run the gate on the additive world, kept in a folder; an interrupted run goes on, a finished one is run again."""
    if screen is not None:
        screen.print("[bold]AEGIS[/bold]  a simulated plant with two timescales: meta (slow) sets the context of inner (fast)")
        screen.print(
            f"The legacy ({LEGACY}) acts. Beside it a causal agent learns from its log; a level changes hands once a gain is "
            "certified there, and everything handed over wrongly has a probability of at most 0.05 together.\n"
        )
        screen.print(
            f"[bold]$[/bold] aegis handover --gate-set upgrades=false --episodes {episodes} --seed {seed} --out {folder}"
        )
    discard(folder)
    wanted = Asked(legacy=LEGACY, episodes=episodes, seed=seed, gate_settings=GATE, out=folder)
    return run(wanted, screen is None)


def discard(folder: Path) -> None:
    """Remove a finished run from its folder, so that it can be run again; anything else, or an unfinished run, stays.

    The settings go last: killed in between, the folder holds the beginning of the same run.
    """
    if not all((folder / name).exists() for name in (SUMMARY, SETTINGS, EVENTS)):
        return
    with locked(folder):
        shutil.rmtree(folder / POLICIES, ignore_errors=True)
        for name in (SUMMARY, LOG, REPORT, EVENTS, PROBLEM, OTHERS, SETTINGS):
            (folder / name).unlink(missing_ok=True)


def counter_example(seed: int, screen: Console | None) -> Counter:
    """Run the published gate and ours on the plant on which the agent is worse than the legacy."""
    plant = CounterExample()
    published = Published(plant, plant.legacy, HOSTS["greedy"](), PublishedSettings(refresh=50), seed)
    ours = Handover(plant, plant.legacy, HOSTS["greedy"](), GateSettings(), seed)
    for gate in (published, ours):
        gate.advance(LOOKED_AT)
    found = Counter(plant.true_value(plant.legacy), plant.true_value(published.acting), _flip(published), _flip(ours))
    if screen is not None:
        _show(found, screen)
    return found


def _flip(gate: Any) -> int | None:
    return next((event.episode for event in gate.events if event.kind == "flip"), None)


def _show(found: Counter, screen: Console) -> None:
    screen.print(
        "\n[bold]Why a certificate[/bold]  a plant on which the agent is worse than the legacy, and looks better in the log"
    )
    rows = [
        ["published (Algorithm 2)", "not a certificate", _did(found.published_flip), f"{found.agent:.3f}"],
        ["challenger", "at most 0.05 wrong", _did(found.challenger_flip), f"{found.legacy:.3f}"],
    ]
    screen.print(
        table(f"The legacy earns {found.legacy:.3f}", ["gate", "promise", f"in {LOOKED_AT} episodes", "earns now"], rows)
    )
    if found.agent < found.legacy:
        screen.print("The published gate has handed over to the worse agent; ours has not: nothing was certified.")


def _did(flip: int | None) -> str:
    return "keeps the legacy" if flip is None else f"hands over after {flip}"
