"""Which scope has the largest bound: scopes share the risk."""

from __future__ import annotations

import comparison_cases  # noqa: F401  (puts the small logs of the certificates on the path)
import numpy as np
import pytest
from small_logs import better, better_policy, make_table, source_of

from aegis.comparison import compare
from aegis.comparison.bounds import BoundCase, WeightLimit
from aegis.comparison.scope_choice import PUBLISHED_CHOICE, choose_scopes, name_scopes
from aegis.comparison.unit_series import UnitSeries
from aegis.evidence import SHARP, sharp_grid_bound, value_centre, value_grid
from aegis.logs import Source
from aegis.ope import reward_measure
from aegis.policies import Function
from aegis.problem import Scope
from aegis.rng import stream


@pytest.fixture(scope="module")
def source() -> Source:
    return source_of(make_table(200, seed=4))


def test_scopes_share_the_risk(source):
    found = compare(source, better_policy(source.problem))
    assert found.scope == ("recipe", "dose")
    for choice in found.choices:
        assert set(choice.bounds) == {"recipe", "dose", "recipe + dose"}
        assert {bound.delta for bound in choice.bounds.values()} == {found.each / 3}
        best = max(choice.bounds.values(), key=lambda bound: bound.value)
        assert choice.bounds[" + ".join(choice.scope)] == best
    assert [choice.certificate for choice in found.choices] == [False, True]
    assert "B is the largest weight observed" in found.choices[0].label and "lam was chosen" in found.choices[0].label


def test_a_policy_for_one_level_is_asked_about_that_level_only(source):
    def at_dose(level, rows):
        assert level.name == "dose"
        return better(level, rows)

    policy = Function(source.problem, at_dose, ["dose"])
    found, same = compare(source, policy), compare(source, policy, scope=["dose"])
    assert found.scope == same.scope == ("dose",) and found.choices == ()
    assert found.bounds == same.bounds


def test_the_sharp_choice_is_the_grid_bound_of_each_scope(source: Source) -> None:
    found = compare(source, better_policy(source.problem), ledger=False)
    problem, measure = source.problem, reward_measure(source.problem)
    scopes = name_scopes(problem, [Scope("recipe"), Scope("dose")])
    rng = stream(1, "scopes")
    units, prior = ({"scope recipe": rng.random(count), "scope dose": rng.random(count) / 2} for count in (60, 20))
    case = BoundCase(
        units=UnitSeries(units, {"scope recipe": 1.0, "scope dose": 1.0}),
        prior=UnitSeries(prior, {}),
        weights=np.ones(1),
        limit=WeightLimit(2.0, "made up"),
        delta=0.1,
        split="made up",
        seed=1,
        measure=measure,
    )
    published, sharp = choose_scopes(problem, scopes, case)
    assert (published.method, sharp.method) == (PUBLISHED_CHOICE, SHARP) == tuple(item.method for item in found.choices)
    assert published.scope == sharp.scope == ("recipe",) and not published.certificate and sharp.certificate
    for name, values in units.items():
        grid = value_grid(value_centre(prior[name], 60, 0.05))
        expected = measure.value(sharp_grid_bound(values, grid, 0.05).value)
        assert sharp.bounds[name.removeprefix("scope ")].value == pytest.approx(expected)
    assert choose_scopes(problem, name_scopes(problem, [Scope("dose")]), case) == ()
