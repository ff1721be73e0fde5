"""The README's figures are those that were measured, and its picture is there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RESULTS = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
COVERAGE = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
MOST = 200_000  # bytes of a picture


def cells(text: str, *first: str) -> list[str]:
    """Return the cells of the only row of a text whose first cells are these."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    found = [row for row in rows if tuple(row[: len(first)]) == first]
    assert len(found) == 1, (first, found)
    return found[0]


def section(title: str) -> str:
    """Return a section of the measurements."""
    return RESULTS.split(f"\n## {title}\n")[1].split("\n## ")[0]


def covered() -> list[str]:
    """Return the worst share of violations of a claim, and of a whole certificate, over all studies."""
    table = COVERAGE.split("| study | gains over | runs |")[1].split("\n\n")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines()[2:]]
    whole = [row for row in rows if row[2].strip() == "1000"]
    assert f" {len(whole)} studies of 1000 runs" in README
    shares = [[float(share) for share in re.findall(r"([\d.]+) %", row[column])] for row in whole for column in (4, 5)]
    return [f"{max(max(found) for found in kind):.1f} %" for kind in (shares[::2], shares[1::2])]


def looks() -> list[str]:
    """Return how often each method deploys a candidate without a gain, and after how many rows a good one."""
    text = section("Looking fifty times")
    null, good = text.split("**At a null**")[1].split("**With a harmful")[0], text.split("**With a good candidate**")[1]
    rates = [cells(null, name) for name in ("Student t", "percentile bootstrap", "aegis, any candidate")]
    assert all(row[2:4] == ["1000", "50"] for row in rates)
    return [row[4].split()[0] for row in rates] + [cells(good, name)[4] for name in ("aegis, any candidate", "Student t")]


def handovers() -> list[str]:
    """Return the shares of runs with a wrong handover."""
    text = section("Handover")
    rows = [
        cells(text, f"{name} episodes") for name in ("null, 300", "counter-example, published, 2000", "counter-example, 2000")
    ]
    assert [row[3] for row in rows] == ["1000", "100", "100"]
    return [row[1] for row in rows]


def units() -> list[str]:
    """Return after how many units a gain is certified: water-filled and plain, for two legacies."""
    text = section("Certificates")
    rows = [cells(text, "inner", f"{legacy}, f_a = 2, W = {cap}") for legacy, cap in (("uniform", "2"), ("constant", "1.5"))]
    return [figure for row in rows for figure in (row[4], row[2])]


def large() -> list[str]:
    """Return seconds and megabytes of a long log, and the seconds of hashing it."""
    row = cells(section("Large logs"), "target columns", "100,003,398")
    return [row[5].split(" / ")[1], row[8], row[3].split(" / ")[1]]


MEASURED: dict[str, Callable[[], list[str]]] = {
    "coverage": covered,
    "looks": looks,
    "handover": handovers,
    "certificates": units,
    "large_logs": large,
}


def test_there_are_five_claims_with_their_commands() -> None:
    rows = re.findall(r"^\|.*\| `python benchmarks/(\w+)\.py` \|$", README, flags=re.M)
    assert rows == list(MEASURED)
    for name in rows:
        assert (ROOT / "benchmarks" / f"{name}.py").exists() and f"`python benchmarks/{name}.py`" in RESULTS


@pytest.mark.parametrize("name", MEASURED)
def test_the_figures_of_a_claim_are_those_that_were_measured(name: str) -> None:
    row = re.search(rf"^\|.*`python benchmarks/{name}\.py` \|$", README, flags=re.M)
    assert row is not None
    assert re.findall(r"\*\*(.+?)\*\*", row[0]) == MEASURED[name]()


def test_what_did_not_come_out_is_counted_right() -> None:
    rows, claims = r"met in (\d+ of \d+ rows) \((\d+) without ties\)", r"(\d+) statements of the paper\s+(\d+) hold under no"
    told = re.search(f"{rows}, and of {claims}", README)
    assert told is not None and f"The claim holds in {told[1]}; without ties in {told[2]}." in RESULTS
    counts = r"Of (\d+) statements of the paper \d+ hold under every reading that is judged, \d+ under some.*?, (\d+) under none"
    paper = re.search(counts, (ROOT / "docs" / "paper.md").read_text())
    assert paper is not None and paper.groups() == told.groups()[2:]


def test_there_is_one_picture_and_it_is_small() -> None:
    assert re.findall(r"!\[.+\]\((.+)\)", README) == ["docs/figures/report.png"]
    picture = ROOT / "docs" / "figures" / "report.png"
    assert 0 < picture.stat().st_size < MOST
    assert picture.read_bytes().startswith(b"\x89PNG")
