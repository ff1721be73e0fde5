"""Hypothetical states: cutting, repeating, extending, and what a legacy would do in them."""

from __future__ import annotations

import numpy as np
import planning_cases as cases

from aegis.planning import States
from aegis.planning.states import flatten_particles, legacy_probabilities
from aegis.policies import Legacy, Mixture, Nearest, Uniform
from aegis.rng import stream

PROBLEM = cases.real_problem(2)
BATCH = cases.random_batch(PROBLEM, stream(1, "states"), episodes=3)
INNER, OUTER = PROBLEM.innermost, PROBLEM.outermost


def test_states_of_a_batch_repeat_what_is_above() -> None:
    states = States.of(PROBLEM, BATCH, INNER.name)
    above = BATCH.ancestors(INNER.name)[OUTER.name]
    assert states.count == len(BATCH.levels[INNER.name])
    np.testing.assert_array_equal(states.index[OUTER.name][0], BATCH.levels[OUTER.name].action[above])
    part = states.part(1, 100)
    assert part.count == states.count - 1
    np.testing.assert_array_equal(part.index[OUTER.name], states.index[OUTER.name][:, 1:])
    for name, values in states.rows.items():
        np.testing.assert_array_equal(part.rows[name], values[:, 1:])


def test_every_action_follows_every_state() -> None:
    states, actions = States.of(PROBLEM, BATCH, OUTER.name), OUTER.actions
    wide = states.each_action(PROBLEM, OUTER.name)
    assert wide.count == states.count * actions.count
    np.testing.assert_array_equal(wide.index[OUTER.name][0], list(range(actions.count)) * states.count)
    np.testing.assert_array_equal(wide.rows[actions.column][0], np.tile(actions.numbers, states.count))
    for name, values in states.rows.items():
        np.testing.assert_array_equal(wide.rows[name], np.repeat(values, actions.count, axis=1))
    assert set(wide.only((actions.column,)).rows) == {actions.column}


def test_particles_become_rows() -> None:
    values = np.arange(6.0).reshape(1, 3, 2)
    np.testing.assert_array_equal(flatten_particles(values, 2), np.concatenate([values[0], values[0]]))


def test_a_legacy_acts_in_hypothetical_states_as_in_real_ones() -> None:
    states = States.of(PROBLEM, BATCH, INNER.name)
    legacy = Legacy(PROBLEM, {OUTER.name: Uniform(), INNER.name: Nearest({INNER.context[0].name: 1.0})})
    found = legacy_probabilities(PROBLEM, legacy, INNER.name, states)
    np.testing.assert_array_equal(found[0], legacy.full(INNER.name, BATCH)[0])


def test_actions_of_a_new_policy_say_nothing_about_the_legacys_particle() -> None:
    first = {OUTER.name: Nearest({}, float(OUTER.actions.numbers[0])), INNER.name: Uniform()}
    last = {OUTER.name: Nearest({}, float(OUTER.actions.numbers[-1])), INNER.name: Nearest({}, 0.0)}
    mixture = Mixture([Legacy(PROBLEM, first), Legacy(PROBLEM, last)])  # type: ignore[arg-type]
    states = States.of(PROBLEM, BATCH, INNER.name)
    average = legacy_probabilities(PROBLEM, mixture, INNER.name, states, PROBLEM.scope([OUTER.name]))
    expected = np.mean([policy.full(INNER.name, BATCH)[0] for policy in mixture.policies], axis=0)
    np.testing.assert_allclose(average[0], expected)
