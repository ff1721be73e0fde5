"""A simulated coating line: an oven program for every batch, a spray amount for every part; the data set of the tutorial."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from aegis.adapters.base import ConvertedLog
from aegis.errors import LogError, check_choice
from aegis.problem import Actions, Incumbent, Level, Problem, Propensity, Reward, Variable
from aegis.rng import stream

PROGRAMS, SPRAYS = ("slow", "normal", "fast"), (1, 2, 3)
USUAL_PROGRAM, USUAL_SPRAY = "normal", 2  # what the controller does when it does not explore
EPSILON, SHARES = 0.6, (0.2, 0.6, 0.2)  # its rate of exploration, and the probabilities that follow: the usual action is second
PARTS = 6  # in a batch
MARGINS = (0.0, 10.0)  # EUR a part, by the equation of `_margin`
BATCHES = {"1-400": (1, 400), "401-500": (401, 500), "401-800": (401, 800)}
PROPENSITIES = ("logged", "none")
_SEED = 1


def read_coating(paths: Sequence[Path], batches: str = "1-400", propensities: str = "logged") -> ConvertedLog:
    """Return the log of a simulated coating line, with two levels, `program` above `spray`, and the batch as the episode.

    Every batch has a random stream of its own, so that `401-800` begins with `401-500`. propensities: `none` leaves out the
    columns with the probabilities, as most logs do. Raises LogError if files are named: there is nothing to read.
    """
    if paths:
        raise LogError(f"{paths[0]}: the coating line is simulated and reads no file; leave it out")
    check_choice(batches, BATCHES, "range of batches")
    check_choice(propensities, PROPENSITIES, "kind of propensities")
    first, last = BATCHES[batches]
    rows = [row for batch in range(first, last + 1) for row in _batch(batch)]
    if propensities == "logged":
        logged = dict(zip((*_columns("program", PROGRAMS), *_columns("spray", SPRAYS)), SHARES + SHARES, strict=True))
        rows = [row | logged for row in rows]
    note = "simulated, not measured: the controller draws every action, the usual one with probability 0.6, each other with 0.2"
    return ConvertedLog(pa.Table.from_pylist(rows), coating_problem(propensities), notes=(note,))


def coating_problem(propensities: str = "logged") -> Problem:
    """Return the problem: a batch is an episode, the margin of a part its reward; the incumbent no longer explores."""

    def propensity(name: str, actions: Sequence[object]) -> Propensity | None:
        return Propensity(columns=_columns(name, actions)) if propensities == "logged" else None

    program = Level(
        "program",
        Actions.of("program", PROGRAMS),
        (Variable("humidity"),),
        propensity("program", PROGRAMS),
        incumbent=Incumbent(action=USUAL_PROGRAM, epsilon=EPSILON),
    )
    spray = Level(
        "spray",
        Actions.of("spray", SPRAYS),
        (Variable("roughness"),),
        propensity("spray", SPRAYS),
        decision="part",
        incumbent=Incumbent(action=USUAL_SPRAY, epsilon=EPSILON),
    )
    return Problem((program, spray), Reward("margin", MARGINS, unit="EUR"), episode=("batch",))


def _columns(name: str, actions: Sequence[object]) -> tuple[str, ...]:
    return tuple(f"p_{name}_{action}" for action in actions)


def _batch(batch: int) -> list[dict[str, object]]:
    rng = stream(_SEED, "coating", batch)
    humidity = round(float(rng.uniform(20, 80)), 1)
    program = PROGRAMS[rng.choice(len(PROGRAMS), p=SHARES)]
    rows: list[dict[str, object]] = []
    for part in range(1, PARTS + 1):
        roughness = round(float(rng.uniform(0, 10)), 1)
        spray = SPRAYS[rng.choice(len(SPRAYS), p=SHARES)]
        margin = round(_margin(humidity, program, roughness, spray) + float(rng.uniform(-0.5, 0.5)), 2)
        row: dict[str, object] = {"batch": batch, "humidity": humidity, "program": program, "part": part}
        rows.append(row | {"roughness": roughness, "spray": spray, "margin": margin})
    return rows


def _margin(humidity: float, program: str, roughness: float, spray: int) -> float:
    """Return the mean margin of a part: damp air needs a slower program, a rough part more spray."""
    suited = "fast" if humidity < 40 else "normal" if humidity < 60 else "slow"
    return 9 - 3 * (program != suited) - 2.5 * float(np.abs(spray - 1 - roughness / 5))
