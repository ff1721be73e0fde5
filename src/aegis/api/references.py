"""References: the candidates, plants and legacies that a user names by a text.

A candidate is a policy folder, `columns:A,B`, `full-columns:A,B,C` or `module:object`. A plant is `module:object`. A legacy is
one that the world offers, or `module:object`. Modules are found in the current folder, or in another one as
`folder/module:object`.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aegis.errors import AegisError, PolicyError, SettingError
from aegis.problem import Plant, Policy, Problem
from aegis.worlds import World, make_world, parse_legacy

if TYPE_CHECKING:
    from aegis.certificate import Candidate


OBJECT_FORM = "module:object"


def make_importable(reference: str) -> str:
    """Return `module:object` for a reference whose module may stand with its folder, having made that folder importable.

    `../control/mine:policy` and `../control/mine.py:policy` are `mine:policy` in the folder ../control. Without a folder modules
    in the current one are found: an installed command does not look there by itself.
    """
    module, colon, path = reference.rpartition(":")
    place = Path(module)
    inside = place.parent != Path()
    folder = str(place.parent.resolve() if inside else Path.cwd())
    if inside and folder in sys.path:
        sys.path.remove(folder)  # the folder that was named comes before others that have a module of the same name
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = place.name if inside or place.suffix == ".py" else module
    return f"{name.removesuffix('.py')}{colon}{path}"


def load_object(reference: str, what: str, example: str, wrong: type[AegisError]) -> Any:
    """Return the object that a reference names; raise `wrong` if there is none. what, example: for the messages."""
    module, _, path = make_importable(reference).partition(":")
    if not (module and path):
        raise wrong(f"{what} is named '{OBJECT_FORM}', for example '{example}'; found '{reference}'")
    try:
        imported = importlib.import_module(module)
    except Exception as error:  # any error of the user's module
        raise wrong(f"cannot import the module '{module}' of '{reference}': {type(error).__name__}: {error}") from error
    try:
        return functools.reduce(getattr, path.split("."), imported)
    except AttributeError as error:
        raise wrong(f"the module '{module}' has no '{path}'; check the name after the colon in '{reference}'") from error


# How a reference names columns of the log as a policy: the probability of the action taken, or of every action.
COLUMNS_PREFIX, FULL_COLUMNS_PREFIX = "columns:", "full-columns:"

REWARDS_SUBFOLDER = "rewards"  # the folder, inside the policy's, in which `aegis learn` puts the reward models

CANDIDATE_FORMS = (
    "a policy folder (`aegis learn` writes one), 'columns:COLUMN,COLUMN' (target probabilities in the log), "
    "'full-columns:COLUMN,COLUMN,...' (of every action) or 'module:object' (your own Python)"
)


def load_candidate(reference: str, problem: Problem, scope: Iterable[str] | None = None) -> Candidate:
    """Return the candidate that a reference names, with the record and the reward models of its folder.

    Parameters
    ----------
    reference
        A policy folder; `columns:A,B`, one target-probability column for each level of the scope, outermost first (or for each
        level of the problem); `full-columns:A,B,C`, for each such level in turn as many columns as it has actions, in their
        order; or `module:object`, a policy, what `record_fit` returned, or a callable `function(level, rows) -> [n, A]` that
        acts at the levels of the scope. A module in another folder is `folder/module:object`.
    problem
        The problem that the candidate is made for.
    scope
        The levels at which it acts; all if None.

    Returns
    -------
    Candidate
        The policy with its name, the columns that it reads, and the record of its training.

    Raises
    ------
    PolicyError
        If the reference names nothing, or a policy that does not fit the problem.
    """
    if reference.startswith((COLUMNS_PREFIX, FULL_COLUMNS_PREFIX)):
        return _columns_candidate(reference, problem, scope)
    if Path(reference).is_dir():
        return _folder_candidate(reference, problem)
    if ":" in reference:
        return _object_candidate(reference, problem, scope)
    raise PolicyError(f"there is no folder '{reference}'; a candidate is {CANDIDATE_FORMS}")


def candidate_files(references: Iterable[str]) -> list[Path]:
    """Return the folders and the files of code that loaded candidates came from."""
    folders = [Path(reference) for reference in references if Path(reference).is_dir()]
    objects = [
        reference
        for reference in references
        if not reference.startswith((COLUMNS_PREFIX, FULL_COLUMNS_PREFIX)) and not Path(reference).is_dir()
    ]
    modules = [sys.modules.get(make_importable(reference).partition(":")[0]) for reference in objects]
    return [*folders, *[Path(module.__file__) for module in modules if module is not None and module.__file__]]


def _columns_candidate(reference: str, problem: Problem, scope: Iterable[str] | None) -> Candidate:
    from aegis.certificate import Candidate
    from aegis.policies import FullColumns, TargetColumns, policy_columns

    form = COLUMNS_PREFIX if reference.startswith(COLUMNS_PREFIX) else FULL_COLUMNS_PREFIX
    columns = [name.strip() for name in reference.removeprefix(form).split(",")]
    if not all(columns):
        raise PolicyError(f"'{reference}' has an empty column name; write {form}COLUMN,COLUMN, outermost level first")
    chosen = problem.scope(scope)
    levels = [level for level in problem.levels if level.name in chosen]
    if form == COLUMNS_PREFIX:
        levels = list(problem.levels) if len(columns) == len(problem.levels) else levels
        counts = {level.name: 1 for level in levels}
        wanted = f" for {len(counts)} levels ({', '.join(counts)}); name one for each level of the scope"
    else:
        counts = {level.name: level.actions.count for level in levels}
        each = ", ".join(f"{count} for '{name}'" for name, count in counts.items())
        wanted = f", expected {sum(counts.values())}: {each}, in the order of the actions"
    if len(columns) != sum(counts.values()):
        raise PolicyError(
            f"'{reference}' names {len(columns)} columns{wanted}, outermost level first; choose the scope with --scope"
        )
    policy: Policy
    if form == COLUMNS_PREFIX:
        policy = TargetColumns(problem, dict(zip(counts, columns, strict=True)))
    else:
        policy = FullColumns(problem, {name: [columns.pop(0) for _ in range(count)] for name, count in counts.items()})
    return Candidate(policy=policy, name=reference, reference=reference, columns=policy_columns(policy))


def _folder_candidate(reference: str, problem: Problem) -> Candidate:
    from aegis.certificate import Candidate
    from aegis.planning import load_policy, load_rewards
    from aegis.policies import load_record, policy_columns, policy_digest

    record = load_record(reference)
    if "challenge" in record:
        from aegis.handover import load_challenge

        return load_challenge(reference, reference, problem, record)
    policy = load_policy(reference, problem)
    place = Path(reference) / REWARDS_SUBFOLDER
    rewards = load_rewards(place, problem) if place.is_dir() else None
    if rewards is not None and record.get("rewards") not in (None, policy_digest(rewards)):
        raise PolicyError(
            f"{place} holds other reward models than those the policy was learned with: learning was interrupted, or folders "
            "were mixed; learn the policy again"
        )
    return Candidate(
        policy=policy, name=reference, reference=reference, columns=policy_columns(policy), record=record, rewards=rewards
    )


def _object_candidate(reference: str, problem: Problem, scope: Iterable[str] | None) -> Candidate:
    from aegis.certificate import Candidate, LearnedPolicy
    from aegis.policies import Function, load_callable, policy_columns

    own = load_object(reference, "a callable", "plant.control:dose", PolicyError)
    if isinstance(own, Policy) and not isinstance(own, type):
        return Candidate(policy=own, name=reference, reference=reference, columns=policy_columns(own))
    if isinstance(own, LearnedPolicy):
        columns = policy_columns(own.policy)
        return Candidate(
            policy=own.policy, name=reference, reference=reference, columns=columns, record=own.record, rewards=own.rewards
        )
    name = make_importable(reference)  # without its folder: a policy is the same wherever it lies
    return Candidate(Function(problem, load_callable(name), scope, name=name), reference, reference)


PLANT_NEEDS = "a plant has a 'problem' and a method 'episodes(first, count, policy, seed)' that returns a Batch"


def load_plant(reference: str) -> Plant:
    """Return the plant called `module:object`: an object, or a class or function that gives one when called without arguments."""
    plant = load_object(reference, "a plant of your own", "greenhouse:plant", SettingError)
    if callable(plant) and (isinstance(plant, type) or not isinstance(plant, Plant)):
        try:
            plant = plant()
        except Exception as error:  # any error of the user's code
            raise SettingError(f"'{reference}' raised {type(error).__name__}: {error}; {PLANT_NEEDS}") from error
    if not isinstance(plant, Plant):
        raise SettingError(f"'{reference}' is a {type(plant).__name__}, not a plant; {PLANT_NEEDS}")
    return plant


def load_world(name: str, settings: Mapping[str, Any], preset: str | None = None, shift: str | None = None) -> World:
    """Return a simulated world; SettingError also for a preset or a shift among its settings."""
    for key in ("preset", "shift"):
        if key in settings:
            raise SettingError(f"--set changes parameters of the world; write --{key} {settings[key]} instead")
    return make_world(name, preset=preset, shift=shift, **settings)


def load_plant_or_world(
    plant: str | None, world: str, preset: str | None, settings: Mapping[str, Any], legacy: str | None
) -> Plant:
    """Return the user's own plant if one is named, else the world; a plant has no preset and no settings, and needs a legacy."""
    if plant is None:
        return load_world(world, settings, preset)
    if preset is not None or settings:
        raise SettingError("--preset and --set change parameters of a world; a plant of your own has none")
    if legacy is None:
        raise SettingError("a plant of your own needs a legacy of your own: --legacy module:object")
    return load_plant(plant)


def load_legacy(reference: str, plant: Plant) -> Policy:
    """Return the legacy that a reference names: one that the world offers, else the user's `module:object`."""
    if isinstance(plant, World):
        name, _, rest = reference.partition(":")
        if name.strip() in plant.offers() or not rest or "=" in rest:
            parse_legacy(reference)
            return plant.legacy(reference)
    elif ":" not in reference:
        raise SettingError(f"a plant of your own needs a legacy of your own, named 'module:object'; found '{reference}'")
    return load_candidate(reference, plant.problem).policy
