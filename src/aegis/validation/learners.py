"""Candidates of a validation by name: what `aegis learn` makes of each run's prior log, or a null candidate built on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aegis.agents import CandidateSettings, learn
from aegis.certificate import Candidate
from aegis.errors import SettingError, choose
from aegis.logs import Source, Split
from aegis.logs.tidy import to_table
from aegis.mechanisms import MODELS
from aegis.problem import Batch
from aegis.validation.candidates import Candidates, Maker, Null, Setting

WHOLE = Split("hash", "all", 1.0 - 2.0**-53)  # all of a prior log is learned from: the certified one is another log


@dataclass(frozen=True, slots=True)
class Learned:
    """What `aegis learn` makes of the prior log of each run. Length-scales are not tuned, which takes most of the time."""

    settings: CandidateSettings

    def prepare(self, setting: Setting) -> Maker:
        """Return the function that learns from a prior log."""

        def make(prior: Batch, run: int) -> Candidate:
            source = Source(to_table(prior, setting.problem), setting.problem)
            found = learn(source, WHOLE, self.settings, setting.scope, MODELS)
            return Candidate(found.policy, rewards=found.rewards)

        return make


def _capped(cap: float) -> Candidates:
    return Learned(CandidateSettings("capped", cap=cap))


LEARNERS: Mapping[str, Callable[[float], Candidates]] = {
    "capped": _capped,
    "greedy": lambda cap: Learned(CandidateSettings("greedy")),
    "planned": lambda cap: Learned(CandidateSettings("planned", particles=8)),
    "null": lambda cap: Null(_capped(cap), cap),
}
CAPS = ("capped", "null")  # those that have a cap
CAP = 2.0


def named_learner(spec: str) -> Candidates:
    """Return the learner called NAME or NAME:cap=NUMBER."""
    name, colon, rest = spec.partition(":")
    choose(name, LEARNERS, "candidate")
    if not colon:
        return LEARNERS[name](CAP)
    key, _, text = rest.partition("=")
    try:
        cap = float(text)
    except ValueError:
        cap = 0.0
    if name not in CAPS or key.strip() != "cap" or not cap > 1:
        raise SettingError(
            f"a candidate is {', '.join(LEARNERS)}, of which {' and '.join(CAPS)} take a cap above 1, as in 'capped:cap=3'; "
            f"found '{spec}'"
        )
    return LEARNERS[name](cap)
