"""`aegis verify`: recompute a certificate bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from aegis.cli import options
from aegis.cli.output import print_json, print_line
from aegis.errors import PolicyError, pluralise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aegis.certificate import Candidate, Verification
    from aegis.problem import Problem

BROKEN = 4
MOST_DIFFERENCES = 20  # differences on the screen


@click.command("verify")
@click.argument("certificate", type=click.Path(path_type=Path))
@click.argument("log", nargs=-1, required=True, type=options.LogPath())
@options.repeated_option(
    "--policy references",
    "POLICY",
    "Where the policies are now, in the certificate's order, also FOLDER/module:object; by default where they were when it was "
    "issued.",
)
@click.option(
    "--problem",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A problem file to compare with; the certificate holds its own.",
)
@options.as_json
def command(
    certificate: Path, log: tuple[Path | str, ...], references: tuple[str, ...], problem: Path | None, as_json: bool
) -> int:
    """Recompute CERTIFICATE from LOG and its policies; report a changed row, policy or setting.

    \b
    Exit codes: 0 everything was found again bit for bit, 4 something differs, 2 bad input. A log with the same rows in another
    order has the same numbers, which is said, but is not the file that was certified: 4.

    \b
    Example:
      aegis verify certificate.json log.parquet
      aegis verify certificate.json log.parquet --policy ../control/mine:policy
    """
    from aegis.certificate import load_certificate, stated_problem, verify
    from aegis.errors import InputError
    from aegis.logs import Source
    from aegis.problem import load_problem

    content = load_certificate(certificate)
    stated = content["candidates"]
    places = list(references) or [item["reference"] for item in stated]
    if len(places) != len(stated) or not all(places):
        names = ", ".join(item["name"] for item in stated)
        count = pluralise(len(stated), "candidates")
        raise InputError(f"{certificate}: speaks of {count} ({names}); name each with --policy, in this order")
    specified = stated_problem(content, str(certificate)) if problem is None else load_problem(problem)
    scope = content["settings"]["scopes"][0] if content["settings"]["asked"] else None
    candidates = [_candidate(reference, specified, scope, bool(references)) for reference in places]
    stated_incumbent = content["settings"].get("incumbent")
    incumbent = None if stated_incumbent is None else _candidate(stated_incumbent["reference"], specified, None, False)
    verification = verify(content, Source(log, specified), candidates, incumbent)
    if verification.holds:
        lines = [f"Verified: {certificate} was found again bit for bit.", content["summary"]["sentence"]]
    else:
        first, *rest = difference_lines(verification, certificate)
        lines = [first, *(f"  {line}" for line in rest)]
    if as_json:
        differences = [item.plain() for item in verification.differences]
        print_json({"holds": verification.holds, "differences": differences, "notes": list(verification.notes)})
    else:
        print_line(lines[0], "bold green" if verification.holds else "bold red")
        for line in [*lines[1:], *(f"note: {note}" for note in verification.notes)]:
            print_line(line)
    return 0 if verification.holds else BROKEN


def _candidate(reference: str, problem: Problem, scope: Sequence[str] | None, named: bool) -> Candidate:
    """Return a candidate of the certificate; if it is not where it was, say how to name its place."""
    from aegis.api import COLUMNS_PREFIX, load_candidate

    try:
        return load_candidate(reference, problem, scope)
    except PolicyError as error:
        if named or reference.startswith(COLUMNS_PREFIX):
            raise
        place = f"FOLDER/{reference.rpartition('/')[2]}"
        raise PolicyError(
            f"{error}. The certificate speaks of '{reference}', as seen from where it was issued: say where it is now, such as "
            f"--policy {place}; with several candidates name all of them, in the certificate's order"
        ) from error


def difference_lines(verification: Verification, certificate: Path) -> list[str]:
    """Return lines on what differs: the causes alone, and how much follows from them; results only if nothing explains them."""
    causes, results = verification.causes, verification.results
    shown = causes or results
    things = sum(not item.detail for item in shown)
    lines = [f"Not verified: {'1 thing differs' if things == 1 else f'{things} things differ'} from {certificate}."]
    lines += [str(item) for item in shown[:MOST_DIFFERENCES]]
    if len(shown) > MOST_DIFFERENCES:
        lines.append(f"and {len(shown) - MOST_DIFFERENCES} more: --json lists them")
    if not causes:
        lines.append("Log, policies, problem and settings are those of the certificate: it does not follow from them.")
    elif verification.same_numbers:
        but = ", but for the path of the bound on its way through the log" if results else ""
        lines.append(f"Every number is the same{but}.")
    else:
        number = "1 result follows" if len(results) == 1 else f"{len(results)} results follow"
        lines.append(f"{number} from {'it' if things == 1 else 'them'}: --json lists all")
    return lines
