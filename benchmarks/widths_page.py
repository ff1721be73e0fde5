"""From stored widths to words: the table of RESULTS.md and of docs/coverage.md."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aegis.files import write_text
from results import table

HERE = Path(__file__).parent
WIDTHS = HERE / "widths.json"
PAGE = HERE.parent / "docs" / "coverage.md"
START, END = "<!-- widths: written by benchmarks -->", "<!-- end of widths -->"
OURS = ("water-filled", "doubly robust", "plain")
FIXED = ("PRISM: 1/sqrt(K), B declared", "logarithmic smoothing", "Hoeffding", "empirical Bernstein")  # hold at one K only


def lines(content: Mapping[str, Any]) -> list[str]:
    """Return the table, gains first; in each cell the widths for every number of units."""
    sizes = " / ".join(str(size) for size in content["sizes"])
    rows = [
        [f"**{bound}**" if bound in OURS else f"{bound} *" if bound in FIXED else bound, what, *cells(content, widths)]
        for what in ("gain", "value")
        for bound, widths in content["widths"].get(what, {}).items()
    ]
    words = (
        f"Medians of {content['runs']} runs at K = {sizes} certified episodes, rewards scaled to [0, 1]: how far the bound lies "
        f"below the truth, each at risk {content['delta']:g} on its own. Legacy {content['legacy']}, candidate "
        f"{content['candidate']} at the innermost level, learned from {content['prior']} other episodes. Bold: ours. *: holds at "
        "one K only, fixed beforehand. -: does not apply."
    )
    return [*textwrap.wrap(words, 130), "", *table(["certificate", "of", *content["worlds"]], rows)]


def cells(content: Mapping[str, Any], widths: Mapping[str, Any]) -> list[str]:
    """Return one cell per world."""
    found = []
    for world in content["worlds"]:
        here = [widths.get(world, {}).get(str(size)) for size in content["sizes"]]
        found.append(" / ".join("-" if item is None else f"{item['width']:.4f}" for item in here))
    return found


def numbers() -> str:
    """Return the whole part of the page, from the stored results."""
    content = json.loads(WIDTHS.read_text(encoding="utf-8"))
    return "\n".join([START, "", content["made"] + ".", "", *lines(content), "", END])


def rewrite_page() -> None:
    """Put the stored results into the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    write_text(PAGE, before + numbers() + rest.partition(END)[2])
