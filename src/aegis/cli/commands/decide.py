"""`aegis decide`: a policy applied to a table of contexts.

Where actions are an interval, numbers are drawn from the smoothed policy, each with the density to log.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from aegis.cli import options
from aegis.cli.output import console, print_json, table

SHOWN_DECISIONS = 10  # decisions printed if they are not written to a file


@click.command("decide")
@click.argument("policy", type=click.Path(path_type=Path))
@click.argument("contexts", type=click.Path(path_type=Path))
@options.problem
@click.option("--level", metavar="NAME", help="The level that decides. Default: the outermost one that the policy controls.")
@click.option(
    "--scope", multiple=True, metavar="LEVEL", help="Levels the policy controls; repeatable. Default: those it was learned for."
)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the decisions as CSV.")
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

    given = load_problem(problem)
    loaded, record = load_policy(policy, given), load_record(policy)
    controlled = _scope(given, scope, record)
    chosen = next(name for name in given.names if name in controlled) if level is None else given.level(level).name
    batch, rows = read_contexts(contexts, given, chosen)
    if given.level(chosen).actions.continuous:
        decide_interval(given, loaded, controlled, chosen, batch, rows, out, seed, as_json)
        return
    chances = _action_probabilities(given, loaded, controlled, chosen, batch)
    actions = _draw_actions(chances, chosen, seed)
    values = given.level(chosen).actions.values
    names = [f"probability_{value}" for value in values]
    if out is not None:
        _write(out, rows, names, chances, given.level(chosen), actions)
    if as_json:
        decisions = [
            {"action": values[action], "probabilities": row}
            for action, row in zip(actions.tolist(), chances.tolist(), strict=True)
        ]
        print_json({"level": chosen, "actions": list(values), "decisions": decisions, "out": None if out is None else str(out)})
        return
    _show(chosen, values, chances, actions, out)


def _scope(problem: Any, asked: tuple[str, ...], record: dict[str, Any]) -> Any:
    """Return the levels that the policy controls: those it was learned for, or those of them that were asked for."""
    from aegis.errors import PolicyError

    learned, wanted = problem.scope(record.get("scope")), problem.scope(asked or record.get("scope"))
    outside = sorted(wanted - learned)
    if outside:
        raise PolicyError(
            f"--scope {', '.join(outside)}: the policy was learned for {', '.join(sorted(learned))} only, elsewhere the legacy "
            "acts; name these, or learn a policy for the other level"
        )
    return wanted


def _action_probabilities(problem: Any, policy: Any, scope: Any, level: str, batch: Any) -> Any:
    """Return the distribution over the actions in each row, `[n, A]`, given the actions above at levels of the scope."""
    import numpy as np

    from aegis.errors import PolicyError
    from aegis.policies import Hybrid, Legacy, Uniform, path_full

    if level not in scope:
        raise PolicyError(
            f"the policy does not act at level '{level}'; it acts at {', '.join(sorted(scope))}: name one of these with --level"
        )
    if policy.weights.size == 1:  # one particle: the actions above tell nothing about it
        return policy.full(level, batch)[0]
    # Above, at levels that the policy does not control, anybody may have acted: that tells nothing about its particle.
    anybody = Legacy(problem, {name: Uniform() for name in problem.names})
    chances = path_full(Hybrid(problem, scope, policy, anybody), level, batch)
    impossible = np.flatnonzero(chances.sum(axis=1) <= 0)
    if impossible.size:
        raise PolicyError(
            f"row {impossible[0] + 1}: the policy would never have taken the actions above level '{level}' ({impossible.size} "
            "such rows), so that it has no answer; name the levels that it controls with --scope, here without those above"
        )
    return chances


def _draw_actions(chances: Any, level: str, seed: int) -> Any:
    """Return one action `[n]` for each row, by inverse cdf; an action of probability 0 is never drawn."""
    from aegis.rng import stream

    uniform = stream(seed, "decide", level).random(len(chances))
    steps = chances.cumsum(axis=1)
    return (steps <= (uniform * steps[:, -1])[:, None]).sum(axis=1)


def _write(path: Path, rows: Any, names: list[str], chances: Any, level: Any, actions: Any) -> None:
    """Write the rows as they came, with probabilities and the drawn action as further columns."""
    import pyarrow as pa
    import pyarrow.csv

    from aegis.errors import OutputError
    from aegis.files import atomic_write

    added = dict(zip(names, chances.T, strict=True))
    added[f"drawn_{level.actions.column}"] = pa.array(level.actions.values).take(pa.array(actions))
    taken = [name for name in added if name in rows.column_names]
    if taken:
        raise OutputError(f"the contexts already have the column '{taken[0]}', which the decisions would hold; rename it there")
    for name, column in added.items():
        rows = rows.append_column(name, pa.array(column) if name in names else column)
    with atomic_write(path) as aside:
        pyarrow.csv.write_csv(rows, aside)


def _show(level: str, values: Any, chances: Any, actions: Any, out: Path | None) -> None:
    screen = console()
    if out is not None:
        screen.print(f"{len(actions)} decisions at level '{level}' written: {out}", soft_wrap=True)
        return
    shown = [
        [str(row + 1), str(values[action]), f"{chances[row, action]:.3f}", _likeliest_actions(values, chances[row])]
        for row, action in enumerate(actions[:SHOWN_DECISIONS].tolist())
    ]
    heads = ["row", "drawn action", "its probability", "likeliest actions"]
    screen.print(table(f"Level '{level}': {min(SHOWN_DECISIONS, len(actions))} of {len(actions)} decisions", heads, shown))
    if len(actions) > SHOWN_DECISIONS:
        screen.print("Write all of them with --out.")


def _likeliest_actions(values: Any, chances: Any) -> str:
    """Return the likeliest actions of a row in words."""
    order = sorted(range(len(values)), key=lambda index: -chances[index])[:3]
    return ", ".join(f"{values[index]} {chances[index]:.2f}" for index in order if chances[index] > 0)


SHOWN_NUMBERS = 10  # decisions printed if they are not written to a file


def decide_interval(
    problem: Any, policy: Any, scope: Any, level: str, batch: Any, rows: Any, out: Path | None, seed: int, as_json: bool
) -> None:
    """Draw a number for each row and print or write it with its density. A mixture answers with its particles' weights."""
    spec = problem.level(level)
    value, density = draw_with_density(problem, policy, scope, level, batch, seed)
    if out is not None:
        _write_numbers(out, rows, spec.actions.column, value, density)
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
        for row, (number, own) in enumerate(zip(value[:SHOWN_NUMBERS].tolist(), density[:SHOWN_NUMBERS].tolist(), strict=True))
    ]
    title = f"Level '{level}': {len(shown)} of {len(value)} decisions"
    screen.print(table(title, ["row", f"drawn {spec.actions.column}", "its density"], shown))
    more = " Write all of them with --out." if len(value) > SHOWN_NUMBERS else ""
    screen.print(f"The density belongs into the log, beside the number.{more}")


def draw_with_density(problem: Any, policy: Any, scope: Any, level: str, batch: Any, seed: int) -> tuple[Any, Any]:
    """Return a number `[n]` for each row, drawn from the smoothed policy, and its density `[n]`.

    Of a mixture a particle is drawn that fits the actions above it at levels of the scope, and the density is the mixture's.
    """
    import numpy as np

    from aegis.errors import PolicyError
    from aegis.policies import Hybrid, Legacy, Uniform, draw_numbers, path_posterior, path_taken
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
    shares = path_posterior(policy, level, batch)
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
    value = draw_numbers(policy, spec, batch, uniform)[particle, np.arange(count)]
    taken = batch.levels[level].decided(nearest_points(spec.actions, value), np.ones(count), None, value)
    return value, path_taken(policy, level, batch.with_level(level, taken))


def _write_numbers(path: Path, rows: Any, column: str, value: Any, density: Any) -> None:
    """Write the rows as they came, with the drawn number and its density as further columns."""
    import pyarrow as pa
    import pyarrow.csv

    from aegis.errors import OutputError
    from aegis.files import atomic_write

    for name, values in ((f"drawn_{column}", value), (f"density_{column}", density)):
        if name in rows.column_names:
            raise OutputError(f"the contexts already have the column '{name}', which the decisions would hold; rename it there")
        rows = rows.append_column(name, pa.array(values))
    with atomic_write(path) as aside:
        pyarrow.csv.write_csv(rows, aside)
