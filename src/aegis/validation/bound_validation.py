"""Validating bounds in one call, and the verdict whether every certificate keeps its promise.

Plants, legacies and candidates are given by name or as objects.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta, binomtest

from aegis.certificate import Candidate, code_digest
from aegis.engine import IN_PROCESS, Engine, parse_engine
from aegis.errors import AegisError, PolicyError, RefusedError, SettingError
from aegis.files import write_text
from aegis.policies import policy_digest
from aegis.problem import Plant, Policy
from aegis.validation.replications import RunProgress, RunRecords, run_tasks
from aegis.validation.study_candidates import LEARNERS, CandidateSource, FixedCandidate, named_learner
from aegis.validation.trial import BoundOutcome, ValidationTrial
from aegis.worlds import World, make_world

SIGNIFICANT = 0.001  # about thirty certificates are tested at once: a sound one is called violated in few validations

CONFIDENT = 0.95

HOLDS, VIOLATED, TOO_FEW = "holds", "violated", "too few runs"


def rate_limit(violations: int, runs: int) -> float:
    """Return the upper 95 % limit of the rate of violations (Clopper and Pearson): no larger one is compatible with so few."""
    return 1.0 if violations >= runs else float(beta.ppf(CONFIDENT, violations + 1, runs - violations))


def excess_p_value(violations: int, runs: int, delta: float) -> float:
    """Return the p-value of the hypothesis that violations happen with probability at most delta."""
    return float(binomtest(violations, runs, delta, alternative="greater").pvalue)


@dataclass(frozen=True, slots=True)
class BoundRow:
    """One bound of one claim over all runs; rates are numbers of runs, p-values those of binomial tests against delta.

    at_end, ever: runs in which it was above the truth, in the end and at any time. nulls: runs in which there was nothing to
    certify; false: those of them in which a gain was certified, ever if the bound holds at any time and in the end otherwise.
    width: median of truth minus bound, scaled. units: median number to a certified gain; infinite if it takes more than there
    are, None for a value. verdict: of a certificate, else None; 'too few runs' if no number of violations would be too
    many.
    """

    bound: str
    claim: str
    certificate: bool
    validity: str
    label: str
    runs: int
    at_end: int
    at_end_p: float
    ever: int
    ever_p: float
    nulls: int
    false: int
    false_p: float
    width: float
    truth: float
    units: float | None
    verdict: str | None

    @property
    def wrong(self) -> int:
        """Return the runs that count against the promise: at any time, or in the end if it speaks of one number of units."""
        return self.ever if self.validity == "anytime" else self.at_end

    @property
    def wrong_at_most(self) -> float:
        """Return the upper 95 % limit of the rate at which the bound is wrong."""
        return rate_limit(self.wrong, self.runs)

    def plain(self) -> dict[str, Any]:
        """Return plain data; units that are infinite are null."""
        row = asdict(self)
        units = None if self.units is None or math.isinf(self.units) else self.units
        return row | {"units": units, "wrong_at_most": self.wrong_at_most}


@dataclass(frozen=True, slots=True)
class Validation:
    """All rows: certificates first, gains before values. about: what was validated. refused: why runs were left out."""

    about: Mapping[str, Any]
    delta: float
    runs: int
    rows: tuple[BoundRow, ...]
    refused: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Say whether no certificate was violated more often than promised, beyond chance, and there were runs enough to tell."""
        return self.verdict == HOLDS

    @property
    def verdict(self) -> str:
        """Return that of all certificates together: the worst of theirs."""
        verdicts = {row.verdict for row in self.rows}
        return next((verdict for verdict in (VIOLATED, TOO_FEW) if verdict in verdicts), HOLDS)

    @property
    def worst(self) -> BoundRow | None:
        """Return the certificate whose rate of violations may be the largest; None if there are no certificates."""
        return max((row for row in self.rows if row.certificate), key=lambda row: row.wrong_at_most, default=None)

    @property
    def exit_code(self) -> int:
        """Return 4 if a certificate is violated, else 0."""
        return RefusedError.exit_code if self.verdict == VIOLATED else 0

    def row(self, bound: str, claim: str = "gain") -> BoundRow:
        """Return the row of a bound."""
        return next(row for row in self.rows if (row.bound, row.claim) == (bound, claim))

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        rows = [row.plain() for row in self.rows]
        return {
            **self.about,
            "delta": self.delta,
            "runs": self.runs,
            "verdict": self.verdict,
            "certificates": [row for row in rows if row["certificate"]],
            "not_certificates": [row for row in rows if not row["certificate"]],
            "refused": list(self.refused),
        }


def judge_runs(records: Mapping[int, RunRecords], delta: float, about: Mapping[str, Any]) -> Validation:
    """Return the rows of all runs; RefusedError if every one was refused."""
    refused: list[str] = []
    groups: dict[tuple[str, str], list[BoundOutcome]] = {}
    for run, items in records.items():
        for item in items:
            if "refused" in item:
                refused.append(f"run {run}: {item['refused']}")
            else:
                groups.setdefault((item["bound"], item["claim"]), []).append(BoundOutcome(**item))
    if not groups:
        raise RefusedError(refused[0] if refused else "no bound applies to this plant, legacy and candidate")
    rows = sorted((_row(outcomes, delta) for outcomes in groups.values()), key=lambda row: (not row.certificate, row.claim))
    return Validation(about=about, delta=delta, runs=len(records), rows=tuple(rows), refused=tuple(refused))


def _row(outcomes: Sequence[BoundOutcome], delta: float) -> BoundRow:
    first, runs = outcomes[0], len(outcomes)
    anytime, certificate = first.validity == "anytime", all(outcome.certificate for outcome in outcomes)
    at_end, ever = sum(outcome.at_end for outcome in outcomes), sum(outcome.ever for outcome in outcomes)
    nulls = [outcome for outcome in outcomes if outcome.null and outcome.claim == "gain"]
    false = sum(outcome.ends_above or (anytime and outcome.above is not None) for outcome in nulls)
    false_p = excess_p_value(false, len(nulls), delta) if nulls else 1.0
    at_end_p, ever_p = excess_p_value(at_end, runs, delta), excess_p_value(ever, runs, delta)
    broken = min(ever_p if anytime else at_end_p, false_p) < SIGNIFICANT
    reached = [math.inf if outcome.above is None else outcome.above for outcome in outcomes]
    return BoundRow(
        bound=first.bound,
        claim=first.claim,
        certificate=certificate,
        validity=first.validity,
        label=first.label if certificate else next(outcome.label for outcome in outcomes if not outcome.certificate),
        runs=runs,
        at_end=at_end,
        at_end_p=at_end_p,
        ever=ever,
        ever_p=ever_p,
        nulls=len(nulls),
        false=false,
        false_p=false_p,
        width=float(np.median([outcome.truth - outcome.value for outcome in outcomes])),
        truth=float(np.median([outcome.truth for outcome in outcomes])),
        units=median_with_infinity(reached) if first.claim == "gain" else None,
        verdict=_verdict(broken, runs, delta) if certificate else None,
    )


def _verdict(broken: bool, runs: int, delta: float) -> str:
    if broken:
        return VIOLATED
    # Were the bound wrong in every single run, the p-value would be delta to the power of their number.
    return TOO_FEW if delta**runs >= SIGNIFICANT else HOLDS


def median_with_infinity(values: Sequence[float]) -> float:
    """Return the median of numbers that may be infinite; halfway between a number and infinity lies infinity."""
    ordered = sorted(values)
    middle = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return math.inf if math.isinf(middle[1]) else (middle[0] + middle[1]) / 2


RUNS_NAME = "runs"  # of the file of single runs

RESULT_FILE = "validation.json"


def validate(
    plant: str | Plant = "additive",
    legacy: str | Policy = "uniform",
    candidate: str | Policy | Candidate | CandidateSource = "capped",
    scope: Iterable[str] | None = None,
    *,
    runs: int = 100,
    episodes: int = 200,
    prior: int = 100,
    delta: float = 0.05,
    judged: int | None = None,
    bounds: Sequence[str] | None = None,
    out: str | Path | None = None,
    workers: int = 1,
    engine: str = "local",
    seed: int = 1,
    comparator: str = "incumbent",
    report: RunProgress | None = None,
) -> Validation:
    """Measure by replication how often every bound is wrong, how wide it is and when it certifies a gain.

    Parameters
    ----------
    plant
        The name of a world, a world, or any `Plant`.
    legacy
        A legacy of the world by name, such as `sign:epsilon=0.3`, or a policy.
    candidate
        'capped', 'greedy' or 'planned', learned anew in every run; 'null', which gains nothing; 'capped:cap=3'; or a policy.
    scope
        The levels that are handed over. None: the innermost.
    runs
        The number of replications.
    episodes
        Certified episodes in each run.
    prior
        Episodes in each run that the candidate is learned from.
    delta
        The risk of each bound.
    judged
        Episodes that show what the candidate truly earns. None: enough of them.
    bounds
        Names of bounds, all if None.
    out
        A folder that keeps the runs and the result (`validation.json`). The same call continues where it was interrupted.
    workers
        The number of processes.
    engine
        `local`, `dask` or `dask://host:port`.
    seed
        Of everything. Results depend neither on engine and workers nor on interruptions.
    comparator
        Whom gains are over: the 'incumbent' (the legacy without its exploration, where that is known) or the 'logger'.
    report
        Receives the runs done, the runs to do and a name.

    Returns
    -------
    Validation
        One row for each bound and claim.

    Raises
    ------
    SettingError, PolicyError, InputError, OutputError
        If an argument or the folder does not fit.
    RefusedError
        If no run could be certified.
    """
    design = {"episodes": episodes, "prior": prior, "delta": delta, "seed": seed, "judged": judged, "comparator": comparator}
    trial = make_trial(plant, legacy, candidate, scope, bounds, **design)
    words = {"plant": describe_object(plant), "legacy": describe_object(legacy), "candidate": describe_object(candidate)}
    return run_validation(trial, words, runs, None if out is None else Path(out), parse_engine(engine, workers), report)


def run_validation(
    trial: ValidationTrial,
    words: Mapping[str, str],
    runs: int,
    folder: Path | None,
    engine: Engine = IN_PROCESS,
    report: RunProgress | None = None,
) -> Validation:
    """Do the runs of a trial that are missing and judge all of them. words: for plant, legacy and candidate, to be shown."""
    records = run_tasks({RUNS_NAME: trial}, runs, folder, engine, report)[RUNS_NAME]
    about = {
        **words,
        "scope": list(trial.scope),
        "episodes": trial.episodes,
        "prior": trial.prior,
        "seed": trial.seed,
        "comparator": trial.over,
    }
    result = judge_runs(records, trial.delta, about)
    if folder is not None:
        write_text(folder / RESULT_FILE, json.dumps(result.to_json(), indent=1) + "\n")
    return result


def make_trial(
    plant: str | Plant,
    legacy: str | Policy,
    candidate: str | Policy | Candidate | CandidateSource,
    scope: Iterable[str] | None = None,
    bounds: Sequence[str] | None = None,
    **more: Any,
) -> ValidationTrial:
    """Return the trial of a validation from names or objects; more: further fields of `ValidationTrial`."""
    running = make_world(plant) if isinstance(plant, str) else plant
    if not isinstance(running, Plant):
        raise SettingError(
            f"a plant has a 'problem' and runs 'episodes(first, count, policy, seed)'; found a {type(running).__name__}"
        )
    acting = _legacy(running, legacy)
    levels = running.problem.scope((running.problem.innermost.name,) if scope is None else scope)
    return ValidationTrial(
        plant=running,
        legacy=acting,
        learner=_learner(candidate),
        identity=f"{_plant_identity(running)}; {_policy_identity(acting)}",
        scope=tuple(name for name in running.problem.names if name in levels),
        bounds=None if bounds is None else tuple(bounds),
        **more,
    )


def describe_object(thing: object) -> str:
    """Return words for a plant, legacy or candidate as it was given."""
    if isinstance(thing, str):
        return thing
    if isinstance(thing, Candidate):
        return thing.reference or thing.name
    return repr(thing) if isinstance(thing, World) or type(thing).__repr__ is not object.__repr__ else type(thing).__name__


def _legacy(plant: Plant, legacy: str | Policy) -> Policy:
    if isinstance(legacy, str):
        if not isinstance(plant, World):
            raise SettingError(f"a plant of your own has no legacies by name, found '{legacy}'; give a policy")
        return plant.legacy(legacy)
    if not isinstance(legacy, Policy):
        raise PolicyError(f"a legacy is a policy or, on a world, the name of one; found a {type(legacy).__name__}")
    return legacy


def _learner(candidate: str | Policy | Candidate | CandidateSource) -> CandidateSource:
    if isinstance(candidate, str):
        return named_learner(candidate)
    if isinstance(candidate, CandidateSource):
        return candidate
    if isinstance(candidate, Policy | Candidate):
        chosen = Candidate.of(candidate)
        return FixedCandidate(chosen, _policy_identity(chosen.policy))
    raise PolicyError(
        f"a candidate is {', '.join(LEARNERS)}, a policy, or something that prepares one for each run; found a "
        f"{type(candidate).__name__}"
    )


def _plant_identity(plant: Plant) -> str:
    """Return the parameters of a world; of another plant class, parameters (if it shows them) and the digest of its file."""
    kind = type(plant)
    shown = repr(plant) if is_dataclass(plant) else ""
    code = ""
    if not isinstance(plant, World):
        with contextlib.suppress(OSError, TypeError):
            code = hashlib.sha256(Path(inspect.getfile(kind)).read_bytes()).hexdigest()
    return f"{kind.__module__}.{kind.__qualname__} {shown} {code}"


def _policy_identity(policy: Policy) -> str:
    """Return the digest of a policy that can be stored, else its class; with that of the file of its code, if it is code."""
    code = code_digest(policy) or ""
    try:
        return f"{policy_digest(policy)} {code}"
    except AegisError:
        return f"{type(policy).__module__}.{type(policy).__qualname__} {code}"
