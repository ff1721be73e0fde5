"""`aegis validate`: do bounds hold here? Measured by replication, on a world or on a plant of your own."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from aegis.cli import note_resumption, options
from aegis.cli.output import console, print_json, print_line, print_paths, progress, table
from aegis.errors import pluralise

LEGEND = """end, ever: runs in which the bound was above the truth, in the end and at any look; p: of so many if the promise
holds. false: runs in which a gain was certified, of those without one. width: median of truth minus bound, rewards scaled to
[0, 1]. units: median number to a certified gain. *: a promise for one number of units; 'ever' does not count against it."""


def _bound_names() -> tuple[str, ...]:
    from aegis.validation import OURS, measured_bounds

    return (*OURS, *measured_bounds())


@click.command("validate")
@options.word_option("--world", "world", "{words}.", default="additive", show_default=True)
@options.plant
@click.option(
    "--legacy", metavar="SPEC", help="Of the world, such as sign:epsilon=0.3, or your own module:object. Default: uniform."
)
@click.option(
    "--candidate",
    default="capped",
    show_default=True,
    metavar="KIND",
    help="capped, greedy or planned (learned anew in every run), null (gains nothing), capped:cap=3, or your own: a policy "
    "folder or module:object.",
)
@options.repeated_option("--scope", "LEVEL", "A level to hand over; repeatable. Default: the innermost.")
@click.option("--runs", type=click.IntRange(min=1), default=100, show_default=True, help="Replications, each with its own log.")
@click.option("--episodes", type=click.IntRange(min=20), default=200, show_default=True, help="Certified in each run.")
@click.option("--prior", type=click.IntRange(min=20), default=100, show_default=True, help="Learned from before, in each run.")
@click.option("--judged", type=click.IntRange(min=100), help="Episodes that tell what a candidate really earns. Default: enough.")
@options.delta_option("The risk of each bound.")
@click.option(
    "--comparator",
    type=click.Choice(["incumbent", "logger"]),
    default="incumbent",
    show_default=True,
    help="Whom gains are over: the legacy without its exploration, where that is known, or the policy that writes the log.",
)
@options.repeated_option(
    "--bound bounds", "NAME", "Only this bound, as the table calls it; repeatable.", type=options.CompletedWord(_bound_names)
)
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Processes.")
@options.engine
@options.path_option("--out", "FOLDER", "Keeps runs, to go on from, and validation.json.")
@options.seed
@options.settings
@options.as_json
def command(
    world: str,
    preset: str | None,
    plant: str | None,
    legacy: str | None,
    candidate: str,
    scope: tuple[str, ...],
    runs: int,
    bounds: tuple[str, ...],
    workers: int,
    engine: str,
    out: Path | None,
    overrides: tuple[str, ...],
    as_json: bool,
    **design: Any,
) -> int:
    """Measure how often every bound is wrong, how wide it is, and after how many units it certifies a gain.

    Each run simulates a log, learns a candidate beside it, finds out what the candidate really earns by running it, and compares
    every bound with that: ours, the published and the classic ones. A binomial test says of each certificate whether it holds.
    With --out, an interrupted validation goes on where it was.

    \b
    Exit codes: 0 no certificate is violated, 4 one is, 2 bad input.

    \b
    Examples:
      aegis validate --world additive --legacy sign:epsilon=0.3 --runs 200 --workers 2 --out build/validation
      aegis validate --world clinic --legacy natural:epsilon=0.3 --candidate null --runs 200
      aegis validate --plant greenhouse:plant --legacy greenhouse:legacy --runs 100
    """
    from aegis.api import load_legacy, load_plant_or_world
    from aegis.engine import parse_engine
    from aegis.validation import make_trial, run_validation

    running = load_plant_or_world(plant, world, preset, options.parse_settings(overrides), legacy)
    acting = load_legacy(legacy or "uniform", running)
    chosen = _candidate(candidate, running.problem, scope)
    trial = make_trial(running, acting, chosen, scope or None, bounds=bounds or None, **design)
    words = {"plant": plant or world, "legacy": legacy or "uniform", "candidate": candidate}
    note = "nothing was kept; --out FOLDER keeps every run"
    if out is not None:
        note = f"every run that was done is kept in {out}, and the same command goes on from there"
    with note_resumption(lambda: note), progress("validating", as_json) as report:
        on_run = lambda done, total, _: report(done, total, "")  # noqa: E731
        result = run_validation(trial, words, runs, out, parse_engine(engine, workers), on_run)
    if as_json:
        print_json(result.to_json())
    else:
        print_validation(result)
        print_paths({"runs and result": out})
    return int(result.exit_code)


def print_validation(result: Any) -> None:
    """Print the verdict, the certificates, and apart from them the other bounds."""
    about = result.about
    good = [row for row in result.rows if row.certificate]
    others = [row for row in result.rows if not row.certificate]
    bad = sorted({row.bound for row in good if row.verdict == "violated"})
    print_line(
        f"{_verdict(result, len(good), bad)}: {pluralise(result.runs, 'runs')} on '{about['plant']}' under {about['legacy']}, "
        f"candidate {about['candidate']} at {' + '.join(about['scope'])}, {about['episodes']} episodes each, risk "
        f"{result.delta:g}{_worst(result)}",
        "bold red" if bad else "bold green" if result.holds else "bold yellow",
    )
    print_line(f"Gains are over {about['comparator']}.")
    head = ["bound", "of", "end", "ever", "p", "false", "width", "units", "verdict"]
    console().print(table("Certificates", head, [_cells(row) for row in good]))
    if others:
        console().print(table("Not certificates", head[:-1], [_cells(row)[:-1] for row in others]))
    print_line(LEGEND)
    for line in result.refused[:3]:
        print_line(f"left out, because certify would refuse: {line}")


def _verdict(result: Any, certificates: int, violated: list[str]) -> str:
    """Return what the runs say. violated: names of bounds that were wrong too often."""
    if violated:
        return f"Violated: {', '.join(violated)}"
    if not certificates:
        return "No certificates among these bounds"
    hold = f"{pluralise(certificates, 'certificates')} {'holds' if certificates == 1 else 'hold'}"
    return hold if result.holds else f"Too few runs to tell whether {hold}"


def _worst(result: Any) -> str:
    """Return how often the worst certificate may be wrong, if the runs were enough to say so."""
    row = result.worst
    if row is None or not result.holds:
        return ""
    return (
        f"; the worst, {row.bound} ({row.claim}), was wrong in {row.wrong} of {pluralise(row.runs, 'runs')}: a rate of at most "
        f"{row.wrong_at_most:.2g} (upper 95 % limit)"
    )


def _cells(row: Any) -> list[str]:
    fixed = row.validity == "fixed time"
    false = "-" if not row.nulls else f"{row.false} of {row.nulls}"
    units = "-" if row.units is None else "more" if math.isinf(row.units) else f"{row.units:g}"
    p = f"{row.at_end_p if fixed else row.ever_p:.2g}"
    name = f"{row.bound} *" if fixed else row.bound
    return [name, row.claim, str(row.at_end), str(row.ever), p, false, f"{row.width:.3f}", units, row.verdict or "-"]


def _candidate(spec: str, problem: Any, scope: tuple[str, ...]) -> Any:
    """Return the word itself for a kind of candidate that runs learn, else the user's own."""
    from aegis.api import load_candidate
    from aegis.validation import LEARNERS

    if spec.partition(":")[0] in LEARNERS or (":" not in spec and not Path(spec).is_dir()):
        return spec  # the error about a misspelt kind lists the kinds
    return load_candidate(spec, problem, scope or (problem.innermost.name,))
