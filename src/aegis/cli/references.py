"""A user's own Python by name: `module:object`, in the current folder or in another one, `folder/module:object`."""

from __future__ import annotations

import functools
import importlib
import sys
from pathlib import Path
from typing import Any

from aegis.errors import AegisError

FORM = "module:object"


def importable(reference: str) -> str:
    """Return `module:object` for a reference whose module may stand with its folder, having made that folder importable.

    `../control/mine:policy` and `../control/mine.py:policy` are `mine:policy` in the folder ../control. Without a folder modules
    in the current one are found: an installed command does not look there by itself.
    """
    module, colon, path = reference.rpartition(":")
    place = Path(module)
    inside = place.parent != Path()
    folder = str(place.parent.resolve() if inside else Path.cwd())
    if inside and folder in sys.path:
        sys.path.remove(folder)  # the folder that was named comes before others that have a module of the same name
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = place.name if inside or place.suffix == ".py" else module
    return f"{name.removesuffix('.py')}{colon}{path}"


def load_object(reference: str, what: str, example: str, wrong: type[AegisError]) -> Any:
    """Return the object that a reference names; raise `wrong` if there is none. what, example: for the messages."""
    module, _, path = importable(reference).partition(":")
    if not (module and path):
        raise wrong(f"{what} is named '{FORM}', for example '{example}'; found '{reference}'")
    try:
        found = importlib.import_module(module)
    except Exception as error:  # whatever the user's module raises while it is imported
        raise wrong(f"cannot import the module '{module}' of '{reference}': {type(error).__name__}: {error}") from error
    try:
        return functools.reduce(getattr, path.split("."), found)
    except AttributeError as error:
        raise wrong(f"the module '{module}' has no '{path}'; check the name after the colon in '{reference}'") from error
