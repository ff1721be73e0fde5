"""Yates's oats: a split-plot trial, with the variety on whole plots and nitrogen on the sub-plots inside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from aegis.adapters.base import ConvertedLog
from aegis.adapters.datasets.published_table import PublishedTable, columns_of, read_only_file
from aegis.problem import Actions, Level, Problem, Propensity, Reward

FILE = "yates.oats.tsv"
COLUMNS = ("row", "col", "yield", "nitro", "gen", "block")
VARIETIES = ("GoldenRain", "Marvellous", "Victory")
NITROGEN = (0.0, 0.2, 0.4, 0.6)  # hundredweights an acre
MOST_YIELD = 200.0  # quarter pounds on a sub-plot of an eightieth of an acre: 4000 pounds an acre, 4.5 tonnes a hectare


def read_oats(paths: Sequence[Path]) -> ConvertedLog:
    """Return the published table as a log of two levels, `variety` above `nitrogen`, with the block as the episode.

    Plots are known by their place in the field (two rows and two columns make a whole plot), not by what was sown there. Raises
    LogError that names file, row and column, also where the table is not the complete design.
    """
    published = read_only_file(paths, f"the {FILE} of Yates's oats ({', '.join(COLUMNS)})", COLUMNS, separator="\t")
    row, col = (published.numbers(name, "the number of a row or column", low=1).astype(np.int64) for name in ("row", "col"))
    nitrogen = published.numbers("nitro", f"one of {', '.join(map(str, NITROGEN))}")
    published.refuse(~np.isin(nitrogen, NITROGEN), "nitro", f"expected one of {', '.join(map(str, NITROGEN))}")
    variety = published.text("gen", VARIETIES)
    block = published.text("block")
    whole, sub = (row + 1) // 2, 2 * ((row + 1) % 2) + (col + 1) % 2 + 1
    _check_design(published, block, whole, sub, variety, nitrogen)
    table = pa.table(
        columns_of(
            block=block,
            whole_plot=whole,
            variety=variety,
            sub_plot=sub,
            nitrogen=nitrogen,
            harvest=published.numbers("yield", "a yield from 0 on", low=0),
        )
    )
    note = (
        "within a block every variety is used once, and within a whole plot every amount of nitrogen: the probabilities, 1/3 and "
        "1/4, are those of one plot taken by itself, which is what a unit of whole blocks needs"
    )
    return ConvertedLog(table, oats_problem(), notes=(note,))


def oats_problem() -> Problem:
    """Return the problem: a block is an episode, the harvest of a sub-plot its reward."""
    uniform = Propensity(policy="uniform")
    variety = Level("variety", Actions.of("variety", VARIETIES), propensity=uniform, decision="whole_plot")
    nitrogen = Level("nitrogen", Actions.of("nitrogen", NITROGEN), propensity=uniform, decision="sub_plot")
    reward = Reward("harvest", (0.0, MOST_YIELD), unit="quarter pounds")
    return Problem((variety, nitrogen), reward=reward, episode=("block",))


def _check_design(
    published: PublishedTable,
    block: np.typing.NDArray[np.str_],
    whole: np.typing.NDArray[np.int64],
    sub: np.typing.NDArray[np.int64],
    variety: np.typing.NDArray[np.str_],
    nitrogen: np.typing.NDArray[np.float64],
) -> None:
    """Raise LogError unless every whole plot has one variety and each nitrogen once, and every block each variety once."""
    for here in np.unique(block):
        rows = block == here
        plots = np.unique(whole[rows])
        varieties = []
        for plot in plots:
            inside = rows & (whole == plot)
            published.refuse(
                inside & (variety != variety[inside][0]), "gen", "expected one variety on a whole plot of 2 x 2 sub-plots"
            )
            if sorted(nitrogen[inside]) != list(NITROGEN) or len(set(sub[inside])) != len(NITROGEN):
                published.refuse(inside, "nitro", f"expected each of {', '.join(map(str, NITROGEN))} once on its whole plot")
            varieties.append(str(variety[inside][0]))
        if sorted(varieties) != list(VARIETIES):
            published.refuse(
                rows, "gen", f"expected each of {', '.join(VARIETIES)} once in block {here}, found {', '.join(varieties)}"
            )
