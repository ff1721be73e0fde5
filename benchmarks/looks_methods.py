"""What the methods that run here say at each look at one log; all bounds of the gain are one-sided at risk 0.05."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from aegis.certificate import Candidate
from aegis.certificate.unit_split import LEAST_PLACING, PLACING_SHARE
from aegis.evidence import anytime_bernstein, empirical_bernstein, student_t
from aegis.policies import Capped, Function, Logged, Mixture
from aegis.problem import Batch, Level, LevelTable, Policy, Problem, Rows, Scope, parse_problem
from aegis.rng import stream
from aegis.validation import CertifiedUnits, our_claims
from aegis.validation.study_units import log_wealth_path
from looks_logs import ACTIONS, LOOKS, SEED, STOPS, Array, Ints, Log, World

DELTA = 0.05
RESAMPLES = 400
PLACED = max(LEAST_PLACING, round(PLACING_SHARE * int(STOPS[-1])))  # rows that place the bets and are left out
LEVEL = "choice"
PROBLEM = f"""
episode: visit
reward: {{column: reward, range: [0, 1]}}
levels:
  - name: {LEVEL}
    context: [first, second]
    action: {{column: action, values: [{", ".join(map(str, range(ACTIONS)))}]}}
    propensity: {{columns: [{", ".join(f"p{a}" for a in range(ACTIONS))}]}}
"""
OURS = {
    "aegis, capped candidate": ("water-filled", True),
    "aegis, any candidate": ("water-filled", False),
    "aegis, propensity of the action taken only": ("plain", False),
}


@cache
def problem() -> Problem:
    """Return the problem as a user would declare it."""
    return parse_problem(PROBLEM)


def differences(world: World, log: Log, candidate: str) -> Array:
    """Return D = (w - 1) r `[n]`."""
    chances = world.candidates[candidate][log.kind, log.action]
    return (chances / world.legacy[log.kind, log.action] - 1.0) * log.reward


@dataclass(frozen=True, slots=True)
class Seen:
    """What a method says in one run. first: the look, from 1, at which it first says deploy; None: never. last: does it at the
    last look? bound: its lower bound of the gain at the last look.
    """

    first: int | None
    last: bool
    bound: float

    @classmethod
    def of(cls, deploys: Sequence[bool], bound: float) -> Seen:
        """Return it from what was said at each look."""
        return cls(next((place for place, said in enumerate(deploys, 1) if said), None), bool(deploys[-1]), float(bound))

    @classmethod
    def by(cls, bounds: Array) -> Seen:
        """Return it from lower bounds `[looks]` of the gain: a method says deploy where its bound is above 0."""
        return cls.of((bounds > 0).tolist(), float(bounds[-1]))


def classic(world: World, log: Log, candidate: str) -> dict[str, Seen]:
    """Return what Student t says, once with the risk shared by all looks, and empirical Bernstein at one time and at any.

    The range of D is declared: from -1 to the largest weight less 1.
    """
    values = differences(world, log, candidate)
    within = (-1.0, world.largest(candidate) - 1.0)
    found = {
        "Student t": np.array([student_t(values[:stop], DELTA).value for stop in STOPS]),
        "Student t, risk shared by the looks": np.array([student_t(values[:stop], DELTA / LOOKS).value for stop in STOPS]),
        "empirical Bernstein": np.array([empirical_bernstein(values[:stop], DELTA, within).value for stop in STOPS]),
        "anytime empirical Bernstein": anytime_bernstein(values, DELTA, within).path[STOPS - 1],
    }
    return {name: Seen.by(bounds) for name, bounds in found.items()}


def bootstrap(world: World, log: Log, run: int) -> dict[str, Seen]:
    """Return what the percentile bootstrap says by candidate; all candidates see the same resamples of the rows.

    Rows with the same context and action that earned something are the same row, as are all that earned nothing, where D is
    0: how often each kind of row is drawn is multinomial.
    """
    rng = stream(SEED, "looks", world.name, "bootstrap", run)
    alike = np.where(log.reward > 0, log.kind * ACTIONS + log.action, -1)
    _, first, code = np.unique(alike, return_index=True, return_inverse=True)
    columns = np.stack([differences(world, log, name)[first] for name in world.candidates], axis=1)
    found = np.empty((LOOKS, columns.shape[1]))
    for place, stop in enumerate(STOPS):
        count = np.bincount(code[:stop], minlength=first.size)
        drawn = rng.multinomial(stop, count / stop, size=RESAMPLES)
        found[place] = np.quantile(drawn @ columns / stop, DELTA, axis=0)
    return {name: Seen.by(found[:, place]) for place, name in enumerate(world.candidates)}


@dataclass(frozen=True, slots=True)
class Table:
    """A policy or a reward model by kind of context, `[C, A]`, as a user's code that looks at the two features would be."""

    world: World
    entries: Array

    def __call__(self, level: Level, rows: Rows) -> Array:
        """Return the entries of each row."""
        return self.entries[kinds(self.world, rows["first"], rows["second"])]

    def predict(self, level: str, batch: Batch) -> Array:
        """Return the entries of each decision."""
        context = batch.levels[level].context
        return self.entries[kinds(self.world, context["first"], context["second"])]


def kinds(world: World, first: Array, second: Array) -> Ints:
    """Return the kind of context `[n]` by its features."""
    apart = np.square(world.features[:, 0] - first[:, None]) + np.square(world.features[:, 1] - second[:, None])
    return np.asarray(apart.argmin(axis=1))


def policy_of(world: World, candidate: str, capped: bool) -> Policy:
    """Return a candidate as the product sees it: capped policies of what ranks the actions, or a function from elsewhere."""
    if not capped:
        return Function(problem(), Table(world, world.candidates[candidate]))
    legacy = Logged(problem())
    parts = world.scores[candidate]
    members = [Capped(problem(), Table(world, scores), legacy, float(world.cap or math.inf)) for _, scores in parts]
    return Mixture(members, [share for share, _ in parts])


def batch_of(world: World, log: Log) -> Batch:
    """Return a log as the product reads it: one decision per episode, the whole legacy distribution logged."""
    rows = np.arange(log.kind.size, dtype=np.int32)
    context = {name: world.features[log.kind, place].copy() for place, name in enumerate(("first", "second"))}
    legacy = world.legacy[log.kind]
    table = LevelTable(rows, context, log.action.astype(np.int32), legacy[rows, log.action], legacy)
    return Batch(rows, {LEVEL: table}, log.reward)


def ours(world: World, log: Log, candidate: str) -> Iterator[tuple[str, Seen]]:
    """Yield what our tests say, by name.

    The claims, models, grids and sums are those of `certify`; the first rows place the bets, as in a test that is set up before
    it runs, and each look reads the wealth of that one test against a gain of 0.
    """
    batch = batch_of(world, log)
    prior, rest = batch.take_episodes(np.arange(PLACED)), batch.take_episodes(np.arange(PLACED, len(batch)))
    for name, (method, capped) in OURS.items():
        if capped and world.cap is None:
            continue
        chosen = Candidate(policy_of(world, candidate, capped))
        claims = our_claims(problem(), chosen, Scope(LEVEL), rest.take_episodes(np.arange(2)), DELTA, [method], ["gain"])
        for _, _, trace in CertifiedUnits(problem(), chosen, Scope(LEVEL), prior, rest, claims).traces():
            wealth = log_wealth_path(trace.item, trace.found, 0.0)
            reached = [bool(stop > PLACED and wealth[stop - PLACED - 1] >= math.log(1.0 / DELTA)) for stop in STOPS]
            yield name, Seen.of(reached, trace.last.value)
