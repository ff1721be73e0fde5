"""A linear Gaussian graph side by side: DoWhy's graphical causal models against the factorised belief."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from aegis.mechanisms import Theta, build_belief
from aegis.problem import Actions, Batch, Level, LevelTable, Problem, Propensity, Reward, Variable
from aegis.rng import stream
from peer_envs import ask
from peer_rows import Row, saved, smallest

Array = npt.NDArray[np.float64]
SAMPLES = 10_000
RUNS = 20
DO = {"M": 4.0, "A": 2.0}
SHOWN = ("C", "Y", "R")
PARENTS = {"C": ("T", "M"), "Y": ("A", "C"), "R": ("Y", "C", "M", "T", "A")}
SLOPES = {"C": (0.3, 0.8), "Y": (0.5, 0.4), "R": (0.3, 0.08, 0.1, 0.05, 0.02)}
NOISE = {"T": 1.0, "C": 0.3, "Y": 0.2, "R": 0.15}
CHANCE = 0.25  # relative: root mean squares of 20 drawn errors differ by as much between two sets of draws


def problem() -> Problem:
    """Return two levels of decisions: T, setting M, then C, action A, outcome Y and reward R."""
    setting, action = Actions.of("M", tuple(range(1, 6))), Actions.of("A", tuple(range(1, 6)))
    return Problem(
        levels=(
            Level("meta", setting, (Variable("T"),), Propensity(column="p_M")),
            Level("inner", action, (Variable("C"),), Propensity(column="p_A")),
        ),
        reward=Reward("R", (-100.0, 100.0)),
        outcome=Variable("Y"),
        parents=PARENTS,
    )


def follow(known: dict[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    """Return T, C, Y and R of the true graph under given settings and actions `[n]`."""
    rows = dict(known, T=NOISE["T"] * rng.standard_normal(known["M"].size))
    for name, parents in PARENTS.items():
        mean = sum(slope * rows[parent] for slope, parent in zip(SLOPES[name], parents, strict=True))
        rows[name] = mean + NOISE[name] * rng.standard_normal(known["M"].size)
    return rows


def batch_of(rows: dict[str, Array]) -> Batch:
    """Return the rows as episodes of one decision at each level."""
    size = rows["T"].size
    index, chance = np.arange(size, dtype=np.int32), np.full(size, 0.2)
    levels = {
        level: LevelTable(index, {context: rows[context]}, (rows[action] - 1.0).astype(np.int32), chance)
        for level, context, action in (("meta", "T", "M"), ("inner", "C", "A"))
    }
    return Batch(np.arange(size), levels, rows["R"], np.ones(size, dtype=np.bool_), rows["Y"])


def interventional(theta: Theta, given: Array, rng: np.random.Generator, count: int) -> dict[str, Array]:
    """Return draws `[count]` of every variable with the actions set, from the outside in: mean of the mechanism plus noise.

    given: logged values of T, which is nobody's effect and is drawn from them.
    """
    rows: dict[str, Any] = {name: np.full((1, count), value) for name, value in DO.items()}
    rows["T"] = rng.choice(given, (1, count))
    for name in PARENTS:
        function = theta.functions[name]
        rows[name] = function.mean(rows, count)[..., 0] + function.sd * rng.standard_normal((1, count))
    return {name: values[0] for name, values in rows.items()}


def exact() -> Array:
    """Return mean and standard deviation `[3, 2]` of C, Y and R under the intervention."""
    means: dict[str, float] = {"T": 0.0, **DO}
    loads: dict[str, dict[str, float]] = {"T": {"T": NOISE["T"]}, **{name: {} for name in DO}}
    for name, parents in PARENTS.items():
        means[name], loads[name] = 0.0, {name: NOISE[name]}
        for slope, parent in zip(SLOPES[name], parents, strict=True):
            means[name] += slope * means[parent]
            for source, load in loads[parent].items():
                loads[name][source] = loads[name].get(source, 0.0) + slope * load
    return np.array([[means[name], np.sqrt(sum(load**2 for load in loads[name].values()))] for name in SHOWN])


def dowhy_rows(quick: bool) -> tuple[list[Row], dict[str, str], list[str]]:
    """Return the rows of DoWhy and its version."""
    size = 20_000 if quick else 100_000
    rng = stream(1, "peers", "graph")
    rows = follow({name: rng.integers(1, 6, size).astype(np.float64) for name in DO}, rng)
    asked = {
        "path": saved("graph", **rows),
        "edges": [[parent, name] for name, parents in PARENTS.items() for parent in parents],
        "do": DO,
        "samples": SAMPLES,
        "shown": SHOWN,
        "runs": RUNS,
        "repeats": 5,
    }
    found = ask("dowhy_speed", asked)
    batch, prior = batch_of(rows), build_belief(problem())
    fitted, belief = smallest(lambda: prior.update(batch), 5)
    theta, draws = belief.point(), stream(1, "peers", "graph", "draws")
    time, _ = smallest(lambda: interventional(belief.point(), rows["T"], draws, SAMPLES), 5)
    drawn = [interventional(theta, rows["T"], draws, SAMPLES) for _ in range(RUNS)]
    moments = np.array([[[each[name].mean(), each[name].std()] for name in SHOWN] for each in drawn])
    errors = [float(np.sqrt(np.square(np.array(own) - exact()).mean())) for own in (found["moments"], moments)]
    words = "means and spreads of 3 variables, root mean square"
    return (
        [
            Row("DoWhy gcm", f"fit, {size} rows, 6 variables", "fit", found["fit"], fitted, words, *errors, CHANCE),
            Row("DoWhy gcm", f"{SAMPLES} interventional samples", "batch", found["draw"], time, words, *errors, CHANCE),
        ],
        {"DoWhy": found["version"]},
        [],
    )
