"""What goes wrong if gains are over the log, or over the incumbent without care, one small case each (theory section 12)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tiny_episodes import Tiny, TinyIncumbent, TinyModel, TinyPolicy

from aegis.certificate import Certificate, Reach, certify, gain_parts
from aegis.evidence import gain_grid
from aegis.logs import Source
from aegis.ope import (
    CandidateView,
    Closeness,
    Comparator,
    RewardModels,
    both_sides,
    capped_variation,
    closeness_to,
    corrected_gains,
    filled_gains,
    joint_gains,
    reward_measure,
)
from aegis.policies import Capped, Function, Logged, StatedIncumbent
from aegis.problem import Array, Batch, Level, Policy, Problem, Rows, Scope, parse_problem
from aegis.rng import stream

BETS = gain_grid(1.0).bets[:8:2]


def source(columns: dict[str, Array], problem: Problem) -> Source:
    return Source(pa.table({name: pa.array(values) for name, values in columns.items()}), problem)


def drawn(chances: Array, uniform: Array) -> Array:
    found: Array = np.minimum((np.cumsum(chances, axis=1) <= uniform[:, None]).sum(axis=1), chances.shape[1] - 1)
    return found


def checked(log: Source, candidate: Policy, **asked: object) -> Certificate:
    return certify(log, candidate, ledger=False, **asked)  # type: ignore[arg-type]


# ---- (a) a controller that explores, and the candidate is the controller ---------------------------------------------------


VALVE = """
episode: id
reward: {{column: r, range: [0, 1]}}
levels:
  - name: valve
    context: [x]
    action: {{column: a, values: [0, 1, 2]}}
    propensity: {{{propensity}}}
    {incumbent}
"""


def controller_problem(incumbent: str = "") -> Problem:
    """Return the problem of a controller that draws an action at random in a fifth of its decisions."""
    return parse_problem(VALVE.format(propensity="base: meant, epsilon: 0.2", incumbent=incumbent))


def meant(x: Array) -> Array:
    return np.where(x < 0, 0, 1)


def controller(level: Level, rows: Rows) -> Array:
    """Do what the controller means to do, without exploring."""
    return np.eye(3)[meant(rows["x"])]


def controlled(problem: Problem, seed: int, size: int = 800) -> Source:
    rng = stream(seed, "controller")
    x = rng.normal(size=size)
    base = meant(x)
    chances = 0.8 * np.eye(3)[base] + 0.2 / 3
    a = drawn(chances, rng.random(size))
    reward = np.where(a == base, 0.75, 0.25) + 0.2 * (rng.random(size) - 0.5)
    return source({"id": np.arange(size), "x": x, "a": a, "meant": base, "r": reward}, problem)


def test_a_controller_is_no_better_than_itself() -> None:
    problem = controller_problem()
    candidate = Function(problem, controller)
    for seed in range(3):
        (level,) = checked(controlled(problem, seed), candidate).levels
        assert level.verdict == "refused" and "[identical]" in level.reason
    over_log = controller_problem("incumbent: {policy: logged}")
    (level,) = checked(controlled(over_log, 0), Function(over_log, controller)).levels
    assert level.verdict == "certified" and level.gain_lower > 0.02  # what the controller has without any candidate
    assert "exploration included" in level.comparator


def test_b_what_the_incumbent_does_where_nothing_is_logged_counts() -> None:
    """Without the term for nu = 0 a truth of -.35 looks like +.10."""
    mu, nu, pi, mean = (np.array(p) for p in ((0.55, 0.0, 0.45), (0.5, 0.5, 0.0), (0.0, 1.0, 0.0), (1.0, 0.65, 1.0)))
    truth = float((pi - mu) @ mean)
    naive = float(sum(nu[a] * (pi[a] - mu[a]) / nu[a] * mean[a] for a in range(3) if nu[a] > 0))
    assert truth == pytest.approx(-0.35) and naive == pytest.approx(0.10)
    problem = parse_problem(
        """
episode: id
reward: {column: r, range: [0, 1]}
levels:
  - name: valve
    action: {column: a, values: [0, 1, 2]}
    propensity: {columns: [p0, p1, p2]}
    incumbent: {columns: [m0, m1, m2]}
"""
    )

    def log(seed: int, size: int = 500, stated: Problem = problem) -> Source:
        rng = stream(seed, "beyond the log")
        a = drawn(np.tile(nu, (size, 1)), rng.random(size))
        reward = (rng.random(size) < mean[a]).astype(float)
        shown = {f"{name}{k}": np.full(size, law[k]) for name, law in (("p", nu), ("m", mu)) for k in range(3)}
        return source({"id": np.arange(size), "a": a, "r": reward, **shown}, stated)

    candidate = Always(problem, pi)
    (batch,) = log(0, 4000).batches()
    view = CandidateView(problem, batch, candidate, RewardModels(guess={"r": 0.5}), Comparator.of(problem))
    measure, scope = reward_measure(problem), Scope("valve")
    unit = both_sides(view, scope, measure)
    assert abs(unit.mean() - (1 + truth)) < 4 * unit.std() / math.sqrt(unit.size)  # exact here: the worst is what happens
    raw = ((pi - mu) / np.where(nu > 0, nu, 1.0))[batch.levels["valve"].action] * batch.reward
    assert raw.mean() == pytest.approx(naive, abs=0.06)
    factors = filled_gains(view, scope, measure, BETS)
    for j, bet in enumerate(BETS):
        assert factors[:, j].mean() <= 1 + bet * truth + 4 * factors[:, j].std() / math.sqrt(len(factors))
    for method in ("auto", "robust", "plain"):
        (level,) = checked(log(1), candidate, method=method).levels
        assert level.verdict == "not yet" and level.gain_lower < truth
    (valve,) = problem.levels
    assert valve.incumbent is not None
    declared = replace(problem, levels=(replace(valve, incumbent=replace(valve.incumbent, max_ratio=2.0)),))
    refused = checked(log(1, stated=declared), Always(declared, pi))  # such a bound cannot be true
    assert refused.verdict.verdict == "refused" and "cannot have the logged probability" in refused.levels[0].reason


class Always:
    """One distribution in every context."""

    def __init__(self, problem: Problem, chances: Sequence[float] | Array) -> None:
        self.problem, self.chances = problem, np.asarray(chances, dtype=np.float64)

    @property
    def weights(self) -> Array:
        return np.ones(1)

    def full(self, level: str, batch: Batch) -> Array:
        return np.tile(self.chances, (1, len(batch.levels[level]), 1))

    def taken(self, level: str, batch: Batch) -> Array:
        return self.chances[batch.levels[level].action][None]


# ---- (c) caps against the logger -------------------------------------------------------------------------------------------


def worst_variation(cap: float, mu: Array, nu: Array) -> float:
    """Return the largest total variation from mu of pi <= cap nu, by trying every corner: the overlap is concave in pi."""
    best, size = 0.0, mu.size
    for order in itertools.permutations(range(size)):
        left, pi = 1.0, np.zeros(size)
        for a in order:
            pi[a] = min(left, cap * nu[a])
            left -= pi[a]
        if left < 1e-12:
            best = max(best, float(np.maximum(mu - pi, 0.0).sum()))
    return best


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 0.6])
@pytest.mark.parametrize("cap", [1.2, 1.5, 2.0, 4.0])
def test_c_the_variation_of_capped_candidates_is_the_worst_there_is(cap: float, epsilon: float) -> None:
    bound = capped_variation(cap, epsilon)
    rng = stream(1, "caps")
    for _ in range(40):
        mu, q = rng.dirichlet(np.full(4, 0.4)), rng.dirichlet(np.full(4, 0.4))
        assert worst_variation(cap, mu, (1 - epsilon) * mu + epsilon * q) <= bound + 1e-9
    # The worst case: mu spread over many actions, exploration on one that mu never takes.
    count = 60
    nu = np.append(np.full(count, (1 - epsilon) / count), epsilon)
    pi = np.minimum(cap * nu, np.append(np.zeros(count), 1.0))
    left = 1.0 - pi.sum()
    for a in range(count):  # as few of mu's actions as the cap allows
        pi[a] = min(cap * nu[a], left)
        left -= pi[a]
    reached = float(np.maximum(np.append(np.full(count, 1 / count), 0.0) - pi, 0.0).sum())
    assert reached <= bound + 1e-9 and reached >= bound - 1.5 / count


def test_c_branches_of_the_variation_meet() -> None:
    assert capped_variation(1.2, 0.3) == pytest.approx(1.2 * 0.3)  # W (1 - eps) < 1
    assert capped_variation(2.0, 0.3) == pytest.approx(1 - (1 - 0.6) / (2 * 0.7))
    assert capped_variation(2.0, 0.5) == capped_variation(math.inf, 0.1) == 1.0  # W eps >= 1: all of mu can be left
    edge = 1 / 0.7
    assert capped_variation(edge - 1e-9, 0.3) == pytest.approx(capped_variation(edge + 1e-9, 0.3), abs=1e-6)
    assert capped_variation(1.0, 0.3) == pytest.approx(0.3)  # the logger itself


def test_c_a_cap_against_the_logger_is_none_against_the_incumbent() -> None:
    problem = controller_problem()
    comparator = Comparator.of(problem)
    logged = Capped(problem, Preference(), Logged(problem), 2.0)
    found = closeness_to(logged, "valve", comparator)
    assert math.isinf(found.cap) and found.step == 1.0 and found.variation == capped_variation(2.0, 0.2)
    assert Reach(True, (found, found)).total_variation() == 1.0  # joint scopes need pi <= W mu, or steps
    own = closeness_to(Capped(problem, Preference(), StatedIncumbent(problem), 2.0), "valve", comparator)
    assert own == Closeness(cap=2.0, variation=0.5)
    log = controlled(problem, 1, 50)
    (batch,) = log.batches()
    pi, mu = logged.full("valve", batch)[0], StatedIncumbent(problem).full("valve", batch)[0]
    nu = batch.levels["valve"].mu_full
    assert nu is not None and (pi <= 2 * nu + 1e-12).all() and ((pi > 0) & (mu == 0)).any()


class Preference:
    """A reward model that prefers action 2."""

    def predict(self, level: str, batch: Batch) -> Array:
        return np.tile(np.arange(3.0), (len(batch.levels[level]), 1))


def test_c_bets_that_take_such_a_cap_for_one_against_the_incumbent_die() -> None:
    """A joint bet that trusts a cap over the logger cannot pay for its worst case: it is dead, not wrong."""
    tiny = Tiny(5, (1, 1), (3, 3), (1, 2), incumbent="mixed", explored=0.5, sharp=True)
    view, chance, _ = everything(tiny)
    scope, measure = Scope(tiny.names), reward_measure(tiny.problem)
    caps = [float((view.full(name, view.batch)[0] / view.logging(name)).max()) for name in tiny.names]
    trusted = Reach(True, tuple(Closeness(cap=max(cap, 1.1)) for cap in caps))
    bets = gain_grid(trusted.total_variation()).bets
    factors = joint_gains(view, scope, measure, trusted.inner, bets)
    assert np.isnan(factors).any()
    honest = Reach(True, (Closeness(), Closeness()))
    grid = gain_grid(honest.total_variation()).bets[1:]
    factors = joint_gains(view, scope, measure, honest.inner, grid)
    assert np.isfinite(factors).all() and (chance @ factors <= 1 + grid * tiny.gain_of(scope) + 1e-9).all()


def everything(tiny: Tiny, others: bool = False, **known: dict[str, float]) -> tuple[CandidateView, Array, list[object]]:
    """Return all episodes of a tiny problem, seen with its incumbent, and their probabilities."""
    listed = tiny.episodes()
    measure = reward_measure(tiny.problem)
    ratios = known.pop("ratios", {} if tiny.incumbent == "free" else dict.fromkeys(tiny.names, 1 / (1 - tiny.explored)))
    comparator = Comparator(TinyIncumbent(tiny), Scope(tiny.names), ratios=ratios, others=others, **known)
    models = RewardModels(rewards={measure.column: TinyModel(tiny)})
    batch = tiny.batch([episode for _, episode in listed])
    view = CandidateView(tiny.problem, batch, TinyPolicy(tiny), models, comparator)
    return view, np.array([p for p, _ in listed]), [episode for _, episode in listed]


# ---- (d) exploration at another level --------------------------------------------------------------------------------------


PLANT = """
episode: id
reward: {column: r, range: [0, 1]}
levels:
  - name: recipe
    action: {column: b, values: [0, 1]}
    propensity: {base: planned, epsilon: 0.1}
  - name: dose
    action: {column: a, values: [0, 1]}
    propensity: {base: meant, epsilon: 0.4}
"""
INNER_GAIN = (-0.02, 0.5)  # of the candidate, below the recipe that the incumbent takes, and below the one it only explores


def recipes(seed: int, size: int) -> dict[str, Array]:
    """Return a log: recipe 0 and dose 0 are meant; 5 % of the recipes and 20 % of the doses are 1."""
    rng = stream(seed, "recipes")
    b = (rng.random(size) < 0.05).astype(int)
    a = (rng.random(size) < 0.2).astype(int)
    reward = 0.4 + np.where(a == 1, np.where(b == 1, INNER_GAIN[1], INNER_GAIN[0]), 0.0)
    zeros = np.zeros(size, dtype=int)
    return {"id": np.arange(size), "planned": zeros, "b": b, "meant": zeros, "a": a, "r": reward}


def test_d_exploration_at_an_outer_level_can_turn_an_inner_loss_into_a_gain() -> None:
    problem = parse_problem(PLANT)
    candidate = Always(problem, (0.0, 1.0))
    (batch,) = source(recipes(1, 20_000), problem).batches()
    scope, measure = Scope("dose"), reward_measure(problem)
    in_log = 0.95 * INNER_GAIN[0] + 0.05 * INNER_GAIN[1]
    assert in_log == pytest.approx(0.006) and INNER_GAIN[0] == -0.02
    for others, gain in ((False, in_log), (True, INNER_GAIN[0])):
        comparator = Comparator.of(problem, others=others)
        view = CandidateView(problem, batch, candidate, RewardModels(guess={"r": 0.4}), comparator)
        most = comparator.ratios["recipe"]
        assert most == pytest.approx(1 / 0.95)
        factors = (
            corrected_gains(view, scope, measure, most, BETS[1:]) if others else filled_gains(view, scope, measure, BETS[1:])
        )
        slopes = (factors - 1) / BETS[1:]
        assert (np.abs(slopes.mean(axis=0) - gain) < 4 * slopes.std(axis=0) / math.sqrt(len(slopes))).all()


def test_d_the_claim_is_about_what_was_asked_for() -> None:
    problem = parse_problem(PLANT)
    log, candidate = source(recipes(2, 6000), problem), Always(problem, (0.0, 1.0))
    (as_logged,) = checked(log, candidate, scopes=[["dose"]], what=("gain",)).levels
    (corrected,) = checked(log, candidate, scopes=[["dose"]], what=("gain",), others="incumbent").levels
    assert "act as in the log, exploration included" in as_logged.others
    assert corrected.others == "while the incumbent acts at the other levels"
    assert abs(as_logged.estimate - 0.006) < 4 * as_logged.estimate_error
    assert abs(corrected.estimate + 0.02) < 4 * corrected.estimate_error
    assert corrected.verdict != "certified" and corrected.gain_lower < -0.02
    assert as_logged.gain_lower > corrected.gain_lower


# ---- (e) several policies wrote the log ------------------------------------------------------------------------------------


LEGACY, PILOT, MEANS = (np.array(p) for p in ((0.8, 0.1, 0.1), (0.1, 0.8, 0.1), (0.7, 0.3, 0.6)))


def logged_by_two(incumbent: str) -> Problem:
    """Return the problem of a log that carries the probabilities of all actions."""
    return parse_problem(VALVE.format(propensity="columns: [p0, p1, p2]", incumbent=incumbent))


def mixed(problem: Problem, seed: int, size: int = 300) -> Source:
    """Return a log in which a good legacy and a bad pilot take turns."""
    rng = stream(seed, "two loggers")
    nu = np.where((np.arange(size) % 2 == 0)[:, None], LEGACY, PILOT)
    a = drawn(nu, rng.random(size))
    reward = (rng.random(size) < MEANS[a]).astype(float)
    columns = {f"p{k}": nu[:, k] for k in range(3)} | {f"m{k}": np.full(size, LEGACY[k]) for k in range(3)}
    return source({"id": np.arange(size), "x": rng.normal(size=size), "a": a, "r": reward, **columns}, problem)


@pytest.mark.parametrize(("runs", "most"), [(16, 2), pytest.param(40, 5, marks=pytest.mark.ci)])
def test_e_a_pilot_in_the_log_makes_no_candidate_better_than_the_legacy(runs: int, most: int) -> None:
    """The candidate earns .6: more than the average of the log (.51), less than the legacy (.65)."""
    stated = logged_by_two("incumbent: {columns: [m0, m1, m2]}")
    average = logged_by_two("incumbent: {policy: logged}")
    assert pytest.approx(0.65) == LEGACY @ MEANS and pytest.approx(2 * 0.51) == (LEGACY + PILOT) @ MEANS
    wrong = sum(
        checked(mixed(stated, seed), Always(stated, (0, 0, 1)), what=("gain",)).levels[0].verdict == "certified"
        for seed in range(runs)
    )
    assert wrong <= most
    over_log = [checked(mixed(average, seed, 1500), Always(average, (0, 0, 1)), what=("gain",)).levels[0] for seed in range(3)]
    assert any(level.gain_lower is not None and level.gain_lower > 0 for level in over_log)  # over the average there is a gain


# ---- (f), (g) products over several decisions ------------------------------------------------------------------------------


def test_f_carry_over_uses_the_weight_of_what_went_before_if_it_is_bounded() -> None:
    tiny = Tiny(1, (1, 2), (2, 2), (2, 2), incumbent="mixed", carry=True)
    most = (1 / (1 - tiny.explored)) ** 6
    scope = Scope("fast")
    for products, name in (({}, "plain, both sides"), (dict.fromkeys(tiny.names, most), "water-filled")):
        view, chance, _ = everything(tiny, products=products)
        reach = Reach(True, (Closeness(),), view.comparator)
        (part,) = gain_parts(tiny.problem, scope, reward_measure(tiny.problem), reach, "auto")
        assert part.name == name
        bets = gain_grid(part.largest).bets[:6]
        found = part.compute(view, bets, 1.0)
        gain = tiny.gain_of(scope)
        assert found.min() >= 0
        if products:
            assert part.largest == most
            np.testing.assert_allclose(chance @ found, 1 + bets * gain, atol=1e-9)
        else:
            assert chance @ found == pytest.approx(1 + gain, abs=1e-9)


def test_f_the_gain_with_the_incumbents_own_past_is_another_one() -> None:
    """Who forgets G^mu compares with an incumbent whose earlier decisions the logger took."""
    apart = 0.0
    for seed in range(6):
        tiny = Tiny(seed, (1, 2), (2, 2), (1, 2), incumbent="mixed", carry=True, sharp=True)
        view, chance, _ = everything(tiny, products=dict.fromkeys(tiny.names, 100.0))
        scope, measure, bets = Scope("fast"), reward_measure(tiny.problem), gain_grid(100.0).bets[:1]
        average = (chance @ filled_gains(view, scope, measure, bets) - 1) / bets
        assert average == pytest.approx(tiny.gain_of(scope), abs=1e-7)
        naive = CandidateView(tiny.problem, view.batch, view.policy, view.models)  # compared with the logger
        other = (chance @ filled_gains(naive, scope, measure, bets) - 1) / bets
        apart = max(apart, float(np.abs(other - average).max()))
    assert apart > 0.02


def test_g_rewards_of_episodes_need_no_bound_of_products() -> None:
    """(prod w - prod u) r falls far below the largest ratio of one decision; what both sides earn stays above 0."""
    tiny = Tiny(1, (1, 2), (2, 2), (2, 2), incumbent="mixed", per="episode", sharp=True)
    view, chance, _ = everything(tiny)
    scope, measure = Scope("fast"), reward_measure(tiny.problem)
    (part,) = gain_parts(tiny.problem, scope, measure, Reach(True, (Closeness(),), view.comparator), "auto")
    assert part.name == "plain, both sides" and part.offset == 1.0
    w, u = view.node_weights(scope), view.against(scope).node_weights(scope)  # type: ignore[union-attr]
    paired = (w - u) * view.observed(measure).low
    assert paired.min() < -2 / (1 - tiny.explored) and u.max() > 2 / (1 - tiny.explored)
    found = part.compute(view, BETS, 1.0)
    assert found.min() >= 0 and chance @ found == pytest.approx(1 + tiny.gain_of(scope), abs=1e-9)


# ---- (h) steps -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [0.1, 0.5, 0.9])
def test_h_a_step_moves_no_more_than_its_size(step: float) -> None:
    rng = stream(1, "steps")
    for _ in range(50):
        mu, q = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4))
        pi = (1 - step) * mu + step * q
        assert np.maximum(mu - pi, 0.0).sum() <= step + 1e-12
    assert Reach(True, (Closeness(step=step, variation=step),)).total_variation() == step


def test_h_joint_steps_multiply() -> None:
    first, second = 0.2, 0.5
    reach = Reach(True, (Closeness(step=first, variation=first), Closeness(step=second, variation=second)))
    assert reach.total_variation() == pytest.approx(1 - 0.8 * 0.5)
    rng = stream(2, "steps")
    worst = 0.0
    for _ in range(200):
        outer, inner = rng.dirichlet(np.full(3, 0.3)), rng.dirichlet(np.full(3, 0.3), size=3)
        moved = (1 - first) * outer + first * rng.dirichlet(np.full(3, 0.3))
        below = (1 - second) * inner + second * rng.dirichlet(np.full(3, 0.3), size=3)
        worst = max(worst, float(np.maximum(outer[:, None] * inner - moved[:, None] * below, 0.0).sum()))
    assert 0.9 * reach.total_variation() < worst <= reach.total_variation() + 1e-12


def test_h_the_logger_is_a_step_from_its_incumbent() -> None:
    problem = controller_problem()
    found = closeness_to(Logged(problem), "valve", Comparator.of(problem))
    assert (found.step, found.variation) == (0.2, 0.2)
