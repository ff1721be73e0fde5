"""Packing: what is stored comes back equal, also after a walk through JSON; nothing outside the table is built."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field

import mechanism_cases as cases
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.errors import PolicyError
from aegis.mechanisms import Packed, pack_value, unpack_value
from aegis.problem import Scope

PROBLEM = cases.mixed_problem()


@dataclass(frozen=True, slots=True)
class Leaf:
    value: object
    doubled: object = field(init=False)

    def __post_init__(self) -> None:
        if self.value == "wrong":
            raise PolicyError("refused")
        object.__setattr__(self, "doubled", [self.value] * 2)


@dataclass(frozen=True, slots=True)
class Other:
    leaf: object


CLASSES = {"Leaf": Leaf, "Other": Other}
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.builds(Other, inner)
        | st.sets(st.text(max_size=3), max_size=3).map(Scope)
    ),
    max_leaves=12,
)


def through_json(value: object) -> object:
    packed = pack_value(value, CLASSES)
    return unpack_value(
        Packed(json.loads(json.dumps(packed.tree, allow_nan=False)), packed.arrays, packed.members), CLASSES, PROBLEM
    )


@settings(max_examples=40, deadline=None)
@given(PLAIN)
def test_values_come_back_equal(value: object) -> None:
    found = through_json(value)
    assert found == value
    assert type(found) is type(value)


def test_arrays_numbers_and_the_problem() -> None:
    found = through_json({"a": np.arange(6.0).reshape(2, 3), "b": (np.float32(0.5), math.inf, -math.inf), "c": PROBLEM})
    np.testing.assert_array_equal(found["a"], np.arange(6.0).reshape(2, 3))
    assert found["b"] == (0.5, math.inf, -math.inf)
    assert found["c"] is PROBLEM


def test_computed_fields_are_kept_as_stored() -> None:
    packed = pack_value(Leaf(2), CLASSES)
    packed.tree["fields"]["doubled"] = 7
    assert unpack_value(packed, CLASSES, PROBLEM).doubled == 7


def test_construction_checks_what_is_built() -> None:
    packed = pack_value(Leaf("right"), CLASSES)
    packed.tree["fields"]["value"] = "wrong"
    with pytest.raises(PolicyError, match="refused"):
        unpack_value(packed, CLASSES, PROBLEM)


def test_nothing_outside_the_table_is_packed_or_built() -> None:
    with pytest.raises(PolicyError, match="a function cannot be stored"):
        pack_value({"f": through_json}, CLASSES)
    packed = pack_value(Leaf(1), CLASSES)
    with pytest.raises(PolicyError, match="unknown 'Leaf'"):
        unpack_value(packed, {"Other": Other}, PROBLEM)
    packed.tree["fields"]["more"] = 1
    with pytest.raises(PolicyError, match="more, which this version does not know"):
        unpack_value(packed, CLASSES, PROBLEM)
    with pytest.raises(PolicyError, match="cannot be put together"):
        unpack_value(Packed({"array": "gone"}), CLASSES, PROBLEM)
    del packed.tree["fields"]["more"], packed.tree["fields"]["value"]
    with pytest.raises(PolicyError, match="cannot be put together"):
        unpack_value(packed, CLASSES, PROBLEM)
