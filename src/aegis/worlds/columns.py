"""Names of the columns in which a world logs propensities and availability."""

from __future__ import annotations

from aegis.problem import Actions, Propensity


def full_propensity(actions: Actions) -> Propensity:
    """Return a propensity with one column per action: a simulated log knows the whole distribution."""
    return Propensity(columns=_columns("p", actions))


def availability(actions: Actions) -> tuple[str, ...]:
    """Return one availability column per action."""
    return _columns("can", actions)


def _columns(prefix: str, actions: Actions) -> tuple[str, ...]:
    # Labels name themselves; numbers are counted, because a grid's values make long and fragile names.
    tags = range(actions.count) if actions.numeric else actions.values
    return tuple(f"{prefix}_{actions.column}_{tag}" for tag in tags)
