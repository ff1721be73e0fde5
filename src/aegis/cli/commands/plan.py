"""`aegis plan`: how much exploration, and how many episodes?"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from aegis.cli import options
from aegis.cli.output import console, print_json, print_line, print_paths, progress, table
from aegis.errors import SettingError


@click.command("plan")
@click.argument("log", nargs=-1, type=options.LogPath())
@options.problem
@click.option("--gain", type=float, help="How much better the best action is than the legacy's own, per decision, on average.")
@click.option(
    "--loss", type=float, help="How much worse a random action is than the legacy's own, below 0 if better. Default: 0."
)
@click.option(
    "--spread", type=float, help="Standard deviation of a reward given context and action. Default: a tenth of the range."
)
@click.option("--typical", type=float, help="What the legacy earns (or costs) per decision. Default: the middle of the range.")
@click.option("--decisions", type=int, help="Decisions of the level in one episode. Default: 1.")
@options.repeated_option("--level levels", "LEVEL", "Plan for this level; repeatable. Default: all.")
@click.option("--explore", default="0.05,0.1,0.2,0.5,1", show_default=True, metavar="RATES", help="Exploration rates to compare.")
@click.option("--caps", default="1.5,2,3,inf", show_default=True, metavar="CAPS", help="Caps W of the candidate to compare.")
@options.delta_option("The risk, shared by all tests.")
@click.option("--tests", type=int, help="How many claims share the risk. Default: the gain at one level, and each guard.")
@click.option("--within", type=int, metavar="EPISODES", help="Look for the least exploration that is enough for so many.")
@click.option("--policy", metavar="POLICY", help="The candidate, as for certify. Default: capped ones learned from the log.")
@click.option("--whole", is_flag=True, help="Read all of LOG, which will not be certified, not only the side to learn from.")
@options.path_option("--plot", "FILE", "Draw the episodes (.svg).")
@options.ledger
@options.seed
@options.as_json
def command(
    log: tuple[Path | str, ...],
    problem: Path,
    levels: tuple[str, ...],
    explore: str,
    caps: str,
    policy: str | None,
    whole: bool,
    plot: Path | None,
    ledger: Path | None,
    as_json: bool,
    **assumed: Any,
) -> None:
    """Plan a study: after how many episodes would a gain be certified, at each level, exploration rate and cap?

    Without LOG from a guess: the gain that is hoped for, in the reward's units, and how much rewards vary. With the LOG of a
    pilot, from what it shows; by default only the side that 'aegis learn' would learn from is read, so that the rest can still
    be certified. With --whole, or a --policy that was not learned from this side, the plan is written into the ledger as a result
    on LOG. A plan is a forecast made by simulation, not a certificate.

    \b
    Examples:
      aegis plan --problem problem.yaml --gain 0.02 --spread 0.1
      aegis plan pilot.parquet --problem problem.yaml --level dose --within 500 --plot plan.svg
    """
    from aegis.logs import Source
    from aegis.problem import load_problem
    from aegis.report import draw_plan
    from aegis.validation import plan

    options.check_svg_path(plot)
    stated = load_problem(problem)
    source, candidate, split = None, None, None
    if log:
        source = Source(log, stated)
        candidate, split = _read_pilot(source, policy, levels, whole, ledger)
    elif policy is not None or whole:
        raise SettingError(
            f"{'--policy' if policy is not None else '--whole'} needs the LOG of a pilot; give one, or leave it out"
        )
    rates, limits = (options.parse_numbers(*item, "0.1,0.5") for item in (("--explore", explore), ("--caps", caps)))
    total = len(levels or stated.names) * len(limits) * (len(rates) + 1)
    with progress("planning", as_json) as report:
        planned = plan(
            stated,
            source,
            levels=levels or None,
            explore=rates,
            caps=limits,
            policy=candidate,
            split=split,
            **assumed,
            report=lambda done, _: None if done > total else report(done, total, ""),
        )
    if plot is not None:
        draw_plan(planned, plot)
    if as_json:
        print_json(planned.plain())
        return
    _show(planned, split is not None)
    print_paths({"picture": plot})


def _read_pilot(source: Any, policy: str | None, levels: tuple[str, ...], whole: bool, ledger: Path | None) -> tuple[Any, Any]:
    """Return the candidate, and the split whose prior side is read: the policy's own, else that of `aegis learn`; None: all.

    If certify would certify on what is read, the plan goes into the ledger as a result.
    """
    from aegis.api import load_candidate
    from aegis.certificate import PLAN, record_result
    from aegis.logs import Split

    candidate = None if policy is None else load_candidate(policy, source.problem, levels or None)
    recorded = None if candidate is None else candidate.record.get("split")
    if whole or (candidate is not None and not recorded):
        request = {"candidates": [] if policy is None else [{"name": policy, "digest": None}], "levels": list(levels)}
        record_result(source, PLAN, request, ledger)
    return candidate, None if whole else source.with_cut(Split.of(recorded) if recorded else Split())


def _show(plan: Any, prior_only: bool) -> None:
    if plan.pilot_episodes is not None:
        side = "on the side to learn from; the rest of the log was not looked at" if prior_only else "of the whole log"
        print_line(f"Pilot: {plan.pilot_episodes} episodes {side}.")
    for level in plan.levels:
        _show_level(plan, level)
    for sentence in plan.assumed:
        print_line(f"assumed: {sentence}")
    if plan.assumed:
        print_line("A plan is a forecast, not a certificate.")


def _show_level(plan: Any, level: Any) -> None:
    unit = f" {plan.unit}" if plan.unit else ""
    costly, what = ("exploring adds", "saving") if plan.goal == "minimise" else ("exploring costs", "gain")
    if level.rows:
        test = "one test" if plan.tests == 1 else f"one of {plan.tests} tests, each"
        title = f"{level.level}: {plan.unit_word} until half of all studies (nine in ten of them) have a certificate; {test}"
        print_line(f"{title} at risk {plan.delta:g}", "bold")
        console().print(_pivot(level.rows, _episodes, f"{costly}{'' if level.cost_known else ' ≤'}{unit}"))
        print_line(f"{level.level}: {what} over {level.comparator}{'; in' if unit else ''}{unit}", "bold")
        console().print(_pivot(level.rows, lambda row: f"{row.gain:.3g}"))
    for note in level.notes:
        print_line(f"note: {note}")
    for why in dict.fromkeys(row.why for row in level.rows if row.why):
        print_line(f"-: {why}")
    if level.within is not None:
        print_line(_enough(plan, level, unit), "bold")
    elif plan.wanted is not None and level.rows:
        print_line(f"No rate and cap looked at has a certificate within {plan.wanted} {plan.unit_word}.", "bold")


def _enough(plan: Any, level: Any, unit: str) -> str:
    row = level.within
    cap = "no cap" if math.isinf(row.cap) else f"cap {row.cap:g}"
    end = f"has a certificate within {plan.wanted} {plan.unit_word} in nine of ten studies (in half of them by {row.episodes})"
    if row.explore is None:
        return f"{level.level}: the exploration in the log is enough: with {cap} a candidate {end}."
    total = f"{row.total:.3g}{unit} in all over {row.likely} {plan.unit_word}"
    verb, of = ("adds", "to the mean cost") if plan.goal == "minimise" else ("costs", "of the mean reward")
    amount = f"{'' if level.cost_known else 'at most '}{row.cost:.3g}{unit}"
    price = f"Exploring {verb} {amount} {of} of each of them, {total}"
    return f"{level.level}: with an exploration rate of {row.explore:.3g} and {cap} a candidate {end}. {price}."


def _episodes(row: Any) -> str:
    if row.episodes is None:
        return "-"
    return f"{row.episodes} ({'never' if row.likely is None else row.likely})"


def _pivot(rows: Sequence[Any], cell: Callable[[Any], str], costs: str = "") -> Any:
    """Return a table with a line for each exploration rate and a column for each cap, and one of costs if they have a head."""
    rates = list(dict.fromkeys(row.explore for row in rows))
    caps = list(dict.fromkeys(row.cap for row in rows))
    at = {(row.explore, row.cap): row for row in rows}
    head = ["explore", *["no cap" if math.isinf(cap) else f"W = {cap:g}" for cap in caps]]
    if costs:
        head.append(costs)
    lines = []
    for rate in rates:
        line = ["as logged" if rate is None else f"{rate:g}", *[cell(at[rate, cap]) for cap in caps]]
        cost = at[rate, caps[0]].cost
        lines.append([*line, "-" if cost is None else f"{cost:.3g}"] if costs else line)
    return table("", head, lines)
