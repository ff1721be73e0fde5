"""One pass over a log: the head places grids and fits models, everything that is certified goes into the evidence.

The first blocks are held back until the prior units among them have placed the grids; then they, and all that follows, are
collected. Memory does not grow with the log, but for one row per cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from aegis.certificate.adding import add
from aegis.certificate.collected import Collected, levels_asked
from aegis.certificate.collecting import Evidence, place_grid
from aegis.certificate.contrasts import differences
from aegis.certificate.declaring import declare
from aegis.certificate.groups import groups_of
from aegis.certificate.head import foreseen, head_of, prior_units, with_placing
from aegis.certificate.models import fit_models
from aegis.certificate.request import Request
from aegis.certificate.sensitivity_units import MOST_ROWS, Held, held_units
from aegis.certificate.sides import Sides
from aegis.certificate.view import View
from aegis.errors import RefusedError
from aegis.logs.ahead import Beside
from aegis.problem import Batch

Look = Callable[[Batch], None]
Opening = Callable[[Sequence[Batch]], Request]  # from the head of a log to the request as it is tested


def collect(
    request: Request,
    batches: Iterator[Batch],
    sides: Sides,
    total_rows: int | None = None,
    looks: Sequence[Look] = (),
    opening: Opening | None = None,
) -> Collected:
    """Run the whole pass.

    total_rows: of the log, to foresee its units. looks: called with every batch, one after the other, in a thread, such as the
    audit. opening: called with the head of the log, when the candidates have answered for it and before anything is looked at;
    returns the request with the risk that it may be tested at.
    """
    head, rest, whole = opened(request, batches)
    request = request if opening is None else opening(head)
    with Beside(partial(_look_at, looks)) as beside:  # what they have seen when something is refused stands beside the refusal
        for batch in head:
            beside.show(batch)
        found = placed(request, head, whole, sides, total_rows)
        while head:  # each is let go of when it has been added
            add(request, found, head.pop(0))
        for batch in rest:
            beside.show(batch)
            add(request, found, batch)
        found.close()
        return found


def opened(request: Request, batches: Iterator[Batch]) -> tuple[list[Batch], Iterator[Batch], bool]:
    """Return the head of a log, what follows, and whether the head is all; candidates have answered for its first batch."""
    head, rest, whole = head_of(batches)
    if not head:
        raise RefusedError("the log has no episodes: there is nothing to certify on")
    _try_policies(request, _sample(head))
    return head, rest, whole


def placed(request: Request, head: list[Batch], whole: bool, sides: Sides, total_rows: int | None = None) -> Collected:
    """Return no evidence yet: claims are declared, grids placed and models fitted on the prior units of the head."""
    problem = request.problem
    sides = with_placing(sides, head, whole)
    prior, frozen = prior_units(problem, sides, head), request.frozen
    if frozen is None:
        claims = declare(request, _sample(head), groups_of(problem, request.by, prior))
    else:
        claims = tuple(claim for claim, _ in frozen.claims)
    units = foreseen(problem, sides, head, whole, total_rows)
    found = Collected.start(request, claims, sides)
    found.held = Held(held_units(problem, sides, head, MOST_ROWS), whole or problem.cluster is None, prior, units)
    found.described = {"differs": differences(request, head[0])}
    if frozen is not None:
        found.models.append(frozen.models)
        found.evidence += [Evidence.start(claim, grids, problem) for claim, grids in frozen.claims]
    for index, candidate in enumerate(request.candidates if frozen is None else ()):
        own = [claim for claim in claims if claim.candidate == index]
        found.models.append(fit_models(problem, candidate, own, prior))
        view = None if prior is None else View(problem, prior, candidate.policy, found.models[index], request.comparator)
        for claim in own:
            if claim.group is None:
                grids = tuple(place_grid(part, claim, view, units) for part in claim.parts)
            found.evidence.append(Evidence.start(claim, grids, problem))  # a subgroup uses the grids of the claim before it
    return found


def _sample(head: Sequence[Batch]) -> Batch:
    """Return a few episodes, to find out what candidates can answer."""
    return head[0].take_episodes(np.arange(min(2, len(head[0]))))


def _look_at(looks: Sequence[Look], batch: Batch) -> None:
    for look in looks:
        look(batch)


def _try_policies(request: Request, sample: Batch) -> None:
    """Ask every candidate at every level it will be asked at: what it cannot answer is told before anything is looked at."""
    for candidate in request.candidates:
        for name in levels_asked(request):
            candidate.policy.taken(name, sample)
