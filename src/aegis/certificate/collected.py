"""What a pass over a log has found so far: it can be made on pieces of the log, and put together exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from aegis.certificate.agreement import Agreement
from aegis.certificate.balance import start_balance
from aegis.certificate.behaviour import Behaviour
from aegis.certificate.claims import Claim
from aegis.certificate.collecting import Evidence, Moments
from aegis.certificate.estimates import SERIES
from aegis.certificate.incumbent_ratios import IncumbentRatios, start_ratios
from aegis.certificate.measures import reward_measure
from aegis.certificate.overlap import Spread
from aegis.certificate.recognising import Recognised, recognisers
from aegis.certificate.request import Request
from aegis.certificate.sensitivity_units import Held
from aegis.certificate.sides import Sides
from aegis.certificate.units import Clusters
from aegis.certificate.view import Models
from aegis.certificate.weights import reward_level
from aegis.problem import Problem, Scope


@dataclass(slots=True)
class Collected:
    """What one pass found: evidence by claim; estimates and weights by (candidate, scope) and (candidate, level).

    ratios: of the incumbent, by level of which only the probability of the action taken is logged.
    """

    claims: tuple[Claim, ...]
    evidence: list[Evidence]
    moments: dict[tuple[int, Scope], Moments]
    spreads: dict[tuple[int, Scope], Spread]
    level_spreads: dict[tuple[int, str], Spread]
    balances: dict[tuple[int, Scope], Evidence]
    agreements: dict[tuple[int, Scope], Agreement]
    ratios: dict[str, IncumbentRatios]
    sides: Sides
    models: list[Models]
    described: dict[str, Any]
    behaviours: dict[str, Behaviour]
    recognised: list[Recognised]
    unrecognisable: list[str]
    episodes: int = 0
    rows: int = 0
    certified_episodes: int = 0
    prior_episodes: int = 0
    waiting_episodes: int = 0
    held: Held | None = None

    @classmethod
    def start(cls, request: Request, claims: tuple[Claim, ...], sides: Sides) -> Collected:
        """Return what is known before anything was looked at; evidence and models are added when grids are placed."""
        pairs = [(index, scope) for index in range(len(request.candidates)) for scope in request.scopes]
        levels = [(index, name) for index, scope in pairs for name in request.named(scope)]
        reward = reward_measure(request.problem)
        spreads = {pair: Spread() for pair in pairs}
        return cls(
            claims,
            [],
            {pair: _moments(request.problem) for pair in pairs},
            spreads,
            {(index, name): spreads.get((index, alone(request.problem, name)), Spread()) for index, name in levels},
            {(index, scope): start_balance(request.problem, index, scope, reward) for index, scope in pairs},
            {pair: Agreement() for pair in pairs},
            start_ratios(request, reward),
            sides,
            [],
            {},
            {candidate.name: Behaviour(levels_asked(request)) for candidate in request.candidates if candidate.is_code},
            *recognisers(request.problem, request.candidates, request.fresh),
        )

    def again(self, request: Request, first: bool = False, skimmed: bool = False) -> Collected:
        """Return the same with nothing in it yet, for a piece of the log.

        first: the path of bounds begins there. skimmed: weights are not described there.
        """
        found = Collected.start(request, self.claims, self.sides)
        found.models = self.models
        found.evidence = [Evidence.start(item.claim, item.grids, request.problem) for item in self.evidence]
        for item in (*found.evidence, *found.balances.values()):
            item.recorded = first
        for spread in (*found.spreads.values(), *found.level_spreads.values()):
            spread.skimmed = skimmed
        return found

    def merge(self, other: Collected) -> None:
        """Add what was found in a later piece, before either is closed."""
        for item, more in zip(self.evidence, other.evidence, strict=True):
            item.merge(more)
        for pair, moments in other.moments.items():
            self.moments[pair].merge(moments)
            self.spreads[pair].merge(other.spreads[pair])
            self.balances[pair].merge(other.balances[pair])
            self.agreements[pair].merge(other.agreements[pair])
        for name, ratios in other.ratios.items():
            self.ratios[name].merge(ratios)
        shared = {id(spread) for spread in self.spreads.values()}
        for place, spread in other.level_spreads.items():
            if id(self.level_spreads[place]) not in shared:
                self.level_spreads[place].merge(spread)
        for name, behaviour in other.behaviours.items():
            self.behaviours[name].merge(behaviour)
        for recognised, again in zip(self.recognised, other.recognised, strict=True):
            recognised.merge(again)
        self.episodes += other.episodes
        self.rows += other.rows
        self.certified_episodes += other.certified_episodes
        self.prior_episodes += other.prior_episodes
        self.waiting_episodes += other.waiting_episodes

    def close(self) -> None:
        """Make clusters, which are whole only now, into units; RefusedError if candidates have seen what is certified."""
        for item in (*self.evidence, *self.balances.values()):
            item.close()
        for moments in self.moments.values():
            moments.close()
        for ratios in self.ratios.values():
            ratios.close()
        for recognised in self.recognised:
            recognised.check()


def levels_asked(request: Request) -> list[str]:
    """Return the levels of all scopes, outermost first."""
    return [name for name in request.problem.names if any(name in scope for scope in request.scopes)]


def alone(problem: Problem, name: str) -> Scope:
    """Return the scope of a level whose own weights are those of its scope; no scope if rewards have other weights."""
    same = problem.carry_over == "none" and reward_level(problem) == name == problem.innermost.name
    return Scope(name) if same else Scope()


def _moments(problem: Problem) -> Moments:
    if problem.cluster is None:
        return Moments(SERIES, None)
    return Moments(SERIES, Clusters(np.zeros(len(SERIES)), problem.cluster_most, problem.cluster_name))
