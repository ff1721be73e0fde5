"""`aegis verify`: recompute a certificate bit for bit."""

from __future__ import annotations

from pathlib import Path

import click

from aegis.cli import options
from aegis.cli.show import console, print_json

BROKEN = 4


@click.command("verify")
@click.argument("certificate", type=click.Path(path_type=Path))
@click.argument("log", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--policy",
    "references",
    multiple=True,
    metavar="POLICY",
    help="Where the policies are now, in the certificate's order; by default where they were when it was issued.",
)
@click.option(
    "--problem",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A problem file to compare with; the certificate holds its own.",
)
@options.as_json
def command(certificate: Path, log: tuple[Path, ...], references: tuple[str, ...], problem: Path | None, as_json: bool) -> int:
    """Recompute CERTIFICATE from LOG and its policies; report a changed row, policy or setting.

    \b
    Exit codes: 0 everything was found again bit for bit, 4 something differs, 2 bad input.

    \b
    Example:
      aegis verify certificate.json log.parquet
    """
    from aegis.certificate import load_certificate, stated_problem, verify
    from aegis.cli.candidates import load_candidate
    from aegis.errors import InputError
    from aegis.logs import Source
    from aegis.problem import load_problem

    content = load_certificate(certificate)
    stated = content["candidates"]
    places = list(references) or [item["reference"] for item in stated]
    if len(places) != len(stated) or not all(places):
        names = ", ".join(item["name"] for item in stated)
        raise InputError(f"{certificate}: speaks of {len(stated)} candidates ({names}); name each with --policy, in this order")
    specified = stated_problem(content, str(certificate)) if problem is None else load_problem(problem)
    scope = content["settings"]["scopes"][0] if content["settings"]["asked"] else None
    candidates = [load_candidate(reference, specified, scope) for reference in places]
    found = verify(content, Source(log, specified), candidates)
    if as_json:
        print_json(
            {"holds": found.holds, "differences": [item.plain() for item in found.differences], "notes": list(found.notes)}
        )
        return 0 if found.holds else BROKEN
    screen = console()
    if found.holds:
        screen.print(f"Verified: {certificate} was found again bit for bit.", style="bold green", soft_wrap=True)
        screen.print(content["summary"]["sentence"], soft_wrap=True)
    else:
        screen.print(
            f"Not verified: {len(found.differences)} things differ from {certificate}.", style="bold red", soft_wrap=True
        )
        for item in found.differences[:20]:
            screen.print(f"  {item}", soft_wrap=True, markup=False)
    for note in found.notes:
        screen.print(f"note: {note}", soft_wrap=True)
    return 0 if found.holds else BROKEN
