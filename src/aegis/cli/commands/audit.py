"""`aegis audit`: is this log fit to certify from?"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import click

from aegis.cli import options
from aegis.cli.output import console, episode_progress, print_json, print_line

REFUSED = 4


@click.command("audit")
@click.argument("log", nargs=-1, type=options.LogPath())
@options.optional_problem
@click.option(
    "--policy",
    metavar="POLICY",
    help="A candidate: a folder, columns:COL,COL, full-columns:COL,... or module:object. Adds its overlap.",
)
@options.repeated_option("--scope", "LEVEL", "Levels to certify; repeatable. Default: the policy's, or all.")
@click.option("--alpha", type=float, default=0.001, show_default=True, help="Chance that a test refuses a log that is in order.")
@click.option("--explain", "code", metavar="CODE", help="Say what a code means and what to do, and look at no log.")
@options.engine
@options.workers
@options.as_json
def command(
    log: tuple[Path | str, ...],
    problem: Path | None,
    policy: str | None,
    scope: tuple[str, ...],
    alpha: float,
    code: str | None,
    engine: str,
    workers: int | None,
    as_json: bool,
) -> None:
    """Check whether LOG is fit to certify from: propensities, carry-over, sizes, rewards, drift, and a candidate's overlap.

    Exit codes: 0 fit (with or without warnings), 4 refused, 2 bad input. The audit is necessary, not sufficient: hidden
    confounding passes.

    \b
    Examples:
      aegis audit log.parquet --problem problem.yaml
      aegis audit log.parquet --problem problem.yaml --policy policy/ --scope dose
      aegis audit --explain carry-over
    """
    if code is not None:
        _explain(code, as_json)
        return
    if not log or problem is None:
        lacking = f". {options.PROBLEM_ADVICE}" if log else ""
        raise click.UsageError(f"name a LOG and its --problem, or a code with --explain{lacking}")
    from aegis.api import load_candidate
    from aegis.audit import audit_log
    from aegis.logs import Source
    from aegis.problem import load_problem

    loaded = load_problem(problem)
    candidate = None if policy is None else load_candidate(policy, loaded, scope or None)
    recorded = None if candidate is None else candidate.record.get("scope")
    source = Source(log, loaded)
    with episode_progress(as_json) as progress:
        audited = audit_log(
            source,
            None if candidate is None else candidate.policy,
            loaded.scope(scope or recorded),
            () if candidate is None else candidate.columns,
            alpha=alpha,
            report=None if progress is None else functools.partial(progress, "audit"),
            engine=engine,
            workers=workers,
            learned=candidate is not None and bool(candidate.record),
        )
    options.note_local_read(source, engine)
    if as_json:
        print_json(audited.plain())
    else:
        _show(audited)
    if audited.verdict == "refused":
        click.get_current_context().exit(REFUSED)


def _explain(code: str, as_json: bool) -> None:
    from aegis.audit import CODES
    from aegis.errors import check_choice

    check_choice(code, CODES, "code")
    if as_json:
        print_json({"code": code, "meaning": CODES[code].meaning, "fix": CODES[code].fix})
        return
    console().print(f"{code}: {CODES[code].meaning}\nWhat to do: {CODES[code].fix}.", markup=False)


def _show(audited: Any) -> None:
    from rich.markup import escape
    from rich.table import Table

    from aegis.audit import CAVEAT
    from aegis.errors import pluralise

    screen, figures = console(), audited.figures
    episodes, decisions = (pluralise(figures[name], name) for name in ("episodes", "decisions"))
    size = f"{episodes}, {decisions}, levels {figures['scope']}"
    screen.print(f"[bold]{audited.verdict}[/bold]: {escape(size)}", soft_wrap=True)
    if audited.findings:
        findings = Table(show_lines=True)
        findings.add_column("finding", overflow="fold")
        findings.add_column("what was found, and what to do", overflow="fold")
        for item in audited.findings:
            message = item.message if item.message.endswith(("?", ".")) else f"{item.message}."
            findings.add_row(f"{item.severity}\n{item.code}", f"{escape(message)}\n[bold]To do:[/bold] {escape(item.fix)}.")
        screen.print(findings)
    if "weights_effective_share" in figures:
        print_line(
            f"Candidate: effective share of the units {figures['weights_effective_share']:.1%}, mean weight "
            f"{figures['weights_mean']:.3f}, largest {figures['weights_largest']:.3g}, heaviest 1 % carry "
            f"{figures['weights_heaviest_hundredth']:.0%}."
        )
    print_line(CAVEAT)
