"""Validating bounds in one call: plants, legacies and candidates by name or as objects."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from aegis.certificate import Candidate
from aegis.certificate.behaviour import code_digest
from aegis.engine import ALONE, Engine, engine_of
from aegis.errors import AegisError, PolicyError, SettingError
from aegis.files import write_text
from aegis.policies import policy_digest
from aegis.problem import Plant, Policy
from aegis.validation.candidates import Candidates, Fixed
from aegis.validation.learners import LEARNERS, named_learner
from aegis.validation.runner import Report, run_tasks
from aegis.validation.trial import Trial
from aegis.validation.verdicts import Validation
from aegis.validation.verdicts import judged as verdict
from aegis.worlds import World, make_world

NAME = "runs"  # of the file of single runs
RESULT = "validation.json"


def validate(
    plant: str | Plant = "additive",
    legacy: str | Policy = "uniform",
    candidate: str | Policy | Candidate | Candidates = "capped",
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
    report: Report | None = None,
) -> Validation:
    """Measure by replication how often every bound is wrong, how wide it is and when it certifies a gain.

    plant: the name of a world, a world, or any `Plant`. legacy: what the world calls it (`sign:epsilon=0.3`), or a policy.
    candidate: 'capped', 'greedy' or 'planned', learned anew in every run; 'null', which gains nothing; 'capped:cap=3'; or a
    policy of your own. scope: the levels that change hands, the innermost if None. Each run simulates `prior` episodes to learn
    from and `episodes` to certify on; `judged` others tell what the candidate really earns (None: enough of them). comparator:
    whom gains are over, the 'incumbent' (the legacy without its exploration, where that is known) or the 'logger'.

    out: a folder in which runs are kept, so that the same call goes on where it was interrupted; it also gets the result as
    validation.json. report: told runs done, runs to do and a name. workers: how many
    processes. engine: local, dask or dask://host:port. Results depend neither on these nor on interruptions.
    Raises SettingError, PolicyError, InputError or OutputError for what does not fit, RefusedError if no run could be certified.
    """
    trial = make_trial(
        plant, legacy, candidate, scope, episodes, prior, delta, bounds, seed, judged=judged, comparator=comparator
    )
    words = {"plant": described(plant), "legacy": described(legacy), "candidate": described(candidate)}
    return run_validation(trial, words, runs, None if out is None else Path(out), engine_of(engine, workers), report)


def run_validation(
    trial: Trial, words: Mapping[str, str], runs: int, folder: Path | None, engine: Engine = ALONE, report: Report | None = None
) -> Validation:
    """Do the runs of a trial that are missing and judge all of them. words: for plant, legacy and candidate, to be shown."""
    found = run_tasks({NAME: trial}, runs, folder, engine, report)[NAME]
    about = {**words, "scope": list(trial.scope), "episodes": trial.episodes, "prior": trial.prior, "seed": trial.seed}
    about["comparator"] = trial.over
    result = verdict(found, trial.delta, about)
    if folder is not None:
        write_text(folder / RESULT, json.dumps(result.to_json(), indent=1) + "\n")
    return result


def make_trial(
    plant: str | Plant,
    legacy: str | Policy,
    candidate: str | Policy | Candidate | Candidates,
    scope: Iterable[str] | None = None,
    episodes: int = 200,
    prior: int = 100,
    delta: float = 0.05,
    bounds: Sequence[str] | None = None,
    seed: int = 1,
    **more: Any,
) -> Trial:
    """Return the trial of a validation from names or objects; more: further fields of `Trial`."""
    running = make_world(plant) if isinstance(plant, str) else plant
    if not isinstance(running, Plant):
        raise SettingError(
            f"a plant has a 'problem' and runs 'episodes(first, count, policy, seed)'; found a {type(running).__name__}"
        )
    acting = _legacy(running, legacy)
    learner = _learner(candidate)
    levels = running.problem.scope((running.problem.innermost.name,) if scope is None else scope)
    ordered = tuple(name for name in running.problem.names if name in levels)
    identity = f"{_plant_identity(running)}; {_policy_identity(acting)}"
    asked = None if bounds is None else tuple(bounds)
    return Trial(running, acting, learner, identity, ordered, episodes, prior, delta, bounds=asked, seed=seed, **more)


def described(given: object) -> str:
    """Return words for a plant, legacy or candidate as it was given."""
    if isinstance(given, str):
        return given
    if isinstance(given, Candidate):
        return given.reference or given.name
    return repr(given) if isinstance(given, World) or type(given).__repr__ is not object.__repr__ else type(given).__name__


def _legacy(plant: Plant, legacy: str | Policy) -> Policy:
    if isinstance(legacy, str):
        if not isinstance(plant, World):
            raise SettingError(f"a plant of your own has no legacies by name, found '{legacy}'; give a policy")
        return plant.legacy(legacy)
    if not isinstance(legacy, Policy):
        raise PolicyError(f"a legacy is a policy or, on a world, the name of one; found a {type(legacy).__name__}")
    return legacy


def _learner(candidate: str | Policy | Candidate | Candidates) -> Candidates:
    if isinstance(candidate, str):
        return named_learner(candidate)
    if isinstance(candidate, Candidates):
        return candidate
    if isinstance(candidate, Policy | Candidate):
        chosen = Candidate.of(candidate)
        return Fixed(chosen, _policy_identity(chosen.policy))
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
