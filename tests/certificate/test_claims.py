"""Claims: scopes, margins, subgroups, and the one list of gain, value and guards."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from small_logs import make_table, problem_of, source_of

from aegis.certificate import ChallengeTerms, Reach, challenge_claims, margin_of, scopes_of
from aegis.certificate.claims import claims_at, subgroups_of
from aegis.errors import InputError, SettingError
from aegis.problem import Problem, Scope, parse_problem

GUARD = "guards: [{column: scrap, range: [0, 2], max_worsening: 0.1}]"


def deep(levels: int) -> Problem:
    text = "episode: e\nreward: {column: r, range: [0, 1]}\nlevels:\n"
    for k in range(levels, 0, -1):
        text += (
            f"  - {{name: l{k}, action: {{column: a{k}, values: [0, 1]}}, propensity: {{policy: uniform}}, margin: {0.01 * k}}}\n"
        )
    return parse_problem(text)


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
def test_all_scopes_up_to_four_levels(levels: int) -> None:
    problem = deep(levels)
    names = problem.names
    expected = {Scope(part) for size in range(1, levels + 1) for part in itertools.combinations(names, size)}
    found = scopes_of(problem)
    assert set(found) == expected and len(found) == 2**levels - 1
    assert found[0] == Scope("l1")  # the innermost first


@pytest.mark.parametrize("levels", [5, 7])
def test_from_the_inside_out_beyond(levels: int) -> None:
    found = scopes_of(deep(levels))
    assert found == tuple(Scope(f"l{k}" for k in range(1, size + 1)) for size in range(1, levels + 1))


def test_scopes_that_are_asked_for() -> None:
    problem = deep(3)
    assert scopes_of(problem, [["l1", "l3"], ["l3", "l1"]]) == (Scope({"l1", "l3"}),)
    for wrong in ([], [[]], [["l1"], []]):
        with pytest.raises(SettingError, match="at least one level of l3, l2, l1"):
            scopes_of(problem, wrong)
    with pytest.raises(InputError, match="no level 'l9'"):
        scopes_of(problem, [["l9"]])


def test_margins_add_up() -> None:
    assert margin_of(deep(3), Scope({"l1", "l3"})) == pytest.approx(0.04)


@pytest.mark.parametrize("what", [("gain",), ("gain", "value")])
def test_a_list_of_claims_has_gain_value_and_guards_in_this_order(what: tuple[str, ...]) -> None:
    problem = problem_of(head=GUARD)
    methods = dict.fromkeys(what, "auto")
    claims = claims_at(problem, Scope("dose"), Reach.capped(2.0), methods, margin=0.03, delta=0.01, candidate=1, allowed=0.5)
    assert [claim.what for claim in claims] == [*what, "guard"]
    assert {(claim.candidate, claim.scope, claim.delta, claim.group) for claim in claims} == {(1, Scope("dose"), 0.01, None)}
    assert [claim.margin for claim in claims] == [0.03, *[0.0] * (len(what) - 1), -0.025]  # half of 0.1, on a range of 2
    assert claims[-1].measure.column == "scrap" and claims[0].parts and claims[0].bracket == (-0.5, 0.5)


@pytest.mark.parametrize(("margin", "expected"), [(0.2, 0.2), (-0.2, -0.1)])
def test_a_challenger_may_use_its_share_of_a_negative_margin_and_of_what_guards_allow(margin: float, expected: float) -> None:
    problem = problem_of(head=GUARD, dose=f"margin: {margin}")
    claims = challenge_claims(problem, "dose", ChallengeTerms(variation=0.5, allowed=0.5, levels=2))
    assert [claim.what for claim in claims] == ["gain", "value", "guard"]
    assert claims[0].margin == pytest.approx(expected) and claims[2].margin == pytest.approx(-0.5 / 2 * 0.1 / 2)
    assert claims[0].parts[0].largest == 0.5 and claims[1].parts[0].name == "plain"
    (free, *_) = challenge_claims(problem, "dose", ChallengeTerms(variation=1.0))
    assert free.parts[0].largest == 1.0


def test_subgroups_cover_every_episode_once() -> None:
    problem = problem_of()
    batch = source_of(make_table(30)).read()
    groups = subgroups_of(problem, ("task",), batch)
    assert [group.label for group in groups] == ["plain", "fine"]
    assert (np.sum([group.members(batch) for group in groups], axis=0) == 1).all()
    with pytest.raises(SettingError, match="variable to group by"):
        subgroups_of(problem, ("temperature",), batch)
