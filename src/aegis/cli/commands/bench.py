"""`aegis bench`: the experiments of the paper, and your own, one command each."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from aegis.cli import options
from aegis.cli.exit_status import Terminated
from aegis.cli.options import CompletedWord, bench_names
from aegis.cli.output import console, print_json, progress, table

BENCH_STORE = Path("bench-results")
FAILED, DONE = 1, 0
FIGURES = "figures"

bench_store_option = click.option(
    "--store",
    type=options.NamedPath(path_type=Path),
    default=BENCH_STORE,
    show_default=True,
    metavar="FOLDER",
    help="Where results are kept: what is there is not run again.",
)
preset_option = click.option(
    "--preset", default="quick", show_default=True, metavar="NAME", help="quick, or full as in the paper."
)
set_option = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="episodes, seeds, world.KEY, model.KEY ...; repeatable."
)


@click.group("bench")
def command() -> None:
    """Run the experiments of the paper, or your own: each is a YAML file with its claims.

    \b
    Examples:
      aegis bench list
      aegis bench run 1b --preset full --workers 2
      aegis bench run all
      aegis bench run 1b --set world.sigma_q=1 --set seeds=20
      aegis bench run mine.yaml --json
    """


@command.command("list")
@options.as_json
def list_benches_command(as_json: bool) -> int:
    """List the benches: what each asks, and where in the paper it is found."""
    from aegis.paper import list_benches, load_bench

    benches = [load_bench(name) for name in list_benches()]
    if as_json:
        print_json(
            {"benches": [{"name": b.name, "title": b.title, "section": b.section, "question": b.question} for b in benches]}
        )
    else:
        console().print(table("Benches", ["name", "title", "in the paper"], [[b.name, b.title, b.section] for b in benches]))
    return DONE


@command.command("run")
@click.argument("benches", nargs=-1, type=CompletedWord(bench_names), required=True, metavar="NAME|FILE|all...")
@preset_option
@set_option
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=None,
    show_default="as many as cores may be used",
    help="Processes.",
)
@options.engine
@bench_store_option
@options.as_json
def run_benches_command(
    benches: tuple[str, ...],
    preset: str,
    overrides: tuple[str, ...],
    workers: int | None,
    engine: str,
    store: Path,
    as_json: bool,
) -> int:
    """Run what is missing, and print every number beside the paper's, and every claim with its verdict.

    Interrupted, it goes on where it was. A part that fails is listed, and the others are run.

    \b
    Exit codes: 0 done, whatever the verdicts; 1 some part failed; 2 bad input.
    """
    from aegis.engine import parse_engine
    from aegis.paper import ResultStore, collect_results, judge_claim, run_plans

    plans = _plans(benches, preset, overrides)
    kept = ResultStore(store)
    with _resumable(store), contextlib.ExitStack() as stack:
        failures = run_plans(plans, kept, parse_engine(engine, workers), _reporting(stack, as_json))
    found = [collect_results(plan, kept) for plan in plans]
    if as_json:
        print_json(
            {
                "preset": preset,
                "changes": dict(plans[0].changes),
                "results": [{"bench": r.bench.name, **row} for r in found for row in r.rows()],
                "claims": [{"bench": r.bench.name, **_plain(judge_claim(c, r))} for r in found for c in r.bench.claims],
                "failures": [
                    {"bench": f.unit.bench, "agent": f.unit.label, "seeds": list(f.seeds), "why": f.why} for f in failures
                ],
            }
        )
    else:
        for plan, results in zip(plans, found, strict=True):
            print_bench(results, [judge_claim(claim, results) for claim in results.bench.claims], plan.changes)
        for failure in failures:
            console().print(
                f"failed: {failure.unit.bench}, {failure.unit.label}: {failure.why}",
                style="bold red",
                soft_wrap=True,
                markup=False,
            )
    return FAILED if failures else DONE


@command.command("report")
@click.argument("benches", nargs=-1, type=CompletedWord(bench_names), metavar="[NAME|FILE|all]...")
@preset_option
@set_option
@bench_store_option
@click.option(
    "--out",
    type=options.NamedPath(path_type=Path),
    default=Path("paper"),
    show_default=True,
    metavar="FOLDER",
    help="For paper.md, paper.html, paper.json and figures/.",
)
@click.option("--figures/--no-figures", default=True, help="Draw pictures, which needs matplotlib.")
@click.option("--pictures", default="svg,png", show_default=True, metavar="KINDS", help="svg, pdf, png.")
def report_benches_command(
    benches: tuple[str, ...], preset: str, overrides: tuple[str, ...], store: Path, out: Path, figures: bool, pictures: str
) -> int:
    """Write a page about everything that is stored: paper, ours, oracle, claims, settings, and what was not reproducible.

    Of all benches, or of those named; what was not run to its end is left out and said.

    \b
    Exit codes: 0 done; 1 written, but some bench was left out; 2 bad input, or nothing to write about.
    """
    from aegis.errors import InputError, check_choice
    from aegis.files import write_text
    from aegis.paper import PICTURE_KINDS, ResultStore, bench_page, check_drawing, collect_results, draw_figures

    kinds = tuple(kind.strip() for kind in pictures.split(","))
    if figures:
        check_drawing()
        for kind in kinds:
            check_choice(kind, PICTURE_KINDS, "kind of picture")
    kept = ResultStore(store)
    found = [collect_results(plan, kept) for plan in _plans(benches or ("all",), preset, overrides)]
    whole = [results for results in found if results.complete]
    left_out = [results.bench.name for results in found if not results.complete]
    mend = _run_again_command(left_out if benches else ["all"], benches, preset, overrides, store)
    if not whole:
        raise InputError(f"no bench is complete in {store} with these settings, nothing was written; run first: {mend}")
    drawn = {r.bench.name: draw_figures(r, out / FIGURES, kinds) for r in whole} if figures else {}
    bench_page.save_archive(out / "paper.json", whole, drawn, left_out)
    saved = bench_page.load_archive(out / "paper.json")
    write_text(out / "paper.md", bench_page.markdown_page(saved, FIGURES))
    texts = {
        name: (out / FIGURES / f"{name}.svg").read_text(encoding="utf-8")
        for own in drawn.values()
        for name in own
        if "svg" in kinds
    }
    write_text(out / "paper.html", bench_page.html_page(saved, texts))
    console().print(
        f"{bench_page.claims_summary(saved)}\npage: {out / 'paper.md'}, {out / 'paper.html'}; numbers: {out / 'paper.json'}",
        soft_wrap=True,
    )
    if left_out:
        words = f"left out, not run to its end with preset {preset}: {', '.join(left_out)}; run first: {mend}"
        console(to_stderr=True).print(words, style="yellow", soft_wrap=True, markup=False)
    return FAILED if left_out else DONE


def _plans(benches: tuple[str, ...], preset: str, overrides: tuple[str, ...]) -> list[Any]:
    from aegis.paper import list_benches, load_bench, plan_bench

    chosen = [name for item in benches for name in (list_benches() if item == "all" else [item])]
    changes = options.parse_settings(overrides)
    return [plan_bench(load_bench(name), preset, changes) for name in dict.fromkeys(chosen)]


def _run_again_command(names: list[str], given: tuple[str, ...], preset: str, overrides: tuple[str, ...], store: Path) -> str:
    """Return the command that runs benches; those of files are named as they were given."""
    files = {Path(item).stem: item for item in given if item.endswith((".yaml", ".yml"))}
    words = ["aegis", "bench", "run", *(files.get(name, name) for name in names), "--preset", preset]
    return shlex.join([*words, *(word for pair in overrides for word in ("--set", pair)), "--store", str(store)])


def print_bench(results: Any, judged: list[Any], changes: Mapping[str, Any]) -> None:
    """Print the numbers of a bench and the verdicts of its claims. changes: what was run with, beside the preset."""
    from aegis.paper import bench_page

    screen, bench = console(), results.bench
    how = ", ".join([f"preset {results.preset}", *(f"{key}={_as_typed(value)}" for key, value in changes.items())])
    screen.print(f"\n{bench.name}  {bench.title}", style="bold", end="", soft_wrap=True, markup=False)
    screen.print(f"  (paper: {bench.section}; {how})", soft_wrap=True, markup=False)
    rows = [
        [
            row["agent"] if row["value"] is None else f"{row['agent']}, {row['value']}",
            *([row["metric"]] if len(bench.metrics) > 1 else []),
            bench_page.our_number(row),
            "-" if row["paper"] is None else bench_page.format_mean(row["paper"]["mean"], row["paper"]["sd"]),
            "-" if row["oracle"] is None else f"{row['oracle']:.1f}",
            str(row["runs"]),
        ]
        for row in results.rows()
    ]
    head = ["who", *(["metric"] if len(bench.metrics) > 1 else []), "ours", "paper", "oracle", "runs"]
    screen.print(table(bench.unit, head, rows))
    styles = {"holds": "green", "does not hold": "yellow", "cannot be tested": "dim"}
    for item in judged:
        screen.print(f"[{styles[item.verdict]}]{item.verdict}[/]: {escape(item.says)} ({escape(item.why)})", soft_wrap=True)


def _as_typed(value: Any) -> str:
    """Return a value as it is given to --set."""
    return value if isinstance(value, str) else json.dumps(value)


def _plain(judged: Any) -> dict[str, str]:
    return {"claim": judged.says, "verdict": judged.verdict, "why": judged.why, "paper": judged.paper}


def _reporting(stack: contextlib.ExitStack, quiet: bool) -> Callable[[int, int, str, float], None]:
    shown: list[Callable[[int, str], None]] = []

    def report(done: int, total: int, name: str, left: float) -> None:
        if not shown:
            shown.append(stack.enter_context(progress(total, "benches", quiet)))
        shown[0](done, name)

    return report


@contextlib.contextmanager
def _resumable(store: Path) -> Any:
    try:
        yield
    except (KeyboardInterrupt, Terminated) as stop:
        stop.add_note(f"every part that was done is kept in {store}, and the same command goes on from there")
        raise
