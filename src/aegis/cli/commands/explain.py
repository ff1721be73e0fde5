"""`aegis explain`: where a policy differs from the incumbent."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import click

from aegis.cli import options
from aegis.cli.output import console, print_json, print_line, table

TOP_BINS = 3  # bins shown for each level
# Columns of the lookup table besides the variables; long words, because variables are often called level or action.
LOOKUP_COLUMNS = ("decision_level", "logged_decisions", "action_value", "policy_probability", "incumbent_probability")


@click.command("explain")
@click.argument("policy", type=click.Path(path_type=Path))
@click.argument("log", nargs=-1, required=True, type=options.LogPath())
@options.problem
@click.option("--episodes", type=click.IntRange(min=1), default=1000, show_default=True, help="Look at so many episodes at most.")
@options.word_option("--side", "side", "{words}. Default: prior if the policy records a split.", "SIDE")
@click.option("--bins", type=click.IntRange(min=1), default=4, show_default=True, help="Bins of every number.")
@options.path_option("--lookup", "FILE", "Write action probabilities by context as CSV.")
@options.repeated_option("--by", "VARIABLE", "Variables of the lookup table; default: each level's own contexts.")
@options.path_option("--plot", "FILE", "Draw a picture (needs matplotlib).")
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
    from aegis.policies import contrast_policies, load_record, lookup_table
    from aegis.problem import Scope, load_problem

    if plot is not None:
        options.require_extra("report", "--plot")
    stated = load_problem(problem)
    loaded, record = load_policy(policy, stated), load_record(policy)
    batch, chosen = _episodes(log, stated, record, side, episodes)
    levels = [name for name in stated.names if name in record.get("scope", stated.names)]
    check_incumbent(stated, batch)
    contrasts = contrast_policies(stated, loaded, batch, levels, bins)
    comparators = {name: describe_comparator(stated, Comparator.of(stated), Scope(name)) for name in levels}
    if lookup is not None:
        _write_lookup(lookup, stated, lookup_table(stated, loaded, batch, levels, by, bins))
    if plot is not None:
        from aegis.report import draw_contrast

        draw_contrast(contrasts, stated, plot)
    if as_json:
        listed = [_plain(contrast, comparators[contrast.level]) for contrast in contrasts]
        print_json({"side": chosen, "episodes": len(batch), "levels": listed})
        return
    where = "the whole log" if chosen == "all" else f"the {chosen} side"
    _show(contrasts, f"{len(batch)} episodes of {where}", comparators)
    for path in (lookup, plot):
        if path is not None:
            print_line(f"written: {path}")


def _episodes(log: tuple[Path | str, ...], problem: Any, record: dict[str, Any], side: str | None, most: int) -> tuple[Any, str]:
    """Return at most so many episodes of a side, and which side it is."""
    import numpy as np

    from aegis.errors import SettingError, check_choice
    from aegis.logs import SIDES, Source, Split
    from aegis.problem import concat

    split = Split.of(record["split"]) if record.get("split") else None
    chosen = side or ("all" if split is None or split.unlearned else "prior")
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


def _plain(contrast: Any, comparator: str) -> dict[str, Any]:
    return {
        "level": contrast.level,
        "compared_with": comparator,
        "estimated": contrast.comparator is None,
        **_figures(contrast.overall),
        "bins": [{"variable": part.variable, "bin": part.label, **_figures(part.difference)} for part in contrast.bins],
        "policy": contrast.policy.tolist(),
        "comparator": None if contrast.comparator is None else contrast.comparator.tolist(),
    }


def _figures(difference: Any) -> dict[str, Any]:
    return {name: getattr(difference, name) for name in ("decisions", "favourite_differs", "total_variation")}


def _show(contrasts: list[Any], episodes: str, comparators: dict[str, str]) -> None:
    """Print the table. episodes: which were compared. comparators: by level, in words."""
    screen = console()
    rows = []
    for contrast in contrasts:
        estimated = contrast.comparator is None
        rows.append([contrast.level, "all", *_words(contrast.overall, estimated)])
        bins = contrast.bins[:TOP_BINS]
        rows += [["", f"{part.variable} {part.label}", *_words(part.difference, estimated)] for part in bins]
    heads = ["level", "contexts", "decisions", "favourite differs", "total variation"]
    same = len(set(comparators.values())) == 1
    who = next(iter(comparators.values())) if same else "its comparator, named below"
    screen.print(table(f"Where the policy differs from {who}, {episodes}", heads, rows))
    for name, text in {} if same else comparators.items():
        print_line(f"  '{name}': compared with {text}")
    screen.print(
        f"Below each level: the {TOP_BINS} context bins in which they differ most. Total variation: 0 is the same, 1 disjoint."
    )
    if any(contrast.comparator is None for contrast in contrasts):
        screen.print(
            "about: an estimate, because the log has the probability of the taken action only; with few decisions it is rough, "
            "and which bins come first is partly chance."
        )


def _words(difference: Any, estimated: bool) -> list[str]:
    share = "not logged" if difference.favourite_differs is None else f"{difference.favourite_differs:.0%}"
    return [str(difference.decisions), share, f"{'about ' if estimated else ''}{difference.total_variation:.3f}"]
