"""Options and argument types that commands share, the words that a shell completes, and the check for optional extras."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.types import StringParamType

from aegis.errors import InputError, OutputError, ProblemError, SettingError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from aegis.logs import Source


COMPLETIONS = {
    "world": ("unified", "additive", "linear", "plant", "clinic", "dosing"),
    "level world": ("unified", "additive", "linear", "plant", "clinic"),
    "data set": ("list", "heartsteps", "open-bandit", "oats", "hillstrom"),
    "method": ("auto", "water-filled", "robust", "plain"),
    "kind": ("greedy", "planned", "capped", "stepped"),
    "split": ("hash", "time"),
    "others": ("log", "incumbent"),
    "side": ("prior", "certify", "all"),
    "mode": ("live", "approve", "shadow"),
    "engine": ("local", "dask"),
    "unobserved": ("cost", "missing"),
    "skipped": ("missing", "left out"),
    "host": ("greedy", "ncts", "ucb", "ids", "pb"),
}


def bench_names() -> tuple[str, ...]:
    """Return the benches that come along, by the names of their files, and `all` of them."""
    folder = Path(__file__).parents[1] / "paper" / "benches"
    return ("all", *sorted(path.stem for path in folder.glob("*.yaml")))


class CompletedWord(StringParamType):
    """A text that is often one of a few, which shells complete; whoever takes it says what is allowed."""

    def __init__(self, what: str | Callable[[], tuple[str, ...]]) -> None:
        self.what = what

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the values that begin like this."""
        from click.shell_completion import CompletionItem

        found = COMPLETIONS[self.what] if isinstance(self.what, str) else self.what()
        return [CompletionItem(value) for value in found if value.startswith(incomplete)]


PROBLEM_ADVICE = "A log needs a problem file that says what its columns mean: `aegis init LOG --out problem.yaml` drafts one."

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class NamedPath(click.Path):
    """A path that must be named: an empty one, often an unset shell variable, would mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse an empty path."""
        if value == "":
            self.fail("the path is empty; use '.' for the current folder", param, ctx)
        return super().convert(value, param, ctx)


class LogPath(click.Path):
    """A log as it is named on the command line: a path, a folder, a pattern, or an address such as `s3://bucket/key`.

    Shells complete it like a path. An address stays a text: a path would make one slash of two.
    """

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a path, or the text of an address."""
        return value if isinstance(value, str) and "://" in value else super().convert(value, param, ctx)


class ProblemPath(click.Path):
    """The problem file of a log; who has none is told how to draft it."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Say what to do without one."""
        return PROBLEM_ADVICE


as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")

settings = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a setting of the world; repeatable."
)

problem = click.option(
    "--problem", required=True, type=ProblemPath(), metavar="FILE", help="The problem file, such as problem.yaml."
)

engine = click.option(
    "--engine",
    type=CompletedWord("engine"),
    default="local",
    show_default=True,
    metavar="NAME",
    help="Where it runs: local, dask or dask://host:port.",
)

workers = click.option(
    "--workers", type=click.IntRange(min=1), metavar="N", help="Processes that read a long log.  [default: one for each core]"
)

seed = click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Everything random follows from it.")


def table_option(of: str) -> Callable[[Decorated], Decorated]:
    """Return the option that writes results as a table, a row for each of what is named."""
    told = f"Write a row for each {of} (.parquet or .csv)."
    return click.option("--table", "table_file", type=NamedPath(path_type=Path), metavar="FILE", help=told)


def note_local_read(source: Source, engine: str) -> None:
    """Say so if a cluster was asked for and had nothing to do."""
    if engine != "local" and source.uncut:
        click.echo(
            f"note: one process of this machine read the log, not '{engine}': it is short, or not in pieces because the rows of "
            "an episode are scattered (sort it by episode once), or it is one file of text",
            err=True,
        )


def spare_inputs(outputs: Mapping[str, Path | None], inputs: Iterable[Path | str]) -> None:
    """Raise OutputError if an output would overwrite an input, a file inside an input folder, or another output.

    outputs: by option. inputs: files and folders; what does not exist, such as a pattern or `module:object`, is left out.
    """
    places = [Path(item).resolve() for item in inputs if Path(item).exists()]
    taken: dict[Path, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        found = path.resolve()
        if found in taken:
            raise OutputError(f"{option} and {taken[found]} both name {path}: name two files")
        taken[found] = option
        if found in places or (found.is_file() and any(place.is_dir() and place in found.parents for place in places)):
            raise OutputError(f"{option} {path} would overwrite an input of this very command: name a new file")


def parse_settings(overrides: tuple[str, ...], option: str = "--set") -> dict[str, Any]:
    """Return `KEY=VALUE` pairs as a mapping; values are read as in a problem file: 3 and 1e-3 are numbers.

    option: by which they were given.
    """
    from aegis.problem import read_yaml

    found: dict[str, Any] = {}
    for pair in overrides:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise SettingError(f"{option} takes KEY=VALUE, found '{pair}'")
        if key.strip() in found:
            raise SettingError(f"{option}: '{key.strip()}' is given twice")
        try:
            found[key.strip()] = read_yaml(value, f"{option} {pair}")
        except ProblemError as error:
            raise SettingError(str(error)) from error
    return found


MLFLOW_PACKAGES = ("mlflow",)

SERVICE_PACKAGES = ("fastapi", "uvicorn", "sqlalchemy", "alembic", "prometheus_client")


def require_service() -> None:
    """Raise InputError if the live gate cannot run because something is not installed."""
    missing = [name for name in SERVICE_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"the live gate needs {', '.join(missing)}: pip install 'aegis-handover[service]'")


def require_mlflow() -> None:
    """Raise InputError if nothing can be logged into MLflow because it is not installed."""
    missing = [name for name in MLFLOW_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"--mlflow needs {', '.join(missing)}: pip install 'aegis-handover[mlflow]'")
