"""Which scope to deploy: the one with the largest bound, paid for by a union bound; and how many units go to which side."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aegis.errors import SettingError
from aegis.evidence.bound import Bound
from aegis.evidence.sketch import check_delta


@dataclass(frozen=True, slots=True)
class Selection:
    """The scope with the largest bound, and the bounds of all, each at its share of delta."""

    scope: str
    bounds: dict[str, Bound]
    delta: float

    @property
    def bound(self) -> Bound:
        """Return the bound of the selected scope."""
        return self.bounds[self.scope]


@dataclass(frozen=True, slots=True)
class SplitSizes:
    """How many units build the prior and how many are certified on."""

    prior: int
    certified: int


def select_scope(scopes: Mapping[str, Callable[[float], Bound]], delta: float) -> Selection:
    """Return the scope whose bound at risk delta / M is largest, M the number of scopes; the first of equals.

    scopes: for each the function from a risk to its bound. Comparing certificates on the same units costs log M each.
    """
    if not scopes:
        raise SettingError("there is no scope to select from; name one or more")
    share = check_delta(delta) / len(scopes)
    bounds = {name: bound(share) for name, bound in scopes.items()}
    return Selection(max(bounds, key=lambda name: bounds[name].value), bounds, delta)


def split_sizes(units: int, share: float = 0.5) -> SplitSizes:
    """Return how many of `units` go to the prior side for a share alpha in [0, 1): alpha N rounded down; the rest is certified.

    alpha = 0 keeps the prior data-free; the published experiments use 0.5.
    """
    if not (units >= 1 and 0 <= share < 1):
        raise SettingError(f"a split needs one unit or more and a share in [0, 1), found {units} and {share}")
    prior = math.floor(share * units)
    return SplitSizes(prior, units - prior)
