"""Ways to a false certificate on an interval that stay closed: masses under densities, hidden atoms, lattices, exact lines."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import ndtr

from aegis.certificate import Candidate, Certificate, certify, verify
from aegis.errors import PolicyError, ProblemError
from aegis.logs import Source
from aegis.policies import FullColumns, Function, Gaussian, Hybrid, Legacy
from aegis.problem import Actions, Array, Level, Policy, Problem, Propensity, Reward, Rows, Variable
from aegis.rng import stream


def problem(atoms: tuple[float, ...] = (), lipschitz: float | None = None) -> Problem:
    actions = Actions.interval("dose", 0.0, 6.0, 0.5, 13, atoms=atoms, lipschitz=lipschitz)
    level = Level("d", actions, (Variable("x"),), Propensity(column="mu", density=True), "e")
    return Problem((level,), Reward("r", (0, 1)), episode=("e",))


def certified(made: Problem, policy: Policy, **columns: Array) -> Certificate:
    table = pa.table({"e": np.arange(len(columns["x"])), **columns})
    return certify(Source(table, made), policy, scopes=[["d"]], ledger=False)


def clipped(seed: int, count: int = 1500) -> dict[str, Array]:
    """A legacy that clips to [0, 6] and logs probabilities there; only the dose of 6 itself helps."""
    rng = stream(seed, "clipped")
    x, raw = rng.integers(0, 2, count).astype(float), rng.normal(3.0, 2.0, count)
    density = np.exp(-0.125 * (raw - 3.0) ** 2) / (2.0 * np.sqrt(2 * np.pi))
    mu = np.where((raw <= 0) | (raw >= 6), ndtr(-1.5), density)
    dose = np.where(x == 1, np.clip(raw, 0, 6), rng.uniform(0, 3, count))
    reward = (rng.random(count) < np.where(x == 1, 0.05 + 0.9 * (dose >= 6), 0.0)).astype(float)
    return {"x": x, "dose": dose, "mu": np.where(x == 1, mu, 1 / 3), "r": reward}


@pytest.mark.parametrize("ends", ["cut", "clip"])
def test_a_density_is_never_divided_by_a_probability(ends: str) -> None:
    """The cut candidate takes no dose of exactly 6 and is worth 0.025, less than the legacy; the clipping one counts 0 there."""
    made = problem(atoms=(0.0, 6.0))
    for seed in range(4):
        found = certified(made, Legacy(made, {"d": Gaussian({}, 0.8, 5.2, ends)}), **clipped(seed))
        level = found.levels[0]
        assert level.verdict != "certified"
        assert level.value_lower is None or level.value_lower < 0.025


@pytest.mark.parametrize(("count", "caps"), [(250, 1), (1500, 20), (1500, 60), (3000, 150)])
def test_atoms_at_many_numbers_are_refused(count: int, caps: int) -> None:
    """Each patient class has a limit of its own, to which doses are clipped; nothing declares them."""
    rng = stream(1, "caps", count, caps)
    cap = np.linspace(3.0, 5.0, caps + 1)[rng.integers(0, caps, count)] + 0.01234567
    raw = rng.uniform(0, 6, count)
    mu = np.where(raw >= cap, 1.0 - cap / 6, 1 / 6)
    made = problem()
    policy = Function(made, lambda level, rows: np.full(len(rows["x"]), 4.0), ["d"])
    found = certified(made, policy, x=rng.random(count), dose=np.minimum(raw, cap), mu=mu, r=rng.random(count))
    assert found.verdict.verdict == "refused" and "undeclared-atom" in {item["code"] for item in found.findings}


@pytest.mark.parametrize("stray", [0.0, 0.03])
def test_a_lattice_is_refused_however_its_numbers_were_computed(stray: float) -> None:
    """Odd multiples of 0.3, half of them off in their last digit, and perhaps some doses that are not rounded at all."""
    rng = stream(2, "lattice", str(stray))
    count = 1000
    steps = rng.integers(0, 10, count)
    dose = np.where(rng.random(count) < 0.5, (steps + 0.5) * 0.6, (6 * steps + 3) / 10)
    dose = np.where(rng.random(count) < stray, rng.uniform(0, 6, count), dose)
    made = problem()
    policy = Function(made, lambda level, rows: np.full(len(rows["x"]), 3.0), ["d"])
    found = certified(made, policy, x=rng.random(count), dose=dose, mu=np.full(count, 1 / 6), r=rng.random(count))
    codes = {item["code"] for item in found.findings}
    assert found.verdict.verdict == "refused" and codes & {"rounded-actions", "undeclared-atom"}


@pytest.mark.parametrize("kind", ["64 bits", "32 bits", "three decimals"])
def test_honest_numbers_are_not_refused(kind: str) -> None:
    rng = stream(3, "honest", kind)
    count = 4000
    dose = rng.normal(3.0, 0.4, count)
    mu = np.exp(-0.5 * ((dose - 3.0) / 0.4) ** 2) / (0.4 * np.sqrt(2 * np.pi))
    dose = {"64 bits": dose, "32 bits": dose.astype(np.float32).astype(float), "three decimals": np.round(dose, 3)}[kind]
    made = problem()
    policy = Function(made, lambda level, rows: np.full(len(rows["x"]), 3.0), ["d"])
    found = certified(made, policy, x=rng.random(count), dose=dose, mu=mu, r=rng.random(count))
    assert not {item["code"] for item in found.findings} & {"rounded-actions", "undeclared-atom"}


def test_only_what_acts_in_windows_has_a_line_about_exact_actions_and_it_is_verified() -> None:
    rng = stream(4, "exact")
    count, made = 600, problem(lipschitz=0.1)
    columns = {"x": rng.random(count), "dose": rng.uniform(0, 6, count), "mu": np.full(count, 1 / 6), "r": rng.random(count)}
    wide = certified(made, Legacy(made, {"d": Gaussian({}, 4.0, 3.0, "cut")}), **columns)
    assert "unsmoothed" not in wide.diagnostics
    policy = Function(made, lambda level, rows: np.full(len(rows["x"]), 3.0), ["d"])
    found = certified(made, policy, **columns)
    content = json.loads(json.dumps(found.to_json()))
    source = Source(pa.table({"e": np.arange(count), **columns}), made)
    assert verify(content, source, [Candidate.of(policy)]).holds
    content["diagnostics"]["unsmoothed"][0]["gain_lower"] = 0.9
    assert any("unsmoothed" in item.what for item in verify(content, source, [Candidate.of(policy)]).differences)


def test_exact_actions_are_not_spoken_of_where_another_policy_acts() -> None:
    """The function acts elsewhere, a wide Gaussian at the interval; inside a hybrid it is the same."""
    made = problem(lipschitz=0.1)
    wide = Legacy(made, {"d": Gaussian({}, 4.0, 3.0, "cut")})
    chosen = Function(made, lambda level, rows: np.full(len(rows["x"]), 3.0), ["d"], wide)
    assert chosen.windowed == {"d"} == Hybrid(made, ["d"], chosen, wide).windowed
    assert not Hybrid(made, ["d"], wide, chosen).windowed and not Hybrid(made, [], chosen, wide).windowed


def test_columns_with_the_probabilities_of_points_go_with_atoms() -> None:
    """They say around which points the candidate acts; at an atom of the legacy it takes nothing, as a function's policy."""
    made, columns = problem(atoms=(0.0, 6.0)), clipped(0)
    names = [f"p{place}" for place in range(13)]
    told = {name: np.full(len(columns["x"]), float(place in (8, 9)) / 2) for place, name in enumerate(names)}
    found = certified(made, FullColumns(made, {"d": names}), **columns, **told)

    def points(level: Level, rows: Rows) -> Array:
        return np.repeat([[float(place in (8, 9)) / 2 for place in range(13)]], len(rows["x"]), axis=0)

    same = certified(made, Function(made, points, ["d"]), **columns)
    assert found.levels[0].gain_lower == same.levels[0].gain_lower is not None
    told["p8"] = told["p8"] + 0.75
    with pytest.raises(PolicyError, match=r"column 'p8': 1.25 is not a probability"):
        certified(made, FullColumns(made, {"d": names}), **columns, **told)


def test_windows_and_gaussians_narrower_than_floats_can_tell_are_refused() -> None:
    with pytest.raises(ProblemError, match=r"'dose': a 'bandwidth' of 1e-06 is too narrow .* difference from a fixed number"):
        Actions.interval("dose", 1e9, 1e9 + 1, 1e-6)
    assert Actions.interval("dose", 0.0, 1.0, 1e-6).bandwidth == 1e-6
    made = problem()
    with pytest.raises(ProblemError, match=r"a Gaussian with an 'sd' of 1e-15 is too narrow for numbers as large as 6"):
        Legacy(made, {"d": Gaussian({}, 1e-15, 3.0)})
