"""`aegis init`: a commented problem file drafted from the columns of a log."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aegis.cli import options
from aegis.cli.output import console, print_json, print_line, table

if TYPE_CHECKING:
    from aegis.logs import Draft
    from aegis.problem import Level

INCOMPLETE = 2  # the exit code of a draft that a problem file cannot be made of yet


@click.command("init")
@click.argument("log", nargs=-1, required=True, type=options.LogPath())
@options.path_option("--out", "FILE", "Gets the draft. Default: print it.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@click.option(
    "--rows", type=click.IntRange(min=1), default=200_000, show_default=True, help="How many rows, from the first on, to look at."
)
@options.repeated_option("--action actions", "COLUMN", "A column that is an action; repeatable. Default: guess by names.")
@options.repeated_option(
    "--propensity propensities",
    "COLUMN",
    "The column with the probability (or density) of the action taken; with several actions ACTION=COLUMN, repeatable.",
)
@options.as_json
@click.pass_context
def command(
    context: click.Context,
    log: tuple[Path | str, ...],
    out: Path | None,
    force: bool,
    rows: int,
    actions: tuple[str, ...],
    propensities: tuple[str, ...],
    as_json: bool,
) -> None:
    """Draft a problem file from the columns of LOG: what is decided, in which order, with which probabilities, for which reward.

    Every line is a guess from names and values, with its reason; lines marked CHECK are for you to decide. Nothing is certified
    from a draft: read it, correct it, keep it with the log.

    \b
    Examples:
      aegis init log.parquet --out problem.yaml
      aegis init logs/*.csv > problem.yaml
      aegis init log.csv --action program --action spray --out problem.yaml
      aegis init log.csv --action spray --propensity spray=chance --out problem.yaml
    """
    from aegis.files import write_text
    from aegis.logs import draft_problem, normalise_inputs, resolve_parts
    from aegis.problem import dump_problem

    if out is not None:
        parts = [part.path for part in resolve_parts(normalise_inputs(log)) if part.path is not None]
        options.refuse_overwriting({"--out": out}, parts, force)
    draft = draft_problem(log, rows, actions, propensities)
    # An incomplete draft is not written: it is drafted again once its questions are answered, and that should not need --force.
    target = None if draft.problem is None else out
    if target is not None:
        write_text(target, draft.text)
    if as_json:
        problem = None if draft.problem is None else dump_problem(draft.problem)
        fields = {"text": draft.text, "problem": problem, "notes": draft.notes, "questions": draft.questions}
        print_json({"out": None if target is None else str(target), **fields, "unused": dict(draft.unused)})
    elif out is None:
        sys.stdout.write(draft.text)
    else:
        _show(draft, target)
    if draft.problem is None:
        unwritten = "" if out is None else f"; {out} was not written"
        missing = _missing(draft, shown=out is not None and not as_json)
        click.echo(f"aegis: the draft is not complete{unwritten}: {missing}", err=True)
        context.exit(INCOMPLETE)


def _missing(draft: Draft, shown: bool) -> str:
    """Return what is missing from a draft; shown: its questions have been printed, and need not be printed again."""
    wanted = {n: text for n, text in enumerate(draft.questions, 1) if text.startswith("Which column is the ")}
    if shown and wanted:
        return f"answer question {' and '.join(map(str, wanted))}, and draft again"
    return " ".join(wanted.values()) or "see its questions"


def _show(draft: Draft, out: Path | None) -> None:
    if draft.problem is not None:
        title, heads = "Drafted levels, outermost first", ["level", "action", "probabilities", "context"]
        console().print(table(title, heads, [_row(level) for level in draft.problem.levels]))
        reward = draft.problem.reward
        wanted = "the less the better" if reward.goal == "minimise" else "the more the better"
        print_line(f"episode: {', '.join(draft.problem.episode)}; reward: {reward.column}, per {reward.per}, {wanted}")
    for name, why in draft.unused:
        print_line(f"not used: '{name}': {why}")
    print_line("To be decided by you:")
    for number, question in enumerate(draft.questions, 1):
        print_line(f"{number:2d}. {question}")
    if out is not None:
        print_line(f"draft: {out}")


def _row(level: Level) -> list[str]:
    from rich.markup import escape  # a column may be called [bold]

    actions, logged = level.actions, level.propensity
    size = "from {:g} to {:g}".format(*actions.limits) if actions.continuous else f"{actions.count} values"
    context = ", ".join(variable.name for variable in level.context) or "none"
    chances = "not found" if logged is None else "a density" if logged.density else "of the action taken"
    if logged is not None and logged.full:
        chances = "of all actions"
    return [escape(text) for text in (level.name, f"{actions.column} ({size})", chances, context)]
