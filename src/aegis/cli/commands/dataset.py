"""`aegis dataset`: a published data set as a log with its problem file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from aegis.cli import options
from aegis.cli.options import CompletedWord
from aegis.cli.output import console, print_json, table

if TYPE_CHECKING:
    from aegis.adapters import DatasetLog

LIST = "list"


@click.command("dataset")
@click.argument("name", type=CompletedWord("data set"), default=LIST, metavar="[NAME]")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="FILE...")
@click.option(
    "--out",
    type=options.NamedPath(path_type=Path),
    metavar="FOLDER",
    help="Gets log.parquet, problem.yaml and perhaps policies/.",
)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Which part of the data set; see the list.")
@options.as_json
def command(name: str, files: tuple[Path, ...], out: Path | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """Read the published FILE of the data set NAME, and write it as a log with its problem file. Without NAME: which there are.

    The data are yours to fetch: none come with this package. Each data set has a page in docs/examples/ that goes on from here.

    \b
    Examples:
      aegis dataset
      aegis dataset heartsteps suggestions.csv --out heartsteps/
      aegis dataset open-bandit obp-0.4.1-py3-none-any.whl --set campaign=men --out men/
    """
    from aegis.adapters import read_dataset

    if name == LIST:
        if files or out is not None or overrides:
            raise click.UsageError("'aegis dataset list' takes no files and no options but --json")
        _list(as_json)
        return
    found = read_dataset(name, files, **options.parse_settings(overrides))
    if out is None:
        raise click.UsageError("name the folder that gets the log: --out FOLDER")
    options.spare_inputs({"--out": out / "log.parquet"}, files)
    written = found.write(out)
    if as_json:
        print_json(_summary(name, found, written))
    else:
        _show(name, found, written)


def _list(as_json: bool) -> None:
    from aegis.adapters import DATASETS

    if as_json:
        print_json(
            {
                "datasets": [
                    {
                        "name": name,
                        **{field: getattr(entry, field) for field in ("what", "file", "cite", "licence", "page")},
                        "settings": {key: list(values) for key, values in entry.settings.items()},
                    }
                    for name, entry in DATASETS.items()
                ]
            }
        )
        return
    screen = console()
    for name, entry in DATASETS.items():
        screen.print(f"[bold]{escape(name)}[/bold]: {escape(entry.what)}", soft_wrap=True)
        lines = {"file": entry.file, "cite": entry.cite, "licence": entry.licence, "page": entry.page}
        lines |= {f"--set {key}": ", ".join(values) for key, values in entry.settings.items()}
        for label, line in lines.items():
            screen.print(f"  {label}: {line}", soft_wrap=True, markup=False)


def _summary(name: str, found: DatasetLog, written: dict[str, Path]) -> dict[str, Any]:
    return {
        "dataset": name,
        "rows": found.log.num_rows,
        "levels": list(found.problem.names),
        "notes": list(found.notes),
        "written": {what: str(place) for what, place in written.items()},
    }


def _show(name: str, found: DatasetLog, written: dict[str, Path]) -> None:
    screen = console()
    screen.print(f"{name}: {found.log.num_rows:,} rows", soft_wrap=True)
    screen.print(table("", ["level", "action", "values"], [_level(level) for level in found.problem.levels]))
    for note in found.notes:
        screen.print(f"note: {note}", soft_wrap=True, markup=False)
    for what, place in written.items():
        screen.print(f"{what}: {place}", soft_wrap=True, markup=False)


def _level(level: Any) -> list[str]:
    values = [str(value) for value in level.actions.values]
    shown = ", ".join(values) if len(values) <= 6 else f"{', '.join(values[:3])} ... {values[-1]} ({len(values)})"
    return [escape(level.name), escape(level.actions.column), escape(shown)]
