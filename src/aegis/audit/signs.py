"""Signs of what came later: on which side of a cut a context or a reward lies. Fixed beforehand, so that they can be bet on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from aegis.audit.cuts import Cut
from aegis.problem import AnyArray, Array


def context_signs(cuts: Iterable[Cut], context: Mapping[str, AnyArray], rows: AnyArray) -> dict[str, Array]:
    """Return the signs `[p]` of contexts at some rows, by words: one for a number, one for each category."""
    found: dict[str, Array] = {}
    for cut in cuts:
        codes = cut.codes({cut.variable: context[cut.variable][rows]})
        if not cut.values:
            found[f"'{cut.name}'"] = np.where(codes == 1, 1.0, -1.0)
            continue
        found |= {f"'{cut.name}' ({label})": np.where(codes == place, 1.0, -1.0) for place, label in enumerate(cut.labels)}
    return found


def sign_at(values: Array, edge: float) -> Array:
    """Return 1 above the edge, -1 at or below it, 0 where the value is not known."""
    return np.where(np.isfinite(values), np.where(values > edge, 1.0, -1.0), 0.0)
