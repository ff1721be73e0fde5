"""`aegis certify`: can we trust this policy here, and at what risk?"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import click

from aegis.cli import options
from aegis.cli.output import console, episode_progress, print_json, print_line, print_paths, table
from aegis.errors import RefusedError, pluralise


@click.command("certify")
@click.argument("log", nargs=-1, required=True, type=options.LogPath())
@options.problem
@options.repeated_option(
    "--policy references",
    "POLICY",
    "A folder that 'aegis learn' wrote, module:object, columns:COL,COL or full-columns:COL,...; repeatable.",
    required=True,
)
@options.repeated_option("--scope", "LEVEL", "A level to hand over; repeat it for several at once. Default: all scopes.")
@options.delta_option("The risk of all statements on these data together.")
@options.word_option("--method", "method", "{words}.", default="auto", show_default=True)
@click.option(
    "--incumbent",
    metavar="POLICY",
    help="Who acts if nothing is handed over, as a policy: a folder, module:object or full-columns:COL,...",
)
@options.word_option(
    *("--others", "others", "How levels outside a scope act: as in the log, or as the incumbent.", "HOW"),
    default="log",
    show_default=True,
)
@click.option("--gain-only", is_flag=True, help="Claim gains only, no values: the risk is shared by fewer claims.")
@click.option("--fresh", is_flag=True, help="A learned policy has seen no row of this log: certify on all of it.")
@options.repeated_option("--by", "CONTEXT", "Also look at groups of an outermost context; repeatable.")
@click.option("--register", "registering", is_flag=True, help="Write the request into the ledger and look at no result.")
@click.option("--fixed-before", metavar="REASON", help="Declare in writing that the request was fixed before any result.")
@options.path_option("--out", "FILE", "Write the certificate (JSON).")
@options.path_option("--report", "FILE", "Write a page to read (HTML).")
@options.table_option("scope")
@click.option("--mlflow", is_flag=True, help="Log verdict, bounds, certificate and report into the active MLflow run.")
@options.ledger
@options.engine
@options.workers
@options.as_json
def command(
    log: tuple[Path | str, ...],
    problem: Path,
    references: tuple[str, ...],
    scope: tuple[str, ...],
    incumbent: str | None,
    gain_only: bool,
    registering: bool,
    out: Path | None,
    report: Path | None,
    table_file: Path | None,
    mlflow: bool,
    engine: str,
    workers: int | None,
    as_json: bool,
    **request: Any,
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
    from aegis.logs import Source, check_table_path
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
        options.require_extra("mlflow", "--mlflow")
    request["scopes"] = [scope] if scope else None
    request["what"] = ("gain",) if gain_only else ("gain", "value")
    request["incumbent"] = None if incumbent is None else load_candidate(incumbent, source.problem, None)
    if registering:
        registration = register(source, candidates, **request)
        if as_json:
            print_json(registration.to_json())
        else:
            print_registration(registration)
        return 0 if registration.share is not None else RefusedError.exit_code
    with episode_progress(as_json) as progress:
        report_episodes = None if progress is None else functools.partial(progress, "certifying")
        certificate = certify(source, candidates, **request, report=report_episodes, engine=engine, workers=workers)
    options.note_local_read(source, engine)
    _write_files(certificate, out, report, table_file)
    if mlflow:
        from aegis.adapters import log_certificate

        log_certificate(certificate, report)
    if as_json:
        print_json(certificate.to_json())
    else:
        print_certificate(certificate)
        print_paths({"certificate": out, "report": report, "table": table_file})
    return certificate.exit_code


def _write_files(certificate: Any, out: Path | None, report: Path | None, table_file: Path | None) -> None:
    if out is not None:
        certificate.save(out)
    if report is not None:
        from aegis.report import write_report

        write_report(certificate, report)
    if table_file is not None:
        from aegis.logs import write_table

        write_table(certificate.table(), table_file)


def print_registration(registration: Any) -> None:
    """Print what was registered, how many requests there are on these data, and what each one's share of the risk is."""
    declared, share = registration.declared, registration.share
    names = ", ".join(str(item["name"]) for item in declared["candidates"])
    scopes = "; ".join(" + ".join(scope) for scope in declared["scopes"])
    word = "Already registered" if registration.already else "Registered"
    if share is None:
        word += ", but it cannot be tested"
        test = f"{registration.reason[:1].upper()}{registration.reason[1:]}."
        todo = "Certifying it is refused (risk-spent)."
    else:
        shared = f", its share of {share.total:.4g} for {share.words}" if share.requests > 1 else ""
        test = f"{'This one' if shared else 'It'} is tested at {share.risk:.4g}{shared}."
        todo = "The same command without --register certifies."
    print_line(
        f"{word}: {names} at {scopes} ({', '.join(declared['what'])}, method {declared['method']}), risk {declared['delta']:g}."
    )
    if registration.fixed_before:
        print_line(f'Declared in writing, and not checked: fixed before any result ("{registration.fixed_before}").')
    print_line(f"{pluralise(registration.requests, 'requests')} on these data. {test}")
    print_line(f"No result was looked at. {todo} Ledger: {registration.ledger}")


def print_certificate(certificate: Any) -> None:
    """Print a certificate: the verdict first, then the results, what prevents more, the findings, and what to do."""
    verdict, levels = certificate.verdict, certificate.levels
    colour = {"certified": "bold green", "not yet": "bold yellow", "refused": "bold red"}[verdict.verdict]
    print_line(verdict.sentence, colour)
    print_line(f"What to do: {verdict.next_step}")
    unit = f", in {verdict.unit}" if verdict.unit else ""
    compared = list(dict.fromkeys(level.comparator for level in levels if level.comparator))
    who = compared[0] if len(compared) == 1 else "its comparator (named below)" if compared else "the comparator"
    title = (
        f"Gain over {who} on {pluralise(verdict.units, verdict.unit_word)}{unit}; all bounds at once at risk {verdict.delta:g}"
    )
    costs = certificate.problem["reward"].get("goal") == "minimise"
    columns = ["scope", "verdict", "gain ≥", "estimate", "cost ≤" if costs else "value ≥", "log", "further"]
    console().print(table(title, columns, [_row(certificate, level, costs) for level in levels]))
    for level in levels:
        for guard in level.guards:
            lower = "-" if guard.change_lower is None else f"{guard.change_lower:.4g}"
            text = f"changes by at least {lower} (allowed: {-guard.max_worsening:.4g}; above 0 is better)"
            print_line(f"  guard '{guard.column}' at {' + '.join(level.scope)}: {guard.verdict}, {text}")
    for level in levels:
        if level.sensitivity.gamma is not None:
            print_line(f"  {_scope_words(certificate, level)}: {_sensitivity_words(level.sensitivity)}")
    for item in certificate.diagnostics.get("unsmoothed", ()):
        print_line(f"  {_unsmoothed_words(item)}")
    for comparator in compared if len(compared) > 1 else ():
        places = [" + ".join(level.scope) for level in levels if level.comparator == comparator]
        print_line(f"  compared with {comparator}: {'; '.join(dict.fromkeys(places))}")
    if any(level.verdict == "not yet" for level in levels):
        print_line(certificate.blocking)
    for finding in certificate.findings:
        if finding["severity"] != "note":
            repeated = finding["fix"].lower() in verdict.next_step.lower()
            text = finding["message"] if repeated else f"{finding['message']}; {finding['fix']}"
            print_line(f"{finding['severity']} [{finding['code']}]: {text}")


def _row(certificate: Any, level: Any, costs: bool) -> list[str]:
    from aegis.certificate import MANY_UNITS

    further = level.further_units
    return [
        _scope_words(certificate, level),
        level.verdict,
        _bound(level.gain_lower),
        "-" if level.estimate is None else f"{level.estimate:.4g}",
        _bound(level.value_lower, upper=costs),
        "-" if level.legacy_value is None else f"{level.legacy_value:.4g}",
        "-" if further is None else ">10 million" if further > MANY_UNITS else str(further),
    ]


def _bound(value: float | None, upper: bool = False) -> str:
    """Return a bound, rounded to the side that promises less."""
    from aegis.certificate import format_at_least

    return "-" if value is None else format_at_least(value, upper=upper)


def _scope_words(certificate: Any, level: Any) -> str:
    """Return the scope of a result, with its candidate where there are several."""
    several = len({item.candidate for item in certificate.levels}) > 1
    scope = " + ".join(level.scope)
    return f"{level.candidate}: {scope}" if several else scope


def _sensitivity_words(sensitivity: Any) -> str:
    """Return in words how wrong the logged probabilities may be."""
    if sensitivity.gamma == 1:
        factor = sensitivity.tried[0]
        return f"relies on exact propensities (not certified any more if each may be wrong by a factor of {factor:g})"
    return f"stays certified even if every propensity there is wrong by a factor of up to {sensitivity.gamma:g}"


def _unsmoothed_words(item: Any) -> str:
    """Return in words what holds of exact actions where they are an interval."""
    return (
        f"{' + '.join(item['scope'])}: acting exactly at the chosen number, not in a window around it, gains at least "
        f"{_bound(item['gain_lower'])}, if the declared 'lipschitz' holds ({item['slack']:.4g} less)"
    )
