"""Plants and legacies as a user names them: a world with its settings, or `module:object` in the user's own Python."""

from __future__ import annotations

from typing import Any

from aegis.cli.candidates import load_candidate
from aegis.cli.references import load_object
from aegis.errors import SettingError
from aegis.problem import Plant, Policy
from aegis.worlds import World
from aegis.worlds.legacies import parse_spec

NEEDS = "a plant has a 'problem' and a method 'episodes(first, count, policy, seed)' that returns a Batch"


def load_plant(reference: str) -> Plant:
    """Return the plant called `module:object`: an object, or a class or function that gives one when called without arguments."""
    found = load_object(reference, "a plant of your own", "greenhouse:plant", SettingError)
    return _plant(found, reference)


def load_legacy(reference: str, plant: Plant) -> Policy:
    """Return the legacy that a reference names: one that the world offers, else the user's `module:object`."""
    if isinstance(plant, World):
        name, _, rest = reference.partition(":")
        if name.strip() in plant.offers() or not rest or "=" in rest:
            parse_spec(reference)
            return plant.legacy(reference)
    elif ":" not in reference:
        raise SettingError(f"a plant of your own needs a legacy of your own, named 'module:object'; found '{reference}'")
    return load_candidate(reference, plant.problem).policy


def _plant(found: Any, reference: str) -> Plant:
    if callable(found) and (isinstance(found, type) or not isinstance(found, Plant)):
        try:
            found = found()
        except Exception as error:  # whatever the user's code raises
            raise SettingError(f"'{reference}' raised {type(error).__name__}: {error}; {NEEDS}") from error
    if not isinstance(found, Plant):
        raise SettingError(f"'{reference}' is a {type(found).__name__}, not a plant; {NEEDS}")
    return found
