"""The error budget of a gate: a global counter over all freezes of its life, never reset (docs/theory.md, The gate).

The challenges opened at the t-th freeze share `delta 6 / (pi^2 t^2)` among them, for life. Over all t these add up to delta,
however many freezes, flips, upgrades and restarts there are, and whatever they depended on: each is on units that start
after it was frozen, and reaches its threshold by mistake with at most its own share as probability.
"""

from __future__ import annotations

import math

from aegis.errors import SettingError

UPGRADES = 0.1  # an upgrade can wait: handing over a level that the legacy still controls usually gains more


def freeze_share(delta: float, t: int) -> float:
    """Return what all challenges of the t-th freeze may spend together; t counts from 1."""
    if t < 1:
        raise SettingError(f"freezes are counted from 1, found {t}")
    return delta * 6.0 / (math.pi * t) ** 2


def challenge_share(delta: float, t: int, challenges: int, upgrade: bool = False, others: int = 0) -> float:
    """Return what each of `challenges` of one kind, handovers or upgrades, opened at the t-th freeze may spend.

    others: challenges of the other kind opened with them. Upgrades then get UPGRADES of the freeze's share among them.
    """
    if challenges < 1:
        raise SettingError(f"a freeze opens at least one challenge, found {challenges}")
    part = 1.0 if not others else UPGRADES if upgrade else 1.0 - UPGRADES
    return freeze_share(delta, t) * part / challenges


def allowance(flips: int, upgrades: bool) -> float:
    """Return the share of what may get worse at a level, over the life of a gate, that its next flip may use.

    flips: how often the level has changed hands. Each flip is compared with what it replaces: with upgrades the first one may use
    three quarters, the next an eighth, then half of that and so on, so that all together get no worse than was allowed.
    """
    if not upgrades:
        return 1.0
    return 0.75 if flips == 0 else 0.25 * 2.0**-flips


def freeze_due(start: int, first: int, freezes: int) -> int:
    """Return the unit after which the next freeze is due: `start + first 2^freezes`, freezes so far since `start`."""
    return start + first * 2**freezes
