"""Policy folders: altered, newer, foreign and interrupted ones."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import policy_examples as ex
import pytest

from aegis.errors import OutputError, PolicyError
from aegis.files import json_digest
from aegis.policies import (
    POLICIES,
    Capped,
    Legacy,
    Mixture,
    Natural,
    Uniform,
    load_record,
    policy_digest,
    read_policy,
    save_policy,
)
from aegis.policies import policy_folder as store
from aegis.problem import Problem, State

PROBLEM = ex.problem(1)


@dataclass(frozen=True)
class Table:
    """A policy that is nothing but an array."""

    problem: Problem
    values: np.ndarray
    note: object = "x"

    @property
    def weights(self):
        return np.ones(1)

    def full(self, level, batch):
        return np.tile(self.values, (1, len(batch.levels[level]), 1))

    def taken(self, level, batch):
        return self.full(level, batch)[:, :, 0]

    def state(self):
        return State("table", {"note": self.note}, {"file": self.values, "scalar": np.array(2.0)})

    @classmethod
    def restore(cls, state, problem):
        return cls(problem, state.arrays["file"], state.setting("note"))


KINDS = {**POLICIES, "table": Table}
ONE, TWO = Table(PROBLEM, np.linspace(0, 1, 5)), Table(PROBLEM, np.linspace(0, 2, 5))


def legacy(sd=0.5):
    return Legacy(PROBLEM, {"dose": Natural({"temperature": 1.0}, sd)})


def rewrite(folder, **changes):
    """Change policy.json and seal it again."""
    content = json.loads((folder / "policy.json").read_text())
    content.pop("seal")
    content.update(changes)
    (folder / "policy.json").write_text(json.dumps({**content, "seal": json_digest(content)}))


def test_a_folder_without_arrays_is_one_file(tmp_path):
    save_policy(legacy(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["policy.json"]


def test_arrays_of_nested_members_come_back_bit_for_bit(tmp_path):
    policy = Mixture([ONE, Mixture([TWO, legacy()])], [0.2, 0.8])
    save_policy(policy, tmp_path)
    again = read_policy(tmp_path, PROBLEM, KINDS)
    np.testing.assert_array_equal(again.policies[1].policies[0].values, TWO.values)
    assert policy_digest(again) == policy_digest(policy) == json.loads((tmp_path / "policy.json").read_text())["digest"]


def test_the_digest_sees_array_bytes_types_and_settings():
    base = policy_digest(ONE)
    assert policy_digest(Table(PROBLEM, ONE.values.copy())) == base
    assert policy_digest(Table(PROBLEM, ONE.values.astype(">f8"))) == base
    assert policy_digest(Table(PROBLEM, np.nextafter(ONE.values, 9))) != base
    assert policy_digest(Table(PROBLEM, ONE.values.astype(np.float32))) != base
    assert policy_digest(Table(PROBLEM, ONE.values[None])) != base
    assert policy_digest(Table(PROBLEM, ONE.values, "y")) != base
    assert policy_digest(legacy(0.5)) != policy_digest(legacy(0.6))


def test_replacing_a_policy_removes_its_old_arrays(tmp_path):
    save_policy(ONE, tmp_path)
    save_policy(TWO, tmp_path)
    assert len(list(tmp_path.glob("arrays-*.npz"))) == 1
    np.testing.assert_array_equal(read_policy(tmp_path, PROBLEM, KINDS).values, TWO.values)
    save_policy(legacy(), tmp_path)
    assert not list(tmp_path.glob("*.npz"))


def test_an_interrupted_save_leaves_the_old_policy(tmp_path, monkeypatch):
    save_policy(ONE, tmp_path)

    def full_disk(path, text):
        raise OutputError("cannot write: no space left on device")

    monkeypatch.setattr(store, "write_text", full_disk)
    with pytest.raises(OutputError):
        save_policy(TWO, tmp_path)
    monkeypatch.undo()
    np.testing.assert_array_equal(read_policy(tmp_path, PROBLEM, KINDS).values, ONE.values)
    monkeypatch.setattr(np, "savez", lambda *args, **arrays: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_policy(Table(PROBLEM, np.zeros(5)), tmp_path)
    np.testing.assert_array_equal(read_policy(tmp_path, PROBLEM, KINDS).values, ONE.values)
    assert not list(tmp_path.glob("*.part")) + list(tmp_path.glob(".*.part"))


def test_altered_settings_are_found(tmp_path):
    save_policy(legacy(0.5), tmp_path, {"split": "a"})
    path = tmp_path / "policy.json"
    original = path.read_text()
    for old, new in [('"sd": 0.5', '"sd": 0.7'), ('"split": "a"', '"split": "b"')]:
        assert old in original
        path.write_text(original.replace(old, new))
        with pytest.raises(PolicyError, match="altered"):
            read_policy(tmp_path, PROBLEM)
        with pytest.raises(PolicyError, match="altered"):
            load_record(tmp_path)


def test_altered_missing_and_swapped_arrays_are_found(tmp_path):
    save_policy(ONE, tmp_path)
    name = next(tmp_path.glob("arrays-*.npz"))
    good = name.read_bytes()
    np.savez(name, **{"policy/file": TWO.values, "policy/scalar": np.array(2.0)})
    with pytest.raises(PolicyError, match="arrays are not those"):
        read_policy(tmp_path, PROBLEM, KINDS)
    for broken in (good[: len(good) // 2], b"", b"not a zip file at all"):
        name.write_bytes(broken)
        with pytest.raises(PolicyError, match="cannot read the arrays"):
            read_policy(tmp_path, PROBLEM, KINDS)
    position = good.index(ONE.values[1:3].tobytes())
    name.write_bytes(good[:position] + b"\x01" + good[position + 1 :])
    with pytest.raises(PolicyError, match="arrays"):
        read_policy(tmp_path, PROBLEM, KINDS)
    name.unlink()
    with pytest.raises(PolicyError, match="cannot read the arrays"):
        read_policy(tmp_path, PROBLEM, KINDS)


def test_no_single_damaged_byte_gives_other_numbers_or_another_error(tmp_path):
    save_policy(ONE, tmp_path)
    name = next(tmp_path.glob("arrays-*.npz"))
    good = name.read_bytes()
    refused = 0
    positions = range(0, len(good), 3)
    for position in positions:
        name.write_bytes(good[:position] + bytes([good[position] ^ 0xFF]) + good[position + 1 :])
        try:
            np.testing.assert_array_equal(read_policy(tmp_path, PROBLEM, KINDS).values, ONE.values)
        except PolicyError:
            refused += 1
    assert refused > len(positions) // 2


def test_pickled_objects_are_neither_written_nor_read(tmp_path):
    with pytest.raises(PolicyError, match="Python objects"):
        save_policy(Table(PROBLEM, np.array([{}], dtype=object)), tmp_path)
    assert not list(tmp_path.iterdir())
    save_policy(ONE, tmp_path)
    name = next(tmp_path.glob("arrays-*.npz"))
    np.savez(name, **{"policy/file": np.array([{}], dtype=object), "policy/scalar": np.array(2.0)})
    with pytest.raises(PolicyError, match="cannot read the arrays"):
        read_policy(tmp_path, PROBLEM, KINDS)


def test_newer_foreign_and_unknown_files(tmp_path):
    save_policy(legacy(), tmp_path)
    with pytest.raises(PolicyError, match="another problem"):
        read_policy(tmp_path, Problem((replace(PROBLEM.innermost, margin=1.0),)))
    rewrite(tmp_path, format=store.POLICY_FORMAT + 1)
    with pytest.raises(PolicyError, match="newer version"):
        read_policy(tmp_path, PROBLEM)
    rewrite(tmp_path, format="1")
    with pytest.raises(PolicyError, match="no format version"):
        read_policy(tmp_path, PROBLEM)
    (tmp_path / "policy.json").write_text("[]")
    with pytest.raises(PolicyError, match="not a policy file"):
        read_policy(tmp_path, PROBLEM)
    (tmp_path / "policy.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(PolicyError, match="not a policy file"):
        read_policy(tmp_path, PROBLEM)
    with pytest.raises(PolicyError, match="there is no policy in"):
        read_policy(tmp_path / "nowhere", PROBLEM)
    save_policy(ONE, tmp_path)
    with pytest.raises(PolicyError, match="unknown kind of policy 'table'"):
        read_policy(tmp_path, PROBLEM)


def test_a_folder_must_hold_a_policy_with_its_members(tmp_path):
    save_policy(Mixture([legacy(), legacy(0.7)]), tmp_path)
    content = json.loads((tmp_path / "policy.json").read_text())
    tree = content["policy"]
    del tree["members"]["1"]
    rewrite(tmp_path, policy=tree, digest=store._digest(tree, {}, content["problem"]))
    with pytest.raises(PolicyError, match="member policy '1' is missing"):
        read_policy(tmp_path, PROBLEM)
    tree["settings"] = {}
    rewrite(tmp_path, policy=tree, digest=store._digest(tree, {}, content["problem"]))
    with pytest.raises(PolicyError, match="setting 'shares' is missing"):
        read_policy(tmp_path, PROBLEM)


def test_records_go_along_and_are_plain_data(tmp_path):
    save_policy(legacy(), tmp_path, {"split": {"kind": "hash", "fraction": 0.5}, "ids": (1, 2), 3: "x"})
    assert load_record(tmp_path) == {"split": {"kind": "hash", "fraction": 0.5}, "ids": [1, 2], "3": "x"}
    assert policy_digest(read_policy(tmp_path, PROBLEM)) == policy_digest(legacy())
    for wrong in ({"x": np.nan}, {"x": object()}):
        with pytest.raises(PolicyError, match="plain data"):
            save_policy(legacy(), tmp_path, wrong)
    with pytest.raises(PolicyError, match="plain data"):
        save_policy(Table(PROBLEM, ONE.values, object()), tmp_path)


def test_what_cannot_be_stored_says_why(tmp_path):
    class Bare:
        def predict(self, level, batch):
            return np.zeros((1, 1))

    with pytest.raises(PolicyError, match="the member 'model' is a Bare, which cannot be stored"):
        save_policy(Capped(PROBLEM, Bare(), legacy(), 2.0), tmp_path)
    scripted = ex.scripted(PROBLEM, ex.batch(PROBLEM, 1), 2, 0)
    with pytest.raises(PolicyError, match="which problem"):
        save_policy(scripted, tmp_path)
    with pytest.raises(PolicyError, match="member 2 of the mixture is a Scripted"):
        save_policy(Mixture([legacy(), scripted]), tmp_path)
    other = Problem((replace(PROBLEM.innermost, margin=1.0),))
    with pytest.raises(PolicyError, match="another problem"):
        save_policy(Mixture([legacy(), Legacy(other, {"dose": Uniform()})]), tmp_path)


def test_an_infinite_cap_survives(tmp_path):
    class Flat:
        def predict(self, level, batch):
            return np.zeros((len(batch.levels[level]), 5))

        def state(self):
            return State("flat")

        @classmethod
        def restore(cls, state, problem):
            return cls()

    save_policy(Capped(PROBLEM, Flat(), legacy(), np.inf), tmp_path)
    assert read_policy(tmp_path, PROBLEM, {**POLICIES, "flat": Flat}).limit == np.inf


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError):
        save_policy(ONE, tmp_path / "file")
