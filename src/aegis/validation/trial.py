"""One run of a validation: a log, a candidate learned beside it, the truth about it, and what every bound states.

The prior log, from which the candidate is learned and bets are placed, has a seed of its own; the other log is certified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field

import numpy as np

from aegis.certificate import Candidate, margin_of
from aegis.errors import RefusedError, SettingError, check_choice, whole_number
from aegis.evidence import BOUNDS, PublishedSample, Quantity, UnitSample, check_delta
from aegis.files import json_digest
from aegis.ope import Measure, reward_measure
from aegis.problem import Batch, Plant, Policy, Problem, Scope
from aegis.rng import stream
from aegis.validation.replications import RunRecords
from aegis.validation.study_candidates import CandidateSource, LearnerSetting
from aegis.validation.study_units import OURS, CertifiedUnits, Trace, declared_largest, look_counts, our_claims, trace_bound
from aegis.validation.truth import Truth, acting_incumbent, comparator_phrase, judge_for, problem_with_comparator
from aegis.version import __version__
from aegis.worlds import World

BOUNDED_CLAIMS: tuple[Quantity, ...] = ("gain", "value")
TRUTH_ERRORS = 2.0  # standard errors of the truth that count against a bound
RESAMPLES = 1000  # of a bootstrap, at each look
# Episodes behind a truth, and how many for each that is certified: its doubt, which counts against bounds, must not show.
WITH_EQUATIONS, BY_REWARDS, TIMES = 10_000, 20_000, 40


@dataclass(frozen=True, slots=True)
class BoundOutcome:
    """What one bound said in one run, rewards scaled to [0, 1] and 1 best.

    at_end, ever: was it above the truth from all units, and from any number of units that was looked at? The truth is lowered by
    two of its standard errors first: doubt counts against the bound. above: after how many units it was first above the margin
    that a handover asks for; None if never. ends_above: was it in the end? null: is the true gain at most that margin, two
    standard errors added?
    """

    bound: str
    claim: str
    certificate: bool
    validity: str
    label: str
    units: int
    value: float
    truth: float
    at_end: bool
    ever: bool
    above: int | None
    ends_above: bool
    null: bool


@dataclass(frozen=True, slots=True)
class ValidationTrial:
    """What is validated. identity: words that tell plant, legacy and learner from others whose runs must not be mixed with these.

    scope: the levels that change hands, outermost first. episodes: certified in a run. prior: learned from beforehand. judged:
    episodes behind the truth about a candidate, enough for it if None. bounds: names, all if None. only_end: no look on the way.
    seed: of everything. comparator: whom gains are over, 'incumbent' (where it is known) or 'logger'.
    """

    plant: Plant
    legacy: Policy
    learner: CandidateSource
    identity: str
    scope: tuple[str, ...]
    episodes: int = 200
    prior: int = 100
    delta: float = 0.05
    judged: int | None = None
    bounds: tuple[str, ...] | None = None
    claims: tuple[Quantity, ...] = BOUNDED_CLAIMS
    only_end: bool = False
    seed: int = 1
    comparator: str = "incumbent"
    problem: Problem = field(init=False)
    _names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        for name, value, least in (("episodes", self.episodes, 20), ("prior", self.prior, 20), ("judged", self.judging, 100)):
            whole_number(f"'{name}'", value, least)
        check_delta(self.delta)
        if not self.plant.problem.scope(self.scope):
            raise SettingError(f"a scope names at least one level of {', '.join(self.plant.problem.names)}")
        for name in self.bounds or ():
            check_choice(name, (*OURS, *measured_bounds()), "bound")
        for name in self.claims:
            check_choice(name, BOUNDED_CLAIMS, "claim")
        reward_measure(self.plant.problem)  # refuses a reward without a range
        object.__setattr__(self, "problem", problem_with_comparator(self.plant.problem, self.legacy, self.comparator))
        object.__setattr__(self, "_names", self.bounds or (*OURS, *measured_bounds()))

    @property
    def judging(self) -> int:
        """Return the number of episodes behind a truth."""
        if self.judged is not None:
            return self.judged
        return max(WITH_EQUATIONS if isinstance(self.plant, World) else BY_REWARDS, TIMES * self.episodes)

    @property
    def key(self) -> str:
        """Return the digest of everything that a run depends on."""
        return json_digest(self.parts)

    @property
    def over(self) -> str:
        """Return over whom gains are, in words."""
        return comparator_phrase(self.problem, self.scope)

    @property
    def parts(self) -> dict[str, str]:
        """Return everything that the key is a digest of, in words, so that a refusal can say what differs."""
        plant, _, legacy = self.identity.rpartition("; ")  # digests and names of policies have no such sign
        return {
            "version": __version__,
            "plant": plant,
            "legacy": legacy,
            "candidate": repr(self.learner),
            "scope": " + ".join(self.scope),
            "episodes": str(self.episodes),
            "prior": str(self.prior),
            "delta": str(self.delta),
            "judged": str(self.judging),
            "bounds": ", ".join(self._names),
            "claims": ", ".join(self.claims),
            "looks": "at the end" if self.only_end else "on the way",
            "comparator": self.over,
            "seed": str(self.seed),
        }

    def prepare(self) -> Callable[[int], RunRecords]:
        """Return what does one run: the outcomes of all bounds as plain data, or why the run was refused."""
        judge = judge_for(self.plant, self.legacy, self.judging, acting_incumbent(self.problem, self.legacy))
        setting = LearnerSetting(self.plant, self.legacy, self.scope, judge, self.seed, stated=self.problem)
        make = self.learner.prepare(setting)
        known: tuple[Candidate, Truth] | None = None

        def run(number: int) -> RunRecords:
            nonlocal known
            prior_seed, seed = stream(self.seed, "validate", number).integers(2**62, size=2).tolist()
            prior = self.plant.episodes(0, self.prior, self.legacy, prior_seed)
            rest = self.plant.episodes(0, self.episodes, self.legacy, seed)
            candidate = make(prior, number)
            if known is None or known[0] is not candidate:  # the truth about one that all runs share is found once
                known = candidate, judge.truth(candidate.policy, self.scope)
            try:
                return [asdict(outcome) for outcome in self._outcomes(candidate, prior, rest, known[1], number)]
            except RefusedError as error:  # as `certify` would have refused this log
                return [{"refused": str(error)}]

        return run

    def _outcomes(self, candidate: Candidate, prior: Batch, rest: Batch, truth: Truth, number: int) -> Iterator[BoundOutcome]:
        problem, scope = self.problem, Scope(self.scope)
        ours = [name for name in OURS if name in self._names]
        claims = our_claims(problem, candidate, scope, rest.take_episodes(np.arange(2)), self.delta, ours, self.claims)
        certified = CertifiedUnits(problem=problem, candidate=candidate, scope=scope, prior=prior, rest=rest, claims=claims)
        margin = margin_of(problem, scope) / certified.measure.width
        null = _gain(certified.measure, truth) + TRUTH_ERRORS * truth.gain_error / certified.measure.width <= margin
        for name, claim, trace in certified.traces():
            yield self._outcome(name, claim.what, trace, certified.measure, truth, margin, null)
        others = [name for name in measured_bounds() if name in self._names]
        # Without a bound of mu / nu plain gains have no lower limit, which all other bounds need.
        for what in [what for what in self.claims if others and (what == "value" or certified.ratio is not None)]:
            sample = self._sample(certified, what, number)
            counts = look_counts(sample.values.size, self.only_end)
            for name in [name for name in others if what in BOUNDS[name].claims]:
                bound = trace_bound(BOUNDS[name], sample, counts)
                if bound is not None:
                    yield self._outcome(name, what, bound, certified.measure, truth, margin, null)

    def _outcome(
        self, name: str, what: str, trace: Trace, measure: Measure, truth: Truth, margin: float, null: bool
    ) -> BoundOutcome:
        gains, last = what == "gain", trace.last
        exact = _gain(measure, truth) if gains else float(measure.scaled(np.array([truth.value]))[0])
        doubt = TRUTH_ERRORS * (truth.gain_error if gains else truth.error) / measure.width
        at_end = last.value > exact - doubt
        return BoundOutcome(
            bound=name,
            claim=what,
            certificate=last.certificate,
            validity=last.validity,
            label=last.label,
            units=last.units,
            value=last.value,
            truth=exact,
            at_end=at_end,
            ever=at_end if self.only_end else at_end or trace.above(exact - doubt) is not None,
            above=None if self.only_end or not gains else trace.above(margin),
            ends_above=gains and last.value > margin,
            null=null,
        )

    def _sample(self, certified: CertifiedUnits, what: Quantity, number: int) -> UnitSample:
        values, shares = certified.plain(what), certified.candidate.policy.weights
        members = [values] if shares.size == 1 else [certified.plain(what, particle=n) for n in range(shares.size)]
        earned, ratio = certified.plain("value"), certified.ratio or 1.0
        largest = declared_largest(certified.candidate, self.scope, certified.prior)
        shift = ratio if what == "gain" else 0.0
        least = 1.0 if what == "gain" and ratio == 1.0 else 0.0  # u = 1 without exploration; with it u may be 0
        return UnitSample(
            what=what,
            values=values,
            particles=np.stack(members, axis=1),
            shares=shares,
            delta=self.delta,
            rng=stream(self.seed, "bounds", number),
            published=PublishedSample(
                earned=earned,
                legacy=earned - values,
                peaks=certified.weights(),
                largest=largest,
                prior=certified.plain("value", "prior"),
            ),
            shift=shift,
            prior=certified.plain(what, "prior"),
            range=(-shift, largest - least),
            resamples=RESAMPLES,
        )


def measured_bounds() -> list[str]:
    """Return the bounds of the table that are validated."""
    return [name for name, method in BOUNDS.items() if "validate" in method.commands]


def _gain(measure: Measure, truth: Truth) -> float:
    """Return the scaled true gain; above 0 is better for either goal."""
    return (truth.gain if measure.goal == "maximise" else -truth.gain) / measure.width
