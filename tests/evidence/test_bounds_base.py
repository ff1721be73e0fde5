"""Bounds: labels, values that are refused, and the scope with the largest bound."""

from __future__ import annotations

import numpy as np
import pytest

from aegis.errors import RefusedError, SettingError
from aegis.evidence import (
    Bound,
    published_bound,
    select_scope,
)
from aegis.evidence.bounds.base import particle_values, unit_values
from aegis.rng import stream


def test_scope_with_the_largest_bound_each_at_its_share_of_delta():
    inner, outer = stream(1, "inner").random(500), 0.3 * stream(1, "outer").random(500)
    scopes = {
        "outer": lambda delta: published_bound(outer, delta, 0.1, 1.0),
        "inner": lambda delta: published_bound(inner, delta, 0.1, 1.0),
    }
    selection = select_scope(scopes, 0.1)
    assert selection.scope == "inner"
    assert selection.bound.value == published_bound(inner, 0.05, 0.1, 1.0).value
    assert {bound.delta for bound in selection.bounds.values()} == {0.05}
    with pytest.raises(SettingError, match="no scope"):
        select_scope({}, 0.1)


@pytest.mark.parametrize(
    ("validity", "unmet", "label"),
    [
        ("anytime", (), "certificate"),
        ("fixed time", (), "certificate at one number of units, fixed beforehand"),
        ("approximate", (), "not a certificate: right only as the number of units grows"),
        ("anytime", ("B was observed",), "not a certificate: B was observed"),
    ],
)
def test_a_bound_says_whether_it_is_a_certificate(validity, unmet, label):
    bound = Bound("method", 0.25, 0.05, 10, validity, ("values are from 0",), unmet)
    assert bound.label == label and bound.certificate is label.startswith("certificate")
    assert bound.plain()["label"] == label and bound.plain()["value"] == 0.25


def test_the_first_bad_unit_is_named():
    with pytest.raises(RefusedError, match=r"unit 1: a unit's value is a finite number from 0, found -0\.5"):
        unit_values(np.array([0.5, -0.5, np.nan]), least=0.0)
    with pytest.raises(RefusedError, match="unit 2"):
        particle_values(np.array([[0.0, 1.0], [1.0, 1.0], [1.0, np.inf]]))
    with pytest.raises(SettingError, match="one number for each unit"):
        unit_values(np.zeros((2, 2)))
    assert particle_values(np.zeros(3)).shape == (3, 1)
