"""`aegis demo`: control is handed over on a simulated plant; then a policy is certified from a log alone."""

from __future__ import annotations

from pathlib import Path

import click

from aegis.cli import options
from aegis.cli.output import console, print_json


@click.command("demo")
@click.option("--episodes", type=click.IntRange(min=2), default=400, show_default=True, help="Of the handover.")
@options.path_option("--out", "FOLDER", "Keeps it.", default=Path("demo-run"), show_default=True)
@options.seed
@options.as_json
def command(episodes: int, out: Path, seed: int, as_json: bool) -> None:
    """Run the story on simulated plants: control changes hands level by level; then a policy is certified from a log alone.

    First the gate runs live: who controls each level, the certified gain that climbs, what is earned, and the page to read.
    It is kept in FOLDER: an interrupted run goes on where it stopped, a finished one is run again. Then a plant on which the
    published gate hands over to a worse agent, and ours does not. Then the log of an exploring legacy is audited, a candidate
    learned from one half of it and certified on the other.
    """
    from aegis.cli.demo_story import run_certificate_part, run_counter_example, run_handover_part

    screen = console(quiet=as_json)
    folder = out / f"handover-seed-{seed}-episodes-{episodes}"
    handover = run_handover_part(folder, episodes, seed, screen)
    counter = run_counter_example(seed, screen)
    story = run_certificate_part(out / "certify", seed, screen)
    if as_json:
        print_json({"handover": handover, "counter_example": counter, **story})
