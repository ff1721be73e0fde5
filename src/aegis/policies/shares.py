"""Fixed probabilities, by the value of a category: a policy that is known as a table of shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aegis.errors import PolicyError, SettingError
from aegis.policies.mixture import SUM_TOLERANCE
from aegis.policies.rule import place
from aegis.policies.support import Mask, number, open_actions, uniform_over
from aegis.problem import Array, Level, Rows, Variable


@dataclass(frozen=True, slots=True)
class Shares:
    """The same shares of the actions whenever a category has the same value; with no `variable`, always the same shares.

    shares: one row of A probabilities for each value of the category, in the order of its values (without one, a single row).
    Where actions are not available the others keep their proportions; if none of those with a share is left, all that are left
    are equally likely.
    """

    shares: tuple[tuple[float, ...], ...]
    variable: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shares", tuple(_distribution(row, index) for index, row in enumerate(self.shares)))
        if not self.shares or (self.variable is None and len(self.shares) != 1):
            raise SettingError(
                f"shares: without a 'variable' there is one row of shares, found {len(self.shares)}; name the category they go by"
            )
        if len({len(row) for row in self.shares}) > 1:
            raise SettingError("shares: every row has one number per action; rows of different lengths were found")

    def probabilities(self, level: Level, rows: Rows, count: int, available: Mask | None = None) -> Array:
        """Return `[n, A]`."""
        self._fits(level)
        mask = open_actions(available, count, level.actions.count, place(level))
        given = np.asarray(self.shares)
        if self.variable is None:
            codes = np.zeros(count, dtype=np.int64)
        elif self.variable not in rows:
            raise PolicyError(
                f"{place(level)}: shares go by '{self.variable}', which is not among {', '.join(rows) or 'nothing'}"
            )
        else:
            codes = rows[self.variable].astype(np.int64)
            if ((codes < 0) | (codes >= len(given))).any():
                row = int(np.argmax((codes < 0) | (codes >= len(given))))
                raise PolicyError(f"{place(level)}, row {row}: '{self.variable}' is missing, so that no row of shares applies")
        kept = np.where(mask, given[codes], 0.0)
        total = kept.sum(axis=1, keepdims=True)
        return np.where(total > 0, kept / np.where(total > 0, total, 1.0), uniform_over(mask))

    def check(self, level: Level, known: Mapping[str, Variable]) -> None:
        """Needs one share per action, and a category among what is known with one row for each of its values."""
        self._fits(level)
        if self.variable is None:
            return
        found = known.get(self.variable)
        if found is None or found.kind != "categorical":
            what = "not known when it decides" if found is None else found.kind
            raise PolicyError(f"{place(level)}: shares go by a category, but '{self.variable}' is {what}")
        if len(found.values) != len(self.shares):
            raise PolicyError(
                f"{place(level)}: '{self.variable}' has {len(found.values)} values, and shares have {len(self.shares)} rows"
            )

    def describe(self) -> dict[str, Any]:
        """Return plain data."""
        return {"kind": "shares", "shares": [list(row) for row in self.shares], "variable": self.variable}

    def _fits(self, level: Level) -> None:
        if len(self.shares[0]) != level.actions.count:
            raise PolicyError(
                f"{place(level)}: a row of shares has one number per action, {level.actions.count}; found {len(self.shares[0])}"
            )


def _distribution(row: Sequence[float], index: int) -> tuple[float, ...]:
    found = tuple(number(value, f"shares, row {index + 1}: a share", low=0.0, high=1.0) for value in row)
    if abs(sum(found) - 1.0) > SUM_TOLERANCE:
        raise SettingError(f"shares, row {index + 1}: the shares sum to {sum(found):.6g}, expected 1 (within {SUM_TOLERANCE:g})")
    return found
