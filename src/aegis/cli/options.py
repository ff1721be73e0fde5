"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
import yaml

from aegis.errors import SettingError

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
settings = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a setting of the world; repeatable."
)
seed = click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Everything random follows from it.")


def parse_settings(overrides: tuple[str, ...]) -> dict[str, Any]:
    """Return `KEY=VALUE` pairs as a mapping; values are read as YAML, so 3 is a number and [1, 2] a list."""
    found: dict[str, Any] = {}
    for pair in overrides:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise SettingError(f"--set takes KEY=VALUE, found '{pair}'")
        try:
            found[key.strip()] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise SettingError(f"--set {key}: '{value}' is not a value ({error})") from error
    return found
