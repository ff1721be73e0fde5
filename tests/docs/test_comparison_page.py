"""docs/comparison.md, and the measurements on docs/continuous.md: every figure is that of benchmarks/RESULTS.md.

When a section of RESULTS.md was measured anew, `python benchmarks/comparison_page.py` writes the figures again.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from comparison_page import BINNED, CATS, END, GOOD, PAGE, PAGES, START, WORLDS, rows, section, written  # noqa: E402

TEXT = PAGE.read_text(encoding="utf-8")
RESULTS = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_figures_are_those_of_the_results(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert written(text, RESULTS, PAGES[path]) == text, "write them again: python benchmarks/comparison_page.py"


def test_a_stale_figure_is_noticed() -> None:
    shown = next(re.finditer(r"\d+\.\d%", TEXT)).group(0)
    assert written(TEXT.replace(shown, "99.9%"), RESULTS, PAGES[PAGE]) == TEXT


def test_every_rate_on_the_page_stands_in_the_results() -> None:
    block = TEXT.split(START.format(name="looks"))[1].split(END.format(name="looks"))[0]
    figures = re.findall(r"-?\d+(?:\.\d)?%", block)
    assert len(figures) > 30
    own = section(RESULTS, "Looking fifty times")
    assert all(figure in own for figure in figures)


def test_there_are_no_figures_in_the_prose() -> None:
    prose = TEXT
    for name in PAGES[PAGE]:
        before, rest = prose.split(START.format(name=name))
        prose = before + rest.split(END.format(name=name))[1]
    assert not re.findall(r"\d", re.sub(r"\]\([^)]*\)", "", prose))


def test_a_section_that_is_gone_is_named() -> None:
    with pytest.raises(SystemExit, match="no section 'Peers'"):
        section("# Results\n", "Peers")


def test_every_peer_of_the_measurements_is_on_the_page() -> None:
    table = TEXT.split("## In one table")[1].split("\n## ")[0]
    for row in re.findall(r"^\| ([^|]+) \| [^|]+ \| [\d.]+ \w+ \(", section(RESULTS, "Peers"), flags=re.M):
        assert f"[{row.strip().removesuffix(' gcm')}]" in table, row


def test_what_is_read_from_the_table_is_in_it() -> None:
    body = section(RESULTS, "Looking fifty times")
    tables = [{row["method"]: row for row in rows(body, world)} for world in WORLDS]
    wrong = {
        method: [float(found[method]["false handover at any look"].split("%")[0]) for found in tables if method in found]
        for method in tables[0]
    }
    tight = {row["method"]: row["bound / true gain at the end"].rstrip("%") for row in rows(body, GOOD)}
    always = [name for name, row in tables[0].items() if row["its bound holds"] == "at all looks"]
    assert all(rate <= 5 for name in always for rate in wrong[name]), "bounds that hold at all looks hold here, too"
    assert max(always, key=lambda name: float(tight[name])).startswith("aegis"), "among them ours is the tightest"
    assert min(wrong["Student t"]) > 5 and min(wrong["percentile bootstrap"]) > 5, "bounds for one look are wrong too often"
    shared = wrong["Student t, risk shared by the looks"]
    assert max(shared[:2]) < 5 < shared[2], "sharing the risk repairs it in a tame world, and not where contexts are rare"
    assert float(tight["Student t"]) > max(float(tight[name]) for name in always), "and they are the tightest of all"


def number(cell: str) -> float:
    """Return a mean without its standard error."""
    return float(cell.split(" ±")[0].rstrip("%"))


def test_what_is_read_from_the_table_of_doses_is_in_it() -> None:
    short, *long = rows(section(RESULTS, "Continuous actions"), CATS)
    ours, theirs, best, bound, certified = list(short)[1:]
    assert number(short[certified]) > number(short[bound]), "from the shortest logs CATS has the better certified gain"
    errors = {name: float(short[name].split("± ")[1]) for name in (ours, theirs)}
    assert errors[ours] > 3 * errors[theirs], "what ours learns there differs far more from log to log"
    assert abs(number(short[ours]) - number(short[theirs])) < errors[ours], "mean values are about the same"
    for row in long:
        assert number(row[ours]) > number(row[best]) > number(row[theirs]), (
            "from longer logs ours earns more, whatever the setting"
        )
        assert number(row[bound]) > number(row[certified]), "and has the higher certified gain"
    last = long[-1]
    spread = sum(float(last[name].split("± ")[1]) for name in (bound, certified))
    assert number(last[bound]) - number(last[certified]) < 1.5 * spread, "by about the errors where logs are longest"


def test_what_is_read_from_the_table_of_cells_is_in_it() -> None:
    for row in rows(section(RESULTS, "Continuous actions"), BINNED):
        difference, error = (float(part) for part in row["mean difference"].split(" ± "))
        if row["against"] == "binned":
            assert difference > -3 * error, "at least about as high as with cells"
        else:
            assert difference < -10 * error, "clearly higher with the probabilities of all cells"
