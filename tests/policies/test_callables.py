"""User callables: what they see, what is checked, how they are named."""

from __future__ import annotations

import sys

import numpy as np
import policy_examples as ex
import pytest

from aegis.errors import PolicyError
from aegis.policies import Function, load_callable
from aegis.policies.callables import callable_name


def lean(level, rows):
    """A policy that leans with the temperature."""
    score = np.outer(rows["temperature"], np.arange(level.actions.count))
    mass = np.exp(score - score.max(axis=1, keepdims=True))
    return mass / mass.sum(axis=1, keepdims=True)


class Holder:
    """Callables may be attributes of attributes."""

    @staticmethod
    def inner(level, rows):
        return lean(level, rows)


NOT_CALLABLE = 3


def answering(answer, depth=1, masks=False):
    problem = ex.problem(depth)
    batch = ex.batch(problem, 3, masks=masks)
    return Function(problem, lambda level, rows: answer(level, rows), {"dose"}), batch


def flat(level, rows):
    count = len(rows["temperature"])
    return np.full((count, level.actions.count), 1.0 / level.actions.count)


def test_it_sees_the_augmented_context():
    seen = {}

    def spy(level, rows):
        seen.update({level.name: set(rows)})
        return flat(level, rows)

    problem = ex.problem(2)
    Function(problem, spy, {"dose"}).full("dose", ex.batch(problem, 3))
    assert seen == {"dose": {"task", "shift", "setting", "temperature"}}


def test_answers_are_scaled_to_sum_to_exactly_one():
    policy, batch = answering(lambda level, rows: flat(level, rows) * (1 + 5e-7))
    np.testing.assert_allclose(policy.full("dose", batch).sum(axis=2), 1.0, rtol=0, atol=1e-15)


def change(row, action, value):
    def answer(level, rows):
        found = flat(level, rows)
        found[row, action] = value
        return found

    return answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (change(2, 1, np.nan), "row 2: .*finite"),
        (change(2, 1, np.inf), "row 2: .*finite"),
        (change(1, 0, -0.2), "row 1: .*not negative"),
        (change(0, 0, 0.5), "row 0: .*sum to 1"),
        (lambda level, rows: flat(level, rows)[:, :-1], "shape"),
        (lambda level, rows: flat(level, rows)[0], "shape"),
        (lambda level, rows: "often", "array of probabilities"),
        (lambda level, rows: None, "shape|array"),
    ],
)
def test_answers_that_are_refused(answer, message):
    policy, batch = answering(answer)
    with pytest.raises(PolicyError, match=message):
        policy.full("dose", batch)


def test_probability_on_an_unavailable_action_is_refused():
    policy, batch = answering(flat, masks=True)
    with pytest.raises(PolicyError, match="unavailable"):
        policy.full("dose", batch)


def test_a_level_with_nothing_to_look_at_may_get_one_distribution():
    level = ex.Level("dose", ex.Actions.of("amount", (0, 1, 2)))
    problem = ex.Problem((level,))
    batch = ex.batch(problem, 3)
    found = Function(problem, lambda level, rows: [0.5, 0.25, 0.25]).full("dose", batch)
    assert found.shape == (1, len(batch.levels["dose"]), 3)
    assert (found[0] == [0.5, 0.25, 0.25]).all()


def test_other_levels_follow_the_legacy_with_its_particles():
    problem = ex.problem(2)
    batch = ex.batch(problem, 6)
    legacy = ex.scripted(problem, batch, 3, 0)
    policy = Function(problem, lean, {"dose"}, legacy)
    np.testing.assert_array_equal(policy.weights, legacy.weights)
    np.testing.assert_array_equal(policy.full("recipe", batch), legacy.full("recipe", batch))
    np.testing.assert_array_equal(policy.taken("recipe", batch), legacy.taken("recipe", batch))
    full = policy.full("dose", batch)
    assert full.shape == (3, len(batch.levels["dose"]), 5)
    assert (full == full[0]).all()
    assert policy.taken("dose", batch).shape == (3, len(batch.levels["dose"]))
    with pytest.raises(PolicyError, match="acts at dose only"):
        Function(problem, lean, {"dose"}).full("recipe", batch)


def test_callables_by_name():
    assert load_callable("test_callables:lean") is lean
    assert load_callable("test_callables:Holder.inner") is Holder.inner
    assert callable_name(lean) == "test_callables:lean"
    assert callable_name(Holder.inner) == "test_callables:Holder.inner"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("test_callables", "module:object"),
        (":lean", "module:object"),
        ("test_callables:", "module:object"),
        ("no_such_module_here:lean", "cannot import"),
        ("test_callables:lena", "has no 'lena'"),
        ("test_callables:NOT_CALLABLE", "not a callable"),
    ],
)
def test_names_that_lead_nowhere(name, message):
    with pytest.raises(PolicyError, match=message):
        load_callable(name)


def test_a_module_that_fails_while_it_is_imported(tmp_path, monkeypatch):
    (tmp_path / "breaks_on_import.py").write_text("raise ZeroDivisionError('planted')\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(PolicyError, match="ZeroDivisionError: planted"):
        load_callable("breaks_on_import:lean")


def test_callables_without_a_lasting_name(monkeypatch):
    def local(level, rows):
        return lean(level, rows)

    problem = ex.problem(1)
    for function in (lambda level, rows: None, local, Holder()):
        with pytest.raises(PolicyError, match="cannot be stored: a policy folder holds names, never code"):
            callable_name(function)
    with pytest.raises(PolicyError, match="cannot be stored"):
        Function(problem, lambda level, rows: None).state()
    with pytest.raises(PolicyError, match="callable"):
        Function(problem, 3)
    monkeypatch.setattr(local, "__qualname__", "lean")  # leads to another object
    with pytest.raises(PolicyError, match="cannot be stored"):
        callable_name(local)
    monkeypatch.setattr(lean, "__module__", "__main__")
    with pytest.raises(PolicyError, match="cannot be stored"):
        callable_name(lean)
    assert Function.named(problem, "test_callables:lean").state().settings["function"] == "test_callables:lean"
