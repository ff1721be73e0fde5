"""Challengers: a frozen policy at one level, the tests of it, and what each closed episode contributes to them.

All of it is fixed at the freeze: the policy, the predictions that its bets use, the grids of bets. What the gate gets to see is
whole numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from aegis.certificate.claims import Claim
from aegis.certificate.collecting import place_grid
from aegis.certificate.comparator import Comparator
from aegis.certificate.frozen import Terms, claims_of
from aegis.certificate.measures import Measure
from aegis.certificate.models import fitted_rewards, measured
from aegis.certificate.parts import Part
from aegis.certificate.view import Models, View
from aegis.errors import AegisError, PolicyError, SettingError
from aegis.evidence import Grid, unit_logs
from aegis.handover.challenge import VALUE, ClaimState, Logs, PartState
from aegis.handover.gate import Proposed
from aegis.handover.hosts.proposal import check_chances
from aegis.handover.seals import Seal, seal_of
from aegis.policies import path_full, policy_digest
from aegis.problem import Batch, Policy, Problem, RewardModel

REACH = 4  # bets to each side of the middle that a value is bounded with
FORESEEN = 2.0  # a value grid is placed for so many times the units that there are


@dataclass(frozen=True, slots=True)
class Challenger:
    """A policy that would act at `level`, everything else staying as it is, with its tests.

    policy: as it would be deployed, floor included. cap: W of the part of it that is new. claims: parts and grids of the gain,
    the value and the guards, in that order. terms: what the claims were made by. seal: what it answered when it was frozen, if it
    is code.
    """

    problem: Problem
    level: str
    cap: float
    policy: Policy
    digest: str
    models: Models
    claims: tuple[tuple[Claim, tuple[Grid, ...]], ...]
    terms: Terms
    seal: Seal | None = None

    @property
    def proposed(self) -> Proposed:
        """Return what the gate gets to know."""
        claims = tuple(_state(claim, grids) for claim, grids in self.claims)
        return Proposed(self.level, self.cap, self.digest, claims, None if self.seal is None else self.seal.digest)

    def evidence(self, batch: Batch, known: dict[tuple[str, bool], Batch] | None = None) -> list[dict[str, tuple[Logs, ...]]]:
        """Return what each episode of a batch contributes, by claim, the numbers of each part.

        known: what policies get to see of the batch, kept for the next challenger (see `View`). Raises PolicyError if the
        policy's probabilities are no distributions, RefusedError if rewards lie outside their range or logged probabilities
        cannot be.
        """
        comparator, seen = self.terms.comparator, {} if known is None else known
        view = View(self.problem, batch, self.policy, self.models, comparator, _known=seen)
        try:
            check_chances(path_full(view, self.level, batch), f"the challenger at level '{self.level}'")
        except AegisError:
            raise
        except Exception as error:  # any that a user's own policy raises
            raise PolicyError(f"the challenger at level '{self.level}' raised {type(error).__name__}: {error}") from error
        found = {
            name_of(claim): [
                unit_logs(grid, part.compute(view, grid.bets, 1.0)) for part, grid in zip(claim.parts, grids, strict=True)
            ]
            for claim, grids in self.claims
        }
        return [{name: tuple(part[unit] for part in parts) for name, parts in found.items()} for unit in range(len(batch))]

    def check(self) -> None:
        """Raise PolicyError if the policy is no longer the one that was frozen."""
        found = policy_digest(self.policy)
        if found != self.digest:
            raise PolicyError(
                f"the challenger at level '{self.level}' was altered after it was frozen: its digest was {self.digest[:16]}, now "
                f"it is {found[:16]}; what is certified must be what is deployed; the policy in control stays"
            )
        broken = None if self.seal is None else self.seal.broken(self.policy)
        if broken is not None:
            raise PolicyError(
                f"the challenger at level '{self.level}' was altered after it was frozen: {broken}; what is certified must be "
                "what is deployed; the policy in control stays"
            )


def name_of(claim: Claim) -> str:
    """Return what the gate calls a claim: gain, value, or the guard with its column."""
    return f"guard {claim.measure.column}" if claim.what == "guard" else claim.what


def make_challenger(
    problem: Problem,
    level: str,
    cap: float,
    policy: Policy,
    variation: float,
    prediction: RewardModel | None,
    prior: Batch,
    allowed: float = 1.0,
    levels: int = 1,
    comparator: Comparator | None = None,
) -> Challenger:
    """Freeze a policy at a level.

    variation: the largest total variation between its choice there and that of its comparator. comparator: the incumbent at this
    level; None if it is compared with the policy in control, which writes the log. prediction: of the reward below each
    action, in logged units. prior: episodes of the present phase, that place the grids; they are not counted later.
    allowed: the share of a negative margin that this flip may use, and of what guards allow, which `levels` levels share.
    """
    if problem.cluster is not None:
        raise SettingError(
            f"the gate counts episodes as they start; in this problem they depend on each other within '{problem.cluster_name}'. "
            "Log them and certify from the log (aegis certify), whose units are clusters"
        )
    check_chances(path_full(policy, level, prior), f"a challenger at level '{level}'")
    terms = Terms(variation, allowed, levels, comparator or Comparator())
    claims = claims_of(problem, level, terms)
    models = _models(problem, [claim.measure for claim in claims], prediction, prior)
    view, units = View(problem, prior, policy, models, terms.comparator), math.ceil(FORESEEN * len(prior))
    placed = tuple((claim, tuple(_placed(part, claim, view, units) for part in claim.parts)) for claim in claims)
    seal = seal_of(policy, level, prior)
    return Challenger(problem, level, cap, policy, policy_digest(policy), models, placed, terms, seal)


def _placed(part: Part, claim: Claim, view: View, units: int) -> Grid:
    grid = place_grid(part, replace(claim, delta=0.05), view, units)
    return _narrow(grid) if claim.what == VALUE else grid


def _narrow(grid: Grid) -> Grid:
    """Return the middle of a grid: a bound that is only watched need not be ready for everything, and every unit is kept."""
    middle = int(np.argmax(grid.log_weights))
    kept = slice(max(middle - REACH, 0), middle + REACH + 1)
    logs = grid.log_weights[kept]
    return Grid(grid.bets[kept], logs - np.log(np.exp(logs).sum()), grid.centre)


def _models(problem: Problem, measures: list[Measure], prediction: RewardModel | None, prior: Batch) -> Models:
    models = Models()
    for measure in dict.fromkeys(measures):
        model = prediction if not measure.guard else fitted_rewards(problem, measured(prior, measure))
        if model is not None:
            models.rewards[measure.column] = model
    return models


def _state(claim: Claim, grids: tuple[Grid, ...]) -> ClaimState:
    low, high = claim.bracket
    parts = tuple(PartState.start(part.offset, grid) for part, grid in zip(claim.parts, grids, strict=True))
    return ClaimState(name_of(claim), claim.margin, 0.5, low, high, parts)
