"""Policy folders: `policy.json`, one file of arrays if there are any, and the table POLICIES of kinds. No pickle.

The arrays are written first, under a name made from their content, and `policy.json` last and in one step. An interrupted
save leaves the old policy or the new one.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aegis.errors import PolicyError, did_you_mean
from aegis.files import atomic_write, json_digest, write_text
from aegis.policies.base import problem_of, require_storable
from aegis.policies.callables import Function
from aegis.policies.composites import Capped, Floored, Hybrid, Mixture
from aegis.policies.legacy import Legacy, Logged, StatedIncumbent
from aegis.policies.target_columns import FullColumns, TargetColumns
from aegis.problem import AnyArray, Policy, Problem, State, Storable, dump_problem

POLICIES: dict[str, type[Storable]] = {
    policy.kind: policy
    for policy in (
        Legacy, Logged, StatedIncumbent, Mixture, Hybrid, Capped, Floored, TargetColumns, FullColumns, Function,
    )
}  # fmt: skip


# What reading a damaged file of arrays may raise: the system, the zip reader, the header of an array, its size.
_DAMAGE = (OSError, ValueError, EOFError, KeyError, RuntimeError, MemoryError, AttributeError, zipfile.BadZipFile)


POLICY_FORMAT = 1

POLICY_FILE = "policy.json"


def policy_digest(policy: Policy | Storable) -> str:
    """Return a digest of everything that decides what a policy does: problem, kind, settings, array bytes, members."""
    return _digest(*_take_apart(policy))


def save_policy(policy: Policy | Storable, folder: str | Path, record: Mapping[str, Any] | None = None) -> None:
    """Write a policy folder, replacing the policy in it.

    Parameters
    ----------
    policy
        A policy, or something else that can be stored, such as reward models; `read_stored` reads it.
    folder
        The folder, created if need be.
    record
        Plain data that goes along, such as the split that the policy was learned on.

    Raises
    ------
    PolicyError
        If the policy cannot be stored.
    OutputError
        If the folder cannot be written.
    """
    place = Path(folder)
    tree, arrays, problem = _take_apart(policy)
    name = f"arrays-{_array_digest(arrays)[:16]}.npz" if arrays else None
    content = {
        "format": POLICY_FORMAT,
        "problem": problem,
        "digest": _digest(tree, arrays, problem),
        "arrays": name,
        "policy": tree,
        "record": record or {},
    }
    plain = _plain(content)
    if name is not None:
        with atomic_write(place / name) as aside, aside.open("wb") as file:
            np.savez(file, **dict[str, Any](arrays))
    write_text(place / POLICY_FILE, json.dumps({**plain, "seal": json_digest(plain)}, indent=1))
    for stale in place.glob("arrays-*.npz"):  # the arrays of a policy that was replaced
        if stale.name != name:
            with contextlib.suppress(OSError):
                stale.unlink()


def policy_to_bytes(policy: Policy | Storable) -> bytes:
    """Return what `save_policy` would write as one piece, to be kept in a database."""
    held = io.BytesIO()
    with tempfile.TemporaryDirectory(prefix="aegis-policy-") as folder, zipfile.ZipFile(held, "w") as bundle:
        save_policy(policy, folder)
        for file in sorted(Path(folder).iterdir()):
            bundle.write(file, file.name)
    return held.getvalue()


def policy_from_bytes(packed: bytes, problem: Problem, kinds: Mapping[str, type[Storable]] = POLICIES) -> Storable:
    """Return what `policy_to_bytes` made into one piece, a policy or not; raises PolicyError as `read_policy` does."""
    with tempfile.TemporaryDirectory(prefix="aegis-policy-") as folder:
        try:
            with zipfile.ZipFile(io.BytesIO(packed)) as bundle:
                for name in bundle.namelist():
                    (Path(folder) / Path(name).name).write_bytes(bundle.read(name))
        except _DAMAGE as error:
            raise PolicyError(f"a kept policy is damaged: {error}") from error
        return read_stored(folder, problem, kinds)


def read_policy(folder: str | Path, problem: Problem, kinds: Mapping[str, type[Storable]] = POLICIES) -> Policy:
    """Return the policy stored in a folder for `problem`; PolicyError if it is altered, newer, or for another problem.

    `kinds` says which class restores which kind. A stored user function is found by importing its module.
    """
    policy = read_stored(folder, problem, kinds)
    if not isinstance(policy, Policy):
        raise PolicyError(f"{folder} holds a {type(policy).__name__}, which is not a policy")
    return policy


def read_stored(folder: str | Path, problem: Problem, kinds: Mapping[str, type[Storable]] = POLICIES) -> Storable:
    """Return what is stored in a folder for `problem`, a policy or not; raises PolicyError as `read_policy` does."""
    content = _read(Path(folder))
    if content["problem"] != json_digest(_identity(problem)):
        raise PolicyError(
            f"the policy in {folder} was made for another problem; use the problem file it was learned with, or learn it again"
        )
    arrays = _read_arrays(Path(folder), content["arrays"])
    if _digest(content["policy"], arrays, content["problem"]) != content["digest"]:
        raise PolicyError(f"{folder}: the arrays are not those the policy was stored with; restore the folder or save it again")
    built: Storable = _build(content["policy"], "policy/", arrays, problem, kinds)
    return built


def load_record(folder: str | Path) -> dict[str, Any]:
    """Return the record that was stored with a policy."""
    return dict(_read(Path(folder))["record"])


def _take_apart(policy: object) -> tuple[dict[str, Any], dict[str, AnyArray], str]:
    """Return a policy as plain data, the arrays of all its members by path, and the digest of its problem."""
    arrays: dict[str, AnyArray] = {}
    problem = problem_of(policy)
    return _flatten(policy, "policy/", arrays, problem), arrays, json_digest(_identity(problem))


def _identity(problem: Problem) -> dict[str, Any]:
    """Return what of a problem decides what its policies do: who they are compared with does not."""
    content = dump_problem(problem)
    return {
        **content,
        "levels": [{key: item for key, item in level.items() if key != "incumbent"} for level in content["levels"]],
    }


def _flatten(item: object, path: str, arrays: dict[str, AnyArray], problem: Problem) -> dict[str, Any]:
    """Return an object and its members as plain data, putting their arrays into `arrays` under `path` and name."""
    own = getattr(item, "problem", problem)
    if own is not problem and _identity(own) != _identity(problem):
        raise PolicyError(f"'{path}' is a {type(item).__name__} made for another problem than the whole policy; rebuild it")
    state = require_storable(item, f"'{path}'").state()
    for name, values in sorted(state.arrays.items()):
        if values.dtype.hasobject:
            raise PolicyError(f"array '{name}' of the {state.kind} policy holds Python objects; store numbers or strings")
        arrays[f"{path}{name}"] = values
    members = {name: _flatten(member, f"{path}{name}/", arrays, problem) for name, member in state.members.items()}
    return {"kind": state.kind, "settings": _plain(state.settings), "arrays": sorted(state.arrays), "members": members}


def _build(tree: Mapping[str, Any], path: str, arrays: Mapping[str, AnyArray], problem: Problem, kinds: Mapping[str, Any]) -> Any:
    kind = tree["kind"]
    if kind not in kinds:
        raise PolicyError(f"unknown kind of policy '{kind}'{did_you_mean(kind, kinds)}; kinds: {', '.join(kinds)}")
    members = {name: _build(member, f"{path}{name}/", arrays, problem, kinds) for name, member in tree["members"].items()}
    own = {name: arrays[f"{path}{name}"] for name in tree["arrays"]}
    return kinds[kind].restore(State(kind=kind, settings=tree["settings"], arrays=own, members=members), problem)


def _digest(tree: Mapping[str, Any], arrays: Mapping[str, AnyArray], problem: str) -> str:
    return json_digest({"problem": problem, "policy": tree, "arrays": _array_digest(arrays)})


def _array_digest(arrays: Mapping[str, AnyArray]) -> str:
    """Return a digest of names, types, shapes and bytes, the same on every machine."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        values = np.ascontiguousarray(arrays[name]).reshape(arrays[name].shape)
        values = values.astype(values.dtype.newbyteorder("<"), copy=False)
        total.update(json.dumps([name, values.dtype.str, list(values.shape)]).encode())
        total.update(values.tobytes())
    return total.hexdigest()


def _plain(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what JSON gives back (tuples become lists, keys strings), so that what is digested is what will be read."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(content), allow_nan=False))
        return plain
    except (TypeError, ValueError) as error:
        raise PolicyError(f"a policy cannot be stored: its settings are not plain data ({error})") from error


def _read(folder: Path) -> dict[str, Any]:
    """Return the content of `policy.json` after checking version and seal."""
    path = folder / POLICY_FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PolicyError(
            f"there is no policy in {folder}: cannot read {POLICY_FILE}: {error.strerror or error}; `aegis learn` "
            "writes such folders"
        ) from error
    except ValueError as error:
        raise PolicyError(f"{path} is not a policy file: {error}") from error
    version = content.get("format") if isinstance(content, dict) else None
    if not isinstance(version, int):
        raise PolicyError(f"{path} is not a policy file: it has no format version")
    if version > POLICY_FORMAT:
        raise PolicyError(
            f"{path} was written by a newer version of AEGIS (format {version}; this version reads up to "
            f"{POLICY_FORMAT}); update AEGIS"
        )
    if content.pop("seal", None) != json_digest(content):
        raise PolicyError(f"{path} was altered after it was written; restore it or save the policy again")
    return dict(content)


def _read_arrays(folder: Path, name: str | None) -> dict[str, AnyArray]:
    if name is None:
        return {}
    path = folder / name
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except _DAMAGE as error:
        raise PolicyError(
            f"cannot read the arrays of the policy, {path}: {error}; restore the folder or save it again"
        ) from error
