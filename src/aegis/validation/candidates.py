"""Where the candidate of a run comes from: anew from the run's own prior log, fixed beforehand, or built to gain nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from aegis.certificate import Candidate
from aegis.errors import SettingError
from aegis.policies import Capped, Logged
from aegis.problem import Array, Batch, Plant, Policy, Problem, RewardModel, augmented
from aegis.problem.hashing import folded, spread
from aegis.rng import stream
from aegis.validation.plant_truth import Judge

Maker = Callable[[Batch, int], Candidate]  # from a run's prior log and its number
PILOT = 400  # episodes that a null candidate is made from
SURE = 3.0  # standard errors by which a null candidate is kept below 0
STEPS = 30


@dataclass(frozen=True, slots=True)
class Setting:
    """What a learner may look at before the runs begin.

    scope: the levels that change hands, outermost first. stated: the problem with its incumbents, if they are known.
    """

    plant: Plant
    legacy: Policy
    scope: tuple[str, ...]
    judge: Judge
    seed: int
    stated: Problem | None = None

    @property
    def problem(self) -> Problem:
        """Return the problem that is certified."""
        return self.plant.problem if self.stated is None else self.stated


@runtime_checkable
class Candidates(Protocol):
    """Makes the candidates of the runs of a study; one of the same settings has the same `repr`."""

    def prepare(self, setting: Setting) -> Maker:
        """Return the function that makes the candidate of a run; what all runs share is done here."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same candidate in every run: a policy that was there before. name: what tells it from others."""

    candidate: Candidate
    name: str

    def prepare(self, setting: Setting) -> Maker:
        """Return the candidate, whatever the run."""
        return lambda prior, run: self.candidate

    def __repr__(self) -> str:
        return f"Fixed({self.name!r})"


@dataclass(frozen=True, slots=True)
class Null:
    """A candidate that acts quite differently from its comparator and gains nothing over it, or next to nothing less.

    What a model learned from a pilot log thinks best is done in some contexts and what it thinks worst in the others, never more
    than `cap` times as likely as under the legacy. A hash of the context, which says nothing about rewards, decides which; the
    share of contexts that are done well is chosen so that the true gain lies `SURE` standard errors below 0. With few different
    contexts a hash is coarse, and the candidate somewhat worse than that. base: where the reward model comes from.
    """

    base: Candidates
    cap: float = 2.0

    def prepare(self, setting: Setting) -> Maker:
        """Return the candidate, the same for every run."""
        seed = int(stream(setting.seed, "null").integers(2**62))
        pilot = setting.plant.episodes(0, PILOT, setting.legacy, seed)
        model = self.base.prepare(setting)(pilot, 0).rewards
        if model is None:
            raise SettingError("a null candidate is built on a model of the reward; its base learned none")

        def candidate(share: float) -> Candidate:
            turned = Turned(setting.problem, model, share)
            return Candidate(Capped(setting.problem, turned, Logged(setting.problem), self.cap, setting.scope), rewards=model)

        found = candidate(null_share(lambda share: _surely(setting, candidate(share))))
        return lambda prior, run: found


def null_share(gain: Callable[[float], float]) -> float:
    """Return a share in [0, 1] at which a gain that grows with it is at most 0, and as close to 0 as a few steps bring it."""
    low, high = 0.0, 1.0
    below, above = gain(low), gain(high)
    if below > 0:
        raise SettingError(
            "no null candidate was found: even what the reward model thinks worst seems to be better than the comparator; "
            "validate with another candidate, or at another scope"
        )
    if above <= 0:
        return high
    enough = 1e-3 * (above - below)
    for step in range(STEPS):
        if below > -enough:
            break
        # Regula falsi goes straight to the root of a nearly linear gain; halving in between brings both ends in.
        middle = low + (high - low) * (0.5 if step % 3 == 2 else below / (below - above))
        here = gain(middle)
        if here <= 0:
            low, below = middle, here
        else:
            high, above = middle, here
    return low


def _surely(setting: Setting, candidate: Candidate) -> float:
    """Return an upper confidence limit of the true gain; above 0 is better, whatever the goal."""
    truth = setting.judge.truth(candidate.policy, setting.scope)
    better = truth.gain if setting.problem.reward.goal == "maximise" else -truth.gain
    return better + SURE * truth.gain_error


@dataclass(frozen=True, slots=True)
class Turned:
    """A reward model whose opinion is turned around in all but a share of the contexts."""

    problem: Problem
    model: RewardModel
    share: float

    def predict(self, level: str, batch: Batch) -> Array:
        """Return `[n, A]`: the model's prediction, or minus that."""
        kept = context_hash(self.problem, level, batch) < self.share
        return np.where(kept[:, None], 1.0, -1.0) * self.model.predict(level, batch)


def context_hash(problem: Problem, level: str, batch: Batch) -> Array:
    """Return a number in [0, 1) for each decision `[n]` that depends on its augmented context and looks like chance."""
    total = np.ones(len(batch.levels[level]), dtype=np.uint64)
    for values in augmented(problem, batch, level).values():
        total = folded(total, values)
    return np.asarray(spread(total) / 2.0**64)
