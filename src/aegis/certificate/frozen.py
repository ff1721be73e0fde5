"""Tests that were fixed before: those of a challenger at a gate. Certifying its log with them gives the numbers of the gate.

Nothing is placed, fitted or declared anew. The units are those that the gate counted, which started after the
challenger was frozen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aegis.certificate.claims import Claim, margin_of
from aegis.certificate.comparator import LOGGER, Closeness, Comparator
from aegis.certificate.measures import guard_measures, reward_measure
from aegis.certificate.parts import Reach, gain_parts, value_parts
from aegis.certificate.view import Models
from aegis.errors import LogError
from aegis.evidence import Grid
from aegis.problem import Batch, Problem, Scope

COUNTED = "agent"  # the arm of episodes that are evidence


@dataclass(frozen=True, slots=True)
class Terms:
    """What the claims about a challenger are made by.

    variation: the largest total variation between its choice and that of its comparator. allowed: the share of a negative margin
    that this flip may use, and of what guards allow, which `levels` levels share. comparator: who it is compared with, the
    incumbent, or for an upgrade the policy in control, which writes the log.
    """

    variation: float
    allowed: float = 1.0
    levels: int = 1
    comparator: Comparator = LOGGER


def claims_of(problem: Problem, level: str, terms: Terms) -> list[Claim]:
    """Return what is claimed of a challenger at a level: a gain, a value, and that no guard gets worse than is allowed."""
    scope, reward = Scope(level), reward_measure(problem)
    cap = 1.0 / (1.0 - terms.variation) if terms.variation < 1.0 else math.inf
    reach = Reach(True, (Closeness(cap=cap, variation=terms.variation),), terms.comparator)
    margin = margin_of(problem, scope) / reward.width
    margin = margin if margin > 0 else terms.allowed * margin
    # The value is only watched, and a plain bound of it is many times quicker than a water-filled one.
    claims = [
        Claim(0, scope, "gain", reward, margin, 0.5, gain_parts(problem, scope, reward, reach, "auto")),
        Claim(0, scope, "value", reward, 0.0, 0.5, value_parts(problem, scope, reward, reach, "plain")),
    ]
    for guard in guard_measures(problem):
        parts = gain_parts(problem, scope, guard, reach, "auto")
        worse = terms.allowed / terms.levels * guard.allowed / guard.width
        claims.append(Claim(0, scope, "guard", guard, -worse, 0.5, parts))
    return claims


@dataclass(frozen=True, slots=True)
class Window:
    """The episodes that a gate counted for a challenge, by two columns of its log: their numbers, and who acted in them."""

    number: str
    arm: str
    since: int
    until: int

    def on_side(self, side: str, problem: Problem, batch: Batch) -> npt.NDArray[np.bool_]:
        """Return which episodes were counted, `bool[E]`; on the side 'prior' the others."""
        for column in (self.number, self.arm):
            if column not in batch.extra:
                raise LogError(
                    f"the log of a gate has a column '{column}', found none: certify on the log that was exported with it"
                )
        owner = batch.episode_of(problem.innermost.name)
        first = np.searchsorted(owner, np.arange(len(batch)))
        numbers = np.asarray(batch.extra[self.number], dtype=np.float64)[first]
        counted = (numbers >= self.since) & (numbers <= self.until) & (batch.extra[self.arm][first] == COUNTED)
        found: npt.NDArray[np.bool_] = np.asarray(counted, dtype=np.bool_)
        return found if side == "certify" else ~found

    def describe(self) -> dict[str, Any]:
        """Return plain data."""
        return {"kind": "gate", "number": self.number, "arm": self.arm, "since": self.since, "until": self.until}


@dataclass(frozen=True, slots=True)
class FrozenTests:
    """The tests of a challenger at `level`: claims at their risks with the grids of their bets, predictions, and the units."""

    level: str
    claims: tuple[tuple[Claim, tuple[Grid, ...]], ...]
    models: Models
    window: Window
    comparator: Comparator = LOGGER

    @property
    def delta(self) -> float:
        """Return the risk of everything that is claimed."""
        return sum(claim.delta for claim, _ in self.claims)
