"""Frozen dataclasses as plain data and arrays, and back: how models and planned policies are stored without pickle.

Only classes in a table can be stored, under their class names, so a file cannot build anything else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np

from aegis.errors import PolicyError, did_you_mean
from aegis.mechanisms.belief import Belief, Theta
from aegis.mechanisms.cell_tables import Cells, CellsDraw, CellStates
from aegis.mechanisms.encoding import Encoder, Scaling
from aegis.mechanisms.features import Linear, Polynomial
from aegis.mechanisms.fourier import Fourier
from aegis.mechanisms.regression import NIG, Draw, Regression, RegressionDraw
from aegis.problem import Actions, AnyArray, Problem, Scope, Storable, Variable

Classes = Mapping[str, type]

MECHANISM_CLASSES: dict[str, type] = {
    item.__name__: item
    for item in (
        Actions, Belief, Cells, CellsDraw, CellStates, Draw, Encoder, Fourier, Linear, NIG, Polynomial, Regression,
        RegressionDraw, Scaling, Theta, Variable,
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Packed:
    """A value taken apart: `tree` is plain data that refers to arrays and to members (policies and the like) by name."""

    tree: Any
    arrays: dict[str, AnyArray] = field(default_factory=dict)
    members: dict[str, Storable] = field(default_factory=dict)


def pack_value(value: object, classes: Classes) -> Packed:
    """Take a value apart; raises PolicyError for a class that is not in the table.

    Every field of a dataclass is kept, also those it computes for itself. The problem is not kept: `unpack_value` receives it.
    """
    packed = Packed(None)
    return Packed(_pack(value, "", classes, packed), packed.arrays, packed.members)


def unpack_value(packed: Packed, classes: Classes, problem: Problem) -> Any:
    """Put a value together again; raises PolicyError if the tree does not fit the classes."""
    try:
        return _unpack(packed.tree, classes, packed, problem)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise PolicyError(
            f"a stored model cannot be put together ({error}); was it written by another version of AEGIS?"
        ) from error


def _pack(value: object, path: str, classes: Classes, packed: Packed) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | np.generic):
        return _number(value)
    if isinstance(value, np.ndarray):
        packed.arrays[path] = value
        return {"array": path}
    if isinstance(value, Problem):
        return {"problem": True}
    if isinstance(value, Scope):
        return {"scope": sorted(value)}
    if isinstance(value, tuple | list):
        return {"tuple": [_pack(item, f"{path}.{place}", classes, packed) for place, item in enumerate(value)]}
    if isinstance(value, Mapping):
        return {"map": {str(key): _pack(item, f"{path}.{key}", classes, packed) for key, item in value.items()}}
    name = type(value).__name__
    if classes.get(name) is type(value) and is_dataclass(value):
        parts = {part.name: _pack(getattr(value, part.name), f"{path}.{part.name}", classes, packed) for part in fields(value)}
        return {"class": name, "fields": parts}
    if isinstance(value, Storable):
        packed.members[path.lstrip(".")] = value
        return {"member": path.lstrip(".")}
    raise PolicyError(
        f"a {name} cannot be stored{did_you_mean(name, classes)}; known: {', '.join(classes)}, and what has 'state'"
    )


def _unpack(tree: Any, classes: Classes, packed: Packed, problem: Problem) -> Any:
    if not isinstance(tree, dict):
        return tree
    (kind, content), *rest = tree.items()
    if kind == "array":
        return packed.arrays[content]
    if kind == "member":
        return packed.members[content]
    if kind == "problem":
        return problem
    if kind == "scope":
        return Scope(content)
    if kind == "float":
        return float(content)
    if kind == "tuple":
        return tuple(_unpack(item, classes, packed, problem) for item in content)
    if kind == "map":
        return {key: _unpack(item, classes, packed, problem) for key, item in content.items()}
    if kind != "class" or content not in classes:
        raise PolicyError(f"a stored model holds an unknown '{content}'; known: {', '.join(classes)}; update AEGIS")
    return _build(classes[content], {name: _unpack(item, classes, packed, problem) for name, item in rest[0][1].items()})


def _build(kind: type, values: dict[str, Any]) -> Any:
    """Build through the constructor, so that everything is checked; fields it computes get the values that were stored."""
    known = {part.name: part for part in fields(kind)}
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise PolicyError(f"a stored {kind.__name__} has {', '.join(unknown)}, which this version does not know; update AEGIS")
    built = kind(**{name: value for name, value in values.items() if known[name].init})
    for name, value in values.items():
        if not known[name].init:
            object.__setattr__(built, name, value)
    return built


def _number(value: float | np.generic) -> Any:
    plain = value.item() if isinstance(value, np.generic) else value
    return {"float": str(plain)} if isinstance(plain, float) and not math.isfinite(plain) else plain
