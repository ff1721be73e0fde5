"""Options and argument types that commands share, the words that a shell completes, and the check for optional extras."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.types import StringParamType

from aegis.errors import InputError, OutputError, ProblemError, SettingError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from aegis.logs import Source


COMPLETIONS = {
    "world": ("unified", "additive", "linear", "plant", "clinic", "dosing"),
    "level world": ("unified", "additive", "linear", "plant", "clinic"),
    "data set": ("list", "coating", "heartsteps", "open-bandit", "oats", "hillstrom"),
    "method": ("auto", "water-filled", "robust", "plain"),
    "kind": ("greedy", "planned", "capped", "stepped"),
    "split": ("hash", "time"),
    "others": ("log", "incumbent"),
    "side": ("prior", "certify", "all"),
    "mode": ("live", "approve", "shadow"),
    "engine": ("local", "dask"),
    "unobserved": ("cost", "missing"),
    "skipped": ("missing", "left out"),
    "host": (
        *("greedy", "ncts", "ucb", "ids", "d-optimal", "pessimistic", "pb", "nested_cts", "aegis_cts", "aegis_handover"),
        *("icts_type2", "nested_nig", "greedy_nig", "ucb_nig", "lcb_nig", "ids_nig", "d_optimal_nig", "top_k_nig", "mix_nig"),
        "nested_poly",
    ),
}


def bench_names() -> tuple[str, ...]:
    """Return the benches that come along, by the names of their files, and `all` of them."""
    folder = Path(__file__).parents[1] / "paper" / "benches"
    return ("all", *sorted(path.stem for path in folder.glob("*.yaml")))


class CompletedWord(StringParamType):
    """A text that is often one of a few words, which shells complete; the code that uses it says what is allowed."""

    def __init__(self, words: Callable[[], tuple[str, ...]]) -> None:
        self.words = words

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the words that begin like this."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(word) for word in self.words() if word.startswith(incomplete)]


PROBLEM_ADVICE = "A log needs a problem file that says what its columns mean: `aegis init LOG --out problem.yaml` drafts one."

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


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
    """The problem file of a log; without one, the error says how to draft it."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Say what to do without one."""
        return PROBLEM_ADVICE


def path_option(declaration: str, metavar: str, text: str, file_okay: bool = True, **more: Any) -> Decorator:
    """Return an option that takes a path. declaration: its name and, after a blank, that of its parameter if they differ."""
    kind = NamedPath(path_type=Path, file_okay=file_okay)
    return click.option(*declaration.split(), type=kind, metavar=metavar, help=text, **more)


def repeated_option(declaration: str, metavar: str, text: str, **more: Any) -> Decorator:
    """Return an option that may be given several times."""
    return click.option(*declaration.split(), multiple=True, metavar=metavar, help=text, **more)


def word_option(declaration: str, family: str, text: str, metavar: str = "NAME", **more: Any) -> Decorator:
    """Return an option that takes a word of a family of COMPLETIONS; `{words}` in its text becomes `a, b or c`."""
    return click.option(
        *declaration.split(), type=completed_word(family), metavar=metavar, help=text.format(words=list_words(family)), **more
    )


def completed_word(family: str) -> CompletedWord:
    """Return the type of an argument that takes a word of a family of COMPLETIONS."""
    return CompletedWord(lambda: COMPLETIONS[family])


def list_words(family: str) -> str:
    """Return the words of a family as `a, b or c`."""
    *others, last = COMPLETIONS[family]
    return f"{', '.join(others)} or {last}"


def delta_option(text: str) -> Decorator:
    """Return the option that takes a risk."""
    return click.option("--delta", type=float, default=0.05, show_default=True, help=text)


def table_option(row: str) -> Decorator:
    """Return the option that writes results as a table. row: what a row is about."""
    return path_option("--table table_file", "FILE", f"Write a row for each {row} (.parquet or .csv).")


def group_options(*options: Decorator) -> Decorator:
    """Return options, in this order, as one decorator."""
    return lambda function: functools.reduce(lambda inner, option: option(inner), reversed(options), function)


as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
settings = repeated_option("--set overrides", "KEY=VALUE", "Override a setting of the world; repeatable.")
problem = click.option(
    "--problem", required=True, type=ProblemPath(), metavar="FILE", help="The problem file, such as problem.yaml."
)
optional_problem = click.option(
    "--problem", type=click.Path(path_type=Path), metavar="FILE", help="The problem file, such as problem.yaml."
)
engine = word_option("--engine", "engine", "Where it runs: local, dask or dask://host:port.", default="local", show_default=True)
workers = click.option(
    "--workers", type=click.IntRange(min=1), metavar="N", help="Processes that read a long log.  [default: one for each core]"
)
seed = click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Everything random follows from it.")
ledger = path_option("--ledger", "FOLDER", "Where looks are written down.")
plant = group_options(
    click.option("--preset", metavar="NAME", help="Parameters of the world that go together, as in 'aegis simulate'."),
    click.option("--plant", metavar="MODULE:OBJECT", help="A plant of your own, in the place of a world; needs --legacy."),
)
GATE_KEYS = ("delta", "first", "caps", "patience", "floor", "mode")  # settings of a gate that have an option of their own
gate_limits = group_options(
    click.option("--delta", type=float, help="Probability of any wrong handover, over the life of the gate.  [default: 0.05]"),
    click.option("--first", type=int, help="Episodes before challengers are frozen for the first time."),
    click.option("--caps", metavar="W,W", help="How far challengers may differ from the legacy, such as 1.5,2,3 or 2,inf."),
    click.option("--patience", type=float, help="How long to wait for a larger cap: 1.5 is half as long again."),
    click.option("--floor", type=float, help="Share of decisions that a deployed policy leaves to the legacy."),
)
gate_settings = repeated_option("--gate-set", "KEY=VALUE", "Any setting of the gate (docs/handover.md); repeatable.")


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
        target = path.resolve()
        if target in taken:
            raise OutputError(f"{option} and {taken[target]} both name {path}: name two files")
        taken[target] = option
        if target in places or (target.is_file() and any(place.is_dir() and place in target.parents for place in places)):
            raise OutputError(f"{option} {path} would overwrite an input of this very command: name a new file")


def refuse_overwriting(places: Mapping[str, Path], inputs: Iterable[Path | str], force: bool) -> None:
    """Raise OutputError if something would be overwritten: an input never is, other files only with --force.

    places: by option.
    """
    spare_inputs(places, inputs)
    there = [place for place in places.values() if place.exists()]
    if there and not force:
        raise OutputError(f"{there[0]} exists; add --force to overwrite it, or name another place")


def parse_settings(overrides: tuple[str, ...], option: str = "--set") -> dict[str, Any]:
    """Return `KEY=VALUE` pairs as a mapping; values are read as in a problem file: 3 and 1e-3 are numbers.

    option: by which they were given.
    """
    from aegis.problem import read_yaml

    values: dict[str, Any] = {}
    for pair in overrides:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise SettingError(f"{option} takes KEY=VALUE, found '{pair}'")
        if key.strip() in values:
            raise SettingError(f"{option}: '{key.strip()}' is given twice")
        try:
            values[key.strip()] = read_yaml(value, f"{option} {pair}")
        except ProblemError as error:
            raise SettingError(str(error)) from error
    return values


def parse_numbers(option: str, text: str, example: str) -> tuple[float, ...]:
    """Return numbers written with commas between them; SettingError with an example if they are not."""
    try:
        return tuple(float(word) for word in text.split(","))
    except ValueError as error:
        raise SettingError(f"{option} takes numbers with commas between them, such as {example}; found '{text}'") from error


def parse_caps(text: str) -> tuple[float, ...]:
    """Return caps written as `1.5,2,3`; inf is no cap at all."""
    return parse_numbers("--caps", text, "1.5,2,3 or 2,inf")


def check_svg_path(plot: Path | None) -> None:
    """Raise OutputError if a picture that is written as SVG would have another ending."""
    if plot is not None and plot.suffix.lower() != ".svg":
        raise OutputError(f"--plot {plot}: the picture is written as SVG; let its name end in .svg")


EXTRAS = {  # extra -> the packages without which it cannot be used
    "service": ("fastapi", "uvicorn", "sqlalchemy", "alembic", "prometheus_client"),
    "mlflow": ("mlflow",),
    "report": ("matplotlib",),
}


def require_extra(extra: str, user: str) -> None:
    """Raise InputError if packages of an extra are not installed. user: what needs them."""
    missing = [name for name in EXTRAS[extra] if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"{user} needs {', '.join(missing)}: pip install 'aegis-handover[{extra}]'")
