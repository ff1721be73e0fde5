"""Values that a shell completes: known here by name, because what they stand for takes long to import."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.types import StringParamType

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

LISTED = {
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
    folder = Path(__file__).parents[1] / "experiments" / "benches"
    return ("all", *sorted(path.stem for path in folder.glob("*.yaml")))


class Word(StringParamType):
    """A text that is often one of a few, which shells complete; whoever takes it says what is allowed."""

    def __init__(self, what: str | Callable[[], tuple[str, ...]]) -> None:
        self.what = what

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the values that begin like this."""
        from click.shell_completion import CompletionItem

        found = LISTED[self.what] if isinstance(self.what, str) else self.what()
        return [CompletionItem(value) for value in found if value.startswith(incomplete)]
