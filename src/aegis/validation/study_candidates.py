"""Where the candidate of a replication comes from, and the table LEARNERS by name.

A candidate is learned from the prior log of its run, fixed beforehand, or built to gain nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from aegis.agents import CandidateSettings, learn
from aegis.certificate import Candidate
from aegis.errors import SettingError, check_choice
from aegis.logs import Source, Split, to_table
from aegis.mechanisms import MODELS
from aegis.policies import Capped, Logged
from aegis.problem import Array, Batch, Plant, Policy, Problem, RewardModel, augmented_context, fold_hash, mix_bits
from aegis.rng import stream
from aegis.validation.truth import Judge

MakeCandidate = Callable[[Batch, int], Candidate]  # from a run's prior log and its number

PILOT = 400  # episodes that a null candidate is made from

SURE = 3.0  # standard errors by which a null candidate is kept below 0

STEPS = 30


@dataclass(frozen=True, slots=True)
class LearnerSetting:
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
class CandidateSource(Protocol):
    """Makes the candidates of the runs of a study; one of the same settings has the same `repr`."""

    def prepare(self, setting: LearnerSetting) -> MakeCandidate:
        """Return the function that makes the candidate of a run; what all runs share is done here."""
        ...


@dataclass(frozen=True, slots=True)
class FixedCandidate:
    """The same candidate in every run: a policy that was there before. name: what tells it from others."""

    candidate: Candidate
    name: str

    def prepare(self, setting: LearnerSetting) -> MakeCandidate:
        """Return the candidate, the same in every run."""
        return lambda prior, run: self.candidate

    def __repr__(self) -> str:
        return f"Fixed({self.name!r})"


@dataclass(frozen=True, slots=True)
class NullCandidate:
    """A candidate that acts quite differently from its comparator and gains nothing over it, or next to nothing less.

    What a model learned from a pilot log thinks best is done in some contexts and what it thinks worst in the others, never more
    than `cap` times as likely as under the legacy. A hash of the context, which says nothing about rewards, decides which; the
    share of contexts that are done well is chosen so that the true gain lies `SURE` standard errors below 0. With few different
    contexts a hash is coarse, and the candidate somewhat worse than that. base: where the reward model comes from.
    """

    base: CandidateSource
    cap: float = 2.0

    def prepare(self, setting: LearnerSetting) -> MakeCandidate:
        """Return the candidate, the same for every run."""
        seed = int(stream(setting.seed, "null").integers(2**62))
        pilot = setting.plant.episodes(0, PILOT, setting.legacy, seed)
        model = self.base.prepare(setting)(pilot, 0).rewards
        if model is None:
            raise SettingError("a null candidate is built on a model of the reward; its base learned none")

        def candidate(share: float) -> Candidate:
            turned = TurnedModel(setting.problem, model, share)
            return Candidate(Capped(setting.problem, turned, Logged(setting.problem), self.cap, setting.scope), rewards=model)

        chosen = candidate(null_share(lambda share: _upper_gain(setting, candidate(share))))
        return lambda prior, run: chosen


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


def _upper_gain(setting: LearnerSetting, candidate: Candidate) -> float:
    """Return an upper confidence limit of the true gain; above 0 is better for either goal."""
    truth = setting.judge.truth(candidate.policy, setting.scope)
    better = truth.gain if setting.problem.reward.goal == "maximise" else -truth.gain
    return better + SURE * truth.gain_error


@dataclass(frozen=True, slots=True)
class TurnedModel:
    """A reward model whose opinion is turned around in all but a share of the contexts."""

    problem: Problem
    model: RewardModel
    share: float

    def predict(self, level: str, batch: Batch) -> Array:
        """Return `[n, A]`: the model's prediction, or minus that."""
        upright = context_hash(self.problem, level, batch) < self.share
        return np.where(upright[:, None], 1.0, -1.0) * self.model.predict(level, batch)


def context_hash(problem: Problem, level: str, batch: Batch) -> Array:
    """Return a number in [0, 1) for each decision `[n]` that depends on its augmented context and looks like chance."""
    total = np.ones(len(batch.levels[level]), dtype=np.uint64)
    for values in augmented_context(problem, batch, level).values():
        total = fold_hash(total, values)
    return np.asarray(mix_bits(total) / 2.0**64)


WHOLE_LOG = Split("hash", "all", 1.0 - 2.0**-53)  # all of a prior log is learned from: the certified one is another log


@dataclass(frozen=True, slots=True)
class LearnedCandidate:
    """What `aegis learn` makes of the prior log of each run. Length-scales are not tuned, which takes most of the time."""

    settings: CandidateSettings

    def prepare(self, setting: LearnerSetting) -> MakeCandidate:
        """Return the function that learns from a prior log."""

        def make(prior: Batch, run: int) -> Candidate:
            source = Source(to_table(prior, setting.problem), setting.problem)
            learned = learn(source, WHOLE_LOG, self.settings, setting.scope, MODELS)
            return Candidate(learned.policy, rewards=learned.rewards)

        return make


def _capped(cap: float) -> CandidateSource:
    return LearnedCandidate(CandidateSettings("capped", cap=cap))


LEARNERS: Mapping[str, Callable[[float], CandidateSource]] = {
    "capped": _capped,
    "greedy": lambda cap: LearnedCandidate(CandidateSettings("greedy")),
    "planned": lambda cap: LearnedCandidate(CandidateSettings("planned", particles=8)),
    "null": lambda cap: NullCandidate(_capped(cap), cap),
}

CAPPED_LEARNERS = ("capped", "null")  # those that have a cap

CAP = 2.0


def named_learner(spec: str) -> CandidateSource:
    """Return the learner called NAME or NAME:cap=NUMBER."""
    name, colon, rest = spec.partition(":")
    check_choice(name, LEARNERS, "candidate")
    if not colon:
        return LEARNERS[name](CAP)
    key, _, text = rest.partition("=")
    try:
        cap = float(text)
    except ValueError:
        cap = 0.0
    if name not in CAPPED_LEARNERS or key.strip() != "cap" or not cap > 1:
        raise SettingError(
            f"a candidate is {', '.join(LEARNERS)}, of which {' and '.join(CAPPED_LEARNERS)} take a cap above 1, as in "
            f"'capped:cap=3'; found '{spec}'"
        )
    return LEARNERS[name](cap)
