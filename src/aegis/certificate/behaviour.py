"""What fixes a policy that is code: the file it is in, and what it did on the certified rows.

A policy folder has a digest of all that decides what it does. A function of the user's has a name only; what the name leads to
may change from one day to the next. A digest of the file it is defined in tells most changes; a sum over the certified rows of
hashes of the probabilities it gave to the actions taken tells every change that matters there.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from aegis.errors import AegisError
from aegis.policies import Function
from aegis.problem import Batch, Policy, Storable, decision_hashes
from aegis.problem.hashing import folded, spread

SETTLED = 2.0**20  # last digits of a probability may depend on how many rows are asked for at once


def is_code(policy: object) -> bool:
    """Say whether a policy or a model, or a member of it, is code that a certificate cannot hold."""
    return any(True for _ in _code(policy))


def code_modules(policy: Policy) -> list[str]:
    """Return the modules that the code of a policy, which is not this package's, is defined in."""
    names = [str(getattr(item, "__module__", None) or type(item).__module__) for item in _code(policy)]
    return [name for name in names if name != "builtins"]


def code_digest(policy: Policy) -> str | None:
    """Return a digest of the files that the code of a policy is defined in; None if there are none."""
    files = sorted({path for item in _code(policy) for path in _file(item)})
    digests = []
    for path in files:
        with contextlib.suppress(OSError):
            digests.append(hashlib.sha256(Path(path).read_bytes()).digest())
    return hashlib.sha256(b"".join(digests)).hexdigest() if digests else None


def _code(policy: object) -> Iterator[object]:
    """Yield the functions and objects of a policy whose code is not this package's."""
    if isinstance(policy, Function):
        yield _unwrapped(policy.function)
    elif not type(policy).__module__.startswith("aegis."):
        yield policy
    if isinstance(policy, Storable):
        with contextlib.suppress(AegisError):
            for member in policy.state().members.values():
                yield from _code(member)


def _unwrapped(function: object) -> object:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _file(item: object) -> Iterator[str]:
    """Yield the source file of the module in which a function, or the class of an object, is defined."""
    name = getattr(item, "__module__", None) or type(item).__module__
    path = getattr(sys.modules.get(str(name)), "__file__", None)
    if path and str(path).endswith(".py"):
        yield str(path)


@dataclass(slots=True)
class Behaviour:
    """What a policy did on rows, by level: a sum of hashes, the same in whatever order and blocks the rows come."""

    levels: Sequence[str]
    sums: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sums = dict.fromkeys(self.levels, 0)

    def add(self, policy: Policy, batch: Batch, rows: Mapping[str | None, npt.NDArray[np.bool_]]) -> None:
        """Add the decisions of a batch; rows: by level which of them `bool[n]` count, all where a level is not named."""
        known = decision_hashes(batch)
        for level in self.levels:
            chances = np.round(np.asarray(policy.taken(level, batch)) * SETTLED)
            total = known[level]
            for particle in chances:
                total = folded(total, particle)
            total = spread(total)
            kept = rows.get(level)
            found = total if kept is None else total[kept]
            self.sums[level] = (self.sums[level] + int(found.sum(dtype=np.uint64))) % 2**64

    def merge(self, other: Behaviour) -> None:
        """Add what the same policy did on other rows."""
        self.sums = {level: (total + other.sums[level]) % 2**64 for level, total in self.sums.items()}

    def plain(self) -> dict[str, str]:
        """Return the sums as text, by level."""
        return {level: f"{total:016x}" for level, total in self.sums.items()}
