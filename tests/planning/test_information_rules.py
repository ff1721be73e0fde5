"""D-optimal design and its shortlist against plain loops: determinants of precisions before and after hypothetical samples."""

from __future__ import annotations

import itertools
import math

import numpy as np
import planning_cases as cases
import pytest
import rule_cases

from aegis.errors import ModelError, PolicyError, SettingError
from aegis.mechanisms import ModelSettings, build_belief
from aegis.planning import DOptimal, Information, States, Thompson, TopK, plan_policy
from aegis.planning import information_rules as module
from aegis.planning.information_rules import relative_scores, shortlist
from aegis.problem import Actions, Batch, Level, LevelTable, Problem, Reward, Variable
from aegis.rng import stream


def phi(problem, belief, name, known):
    """The linear features of a mechanism at one row, written out."""
    found = [1.0]
    for parent in belief.mechanisms[name].parents:
        variable, value = problem.variables[parent], known[parent]
        if variable.kind == "categorical":
            found += [float(value == code) for code in range(variable.width)]
        else:
            found += [float(number) for number in np.atleast_1d(value)]
    return np.array(found)


def told_by(problem, belief, name, known, samples):
    """Growth of log det of the whole precision of a mechanism, every coordinate of its target a block of its own."""
    precision, features = belief.states[name].precision, phi(problem, belief, name, known)
    after = precision.copy()
    for _ in range(samples):
        after = after + np.outer(features, features)
    return problem.variables[name].width * (np.linalg.slogdet(after)[1] - np.linalg.slogdet(precision)[1])


def laws(problem, belief, level, known):
    """All contexts of a level with their chances under the posterior mean: 40 nodes per number, categories one by one."""
    naive = cases.Naive(problem, belief.point(), problem.scope(None), None, 40, {})
    cases_left = [(1.0, known)]
    by_name = {variable.name: variable for variable in problem.level(level).context}
    for name in [name for name in problem.graph.order if name in by_name]:
        inside = [other for other in by_name if name in belief.mechanisms[other].parents]
        if inside:  # nothing depends on the others
            cases_left = [(w * p, {**row, name: v}) for w, row in cases_left for p, v in naive.law(by_name[name], row)]
    return cases_left


def plain_score(problem, belief, level, known, samples):
    """The information of every action in one state."""
    spec, child, scores = problem.level(level), problem.child(level), []
    for code in range(spec.actions.count):
        here = {**known, spec.actions.column: spec.actions.numbers[code] if spec.actions.numeric else code}
        if child is not None:
            total = 0.0
            for weight, row in laws(problem, belief, child.name, here):
                for variable in child.context:
                    total += weight * told_by(problem, belief, variable.name, row, samples)
            scores.append(total)
            continue
        outcome, reward = problem.outcome, problem.reward.column
        if outcome is None:
            scores.append(told_by(problem, belief, reward, here, 1))
            continue
        rows = {name: np.asarray([[value]]) for name, value in here.items()}
        predicted = belief.point().functions[outcome.name].mean(rows, 1)[0, 0]
        total = told_by(problem, belief, outcome.name, here, 1)
        if outcome.kind == "categorical":
            for category, chance in enumerate(predicted):
                total += chance * told_by(problem, belief, reward, {**here, outcome.name: category}, 1)
        else:
            value = predicted if outcome.kind == "vector" else predicted[0]
            total += told_by(problem, belief, reward, {**here, outcome.name: value}, 1)
        scores.append(total)
    return scores


def known_rows(states):
    return [{name: values[0, row] for name, values in states.rows.items()} for row in range(states.count)]


PROBLEMS = {
    "one level": cases.real_problem(1),
    "two levels": cases.real_problem(2),
    "three levels": cases.real_problem(3),
    "no outcome": cases.real_problem(2, outcome=False),
    "vector outcome": cases.mixed_problem("vector", (Variable("heat"),)),
    "categorical outcome": cases.mixed_problem("categorical", (Variable("heat"),)),
    "contexts of contexts": cases.mixed_problem(),
}


@pytest.mark.parametrize("samples", [1, 5])
@pytest.mark.parametrize("name", PROBLEMS)
def test_scores_and_choices_against_plain_loops(name, samples):
    problem = PROBLEMS[name]
    rng = stream(1, "information", name)
    belief = cases.learned(problem, rng)
    batch = cases.random_batch(problem, rng, 2, 1, masks=True)
    information = Information(belief, belief.point(), samples)
    policy = plan_policy(belief, DOptimal(samples), rng)
    for level in problem.names:
        states = States.of(problem, batch, level)
        found = information.score(level, states)
        allowed = rule_cases.open_rows(problem, batch, level)
        for row, known in enumerate(known_rows(states)):
            wanted = plain_score(problem, belief, level, known, samples)
            np.testing.assert_allclose(found[0, row], wanted, rtol=1e-7)
            inside = [score if fine else -math.inf for score, fine in zip(wanted, allowed[row], strict=True)]
            assert policy.full(level, batch)[0, row].argmax() == inside.index(max(inside))


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_top_k_is_thompson_on_a_shortlist(depth, k):
    problem = cases.real_problem(depth)
    rng = stream(2, "top", depth)
    belief = cases.learned(problem, rng)
    batch = cases.random_batch(problem, rng, 6, 1, masks=True)
    policy = plan_policy(belief, TopK(k, 4), stream(3, "top"))
    same_draws = plan_policy(belief, Thompson(4), stream(3, "top"))
    for level in problem.names:
        full, values = policy.full(level, batch), same_draws.values(level, batch)
        allowed = rule_cases.open_rows(problem, batch, level)
        for row, known in enumerate(known_rows(States.of(problem, batch, level))):
            scores = plain_score(problem, belief, level, known, 1)
            fine = [action for action in range(len(scores)) if allowed[row, action]]
            listed = sorted(fine, key=lambda action: -scores[action])[:k]
            for particle in range(4):
                wanted = max(listed, key=lambda action: values[particle, row, action])
                assert full[particle, row].tolist() == [float(action == wanted) for action in range(len(scores))]
    if k == 3:
        for level in problem.names:  # nobody has more than three actions: everything is on the list
            np.testing.assert_array_equal(policy.full(level, batch), same_draws.full(level, batch))


def test_the_first_samples_are_taken_at_the_ends_and_ties_go_first():
    """Before any data both ends of a symmetric grid tell the same; after a sample at one end the other one tells more."""
    actions = Actions.grid("a", -2.0, 2.0, 5)
    problem = Problem((Level("l", actions),), Reward("r"))
    batch = Batch(np.arange(1), {"l": LevelTable.undecided([0], {})})
    belief, taken = build_belief(problem), []
    for episode in range(6):
        chosen = int(plan_policy(belief, DOptimal(), stream(4, "ends"), episode=episode).full("l", batch)[0, 0].argmax())
        taken.append(chosen)
        table = batch.levels["l"].decided([chosen], np.ones(1))
        belief = belief.update(Batch(np.arange(1), {"l": table}, np.array([0.1 * episode])))
    assert taken == [0, 4, 0, 4, 0, 4]


def test_rounding_does_not_break_ties():
    scores = np.array([[1.0, 1.0 + 1e-13, 0.2], [1e-12, 3e-12, 2e-12], [0.0, 0.0, 0.0]])
    everything = np.ones((3, 3), dtype=bool)
    assert relative_scores(scores, everything).argmax(axis=-1).tolist() == [0, 1, 0]
    assert relative_scores(scores, np.array([[False, True, True]] * 3)).argmax(axis=-1).tolist() == [1, 1, 1]


def test_a_shortlist_keeps_the_first_on_ties():
    scores = np.array([[0.5, 1.0, 1.0, 1.0], [-np.inf, 0.1, -np.inf, 0.2]])
    assert shortlist(scores, 2).tolist() == [[False, True, True, False], [False, True, False, True]]


def test_values_are_not_planned_for_d_optimal_design():
    problem, belief, batch = rule_cases.case(2)
    choice = DOptimal().prepare(belief, stream(5, "lazy"), 0)

    def planned():
        raise AssertionError("planned")

    states, allowed = States.of(problem, batch, "l2"), rule_cases.open_rows(problem, batch, "l2")
    choice.probabilities("l2", states, planned, allowed)
    with pytest.raises(AssertionError, match="planned"):
        Thompson(1).prepare(belief, stream(5, "lazy"), 0).probabilities("l2", states, planned, allowed)


def test_a_table_tells_most_where_it_was_asked_least():
    problem = cases.mixed_problem("real", (Variable("heat"),))
    rng = stream(6, "table")
    batch = cases.random_batch(problem, rng, 10)
    belief = build_belief(problem, ModelSettings("cells")).update(batch)
    counts = np.zeros((3, 3))
    outer = batch.levels["recipe"].action[batch.levels["dose"].parent]
    np.add.at(counts, (outer, batch.levels["dose"].action), 1)
    scores = Information(belief, belief.point()).score("dose", States.of(problem, batch, "dose"))
    np.testing.assert_allclose(scores[0], np.log1p(1 / (0.1 + counts[outer])), rtol=1e-9)


def test_nothing_to_learn_directly_below_is_refused():
    problem = cases.mixed_problem("real", (Variable("heat"),))
    batch = cases.random_batch(problem, stream(7, "nothing"), 2)
    policy = plan_policy(build_belief(problem, ModelSettings("cells")), DOptimal(), stream(7, "nothing"))
    with pytest.raises(PolicyError, match="level 'recipe': there is no mechanism of a context of 'dose' to learn about"):
        policy.full("recipe", batch)


def test_a_prior_without_a_variance_is_refused():
    problem = cases.real_problem(1)
    belief = build_belief(problem, ModelSettings(shape=1.0))
    batch = cases.random_batch(problem, stream(8, "improper"), 2)
    with pytest.raises(ModelError, match="predictive variance of 'y' is infinite"):
        plan_policy(belief, DOptimal(), stream(8, "improper")).full("l1", batch)


def test_blocks_of_rows_do_not_change_the_scores(monkeypatch):
    problem = cases.mixed_problem()
    rng = stream(9, "blocks")
    belief = cases.learned(problem, rng)
    states = States.of(problem, cases.random_batch(problem, rng, 7), "recipe")
    whole = Information(belief, belief.point()).score("recipe", states)
    for block in (1, 3 * 16 * 4):
        monkeypatch.setattr(module, "INFORMATION_BLOCK", block)
        np.testing.assert_allclose(Information(belief, belief.point()).score("recipe", states), whole, rtol=1e-12)


def test_predictions_that_differ_by_draw_are_scored_by_draw():
    """Committed at the start, the inner level looks at contexts that each draw predicts for itself."""
    problem = cases.real_problem(2)
    rng = stream(10, "draws")
    belief = cases.learned(problem, rng)
    batch = cases.random_batch(problem, rng, 3, 1)
    policy = plan_policy(belief, TopK(1, 4), rng, commit="joint")
    states = policy.commit.states(problem, policy.theta, policy.scope, "l1", States.of(problem, batch, "l1"))
    full = policy.full("l1", batch)
    for particle, row in itertools.product(range(4), range(3)):
        known = {name: values[min(particle, len(values) - 1), row] for name, values in states.rows.items()}
        assert full[particle, row].argmax() == np.argmax(plain_score(problem, belief, "l1", known, 1))


def test_settings_are_checked():
    for rule in (DOptimal, TopK):
        for wrong in (0, -1, math.inf, "many"):
            with pytest.raises(SettingError, match="'samples' is a"):
                rule(samples=wrong)
    for setting in ("k", "particles"):
        with pytest.raises(SettingError, match=f"'{setting}' is a whole number from 1"):
            TopK(**{setting: 0})
