"""`aegis certify`: can we trust this policy here, and at what risk?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from aegis.cli import options
from aegis.cli.options import CompletedWord
from aegis.cli.output import console, print_json, table
from aegis.errors import RefusedError, pluralise


@click.command("certify")
@click.argument("log", nargs=-1, required=True, type=options.LogPath())
@options.problem
@click.option(
    "--policy",
    "references",
    multiple=True,
    required=True,
    metavar="POLICY",
    help="A folder that 'aegis learn' wrote, module:object, columns:COL,COL or full-columns:COL,...; repeatable.",
)
@click.option(
    "--scope", multiple=True, metavar="LEVEL", help="A level to hand over; repeat it for several at once. Default: all scopes."
)
@click.option("--delta", type=float, default=0.05, show_default=True, help="The risk of all statements on these data together.")
@click.option(
    "--method",
    type=CompletedWord("method"),
    default="auto",
    show_default=True,
    metavar="NAME",
    help="auto, water-filled, robust or plain.",
)
@click.option(
    "--incumbent",
    metavar="POLICY",
    help="Who acts if nothing is handed over, as a policy: a folder, module:object or full-columns:COL,...",
)
@click.option(
    "--others",
    type=CompletedWord("others"),
    default="log",
    show_default=True,
    metavar="HOW",
    help="How levels outside a scope act: as in the log, or as the incumbent.",
)
@click.option("--gain-only", is_flag=True, help="Claim gains only, no values: the risk is shared by fewer claims.")
@click.option("--fresh", is_flag=True, help="A learned policy has seen none of this log: certify on all of it.")
@click.option("--by", multiple=True, metavar="CONTEXT", help="Also look at groups of an outermost context; repeatable.")
@click.option("--register", "registering", is_flag=True, help="Write the request into the ledger and look at no result.")
@click.option("--fixed-before", metavar="REASON", help="Declare in writing that the request was fixed before any result.")
@click.option("--out", type=options.NamedPath(path_type=Path), metavar="FILE", help="Write the certificate (JSON).")
@click.option("--report", type=options.NamedPath(path_type=Path), metavar="FILE", help="Write a page to read (HTML).")
@options.table_option("scope")
@click.option("--mlflow", is_flag=True, help="Log verdict, bounds, certificate and report into the active MLflow run.")
@click.option("--ledger", type=options.NamedPath(path_type=Path), metavar="FOLDER", help="Where looks are written down.")
@options.engine
@options.workers
@options.as_json
def command(
    log: tuple[Path | str, ...],
    problem: Path,
    references: tuple[str, ...],
    scope: tuple[str, ...],
    delta: float,
    method: str,
    incumbent: str | None,
    others: str,
    gain_only: bool,
    fresh: bool,
    by: tuple[str, ...],
    registering: bool,
    fixed_before: str | None,
    out: Path | None,
    report: Path | None,
    table_file: Path | None,
    mlflow: bool,
    ledger: Path | None,
    engine: str,
    workers: int | None,
    as_json: bool,
) -> int:
    """Certify from LOG alone how much better a policy is than the incumbent, at each level and scope.

    The incumbent acts if nothing is handed over: state it in the problem file, or with --incumbent. Where it is not stated, gains
    are over the policy that wrote the log, exploration included, and the verdict says so.

    The verdict is certified, not yet (how many further episodes it would take) or refused (what is wrong and how to mend it).
    Every look is written down in a ledger. A request that comes after a result on the same data is refused, unless it was
    registered before the first one (--register) or you declare in writing that it was fixed before (--fixed-before).

    \b
    Exit codes: 0 certified or registered, 3 not yet, 4 refused or registered without any risk left, 2 bad input.

    \b
    Examples:
      aegis certify log.parquet --problem problem.yaml --policy policy/
      aegis certify log.parquet --problem problem.yaml --policy policy/ --register
      aegis certify log.csv --problem problem.yaml --policy columns:p_new --scope dose --report out.html
      aegis certify s3://bucket/logs/ --problem problem.yaml --policy policy/ --engine dask://10.0.0.7:8786
    """
    from aegis.api import candidate_files, load_candidate
    from aegis.certificate import certify, register
    from aegis.cli.options import require_mlflow
    from aegis.logs import Source, check_table_path, write_table
    from aegis.problem import load_problem

    if registering and (out or report or table_file or mlflow):
        raise click.UsageError("--register looks at no result: leave out --out, --report, --table and --mlflow")
    source = Source(log, load_problem(problem))
    candidates = [load_candidate(reference, source.problem, scope or None) for reference in references]
    inputs = [problem, *[part.path for part in source.files if part.path is not None], *candidate_files(references)]
    options.spare_inputs({"--out": out, "--report": report, "--table": table_file}, inputs)
    if table_file is not None:
        check_table_path(table_file)
    if mlflow:
        require_mlflow()
    asked: dict[str, Any] = {
        "scopes": [scope] if scope else None,
        "delta": delta,
        "method": method,
        "what": ("gain",) if gain_only else ("gain", "value"),
        "fresh": fresh,
        "by": by,
        "fixed_before": fixed_before,
        "ledger": ledger,
        "incumbent": None if incumbent is None else load_candidate(incumbent, source.problem, None),
        "others": others,
    }
    if registering:
        registration = register(source, candidates, **asked)
        if as_json:
            print_json(registration.to_json())
        else:
            print_registration(registration)
        return 0 if registration.share is not None else RefusedError.exit_code
    certificate = certify(source, candidates, **asked, report=_progress(as_json), engine=engine, workers=workers)
    options.note_local_read(source, engine)
    if out is not None:
        certificate.save(out)
    if report is not None:
        from aegis.report import write_report

        write_report(certificate, report)
    if table_file is not None:
        write_table(certificate.table(), table_file)
    if mlflow:
        from aegis.adapters import log_certificate

        log_certificate(certificate, report)
    if as_json:
        print_json(certificate.to_json())
    else:
        print_certificate(certificate)
        _paths({"certificate": out, "report": report, "table": table_file})
    return certificate.exit_code


def print_registration(registration: Any) -> None:
    """Print what was registered, how many requests there are on these data, and what each one's share of the risk is."""
    screen, declared, share = console(), registration.declared, registration.share
    names = ", ".join(str(item["name"]) for item in declared["candidates"])
    scopes = "; ".join(" + ".join(scope) for scope in declared["scopes"])
    word = "Already registered" if registration.already else "Registered"
    if share is None:
        word = f"{word}, but it cannot be tested"
    lines = [
        f"{word}: {names} at {scopes} ({', '.join(declared['what'])}, method {declared['method']}), risk {declared['delta']:g}."
    ]
    if registration.fixed_before:
        lines.append(f'Declared in writing, and not checked: fixed before any result ("{registration.fixed_before}").')
    lines.append(
        f"{pluralise(registration.requests, 'requests')} on these data. "
        + (
            f"{registration.reason[:1].upper()}{registration.reason[1:]}."
            if share is None
            else f"This one is tested at {share.risk:.4g}, its share of {share.total:.4g} for {share.words}."
            if share.requests > 1
            else f"It is tested at {share.risk:.4g}."
        )
    )
    todo = "The same command without --register certifies." if share is not None else "Certifying it is refused (risk-spent)."
    lines.append(f"No result was looked at. {todo} Ledger: {registration.ledger}")
    for line in lines:
        screen.print(line, soft_wrap=True, markup=False)


def print_certificate(certificate: Any) -> None:
    """Print a certificate: the verdict first, then the results, what stands in the way, what was found, what to do."""
    screen = console()
    verdict = certificate.verdict
    colour = {"certified": "bold green", "not yet": "bold yellow", "refused": "bold red"}[verdict.verdict]
    screen.print(verdict.sentence, style=colour, soft_wrap=True)
    screen.print(f"What to do: {verdict.next_step}", soft_wrap=True)
    unit = f", in {verdict.unit}" if verdict.unit else ""
    compared = list(dict.fromkeys(level.comparator for level in certificate.levels if level.comparator))
    who = compared[0] if len(compared) == 1 else "its comparator (named below)" if compared else "the comparator"
    title = (
        f"Gain over {who} on {pluralise(verdict.units, verdict.unit_word)}{unit}; all bounds at once at risk {verdict.delta:g}"
    )
    costs = certificate.problem["reward"].get("goal") == "minimise"
    columns = ["scope", "verdict", "gain ≥", "estimate", "cost ≤" if costs else "value ≥", "log", "further"]
    screen.print(table(title, columns, [_row(certificate, level) for level in certificate.levels]))
    for level in certificate.levels:
        for guard in level.guards:
            lower = "-" if guard.change_lower is None else f"{guard.change_lower:.4g}"
            text = f"changes by at least {lower} (allowed: {-guard.max_worsening:.4g}; above 0 is better)"
            screen.print(f"  guard '{guard.column}' at {' + '.join(level.scope)}: {guard.verdict}, {text}", soft_wrap=True)
    for level in certificate.levels:
        if level.sensitivity.gamma is not None:
            screen.print(f"  {_scope_words(certificate, level)}: {_sensitivity_words(level)}", soft_wrap=True, markup=False)
    for item in certificate.diagnostics.get("unsmoothed", ()):
        screen.print(f"  {_unsmoothed_words(item)}", soft_wrap=True, markup=False)
    for comparator in compared if len(compared) > 1 else ():
        places = [" + ".join(level.scope) for level in certificate.levels if level.comparator == comparator]
        screen.print(f"  compared with {comparator}: {'; '.join(dict.fromkeys(places))}", soft_wrap=True, markup=False)
    if any(level.verdict == "not yet" for level in certificate.levels):
        screen.print(certificate.blocking, soft_wrap=True)
    for found in certificate.findings:
        if found["severity"] != "note":
            once = found["fix"].lower() in verdict.next_step.lower()  # a remedy is printed once
            text = found["message"] if once else f"{found['message']}; {found['fix']}"
            screen.print(f"{found['severity']} [{found['code']}]: {text}", soft_wrap=True, markup=False)


def _row(certificate: Any, level: Any) -> list[str]:
    from aegis.certificate import MANY_UNITS, format_at_least

    costs = certificate.problem["reward"].get("goal") == "minimise"
    numbers = [
        "-" if level.gain_lower is None else format_at_least(level.gain_lower),
        "-" if level.estimate is None else f"{level.estimate:.4g}",
        "-" if level.value_lower is None else format_at_least(level.value_lower, upper=costs),
        "-" if level.legacy_value is None else f"{level.legacy_value:.4g}",
    ]
    further = (
        "-" if level.further_units is None else ">10 million" if level.further_units > MANY_UNITS else str(level.further_units)
    )
    return [_scope_words(certificate, level), level.verdict, *numbers, further]


def _scope_words(certificate: Any, level: Any) -> str:
    """Return the scope of a result, with its candidate where there are several."""
    several = len({item.candidate for item in certificate.levels}) > 1
    scope = " + ".join(level.scope)
    return f"{level.candidate}: {scope}" if several else scope


def _sensitivity_words(level: Any) -> str:
    """Return in words how wrong the logged probabilities may be."""
    found = level.sensitivity
    if found.gamma == 1:
        return f"relies on exact propensities (not certified any more if each may be wrong by a factor of {found.tried[0]:g})"
    return f"stays certified even if every propensity there is wrong by a factor of up to {found.gamma:g}"


def _paths(written: Mapping[str, Path | None]) -> None:
    for what, path in written.items():
        if path is not None:
            console().print(f"{what}: {path}", soft_wrap=True)


def _unsmoothed_words(item: Any) -> str:
    """Return in words what holds of exact actions where they are an interval."""
    from aegis.certificate import format_at_least

    gain = "-" if item["gain_lower"] is None else format_at_least(item["gain_lower"])
    return (
        f"{' + '.join(item['scope'])}: acting exactly at the chosen number, not in a window around it, gains at least {gain}, if "
        f"the declared 'lipschitz' holds ({item['slack']:.4g} less)"
    )


def _progress(quiet: bool) -> Callable[[int], None] | None:
    """Return what tells how far the pass over the log is, on a terminal."""
    if quiet or not sys.stderr.isatty():
        return None

    def report(episodes: int) -> None:
        sys.stderr.write(f"\rcertifying: {episodes} episodes read ")
        sys.stderr.flush()

    return report
