"""`aegis dataset`: a published or simulated data set as a log with its problem file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from aegis.cli import options
from aegis.cli.output import console, print_json, print_line, print_paths, table

LIST = "list"


@click.command("dataset")
@click.argument("name", type=options.completed_word("data set"), default=LIST, metavar="[NAME]")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="FILE...")
@options.path_option("--out", "FOLDER", "Gets log.parquet, problem.yaml and perhaps policies/.")
@options.repeated_option("--set overrides", "KEY=VALUE", "Which part of the data set; see the list.")
@options.as_json
def command(name: str, files: tuple[Path, ...], out: Path | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """Read the published FILE of the data set NAME, and write a log with its problem file. Without NAME: list all of them.

    AEGIS simulates the data set coating, which needs no FILE; docs/tutorial.md goes on from it. You fetch the files of all
    others. Each of them has a page in docs/examples/.

    \b
    Examples:
      aegis dataset
      aegis dataset coating --out coating/
      aegis dataset heartsteps suggestions.csv --out heartsteps/
      aegis dataset open-bandit obp-0.4.1-py3-none-any.whl --set campaign=men --out men/
    """
    from aegis.adapters import read_dataset

    if name == LIST:
        if files or out is not None or overrides:
            raise click.UsageError("'aegis dataset list' takes no files and no options but --json")
        _list(as_json)
        return
    dataset = read_dataset(name, files, **options.parse_settings(overrides))
    if out is None:
        raise click.UsageError("name the folder that gets the log: --out FOLDER")
    options.spare_inputs({"--out": out / "log.parquet"}, files)
    written = dataset.write(out)
    if as_json:
        sizes = {"dataset": name, "rows": dataset.table.num_rows, "levels": list(dataset.problem.names)}
        paths = {what: str(place) for what, place in written.items()}
        print_json({**sizes, "notes": list(dataset.notes), "written": paths})
        return
    print_line(f"{name}: {dataset.table.num_rows:,} rows")
    console().print(table("", ["level", "action", "values"], [_level(level) for level in dataset.problem.levels]))
    for note in dataset.notes:
        print_line(f"note: {note}")
    print_paths(written)


def _list(as_json: bool) -> None:
    from aegis.adapters import DATASETS

    fields = ("what", "file", "cite", "licence", "page")
    if as_json:
        listed = [
            {
                "name": name,
                **{field: getattr(entry, field) for field in fields},
                "settings": {key: list(values) for key, values in entry.settings.items()},
            }
            for name, entry in DATASETS.items()
        ]
        print_json({"datasets": listed})
        return
    for name, entry in DATASETS.items():
        console().print(f"[bold]{escape(name)}[/bold]: {escape(entry.what)}", soft_wrap=True)
        lines = {field: getattr(entry, field) for field in fields[1:]}
        lines |= {f"--set {key}": ", ".join(values) for key, values in entry.settings.items()}
        for label, line in lines.items():
            print_line(f"  {label}: {line}")


def _level(level: Any) -> list[str]:
    values = [str(value) for value in level.actions.values]
    shown = ", ".join(values) if len(values) <= 6 else f"{', '.join(values[:3])} ... {values[-1]} ({len(values)})"
    return [escape(level.name), escape(level.actions.column), escape(shown)]
