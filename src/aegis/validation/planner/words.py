"""Rewards and costs in words: what is a gain for one goal reads as a saving for the other."""

from __future__ import annotations


def verb(goal: str) -> str:
    """Return what a legacy or an action does: earn a reward, or cost something."""
    return "costs" if goal == "minimise" else "earns"


def better_by(amount: float, goal: str) -> str:
    """Return by how much something is better, in words; below 0 it is worse, and 0 is no different."""
    if amount == 0:
        return f"{verb(goal)} as much"
    more = (amount > 0) == (goal != "minimise")
    return f"{verb(goal)} {abs(amount):g} {'more' if more else 'less'}"


def levels_named(names: tuple[str, ...]) -> str:
    """Return the levels of a sentence: level 'a', or levels 'a' and 'b'."""
    quoted = [f"'{name}'" for name in names]
    if len(quoted) == 1:
        return f"level {quoted[0]}"
    return f"levels {', '.join(quoted[:-1])} and {quoted[-1]}"
