"""Challengers: a frozen policy at one level, its tests, its seal, and what each closed episode contributes to the tests.

A policy that is code is known by its name only. Its seal keeps what it answered at the freeze and a digest of its files.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np

from aegis.certificate import (
    PROBABILITY_STEPS,
    ChallengeTerms,
    Claim,
    EvidencePart,
    challenge_claims,
    code_digest,
    code_modules,
    is_code,
    place_grid,
)
from aegis.errors import AegisError, PolicyError, SettingError
from aegis.evidence import Grid, unit_logs
from aegis.handover.challenge import NO_FILES, SEAL_FILES, VALUE, ClaimState, Logs, PartState
from aegis.handover.gate import ProposedChallenge
from aegis.handover.gate_settings import FULL, STEPS
from aegis.handover.gate_state import GateState
from aegis.handover.hosts.base import Host, capped_steps, check_distributions, host_seed
from aegis.handover.risk_budget import margin_allowance
from aegis.handover.run_history import History
from aegis.ope import (
    CandidateView,
    Comparator,
    Measure,
    RewardModels,
    capped_variation,
    fit_reward_models,
    with_measure_as_reward,
)
from aegis.policies import Floored, path_full, policy_digest
from aegis.problem import Array, Batch, Policy, Problem, RewardModel

LOOKED_AT = 256  # decisions, at most, unless a single episode has more

SAME_ANSWER = 1e-9  # by how much an answer may differ when it is asked for again


@dataclass(frozen=True, slots=True)
class AnswerSeal:
    """What a policy answered at a level: `chances` `[n, A]` on the decisions of `batch`. code: the digest of its files."""

    level: str
    batch: Batch
    chances: Array
    code: str | None

    @property
    def digest(self) -> str:
        """Return digests of answers and files, by which the same policy is known in another process."""
        answers = np.round(self.chances * PROBABILITY_STEPS).astype(np.int64)
        return f"{sha256(str(answers.shape).encode() + answers.tobytes()).hexdigest()}{SEAL_FILES}{self.code or NO_FILES}"

    def broken(self, policy: Policy) -> str | None:
        """Return how a policy differs from what was sealed; None if it does not."""
        try:
            now = path_full(policy, self.level, self.batch)
        except Exception as error:  # any that a user's own policy raises
            return f"on contexts that it answered then it raises {type(error).__name__}: {error}"
        if now.shape != self.chances.shape:
            return f"it gives probabilities of the shape {list(now.shape)}, {list(self.chances.shape)} then"
        off = ~(np.abs(now - self.chances).max(axis=1, initial=0.0) <= SAME_ANSWER)
        if off.any():
            row = int(np.argmax(off))
            return (
                f"on {int(off.sum())} of {len(off)} logged contexts it gives other probabilities, at first "
                f"{np.round(now[row], 6).tolist()} where it gave {np.round(self.chances[row], 6).tolist()}"
            )
        if code_digest(policy) != self.code:
            return "the file that it is defined in has changed"
        return None


def seal_answers(policy: Policy, level: str, prior: Batch) -> AnswerSeal | None:
    """Return the seal of a policy that is code, or has a member that is, on the latest episodes before its freeze.

    None for any other: its digest says everything.
    """
    if not is_code(policy):
        return None
    sizes = np.bincount(prior.episode_of(level), minlength=len(prior))[::-1]
    count = max(1, int(np.searchsorted(np.cumsum(sizes), LOOKED_AT, side="right")))
    batch = prior.take_episodes(np.arange(max(0, len(prior) - count), len(prior))).before(level)
    return AnswerSeal(level, batch, path_full(policy, level, batch), code_digest(policy))


def check_code_files(seal: str | None, policy: Policy, where: str) -> None:
    """Raise PolicyError if the files that the code of a kept policy is in are not those of its freeze. seal: its digest."""
    if seal is None:
        return
    expected = seal.partition(SEAL_FILES)[2]
    if (code_digest(policy) or NO_FILES) != expected:
        raise PolicyError(
            f"{where}: the code of its policy was altered after it was frozen: the file that it is defined in has changed; put "
            "back the file as it was, or let new challengers be frozen"
        )


def code_sources(policy: Policy) -> list[str]:
    """Return the modules, with their files, that the code of a policy is defined in."""
    files = {name: getattr(sys.modules.get(name), "__file__", None) for name in code_modules(policy)}
    return [f"module '{name}'" + (f" ({path})" if path else "") for name, path in files.items()]


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
    models: RewardModels
    claims: tuple[tuple[Claim, tuple[Grid, ...]], ...]
    terms: ChallengeTerms
    seal: AnswerSeal | None = None

    @property
    def proposed(self) -> ProposedChallenge:
        """Return what the gate gets to know."""
        claims = tuple(_state(claim, grids) for claim, grids in self.claims)
        return ProposedChallenge(self.level, self.cap, self.digest, claims, None if self.seal is None else self.seal.digest)

    def evidence(self, batch: Batch, known: dict[tuple[str, bool], Batch] | None = None) -> list[dict[str, tuple[Logs, ...]]]:
        """Return what each episode of a batch contributes, by claim, the numbers of each part.

        known: what policies see of the batch, kept for the next challenger (see `CandidateView`). Raises PolicyError if the
        policy's probabilities are no distributions, RefusedError if rewards lie outside their range or logged probabilities
        cannot be.
        """
        comparator, shared = self.terms.comparator, {} if known is None else known
        view = CandidateView(self.problem, batch, self.policy, self.models, comparator, _known=shared)
        try:
            check_distributions(path_full(view, self.level, batch), f"the challenger at level '{self.level}'")
        except AegisError:
            raise
        except Exception as error:  # any that a user's own policy raises
            raise PolicyError(f"the challenger at level '{self.level}' raised {type(error).__name__}: {error}") from error
        logs = {
            claim_name(claim): [
                unit_logs(grid, part.compute(view, grid.bets, 1.0)) for part, grid in zip(claim.parts, grids, strict=True)
            ]
            for claim, grids in self.claims
        }
        return [{name: tuple(part[unit] for part in parts) for name, parts in logs.items()} for unit in range(len(batch))]

    def worst_evidence(self) -> dict[str, tuple[Logs, ...]]:
        """Return the least that an episode can contribute, by claim, whatever is done and earned in it (theory section 11)."""
        return {
            claim_name(claim): tuple(
                unit_logs(grid, part.worst(grid.bets))[0] for part, grid in zip(claim.parts, grids, strict=True)
            )
            for claim, grids in self.claims
        }

    def check(self, deployed: Policy | None = None) -> None:
        """Raise PolicyError if the policy is no longer the one that was frozen. deployed: as it is in control, if it is."""
        policy = self.policy if deployed is None else deployed
        digest = policy_digest(policy)
        altered = None if self.seal is None else self.seal.broken(policy)
        if digest != self.digest:
            altered = f"its digest was {self.digest[:16]}, now it is {digest[:16]}"
        if altered is None:
            return
        if deployed is None:
            raise PolicyError(
                f"the challenger at level '{self.level}' was altered after it was frozen: {altered}; what is certified must be "
                "what is deployed; the policy in control stays"
            )
        raise PolicyError(
            f"the policy in control of level '{self.level}' was altered after it was certified: {altered}; stop it, and revert "
            "the level"
        )


def claim_name(claim: Claim) -> str:
    """Return what the gate calls a claim: gain, value, or the guard with its column."""
    return f"guard {claim.measure.column}" if claim.what == "guard" else claim.what


def make_challenger(
    problem: Problem,
    level: str,
    cap: float,
    policy: Policy,
    terms: ChallengeTerms,
    prediction: RewardModel | None,
    prior: Batch,
) -> Challenger:
    """Freeze a policy at a level.

    terms: of its claims. prediction: of the reward below each action, in logged units. prior: episodes of the present phase, that
    place the grids; they are not counted later.
    """
    if problem.cluster is not None:
        raise SettingError(
            f"the gate counts episodes as they start; in this problem they depend on each other within '{problem.cluster_name}'. "
            "Log them and certify from the log (aegis certify), whose units are clusters"
        )
    check_distributions(path_full(policy, level, prior), f"a challenger at level '{level}'")
    claims = challenge_claims(problem, level, terms)
    models = _models(problem, [claim.measure for claim in claims], prediction, prior)
    view, units = CandidateView(problem, prior, policy, models, terms.comparator), math.ceil(FORESEEN * len(prior))
    placed = tuple((claim, tuple(_place_grid(part, claim, view, units) for part in claim.parts)) for claim in claims)
    seal = seal_answers(policy, level, prior)
    return Challenger(problem, level, cap, policy, policy_digest(policy), models, placed, terms, seal)


def _place_grid(part: EvidencePart, claim: Claim, view: CandidateView, units: int) -> Grid:
    grid = place_grid(part, replace(claim, delta=0.05), view, units)
    return _narrow(grid) if claim.what == VALUE else grid


def _narrow(grid: Grid) -> Grid:
    """Return the middle of a grid: a bound that is only watched need not be ready for everything, and every unit is kept."""
    middle = int(np.argmax(grid.log_weights))
    middle_bets = slice(max(middle - REACH, 0), middle + REACH + 1)
    logs = grid.log_weights[middle_bets]
    return Grid(grid.bets[middle_bets], logs - np.log(np.exp(logs).sum()), grid.centre)


def _models(problem: Problem, measures: list[Measure], prediction: RewardModel | None, prior: Batch) -> RewardModels:
    models = RewardModels()
    for measure in dict.fromkeys(measures):
        model = prediction if not measure.guard else fit_reward_models(problem, with_measure_as_reward(prior, measure))
        if model is not None:
            models.rewards[measure.column] = model
    return models


def _state(claim: Claim, grids: tuple[Grid, ...]) -> ClaimState:
    low, high = claim.bracket
    parts = tuple(PartState.start(part.offset, grid) for part, grid in zip(claim.parts, grids, strict=True))
    return ClaimState(claim_name(claim), claim.margin, 0.5, low, high, parts)


def freeze_challengers(host: Host, history: History, state: GateState, changed: Mapping[str, int], seed: int) -> list[Challenger]:
    """Return what a host proposes for the levels of a gate, frozen.

    changed: how often each level has changed hands since the legacy had it last. seed: of the run, hidden from hosts that are
    not of this package. Raises PolicyError, naming host and level, if a proposal cannot be frozen.
    """
    problem, legacy, settings = history.problem, history.legacy, state.settings
    floor, upgrades = settings.floor, settings.upgrades and settings.floor > 0
    levels = [name for name in state.levels if state.at(name) is None or upgrades]
    prior, challengers, incumbent = history.phase(), [], history.comparator
    for level, proposal in host.propose(history, levels, host_seed(host, seed)).items():
        for cap, new in capped_steps(
            problem, legacy, level, proposal, caps_for_level(state, level, level in incumbent.levels)
        ).items():
            policy = Floored(problem, new, legacy, floor, [level])
            comparator = incumbent.at(level) if state.at(level) is None else None
            terms = ChallengeTerms(
                variation=largest_variation(level, cap, floor, comparator),
                allowed=margin_allowance(changed.get(level, 0), upgrades),
                levels=len(state.levels),
                comparator=comparator or Comparator(),
            )
            try:
                challengers.append(make_challenger(problem, level, cap, policy, terms, proposal.prediction, prior))
            except PolicyError as error:
                raise PolicyError(f"host '{host.name}', level '{level}': {error}") from error
    return challengers


def largest_variation(level: str, cap: float, floor: float, comparator: Comparator | None) -> float:
    """Return the largest total variation between a challenger and its comparator at a level.

    The challenger is capped at `cap` times the legacy, and leaves a share `floor` of its decisions to the legacy. comparator: the
    incumbent; None for an upgrade, which is compared with the policy in control and may move all of its probability.
    """
    if comparator is None:
        return 1.0 - floor
    if level not in comparator.levels:  # the legacy is the incumbent
        return (1.0 - floor) * (1.0 - 1.0 / cap)
    rate = comparator.rates.get(level)
    return 1.0 if rate is None else (1.0 - floor) * capped_variation(cap, rate) + floor * rate


def caps_for_level(state: GateState, level: str, explored: bool = False) -> tuple[float, ...]:
    """Return the caps of challengers at a level; explored: the legacy there explores around a stated incumbent."""
    now = state.at(level)
    if now is None:
        return state.settings.caps or (FULL if explored else STEPS)
    least = math.inf if now.cap is None else now.cap
    return tuple(cap for cap in state.settings.wider if cap >= least)
