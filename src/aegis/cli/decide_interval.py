"""`aegis decide` where actions are an interval: numbers drawn from the smoothed policy, each with the density to log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aegis.cli.show import console, print_json, table

SHOWN = 10  # decisions printed if they are not written to a file


def decide_interval(
    problem: Any, policy: Any, scope: Any, level: str, batch: Any, rows: Any, out: Path | None, seed: int, as_json: bool
) -> None:
    """Draw a number for each row and print or write it with its density. A mixture answers with its particles' weights."""
    spec = problem.level(level)
    value, density = drawn_with_density(problem, policy, scope, level, batch, seed)
    if out is not None:
        _write(out, rows, spec.actions.column, value, density)
    if as_json:
        decisions = [{"action": number, "density": own} for number, own in zip(value.tolist(), density.tolist(), strict=True)]
        low, high = spec.actions.limits
        print_json({"level": level, "interval": [low, high], "decisions": decisions, "out": None if out is None else str(out)})
        return
    screen = console()
    if out is not None:
        screen.print(f"{len(value)} decisions at level '{level}' written: {out}", soft_wrap=True)
        return
    shown = [
        [str(row + 1), f"{number:.6g}", f"{own:.4g}"]
        for row, (number, own) in enumerate(zip(value[:SHOWN].tolist(), density[:SHOWN].tolist(), strict=True))
    ]
    title = f"Level '{level}': {len(shown)} of {len(value)} decisions"
    screen.print(table(title, ["row", f"drawn {spec.actions.column}", "its density"], shown))
    more = " Write all of them with --out." if len(value) > SHOWN else ""
    screen.print(f"The density belongs into the log, beside the number.{more}")


def drawn_with_density(problem: Any, policy: Any, scope: Any, level: str, batch: Any, seed: int) -> tuple[Any, Any]:
    """Return a number `[n]` for each row, drawn from the smoothed policy, and its density `[n]`.

    Of a mixture a particle is drawn that fits the actions above it at levels of the scope, and the density is the mixture's.
    """
    import numpy as np

    from aegis.errors import PolicyError
    from aegis.policies import Hybrid, Legacy, Uniform, path_taken, path_weights
    from aegis.policies.smoothed import drawn
    from aegis.problem import nearest_points
    from aegis.rng import stream

    if level not in scope:
        raise PolicyError(
            f"the policy does not act at level '{level}'; it acts at {', '.join(sorted(scope))}: name one of these with --level"
        )
    spec, count = problem.level(level), len(batch.levels[level])
    if policy.weights.size > 1:
        # Above, at levels that the policy does not control, anybody may have acted: that tells nothing about its particle.
        policy = Hybrid(problem, scope, policy, Legacy(problem, {name: Uniform() for name in problem.names}))
    shares = path_weights(policy, level, batch)
    impossible = np.flatnonzero(shares.sum(axis=0) <= 0)
    if impossible.size:
        raise PolicyError(
            f"row {impossible[0] + 1}: the policy would never have taken the actions above level '{level}' ({impossible.size} "
            "such rows), so that it has no answer; name the levels that it controls with --scope, here without those above"
        )
    random = stream(seed, "decide", level)
    uniform, chosen = random.random(count), random.random(count)
    steps = shares.cumsum(axis=0)
    particle = (steps <= chosen * steps[-1]).sum(axis=0)
    value = drawn(policy, spec, batch, uniform)[particle, np.arange(count)]
    taken = batch.levels[level].decided(nearest_points(spec.actions, value), np.ones(count), None, value)
    return value, path_taken(policy, level, batch.with_level(level, taken))


def _write(path: Path, rows: Any, column: str, value: Any, density: Any) -> None:
    """Write the rows as they came, with the drawn number and its density as further columns."""
    import pyarrow as pa
    import pyarrow.csv

    from aegis.errors import OutputError
    from aegis.files import written_aside

    for name, values in ((f"drawn_{column}", value), (f"density_{column}", density)):
        if name in rows.column_names:
            raise OutputError(f"the contexts already have the column '{name}', which the decisions would hold; rename it there")
        rows = rows.append_column(name, pa.array(values))
    with written_aside(path) as aside:
        pyarrow.csv.write_csv(rows, aside)
