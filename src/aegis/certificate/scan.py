"""One pass over a log: the head places grids and fits models, and every certified unit goes into the evidence.

The first blocks are kept back until the prior units among them have placed the grids. Then AEGIS adds these blocks and all that
follow. Memory does not grow with the log, except for one row per cluster. A long log is read in pieces by several
processes: each piece is audited and added up by itself, and the results are merged in the order of the log. The numbers are the
same however many processes read. Episodes that begin in one piece and end in another are added last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aegis.audit import Auditor, skips_costly_checks
from aegis.certificate.candidate import CodeBehaviour, SeenEpisodes, add_to_recognition, code_modules, start_recognition
from aegis.certificate.claims import BOTH_SIDES, Claim, subgroups_of
from aegis.certificate.evidence import ClaimEvidence, UnitMoments, fit_models, place_grid
from aegis.certificate.request import Request, declare_claims
from aegis.certificate.unit_split import (
    MOST_SENSITIVITY_ROWS,
    SensitivityUnits,
    UnitSplit,
    add_placing_split,
    choose_sensitivity_units,
    foresee_units,
    prior_units,
    read_head,
)
from aegis.certificate.weight_checks import Agreement, IncumbentRatios, comparator_differences, start_balance, start_ratios
from aegis.engine import Engine, engine_for_function, map_in_order, pickle_by_value, release_memory
from aegis.errors import RefusedError
from aegis.logs import BackgroundObserver, LogChunks
from aegis.ope import (
    ESTIMATE_SERIES,
    CandidateView,
    ClusterUnits,
    RewardModels,
    WeightSpread,
    episode_estimates,
    level_weights,
    reward_level,
    reward_measure,
    views_in_pieces,
)
from aegis.problem import Array, Batch, Problem, Scope

COUNTED = ("episodes", "certified_episodes", "prior_episodes", "waiting_episodes", "rows")  # of a log


@dataclass(slots=True)
class ScanResult:
    """What one pass found: evidence by claim; estimates and weights by (candidate, scope) and (candidate, level).

    ratios: of the incumbent, by level of which only the probability of the action taken is logged. counts: see COUNTED.
    """

    claims: tuple[Claim, ...]
    evidence: list[ClaimEvidence]
    moments: dict[tuple[int, Scope], UnitMoments]
    spreads: dict[tuple[int, Scope], WeightSpread]
    level_spreads: dict[tuple[int, str], WeightSpread]
    balances: dict[tuple[int, Scope], ClaimEvidence]
    agreements: dict[tuple[int, Scope], Agreement]
    ratios: dict[str, IncumbentRatios]
    sides: UnitSplit
    models: list[RewardModels]
    described: dict[str, Any]
    behaviours: dict[str, CodeBehaviour]
    recognised: list[SeenEpisodes]
    unrecognisable: list[str]
    counts: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(COUNTED, 0)))
    held: SensitivityUnits | None = None

    @classmethod
    def start(cls, request: Request, claims: tuple[Claim, ...], sides: UnitSplit) -> ScanResult:
        """Return what is known before anything was looked at; evidence and models are added when grids are placed."""
        pairs = [(index, scope) for index in range(len(request.candidates)) for scope in request.scopes]
        levels = [(index, name) for index, scope in pairs for name in request.named(scope)]
        reward = reward_measure(request.problem)
        spreads = {pair: WeightSpread() for pair in pairs}
        return cls(
            claims,
            [],
            {
                pair: UnitMoments(ESTIMATE_SERIES, ClusterUnits.start(request.problem, np.zeros(len(ESTIMATE_SERIES))))
                for pair in pairs
            },
            spreads,
            {
                (index, name): spreads.get((index, own_weight_scope(request.problem, name)), WeightSpread())
                for index, name in levels
            },
            {(index, scope): start_balance(request.problem, index, scope, reward) for index, scope in pairs},
            {pair: Agreement() for pair in pairs},
            start_ratios(request, reward),
            sides,
            [],
            {},
            {candidate.name: CodeBehaviour(requested_levels(request)) for candidate in request.candidates if candidate.is_code},
            *start_recognition(request.problem, request.candidates, request.fresh),
        )

    def again(self, request: Request, first: bool = False, skimmed: bool = False) -> ScanResult:
        """Return the same with nothing in it yet, for a piece of the log.

        first: the path of bounds begins there. skimmed: weights are not described there.
        """
        result = ScanResult.start(request, self.claims, self.sides)
        result.models = self.models
        result.evidence = [ClaimEvidence.start(item.claim, item.grids, request.problem) for item in self.evidence]
        for item in (*result.evidence, *result.balances.values()):
            item.recorded = first
        for spread in (*result.spreads.values(), *result.level_spreads.values()):
            spread.skimmed = skimmed
        return result

    def merge(self, other: ScanResult) -> None:
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
        self.counts.update(other.counts)

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


def requested_levels(request: Request) -> list[str]:
    """Return the levels of all scopes, outermost first."""
    return [name for name in request.problem.names if any(name in scope for scope in request.scopes)]


def own_weight_scope(problem: Problem, name: str) -> Scope:
    """Return the scope of a level whose own weights are those of its scope; no scope if rewards have other weights."""
    same = problem.carry_over == "none" and reward_level(problem) == name == problem.innermost.name
    return Scope(name) if same else Scope()


MOSTLY_CERTIFIED = 0.9  # share of certified episodes from which it is cheaper to compute all of a batch than to take them out

_EpisodeMask = npt.NDArray[np.bool_]


def add_batch(request: Request, result: ScanResult, batch: Batch) -> None:
    """Add the certified episodes of a batch; RefusedError if an assumption fails in it."""
    problem = request.problem
    closed = result.sides.closed(batch)
    mask = result.sides.certified(problem, batch)
    numbers = (len(batch), mask.sum(), (closed & ~mask).sum(), (~closed).sum(), len(batch.levels[problem.innermost.name]))
    result.counts.update(dict(zip(COUNTED, map(int, numbers), strict=True)))
    if not mask.any():
        return
    counted, members = batch, None if mask.all() else mask
    if mask.mean() < MOSTLY_CERTIFIED:
        counted, members = batch.take_episodes(mask), None
    add_to_recognition(result.recognised, counted, np.ones(len(counted), dtype=np.bool_) if members is None else members)
    for index, candidate in enumerate(request.candidates):
        start = 0
        for view in views_in_pieces(problem, candidate.policy, result.models[index], [counted], request.comparator):
            stop = start + len(view.batch)
            _add_view(request, result, index, view, None if members is None else members[start:stop])
            start = stop


def _add_view(request: Request, result: ScanResult, index: int, view: CandidateView, certified: _EpisodeMask | None) -> None:
    """Add the certified episodes of a view; all of them if None."""
    values: list[Array] = []
    cluster = view.batch.cluster
    rows = {} if certified is None else _expand_mask(view.batch, certified)
    behaviour = result.behaviours.get(request.candidates[index].name)
    if behaviour is not None:
        behaviour.add(view, view.batch, rows)
    for item in result.evidence:
        claim = item.claim
        if claim.candidate != index:
            continue
        counted = certified
        if claim.group is None:
            values = item.compute(view)
        else:
            members = claim.group.members(view.batch)
            counted = members if certified is None else members & certified
        item.add(values, cluster, counted)
        if claim.what == "gain" and claim.group is None:
            robust = request.problem.carry_over == "none" and any(part.modelled for part in claim.parts)
            sides = any(part.name.startswith(BOTH_SIDES) for part in claim.parts)
            estimates = episode_estimates(view, claim.scope, claim.measure, robust, sides)
            result.moments[index, claim.scope].add(estimates, cluster, certified)
            weights = view.node_weights(claim.scope)
            result.spreads[index, claim.scope].add(weights if certified is None else weights[rows[view.level]])
            result.agreements[index, claim.scope].add(view, claim.scope, rows)
            balance = result.balances[index, claim.scope]
            balance.add(balance.compute(view), cluster, certified)
    for ratios in result.ratios.values() if index == 0 else ():
        ratios.add(view, certified)
    for (position, name), spread in result.level_spreads.items():
        if position == index and spread is not result.spreads.get((index, own_weight_scope(request.problem, name))):
            weights = level_weights(view, view.batch, name)
            spread.add(weights if certified is None else weights[rows[name]])


def _expand_mask(batch: Batch, mask: _EpisodeMask) -> dict[str | None, _EpisodeMask]:
    """Return the mask of episodes at the decisions `[n]` of each level; None stands for the episodes."""
    masks: dict[str | None, _EpisodeMask] = {None: mask}
    for name, table in batch.levels.items():
        mask = mask[table.parent]
        masks[name] = mask
    return masks


BatchObserver = Callable[[Batch], None]

OpenLook = Callable[[Sequence[Batch]], Request]  # from the head of a log to the request as it is tested


def scan_log(
    request: Request,
    batches: Iterator[Batch],
    sides: UnitSplit,
    looks: Sequence[BatchObserver] = (),
    opening: OpenLook | None = None,
) -> ScanResult:
    """Run the whole pass.

    looks: called with every batch, one after the other, in a thread, such as the audit. opening: called with the head of the
    log, when the candidates have answered for it and before anything is looked at; returns the request with the risk that it may
    be tested at.
    """
    head, rest, whole = open_head(request, batches)
    request = request if opening is None else opening(head)

    def show(batch: Batch) -> None:
        for look in looks:
            look(batch)

    with BackgroundObserver(show) as beside:  # what they have seen when something is refused stands beside the refusal
        for batch in head:
            beside.show(batch)
        result = place_evidence(request, head, whole, sides)
        while head:  # each is let go of when it has been added
            add_batch(request, result, head.pop(0))
        for batch in rest:
            beside.show(batch)
            add_batch(request, result, batch)
        result.close()
        return result


def open_head(request: Request, batches: Iterator[Batch]) -> tuple[list[Batch], Iterator[Batch], bool]:
    """Return the head of a log, what follows, and whether the head is all; candidates have answered for its first batch."""
    head, rest, whole = read_head(batches)
    if not head:
        raise RefusedError("the log has no episodes: there is nothing to certify on")
    sample = _sample_episodes(head)
    for candidate in request.candidates:  # each raises what it cannot answer before any unit is opened
        for name in requested_levels(request):
            candidate.policy.taken(name, sample)
    return head, rest, whole


def place_evidence(request: Request, head: list[Batch], whole: bool, sides: UnitSplit) -> ScanResult:
    """Return no evidence yet: claims are declared, grids placed and models fitted on the prior units of the head."""
    problem = request.problem
    sides = add_placing_split(sides, head, whole)
    prior, frozen = prior_units(problem, sides, head), request.frozen
    if frozen is None:
        claims = declare_claims(request, _sample_episodes(head), subgroups_of(problem, request.by, prior))
    else:
        claims = tuple(claim for claim, _ in frozen.claims)
    units = foresee_units(problem, sides, head)
    result = ScanResult.start(request, claims, sides)
    result.held = SensitivityUnits(
        choose_sensitivity_units(problem, sides, head, MOST_SENSITIVITY_ROWS), whole or problem.cluster is None, prior, units
    )
    result.described = {"differs": comparator_differences(request, head[0])}
    if frozen is not None:
        result.models.append(frozen.models)
        result.evidence += [ClaimEvidence.start(claim, grids, problem) for claim, grids in frozen.claims]
        for item in result.evidence:
            item.add_worst(frozen.overruled)
    for index, candidate in enumerate(request.candidates if frozen is None else ()):
        own = [claim for claim in claims if claim.candidate == index]
        result.models.append(fit_models(problem, candidate, own, prior))
        view = (
            None if prior is None else CandidateView(problem, prior, candidate.policy, result.models[index], request.comparator)
        )
        for claim in own:
            if claim.group is None:
                grids = tuple(place_grid(part, claim, view, units) for part in claim.parts)
            result.evidence.append(ClaimEvidence.start(claim, grids, problem))  # a subgroup uses the grids of the claim before it
    return result


def _sample_episodes(head: Sequence[Batch]) -> Batch:
    """Return a few episodes, to find out what candidates can answer."""
    return head[0].take_episodes(np.arange(min(2, len(head[0]))))


@dataclass(slots=True)
class PieceResult:
    """What was found in a piece, the rows at its ends, and why it was refused half way, if it was."""

    scan: ScanResult
    auditor: Auditor
    ends: list[pa.Table]
    refusal: RefusedError | None = None


@dataclass(frozen=True, slots=True)
class PieceScan:
    """Audits and weighs a piece. start, auditor: with grids, models and cuts placed, and nothing in them."""

    pieces: LogChunks
    request: Request
    start: ScanResult
    auditor: Auditor

    def __call__(self, number: int) -> PieceResult:
        """Return what is in a piece."""
        skim = skips_costly_checks(number)
        result, auditor = self.start.again(self.request, number == 0, skim), self.auditor.part(number, skim, self.pieces.episodes)
        reading = self.pieces.read(number)
        refusal = self.weigh(reading, result, auditor)
        result.models = []  # everybody has them
        return PieceResult(result, auditor, reading.ends, refusal)

    def weigh(self, batches: Iterable[Batch], result: ScanResult, auditor: Auditor) -> RefusedError | None:
        """Add batches; return why they were refused, None if they were not."""
        for batch in batches:
            auditor.add(batch)
            try:
                add_batch(self.request, result, batch)
            except RefusedError as error:
                return error
        return None


def scan_pieces(
    request: Request,
    batches: Generator[Batch, None, None],
    pieces: LogChunks,
    sides: UnitSplit,
    auditor: Auditor,
    engine: Engine,
    opening: OpenLook | None = None,
    report: Callable[[int], None] | None = None,
) -> ScanResult:
    """Run the whole pass; `batches` are read as far as the head goes. The audit is complete when this returns, or refuses."""
    head, _, whole = open_head(request, batches)
    request = request if opening is None else opening(head)
    batches.close()
    auditor.place(head[0])
    result = place_evidence(request, head, whole, sides)
    head.clear()  # from here on this process waits, and others need memory
    pa.default_memory_pool().release_unused()
    release_memory()
    work = PieceScan(pieces, request, result.again(request), auditor.part(0))
    edges, number = pieces.edges(), len(pieces)
    last = PieceResult(result.again(request), auditor.part(number), [])
    own = [name for candidate in request.candidates for name in code_modules(candidate.policy)]
    with pickle_by_value(engine, own):
        for part in map_in_order(engine_for_function(engine, work), work, range(number)):
            auditor.merge(part.auditor)
            _raise_refusal(part.refusal)
            result.merge(part.scan)
            _raise_refusal(work.weigh(edges.add(part.ends), last.scan, last.auditor))
            if report is not None:
                report(result.counts["episodes"])
    refusal = work.weigh(edges.close(), last.scan, last.auditor)
    auditor.merge(last.auditor)
    _raise_refusal(refusal)
    result.merge(last.scan)
    result.close()
    return result


def _raise_refusal(refusal: RefusedError | None) -> None:
    if refusal is not None:
        raise refusal
