"""One pass over a log: the head places grids and fits models, everything that is certified goes into the evidence.

The first blocks are held back until the prior units among them have placed the grids; then they, and all that follows, are
collected. Memory does not grow with the log, but for one row per cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from aegis.certificate.balance import start_balance
from aegis.certificate.behaviour import Behaviour
from aegis.certificate.claims import Claim
from aegis.certificate.collecting import Evidence, Moments, place_grid
from aegis.certificate.contrasts import differences
from aegis.certificate.declaring import declare
from aegis.certificate.estimates import SERIES, episode_estimates
from aegis.certificate.groups import groups_of
from aegis.certificate.head import foreseen, head_of, prior_units, with_placing
from aegis.certificate.measures import reward_measure
from aegis.certificate.models import fit_models
from aegis.certificate.overlap import Spread
from aegis.certificate.recognising import Recognised, recognise, recognisers
from aegis.certificate.request import Request
from aegis.certificate.sensitivity_units import MOST_ROWS, Held, held_units
from aegis.certificate.sides import Sides
from aegis.certificate.units import Clusters
from aegis.certificate.view import Models, View
from aegis.certificate.weights import level_weights, reward_level
from aegis.errors import RefusedError
from aegis.logs.ahead import Beside
from aegis.problem import Array, Batch, Policy, Problem, Scope

CELLS = 2**23  # particles x rows x actions held in memory at once
MOSTLY = 0.9  # share of certified episodes from which it is cheaper to compute all of a batch than to take them out
Look = Callable[[Batch], None]
Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Collected:
    """What one pass found: evidence by claim; estimates and weights by (candidate, scope) and (candidate, level)."""

    claims: tuple[Claim, ...]
    evidence: list[Evidence]
    moments: dict[tuple[int, Scope], Moments]
    spreads: dict[tuple[int, Scope], Spread]
    level_spreads: dict[tuple[int, str], Spread]
    balances: dict[tuple[int, Scope], Evidence]
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


def collect(
    request: Request,
    batches: Iterator[Batch],
    sides: Sides,
    total_rows: int | None = None,
    looks: Sequence[Look] = (),
    opening: Look | None = None,
) -> Collected:
    """Run the whole pass.

    total_rows: of the log, to foresee its units. looks: called with every batch, one after the other, in a thread, such as the
    audit. opening: called with the first batch, when the candidates have answered for it and before anything is looked at.
    """
    head, rest, whole = head_of(batches)
    if not head:
        raise RefusedError("the log has no episodes: there is nothing to certify on")
    sample = head[0].take_episodes(np.arange(min(2, len(head[0]))))
    _try_policies(request, sample)
    if opening is not None:
        opening(head[0])
    with Beside(partial(_look_at, looks)) as beside:  # what they have seen when something is refused stands beside the refusal
        for batch in head:
            beside.show(batch)
        return _collect(request, sample, head, rest, whole, sides, total_rows, beside)


def _collect(
    request: Request,
    sample: Batch,
    head: list[Batch],
    rest: Iterator[Batch],
    whole: bool,
    sides: Sides,
    total_rows: int | None,
    beside: Beside[Batch],
) -> Collected:
    problem = request.problem
    sides = with_placing(sides, head, whole)
    prior, frozen = prior_units(problem, sides, head), request.frozen
    if frozen is None:
        claims = declare(request, sample, groups_of(problem, request.by, prior))
    else:
        claims = tuple(claim for claim, _ in frozen.claims)
    units = foreseen(problem, sides, head, whole, total_rows)
    found = _nothing_yet(request, claims, sides)
    found.held = Held(held_units(problem, sides, head, MOST_ROWS), whole or problem.cluster is None, prior, units)
    found.described = {"differs": differences(request, head[0])}
    if frozen is not None:
        found.models.append(frozen.models)
        found.evidence += [Evidence.start(claim, grids, problem) for claim, grids in frozen.claims]
    for index, candidate in enumerate(request.candidates if frozen is None else ()):
        own = [claim for claim in claims if claim.candidate == index]
        found.models.append(fit_models(problem, candidate, own, prior))
        view = None if prior is None else View(problem, prior, candidate.policy, found.models[index])
        for claim in own:
            if claim.group is None:
                grids = tuple(place_grid(part, claim, view, units) for part in claim.parts)
            found.evidence.append(Evidence.start(claim, grids, problem))  # a subgroup uses the grids of the claim before it
    while head:  # each is let go of when it has been added
        _add(request, found, head.pop(0))
    for batch in rest:
        beside.show(batch)
        _add(request, found, batch)
    for item in (*found.evidence, *found.balances.values()):
        item.close()
    for moments in found.moments.values():
        moments.close()
    for recognised in found.recognised:
        recognised.check()
    return found


def _look_at(looks: Sequence[Look], batch: Batch) -> None:
    for look in looks:
        look(batch)


def _try_policies(request: Request, sample: Batch) -> None:
    """Ask every candidate at every level it will be asked at: what it cannot answer is told before anything is looked at."""
    for candidate in request.candidates:
        for name in _levels(request):
            candidate.policy.taken(name, sample)


def _levels(request: Request) -> list[str]:
    """Return the levels of all scopes, outermost first."""
    return [name for name in request.problem.names if any(name in scope for scope in request.scopes)]


def _nothing_yet(request: Request, claims: tuple[Claim, ...], sides: Sides) -> Collected:
    pairs = [(index, scope) for index in range(len(request.candidates)) for scope in request.scopes]
    levels = [(index, name) for index, scope in pairs for name in request.named(scope)]
    reward = reward_measure(request.problem)
    spreads = {pair: Spread() for pair in pairs}
    return Collected(
        claims,
        [],
        {pair: _moments(request.problem) for pair in pairs},
        spreads,
        {(index, name): spreads.get((index, _alone(request.problem, name)), Spread()) for index, name in levels},
        {(index, scope): start_balance(request.problem, index, scope, reward) for index, scope in pairs},
        sides,
        [],
        {},
        {candidate.name: Behaviour(_levels(request)) for candidate in request.candidates if candidate.is_code},
        *recognisers(request.problem, request.candidates, request.fresh),
    )


def _add(request: Request, found: Collected, batch: Batch) -> None:
    problem = request.problem
    closed = found.sides.closed(batch)
    mask = found.sides.certified(problem, batch)
    found.episodes += len(batch)
    found.rows += len(batch.levels[problem.innermost.name])
    found.waiting_episodes += int((~closed).sum())
    found.certified_episodes += int(mask.sum())
    found.prior_episodes += int((closed & ~mask).sum())
    if not mask.any():
        return
    recognise(found.recognised, batch, mask)
    kept, members = batch, None if mask.all() else mask
    if mask.mean() < MOSTLY:
        kept, members = batch.take_episodes(mask), None
    for index, candidate in enumerate(request.candidates):
        for piece, certified in pieces(problem, candidate.policy, kept, members):
            _add_view(request, found, index, View(problem, piece, candidate.policy, found.models[index]), certified)


def _add_view(request: Request, found: Collected, index: int, view: View, certified: Mask | None) -> None:
    """Add the certified episodes of a view; all of them if None."""
    values: list[Array] = []
    cluster = view.batch.cluster
    rows = {} if certified is None else _expanded(view.batch, certified)
    behaviour = found.behaviours.get(request.candidates[index].name)
    if behaviour is not None:
        behaviour.add(view, view.batch, rows)
    for item in found.evidence:
        claim = item.claim
        if claim.candidate != index:
            continue
        if claim.group is None:
            values = item.compute(view)
        item.add(values, cluster, certified if claim.group is None else _both(claim.group.members(view.batch), certified))
        if claim.what == "gain" and claim.group is None:
            robust = request.problem.carry_over == "none" and any(part.modelled for part in claim.parts)
            estimates = episode_estimates(view, claim.scope, claim.measure, robust)
            found.moments[index, claim.scope].add(estimates, cluster, certified)
            weights = view.node_weights(claim.scope)
            found.spreads[index, claim.scope].add(weights if certified is None else weights[rows[view.level]])
            balance = found.balances[index, claim.scope]
            balance.add(balance.compute(view), cluster, certified)
    for (position, name), spread in found.level_spreads.items():
        if position == index and spread is not found.spreads.get((index, _alone(request.problem, name))):
            weights = level_weights(view, view.batch, name)
            spread.add(weights if certified is None else weights[rows[name]])


def _alone(problem: Problem, name: str) -> Scope:
    """Return the scope of a level whose own weights are those of its scope; no scope if rewards have other weights."""
    same = problem.carry_over == "none" and reward_level(problem) == name == problem.innermost.name
    return Scope(name) if same else Scope()


def _both(members: Mask, certified: Mask | None) -> Mask:
    return members if certified is None else members & certified


def _expanded(batch: Batch, mask: Mask) -> dict[str | None, Mask]:
    """Return the mask of episodes at the decisions `[n]` of each level; None stands for the episodes."""
    found: dict[str | None, Mask] = {None: mask}
    for name, table in batch.levels.items():
        mask = mask[table.parent]
        found[name] = mask
    return found


def pieces(problem: Problem, policy: Policy, batch: Batch, mask: Mask | None) -> Iterator[tuple[Batch, Mask | None]]:
    """Yield the batch, and the mask of its episodes, in pieces whose full distributions fit into memory."""
    widest = max(level.actions.count for level in problem.levels) * policy.weights.size
    rows = max(len(table) for table in batch.levels.values())
    count = -(-rows * widest // CELLS)
    if count <= 1:
        yield batch, mask
        return
    for part in np.array_split(np.arange(len(batch)), min(count, len(batch))):
        yield batch.take_episodes(part), None if mask is None else mask[part]


def _moments(problem: Problem) -> Moments:
    if problem.cluster is None:
        return Moments(SERIES, None)
    return Moments(SERIES, Clusters(np.zeros(len(SERIES)), problem.cluster_most, problem.cluster))
