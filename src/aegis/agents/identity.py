"""A digest of what a run is made of, so that a folder never gives back the results of another run."""

from __future__ import annotations

import hashlib
import pickle
import uuid
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from aegis.errors import PolicyError
from aegis.files import digest_of
from aegis.policies import policy_digest
from aegis.problem import Policy, Problem, dump_problem


def identity(value: object) -> str:
    """Return a digest of a plant, a policy, a scaling or any other part of a run: equal parts have equal digests.

    Storable policies are known by what they would store, dataclasses by their fields, other objects by their pickle. An object
    that has none of these is equal to nothing, not even to itself: it gets another digest each time, so that a run with it is
    never taken for one that was made before.
    """
    return digest_of(_described(value))


def _described(value: object) -> Any:
    """Return JSON-like data that says what `value` is."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return _described(value.item())
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return [value.dtype.str, list(value.shape), hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()]
    if isinstance(value, Problem):
        return dump_problem(value)
    if isinstance(value, Mapping):
        return {"mapping": sorted(([str(key), _described(item)] for key, item in value.items()), key=lambda pair: pair[0])}
    if isinstance(value, list | tuple):
        return [_described(item) for item in value]
    if isinstance(value, Policy):
        try:
            return policy_digest(value)
        except PolicyError:
            pass  # cannot be stored: known by its fields or its pickle
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if is_dataclass(value) and not isinstance(value, type):
        return [kind, {part.name: _described(getattr(value, part.name)) for part in fields(value) if part.init}]
    return [kind, _pickled(value)]


def _pickled(value: object) -> str:
    try:
        return hashlib.sha256(pickle.dumps(value, protocol=5)).hexdigest()
    except Exception:
        return uuid.uuid4().hex
