"""`aegis explain`: where a policy differs from the incumbent."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import click

from aegis.cli import options
from aegis.cli.options import CompletedWord
from aegis.cli.output import console, print_json, table

TOP_BINS = 3  # bins shown for each level
# Columns of the lookup table besides the variables; long words, because variables are often called level or action.
LOOKUP_COLUMNS = ("decision_level", "logged_decisions", "action_value", "policy_probability", "incumbent_probability")


@click.command("explain")
@click.argument("policy", type=click.Path(path_type=Path))
@click.argument("log", nargs=-1, required=True, type=options.LogPath())
@options.problem
@click.option("--episodes", type=click.IntRange(min=1), default=1000, show_default=True, help="Look at so many episodes at most.")
@click.option(
    "--side",
    type=CompletedWord("side"),
    default=None,
    metavar="SIDE",
    help="prior, certify or all. Default: prior if the policy records a split.",
)
@click.option("--bins", type=click.IntRange(min=1), default=4, show_default=True, help="Bins of every number.")
@click.option("--lookup", type=click.Path(path_type=Path), metavar="FILE", help="Write action probabilities by context as CSV.")
@click.option(
    "--by", multiple=True, metavar="VARIABLE", help="Variables of the lookup table; default: each level's own contexts."
)
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw a picture (needs matplotlib).")
@options.as_json
def command(
    policy: Path,
    log: tuple[Path | str, ...],
    problem: Path,
    episodes: int,
    side: str | None,
    bins: int,
    lookup: Path | None,
    by: tuple[str, ...],
    plot: Path | None,
    as_json: bool,
) -> None:
    """Compare the policy in the folder POLICY with the incumbent in LOG: how often, how much, and in which contexts they differ.

    Where the problem states no incumbent, the policy that wrote the log stands for it.

    Looks at contexts and probabilities only, never at rewards, and by default at the side that the policy was learned from.
    Every level is read as if it alone were handed over.

    \b
    Examples:
      aegis explain policy/ log.parquet --problem problem.yaml
      aegis explain policy/ log.parquet --problem problem.yaml --lookup table.csv --by acidity --by temperature
    """
    from aegis.audit import check_incumbent
    from aegis.ope import Comparator, describe_comparator
    from aegis.planning import load_policy
    from aegis.policies import contrast_policies, load_record
    from aegis.policies import lookup_table as cells_of
    from aegis.problem import Scope, load_problem

    given = load_problem(problem)
    loaded, record = load_policy(policy, given), load_record(policy)
    draw = _plotter() if plot is not None else None
    batch, chosen = _episodes(log, given, record, side, episodes)
    levels = [name for name in given.names if name in record.get("scope", given.names)]
    check_incumbent(given, batch)
    found = contrast_policies(given, loaded, batch, levels, bins)
    whom = {name: describe_comparator(given, Comparator.of(given), Scope(name)) for name in levels}
    if lookup is not None:
        _write_lookup(lookup, given, cells_of(given, loaded, batch, levels, by, bins))
    if plot is not None and draw is not None:
        draw(found, given, plot)
    if as_json:
        listed = [_plain(level, whom[level.level]) for level in found]
        print_json({"side": chosen, "episodes": len(batch), "levels": listed})
        return
    _show(found, batch, chosen, whom, [path for path in (lookup, plot) if path is not None])


def _episodes(log: tuple[Path | str, ...], problem: Any, record: dict[str, Any], side: str | None, most: int) -> tuple[Any, str]:
    """Return at most so many episodes of a side, and which side it is."""
    import numpy as np

    from aegis.errors import SettingError, check_choice
    from aegis.logs import SIDES, Source, Split
    from aegis.problem import concat

    split = Split.of(record["split"]) if record.get("split") else None
    chosen = side or ("all" if split is None else "prior")
    check_choice(chosen, (*SIDES, "all"), "side")
    if chosen != "all" and split is None:
        raise SettingError(f"--side {chosen}: the policy does not record a split; use --side all")
    source = Source(log, problem)
    stream = source.batches() if chosen == "all" else source.batches(side=chosen, split=split)
    parts, count = [], 0
    for batch in stream:
        parts.append(batch.take_episodes(np.arange(min(len(batch), most - count))))
        count += len(parts[-1])
        if count >= most:
            break
    return concat(parts), chosen


def _write_lookup(path: Path, problem: Any, cells: list[Any]) -> None:
    from aegis.errors import OutputError
    from aegis.files import atomic_write

    variables = list(dict.fromkeys(name for cell in cells for name in cell.where))
    for name in variables:
        if name in LOOKUP_COLUMNS:
            raise OutputError(
                f"cannot write {path}: the variable '{name}' has the name of a column of the table; choose others by --by"
            )
    with atomic_write(path) as aside, aside.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([LOOKUP_COLUMNS[0], *variables, *LOOKUP_COLUMNS[1:]])
        for cell in cells:
            where = [cell.where.get(name, "") for name in variables]
            for index, value in enumerate(problem.level(cell.level).actions.values):
                other = "" if cell.comparator is None else f"{cell.comparator[index]:.6g}"
                writer.writerow([cell.level, *where, cell.decisions, value, f"{cell.policy[index]:.6g}", other])


def _plotter() -> Any:
    """Return the function that draws; raises SettingError, before anything is computed, if matplotlib is missing."""
    import importlib.util

    from aegis.errors import SettingError

    if importlib.util.find_spec("matplotlib") is None:
        raise SettingError("--plot needs matplotlib: install it with pip install 'aegis-handover[report]', or leave --plot out")
    from aegis.report import draw_contrast

    return draw_contrast


def _plain(found: Any, compared: str) -> dict[str, Any]:
    return {
        "level": found.level,
        "compared_with": compared,
        "estimated": found.comparator is None,
        **_figures(found.overall),
        "bins": [{"variable": part.variable, "bin": part.label, **_figures(part.difference)} for part in found.bins],
        "policy": found.policy.tolist(),
        "comparator": None if found.comparator is None else found.comparator.tolist(),
    }


def _figures(difference: Any) -> dict[str, Any]:
    return {
        "decisions": difference.decisions,
        "favourite_differs": difference.favourite_differs,
        "total_variation": difference.total_variation,
    }


def _show(found: list[Any], batch: Any, side: str, whom: dict[str, str], written: list[Path]) -> None:
    screen = console()
    rows = []
    for level in found:
        estimated = level.comparator is None
        rows.append([level.level, "all", *_words(level.overall, estimated)])
        rows += [["", f"{part.variable} {part.label}", *_words(part.difference, estimated)] for part in level.bins[:TOP_BINS]]
    heads = ["level", "contexts", "decisions", "favourite differs", "total variation"]
    where = "the whole log" if side == "all" else f"the {side} side"
    same = len(set(whom.values())) == 1
    who = next(iter(whom.values())) if same else "its comparator, named below"
    screen.print(table(f"Where the policy differs from {who}, {len(batch)} episodes of {where}", heads, rows))
    for name, text in {} if same else whom.items():
        screen.print(f"  '{name}': compared with {text}", soft_wrap=True, markup=False)
    screen.print(
        f"Below each level: the {TOP_BINS} context bins in which they differ most. Total variation: 0 is the same, 1 disjoint."
    )
    if any(level.comparator is None for level in found):
        screen.print(
            "about: an estimate, because the log has the probability of the taken action only; with few decisions it is rough, "
            "and which bins come first is partly chance."
        )
    for path in written:
        screen.print(f"written: {path}", soft_wrap=True)


def _words(difference: Any, estimated: bool) -> list[str]:
    share = "not logged" if difference.favourite_differs is None else f"{difference.favourite_differs:.0%}"
    return [str(difference.decisions), share, f"{'about ' if estimated else ''}{difference.total_variation:.3f}"]
