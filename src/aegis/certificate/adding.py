"""Adding a batch of episodes to what was found so far: each candidate is asked once, whatever is claimed of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from aegis.certificate.collected import Collected, alone
from aegis.certificate.estimates import episode_estimates
from aegis.certificate.parts import BOTH_SIDES
from aegis.certificate.recognising import recognise
from aegis.certificate.request import Request
from aegis.certificate.view import View
from aegis.certificate.weights import level_weights
from aegis.problem import Array, Batch, Policy, Problem

CELLS = 2**23  # particles x rows x actions held in memory at once
MOSTLY = 0.9  # share of certified episodes from which it is cheaper to compute all of a batch than to take them out
Mask = npt.NDArray[np.bool_]


def add(request: Request, found: Collected, batch: Batch) -> None:
    """Add the certified episodes of a batch; RefusedError if an assumption fails in it."""
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
    kept, members = batch, None if mask.all() else mask
    if mask.mean() < MOSTLY:
        kept, members = batch.take_episodes(mask), None
    recognise(found.recognised, kept, np.ones(len(kept), dtype=np.bool_) if members is None else members)
    comparator = request.comparator
    for index, candidate in enumerate(request.candidates):
        for piece, certified in pieces(problem, candidate.policy, kept, members):
            view = View(problem, piece, candidate.policy, found.models[index], comparator)
            _add_view(request, found, index, view, certified)


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
            sides = any(part.name.startswith(BOTH_SIDES) for part in claim.parts)
            estimates = episode_estimates(view, claim.scope, claim.measure, robust, sides)
            found.moments[index, claim.scope].add(estimates, cluster, certified)
            weights = view.node_weights(claim.scope)
            found.spreads[index, claim.scope].add(weights if certified is None else weights[rows[view.level]])
            found.agreements[index, claim.scope].add(view, claim.scope, rows)
            balance = found.balances[index, claim.scope]
            balance.add(balance.compute(view), cluster, certified)
    for ratios in found.ratios.values() if index == 0 else ():
        ratios.add(view, certified)
    for (position, name), spread in found.level_spreads.items():
        if position == index and spread is not found.spreads.get((index, alone(request.problem, name))):
            weights = level_weights(view, view.batch, name)
            spread.add(weights if certified is None else weights[rows[name]])


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
