"""`aegis bench`: the experiments of the paper, and your own, one command each."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from aegis.cli import note_resumption, options
from aegis.cli.output import console, print_json, print_line, progress, table

BENCH_STORE = Path("bench-results")
FAILED, DONE = 1, 0
FIGURES = "figures"

bench_names = options.CompletedWord(options.bench_names)
store_option = options.path_option(
    *("--store", "FOLDER", "Where results are kept: what is there is not run again."), default=BENCH_STORE, show_default=True
)
preset_option = click.option(
    "--preset", default="quick", show_default=True, metavar="NAME", help="quick, or full as in the paper."
)
set_option = options.repeated_option("--set overrides", "KEY=VALUE", "episodes, seeds, world.KEY, model.KEY ...; repeatable.")


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
def list_benches_command(as_json: bool) -> None:
    """List the benches: what each asks, and where in the paper it is found."""
    from aegis.paper import list_benches, load_bench

    benches = [load_bench(name) for name in list_benches()]
    if as_json:
        names = ("name", "title", "section", "question")
        print_json({"benches": [{name: getattr(bench, name) for name in names} for bench in benches]})
    else:
        console().print(table("Benches", ["name", "title", "in the paper"], [[b.name, b.title, b.section] for b in benches]))


@command.command("run")
@click.argument("benches", nargs=-1, type=bench_names, required=True, metavar="NAME|FILE|all...")
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
@store_option
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
    Exit codes: 0 done, with any verdicts; 1 some part failed; 2 bad input.
    """
    from aegis.engine import parse_engine
    from aegis.paper import ResultStore, collect_results, judge_claim, run_plans

    plans = _plans(benches, preset, overrides)
    results = ResultStore(store)
    note = f"every part that was done is kept in {store}, and the same command goes on from there"
    with note_resumption(lambda: note), progress("benches", as_json) as report:
        failures = run_plans(plans, results, parse_engine(engine, workers), report)
    collected = [collect_results(plan, results) for plan in plans]
    claims = [[judge_claim(claim, item) for claim in item.bench.claims] for item in collected]
    if as_json:
        lost = [{"bench": f.unit.bench, "agent": f.unit.label, "seeds": list(f.seeds), "why": f.why} for f in failures]
        pairs = [(item.bench.name, judged) for item, own in zip(collected, claims, strict=True) for judged in own]
        print_json(
            {
                "preset": preset,
                "changes": dict(plans[0].changes),
                "results": [{"bench": item.bench.name, **row} for item in collected for row in item.rows()],
                "claims": [
                    {"bench": name, "claim": judged.says, "verdict": judged.verdict, "why": judged.why, "paper": judged.paper}
                    for name, judged in pairs
                ],
                "failures": lost,
            }
        )
    else:
        for plan, item, own in zip(plans, collected, claims, strict=True):
            print_bench(item, own, plan.changes)
        for failure in failures:
            print_line(f"failed: {failure.unit.bench}, {failure.unit.label}: {failure.why}", "bold red")
    return FAILED if failures else DONE


@command.command("report")
@click.argument("benches", nargs=-1, type=bench_names, metavar="[NAME|FILE|all]...")
@preset_option
@set_option
@store_option
@options.path_option(
    *("--out", "FOLDER", "For paper.md, paper.html, paper.json and figures/."), default=Path("paper"), show_default=True
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
    results = ResultStore(store)
    collected = [collect_results(plan, results) for plan in _plans(benches or ("all",), preset, overrides)]
    whole = [item for item in collected if item.complete]
    left_out = [item.bench.name for item in collected if not item.complete]
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
    print_line(bench_page.claims_summary(saved))
    print_line(f"page: {out / 'paper.md'}, {out / 'paper.html'}; numbers: {out / 'paper.json'}")
    if left_out:
        words = f"left out, not run to its end with preset {preset}: {', '.join(left_out)}; run first: {mend}"
        print_line(words, "yellow", to_stderr=True)
    return FAILED if left_out else DONE


def _plans(benches: tuple[str, ...], preset: str, overrides: tuple[str, ...]) -> list[Any]:
    from aegis.paper import list_benches, load_bench, plan_bench

    chosen = [name for item in benches for name in (list_benches() if item == "all" else [item])]
    changes = options.parse_settings(overrides)
    return [plan_bench(load_bench(name), preset, changes) for name in dict.fromkeys(chosen)]


def _run_again_command(names: list[str], typed: tuple[str, ...], preset: str, overrides: tuple[str, ...], store: Path) -> str:
    """Return the command that runs benches. typed: the benches as they were named, some of them files."""
    files = {Path(item).stem: item for item in typed if item.endswith((".yaml", ".yml"))}
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
