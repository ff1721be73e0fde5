"""`aegis compare`: other estimators and bounds for the same policy on the same units.

A number that is not a certificate is never written like one.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

import click

from aegis.cli import options
from aegis.cli.output import console, print_json, print_line, print_paths, table

if TYPE_CHECKING:
    from aegis.comparison import Comparison, Estimate, LowerBound, ScopeChoice

NO_NUMBER = "-"
ROUNDING = 1e-12  # standard errors below this share of the estimate come from sums of equal numbers
HOLDS = {"anytime": "anytime", "fixed time": "at this K"}


@click.command("compare")
@click.argument("log", nargs=-1, required=True, type=options.LogPath())
@options.problem
@click.option(
    "--policy",
    "reference",
    required=True,
    metavar="POLICY",
    help="A folder that 'aegis learn' wrote, module:object, columns:COL,COL or full-columns:COL,COL,...",
)
@options.repeated_option("--scope", "LEVEL", "A level the policy acts at; repeat it for several. Default: all.")
@options.delta_option("The risk of gain and value together.")
@click.option("--clip", type=float, default=10.0, show_default=True, help="Clipped IPS cuts weights here.")
@click.option("--switch", type=float, default=10.0, show_default=True, help="SWITCH trusts its model above this weight.")
@click.option("--largest-weight", type=float, metavar="W", help="Declare the largest weight, which classic bounds need.")
@click.option(
    "--posterior",
    is_flag=True,
    help="Also learn the posterior of the published bounds, with its divergences. Numbers with B declared need --largest-weight, "
    "unless a cap or the problem file declares the weight.",
)
@click.option("--incumbent", metavar="POLICY", help="Who acts if nothing is handed over; replaces what the problem states.")
@click.option("--acting", metavar="POLICY", help="Several versions wrote the log: the policy that will act outside the scope.")
@click.option("--fresh", is_flag=True, help="A learned policy has seen no row of this log: compare on all of it.")
@options.path_option("--plot", "FILE", "Draw all methods on a line each (SVG).")
@options.table_option("number")
@options.ledger
@options.seed
@options.as_json
def command(
    log: tuple[Path | str, ...],
    problem: Path,
    reference: str,
    scope: tuple[str, ...],
    delta: float,
    incumbent: str | None,
    acting: str | None,
    fresh: bool,
    plot: Path | None,
    table_file: Path | None,
    ledger: Path | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Show estimators and bounds side by side for one policy at one scope, on the units of LOG that certify would use.

    Certificates stand apart from everything that is none: estimates, bounds that hold only in the limit, and bounds whose
    conditions are not met, each with the reason. What is chosen after seeing the numbers needs fresh data: the comparison is
    written into the ledger as a result, after which only requests that were registered before are certified.

    \b
    Examples:
      aegis compare log.parquet --problem problem.yaml --policy policy/ --scope dose --plot methods.svg
      aegis compare log.parquet --problem problem.yaml --policy policy/ --posterior --json
    """
    from aegis.api import load_candidate
    from aegis.comparison import ComparisonSettings, compare, comparison_table
    from aegis.logs import Source, check_table_path, write_table
    from aegis.problem import load_problem

    options.check_svg_path(plot)
    if table_file is not None:
        check_table_path(table_file)
    source = Source(log, load_problem(problem))
    outside = [name for name in source.problem.names if name not in scope] if scope else []
    comparison = compare(
        source,
        load_candidate(reference, source.problem, scope or None),
        scope=scope or None,
        delta=delta,
        settings=ComparisonSettings(**settings),
        incumbent=None if incumbent is None else load_candidate(incumbent, source.problem, None),
        acting=None if acting is None else load_candidate(acting, source.problem, outside),
        fresh=fresh,
        ledger=ledger,
    )
    if plot is not None:
        from aegis.report import draw_comparison

        draw_comparison(comparison, plot)
    if table_file is not None:
        write_table(comparison_table(comparison), table_file)
    if as_json:
        print_json(comparison.to_json())
        return
    print_comparison(comparison)
    print_paths({"picture": plot, "table": table_file})


def print_comparison(comparison: Comparison) -> None:
    """Print a comparison: certificates, then everything else with the reasons, then the methods without a number."""
    from aegis.comparison import POSTERIOR_CHOICE
    from aegis.problem import SCOPE_SEPARATOR

    screen, costs = console(), comparison.goal == "minimise"
    unit, value = f", in {comparison.unit}" if comparison.unit else "", "cost" if costs else "value"
    print_line(
        f"{comparison.candidate} at {SCOPE_SEPARATOR.join(comparison.scope)}, on {comparison.units} "
        f"{comparison.unit_word}{unit}. The log {'cost' if costs else 'earned'} {comparison.legacy.value:.4g}. "
        f"Gains are over {comparison.comparator}. The truth is not known."
    )
    title = f"CERTIFICATES, every number at risk {comparison.each:g}"
    columns = ["certificate", "gain ≥", f"{value} {'≤' if costs else '≥'}", "holds"]
    screen.print(table(title, columns, certificate_rows(comparison)), style="green")
    title = "NOT CERTIFICATES: estimates ± one standard error"
    screen.print(table(title, ["estimate", "gain", value, "note"], estimate_rows(comparison)))
    rows, reasons = nominal_rows(comparison)
    title = f"NOT CERTIFICATES: nominal bounds at {comparison.each:g}"
    screen.print(table(title, ["nominal", "gain", value, "why not"], rows))
    lines = [f"  {letter}: {reason}" for letter, reason in reasons.items()]
    published = scope_rows(comparison)
    if published:
        for line in lines:
            print_line(line)
        lines = []
        title = "AS PUBLISHED, NOT A CERTIFICATE: the safest scope to deploy"
        screen.print(table(title, ["scope", f"{value} of Q", "KL", "lam*", "B", "candidate, certified"], published))
        chosen = next(choice for choice in comparison.choices if choice.method == POSTERIOR_CHOICE)
        lines += [f"  {'+'.join(chosen.scope)}: {reason}" for reason in chosen.bounds[chosen.name].unmet]
    lines += [scope_choice_line(choice, costs) for choice in comparison.choices]
    for reason in dict.fromkeys(item.reason for item in comparison.missing):
        methods = "; ".join(item.method for item in comparison.missing if item.reason == reason)
        lines.append(f"no number from {methods}: {reason}")
    for line in [*lines, *comparison.notes]:
        print_line(line)


def certificate_rows(comparison: Comparison) -> list[list[str]]:
    """Return method, gain, value and when it holds; bounds are rounded to the side that promises less."""
    from aegis.certificate import format_at_least

    costs = comparison.goal == "minimise"
    return [
        [
            method,
            format_at_least(bounds["gain"].value) if "gain" in bounds else NO_NUMBER,
            format_at_least(bounds["value"].value, upper=costs) if "value" in bounds else NO_NUMBER,
            HOLDS[next(iter(bounds.values())).validity],
        ]
        for method, bounds in _bounds_by_method(comparison.certificates).items()
    ]


def estimate_rows(comparison: Comparison) -> list[list[str]]:
    """Return method, gain and value with their standard errors, and what to know about it."""
    rows = []
    for method in dict.fromkeys(item.method for item in comparison.estimates):
        gain, value = comparison.estimate(method, "gain"), comparison.estimate(method, "value")
        one = gain or value
        rows.append([method, estimate_text(gain), estimate_text(value), "" if one is None else one.note])
    return rows


def nominal_rows(comparison: Comparison) -> tuple[list[list[str]], dict[str, str]]:
    """Return method, nominal gain and value, letters of the reasons why it is no certificate; and the reasons by letter."""
    letters: dict[str, str] = {}
    rows = []
    for method, bounds in _bounds_by_method(comparison.others).items():
        reasons = dict.fromkeys(reason for bound in bounds.values() for reason in _reasons(bound))
        for reason in reasons:
            letters.setdefault(reason, ascii_lowercase[len(letters)])
        why = " ".join(letters[reason] for reason in reasons)
        rows.append([method, _nominal(bounds.get("gain")), _nominal(bounds.get("value")), why])
    return rows, {letter: reason for reason, letter in letters.items()}


def scope_rows(comparison: Comparison) -> list[list[str]]:
    """Return of each scope the published bound with a learned posterior and its parts, and the sharp bound of the candidate.

    Empty unless posteriors were learned. The chosen scope is marked; the sharp bounds share the risk among the scopes too.
    """
    from aegis.certificate import format_at_least
    from aegis.comparison import POSTERIOR_CHOICE
    from aegis.evidence import SHARP

    choices = {choice.method: choice for choice in comparison.choices}
    if POSTERIOR_CHOICE not in choices:
        return []
    chosen, sharp, costs = choices[POSTERIOR_CHOICE], choices.get(SHARP), comparison.goal == "minimise"
    rows = []
    for scope in (sharp or chosen).bounds:
        bound = chosen.bounds.get(scope)
        own = None if sharp is None else sharp.bounds.get(scope)
        certified = NO_NUMBER if own is None or not own.certificate else format_at_least(own.value, upper=costs)
        mark = " *" if scope == chosen.name else ""
        figures = [NO_NUMBER if bound is None else f"{bound.provenance[name]:.4g}" for name in ("kl", "lam", "B")]
        rows.append([f"{scope}{mark}", _nominal(bound), *figures, certified])
    return rows


def scope_choice_line(choice: ScopeChoice, costs: bool) -> str:
    """Return which scope a method would choose, and whether that is a certificate."""
    from aegis.certificate import format_at_least

    best = choice.bounds[choice.name]
    count = len(choice.bounds)
    lead = f"best of {count} scope{'s' if count > 1 else ''} by {choice.method}: {choice.name}"
    if choice.certificate:
        return f"{lead}, {'cost ≤' if costs else 'value ≥'} {format_at_least(best.value, upper=costs)} (certificate)"
    return f"{lead}, nominal ({best.value:.4g}), not a certificate"


def _bounds_by_method(bounds: Iterable[LowerBound]) -> dict[str, dict[str, LowerBound]]:
    by_method: dict[str, dict[str, LowerBound]] = {}
    for bound in bounds:
        by_method.setdefault(bound.method, {})[bound.what] = bound
    return by_method


def estimate_text(estimate: Estimate | None) -> str:
    """Return a number with its standard error, without one where a model gives all units the same value."""
    if estimate is None:
        return NO_NUMBER
    same = estimate.error <= ROUNDING * abs(estimate.value)
    return f"{estimate.value:.4g} ± {NO_NUMBER if same else f'{estimate.error:.2g}'}"


def _nominal(bound: LowerBound | None) -> str:
    """Return a number in brackets: it is no bound to rely on."""
    return NO_NUMBER if bound is None else f"({bound.value:.4g})"


def _reasons(bound: LowerBound) -> tuple[str, ...]:
    return bound.unmet or (bound.label.removeprefix("not a certificate: "),)
