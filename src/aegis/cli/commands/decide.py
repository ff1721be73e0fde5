"""`aegis decide`: a policy applied to a table of contexts.

Where actions are an interval, numbers are drawn from the smoothed policy, each with the density to log.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from aegis.cli import options
from aegis.cli.output import console, print_json, print_line, table
from aegis.errors import OutputError, PolicyError

SHOWN_DECISIONS = 10  # decisions printed if they are not written to a file


@click.command("decide")
@click.argument("policy", type=click.Path(path_type=Path))
@click.argument("contexts", type=click.Path(path_type=Path))
@options.problem
@click.option("--level", metavar="NAME", help="The level that decides. Default: the outermost one that the policy controls.")
@options.repeated_option("--scope", "LEVEL", "Levels the policy controls; repeatable. Default: those it was learned for.")
@options.path_option("--out", "FILE", "Write the decisions as CSV.")
@options.seed
@options.as_json
def command(
    policy: Path,
    contexts: Path,
    problem: Path,
    level: str | None,
    scope: tuple[str, ...],
    out: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Apply the policy in the folder POLICY to CONTEXTS (CSV or Parquet): one decision at the level for each row.

    A row holds the contexts of the level, and contexts and actions of the levels above it; a capped policy also needs the
    legacy's probabilities. The answer adds the probability of every action and one drawn action; where actions are an interval, a
    number drawn from the smoothed policy and its density, to be logged with it. Rows are decided one by one: of
    a mixture, each gets the particles that fit the actions above it at levels of the scope.

    \b
    Examples:
      aegis decide policy/ today.csv --problem problem.yaml --level dose --out decisions.csv
    """
    from aegis.logs import read_contexts
    from aegis.planning import load_policy
    from aegis.policies import load_record
    from aegis.problem import load_problem

    stated = load_problem(problem)
    loaded, record = load_policy(policy, stated), load_record(policy)
    controlled = _scope(stated, scope, record)
    spec = next(item for item in stated.levels if item.name in controlled) if level is None else stated.level(level)
    if spec.name not in controlled:
        raise PolicyError(
            f"the policy does not act at level '{spec.name}'; it acts at {', '.join(sorted(controlled))}: name one of these with "
            "--level"
        )
    batch, rows = read_contexts(contexts, stated, spec.name)
    draw = _draw_interval if spec.actions.continuous else _draw_choice
    decisions = draw(stated, loaded, controlled, spec, batch, seed)
    if out is not None:
        _write(out, rows, decisions.columns)
    if as_json:
        print_json({"level": spec.name, **decisions.plain, "out": None if out is None else str(out)})
    elif out is not None:
        print_line(f"{len(rows)} decisions at level '{spec.name}' written: {out}")
    else:
        title = f"Level '{spec.name}': {len(decisions.cells)} of {len(rows)} decisions"
        console().print(table(title, decisions.heads, [[str(row), *cells] for row, cells in enumerate(decisions.cells, 1)]))
        more = "Write all of them with --out." if len(rows) > SHOWN_DECISIONS else ""
        if decisions.note or more:
            console().print(" ".join(filter(None, (decisions.note, more))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """Decisions in each form: columns for a file, plain data for JSON, cells of the first rows for the screen."""

    columns: dict[str, Any]
    plain: dict[str, Any]
    heads: list[str]
    cells: list[list[str]]
    note: str = ""


def _draw_interval(problem: Any, policy: Any, scope: Any, spec: Any, batch: Any, seed: int) -> Decisions:
    value, density = draw_with_density(problem, policy, scope, spec.name, batch, seed)
    column, pairs = spec.actions.column, list(zip(value.tolist(), density.tolist(), strict=True))
    return Decisions(
        columns={f"drawn_{column}": value, f"density_{column}": density},
        plain={
            "interval": list(spec.actions.limits),
            "decisions": [{"action": number, "density": own} for number, own in pairs],
        },
        heads=["row", f"drawn {column}", "its density"],
        cells=[[f"{number:.6g}", f"{own:.4g}"] for number, own in pairs[:SHOWN_DECISIONS]],
        note="The density belongs into the log, beside the number.",
    )


def _draw_choice(problem: Any, policy: Any, scope: Any, spec: Any, batch: Any, seed: int) -> Decisions:
    import pyarrow as pa

    chances = action_probabilities(problem, policy, scope, spec.name, batch)
    actions, values = draw_actions(chances, spec.name, seed), spec.actions.values
    columns = {f"probability_{value}": column for value, column in zip(values, chances.T, strict=True)}
    pairs = list(zip(actions.tolist(), chances.tolist(), strict=True))
    return Decisions(
        columns={**columns, f"drawn_{spec.actions.column}": pa.array(values).take(pa.array(actions))},
        plain={
            "actions": list(values),
            "decisions": [{"action": values[action], "probabilities": row} for action, row in pairs],
        },
        heads=["row", "drawn action", "its probability", "likeliest actions"],
        cells=[
            [str(values[action]), f"{row[action]:.3f}", _likeliest_actions(values, row)]
            for action, row in pairs[:SHOWN_DECISIONS]
        ],
    )


def _scope(problem: Any, levels: tuple[str, ...], record: dict[str, Any]) -> Any:
    """Return the levels that the policy controls: those it was learned for, or the ones of them that the user names."""
    learned, wanted = problem.scope(record.get("scope")), problem.scope(levels or record.get("scope"))
    outside = sorted(wanted - learned)
    if outside:
        raise PolicyError(
            f"--scope {', '.join(outside)}: the policy was learned for {', '.join(sorted(learned))} only, elsewhere the legacy "
            "acts; name these, or learn a policy for the other level"
        )
    return wanted


def action_probabilities(problem: Any, policy: Any, scope: Any, level: str, batch: Any) -> Any:
    """Return the distribution over the actions in each row, `[n, A]`, given the actions above at levels of the scope."""
    from aegis.policies import path_full

    if policy.weights.size == 1:  # one particle: the actions above tell nothing about it
        return policy.full(level, batch)[0]
    chances = path_full(_with_unknown_legacy(problem, policy, scope), level, batch)
    _check_possible(chances.sum(axis=1), level)
    return chances


def draw_actions(chances: Any, level: str, seed: int) -> Any:
    """Return one action `[n]` for each row, by inverse cdf; an action of probability 0 is never drawn."""
    from aegis.rng import stream

    uniform = stream(seed, "decide", level).random(len(chances))
    steps = chances.cumsum(axis=1)
    return (steps <= (uniform * steps[:, -1])[:, None]).sum(axis=1)


def draw_with_density(problem: Any, policy: Any, scope: Any, level: str, batch: Any, seed: int) -> tuple[Any, Any]:
    """Return a number `[n]` for each row, drawn from the smoothed policy, and its density `[n]`.

    Of a mixture a particle is drawn that fits the actions above it at levels of the scope, and the density is the mixture's.
    """
    import numpy as np

    from aegis.policies import draw_numbers, path_posterior, path_taken
    from aegis.problem import nearest_points
    from aegis.rng import stream

    spec, count = problem.level(level), len(batch.levels[level])
    if policy.weights.size > 1:
        policy = _with_unknown_legacy(problem, policy, scope)
    shares = path_posterior(policy, level, batch)
    _check_possible(shares.sum(axis=0), level)
    random = stream(seed, "decide", level)
    uniform, chosen = random.random(count), random.random(count)
    steps = shares.cumsum(axis=0)
    particle = (steps <= chosen * steps[-1]).sum(axis=0)
    value = draw_numbers(policy, spec, batch, uniform)[particle, np.arange(count)]
    taken = batch.levels[level].decided(nearest_points(spec.actions, value), np.ones(count), None, value)
    return value, path_taken(policy, level, batch.with_level(level, taken))


def _with_unknown_legacy(problem: Any, policy: Any, scope: Any) -> Any:
    """Return the policy in its scope; actions at other levels, by an unknown legacy, tell nothing about its particle."""
    from aegis.policies import Hybrid, Legacy, Uniform

    return Hybrid(problem, scope, policy, Legacy(problem, {name: Uniform() for name in problem.names}))


def _check_possible(total: Any, level: str) -> None:
    """Raise PolicyError for the first row whose actions above the level the policy never takes. total `[n]`: 0 there."""
    impossible = (total <= 0).nonzero()[0]
    if impossible.size:
        raise PolicyError(
            f"row {impossible[0] + 1}: the policy would never have taken the actions above level '{level}' ({impossible.size} "
            "such rows), so that it has no answer; name the levels that it controls with --scope, here without those above"
        )


def _write(path: Path, rows: Any, columns: dict[str, Any]) -> None:
    """Write the rows as they came, with the decisions as further columns."""
    import pyarrow as pa
    import pyarrow.csv

    from aegis.files import atomic_write

    for name, values in columns.items():
        if name in rows.column_names:
            raise OutputError(f"the contexts already have the column '{name}', which the decisions would hold; rename it there")
        rows = rows.append_column(name, pa.array(values))
    with atomic_write(path) as aside:
        pyarrow.csv.write_csv(rows, aside)


def _likeliest_actions(values: Any, chances: Any) -> str:
    """Return the likeliest actions of a row in words."""
    order = sorted(range(len(values)), key=lambda index: -chances[index])[:3]
    return ", ".join(f"{values[index]} {chances[index]:.2f}" for index in order if chances[index] > 0)
