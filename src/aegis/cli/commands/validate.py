"""`aegis validate`: do bounds hold here? Measured by replication, on a world or on a plant of your own."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from aegis.cli import options
from aegis.cli.exit_status import Terminated
from aegis.cli.options import CompletedWord
from aegis.cli.output import console, print_json, progress, table

LEGEND = """end, ever: runs in which the bound was above the truth, in the end and at any look; p: of so many if the promise
holds. false: runs in which a gain was certified, of those without one. width: median of truth minus bound, rewards scaled to
[0, 1]. units: median number to a certified gain. *: a promise for one number of units; 'ever' does not count against it."""


def _bound_names() -> tuple[str, ...]:
    from aegis.validation import OURS, measured_bounds

    return (*OURS, *measured_bounds())


@click.command("validate")
@click.option(
    "--world",
    type=CompletedWord("world"),
    default="additive",
    show_default=True,
    metavar="NAME",
    help="unified, additive, linear, plant, clinic or dosing.",
)
@click.option("--preset", metavar="NAME", help="Parameters of the world that go together, as in 'aegis simulate'.")
@click.option("--plant", metavar="MODULE:OBJECT", help="A plant of your own, in the place of a world; needs --legacy.")
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
@click.option("--scope", multiple=True, metavar="LEVEL", help="A level to hand over; repeatable. Default: the innermost.")
@click.option("--runs", type=click.IntRange(min=1), default=100, show_default=True, help="Replications, each with its own log.")
@click.option("--episodes", type=click.IntRange(min=20), default=200, show_default=True, help="Certified in each run.")
@click.option("--prior", type=click.IntRange(min=20), default=100, show_default=True, help="Learned from before, in each run.")
@click.option("--judged", type=click.IntRange(min=100), help="Episodes that tell what a candidate really earns. Default: enough.")
@click.option("--delta", type=float, default=0.05, show_default=True, help="The risk of each bound.")
@click.option(
    "--comparator",
    type=click.Choice(["incumbent", "logger"]),
    default="incumbent",
    show_default=True,
    help="Whom gains are over: the legacy without its exploration, where that is known, or the policy that writes the log.",
)
@click.option(
    "--bound",
    "bounds",
    type=CompletedWord(_bound_names),
    multiple=True,
    metavar="NAME",
    help="Only this bound, as the table calls it; repeatable.",
)
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Processes.")
@options.engine
@click.option(
    "--out", type=options.NamedPath(path_type=Path), metavar="FOLDER", help="Keeps runs, to go on from, and validation.json."
)
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
    episodes: int,
    prior: int,
    judged: int | None,
    delta: float,
    comparator: str,
    bounds: tuple[str, ...],
    workers: int,
    engine: str,
    out: Path | None,
    seed: int,
    overrides: tuple[str, ...],
    as_json: bool,
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
    from aegis.api import load_legacy, load_plant
    from aegis.engine import parse_engine
    from aegis.errors import SettingError
    from aegis.validation import make_trial, run_validation
    from aegis.worlds import make_world

    settings = options.parse_settings(overrides)
    if plant is not None and (preset is not None or settings):
        raise SettingError("--preset and --set change parameters of a world; a plant of your own has none")
    if plant is not None and legacy is None:
        raise SettingError("a plant of your own needs a legacy of your own: --legacy module:object")
    running: Any = load_plant(plant) if plant is not None else make_world(world, preset=preset, **settings)
    acting = load_legacy(legacy or "uniform", running)
    chosen = _candidate(candidate, running.problem, scope)
    more = {"judged": judged, "comparator": comparator}
    trial = make_trial(running, acting, chosen, scope or None, episodes, prior, delta, bounds or None, seed, **more)
    words = {"plant": plant or world, "legacy": legacy or "uniform", "candidate": candidate}
    with _resumable(out), contextlib.ExitStack() as stack:
        result = run_validation(trial, words, runs, out, parse_engine(engine, workers), _reporting(stack, as_json))
    if as_json:
        print_json(result.to_json())
    else:
        print_validation(result)
        if out is not None:
            console().print(f"runs and result: {out}", soft_wrap=True)
    return int(result.exit_code)


def print_validation(result: Any) -> None:
    """Print the verdict, the certificates, and apart from them what is none."""
    screen, about = console(), result.about
    good = [row for row in result.rows if row.certificate]
    bad = [row for row in good if row.verdict == "violated"]
    screen.print(
        f"{_verdict(result, good, bad)}: {count_noun(result.runs, 'run')} on '{about['plant']}' under "
        f"{about['legacy']}, candidate "
        f"{about['candidate']} at {' + '.join(about['scope'])}, {about['episodes']} episodes each, risk {result.delta:g}"
        f"{_worst(result)}",
        style="bold red" if bad else "bold green" if result.holds else "bold yellow",
        soft_wrap=True,
    )
    screen.print(f"Gains are over {about['comparator']}.", soft_wrap=True, markup=False)
    head = ["bound", "of", "end", "ever", "p", "false", "width", "units", "verdict"]
    screen.print(table("Certificates", head, [_cells(row) for row in good]))
    others = [row for row in result.rows if not row.certificate]
    if others:
        screen.print(table("Not certificates", head[:-1], [_cells(row)[:-1] for row in others]))
    screen.print(LEGEND, soft_wrap=True)
    for line in result.refused[:3]:
        screen.print(f"left out, because certify would refuse: {line}", soft_wrap=True, markup=False)


def count_noun(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _verdict(result: Any, good: list[Any], bad: list[Any]) -> str:
    if bad:
        return f"Violated: {', '.join(sorted({row.bound for row in bad}))}"
    if not good:
        return "No certificates among these bounds"
    if not result.holds:
        return f"Too few runs to tell whether {count_noun(len(good), 'certificate')} {'holds' if len(good) == 1 else 'hold'}"
    return f"{count_noun(len(good), 'certificate')} {'holds' if len(good) == 1 else 'hold'}"


def _worst(result: Any) -> str:
    """Return how often the worst certificate may be wrong, were the runs enough to say so."""
    row = result.worst
    if row is None or not result.holds:
        return ""
    return (
        f"; the worst, {row.bound} ({row.claim}), was wrong in {row.wrong} of {count_noun(row.runs, 'run')}: a rate "
        f"of at most {row.wrong_at_most:.2g} (upper 95 % limit)"
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
        return spec  # a misspelt kind is told with the list of kinds
    return load_candidate(spec, problem, scope or (problem.innermost.name,))


def _reporting(stack: contextlib.ExitStack, quiet: bool) -> Callable[[int, int, str], None]:
    """Return what shows progress, from the moment it is known how many runs are missing."""
    shown: list[Callable[[int, str], None]] = []

    def report(done: int, total: int, name: str) -> None:
        if not shown:
            shown.append(stack.enter_context(progress(total, "validating", quiet)))
        shown[0](done, "")

    return report


@contextlib.contextmanager
def _resumable(out: Path | None) -> Iterator[None]:
    """Say, if what is inside is interrupted, what was kept."""
    try:
        yield
    except (KeyboardInterrupt, Terminated) as stop:
        kept = f"every run that was done is kept in {out}, and the same command goes on from there"
        stop.add_note("nothing was kept; --out FOLDER keeps every run" if out is None else kept)
        raise
