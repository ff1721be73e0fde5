"""The figures on docs/comparison.md and docs/continuous.md, taken from RESULTS.md.

python benchmarks/comparison_page.py

Run it when Looking fifty times, Peers or Continuous actions were measured anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from results import RESULTS

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "comparison.md"
START = "<!-- {name}: written by benchmarks/comparison_page.py from RESULTS.md -->"
END = "<!-- end of {name} -->"
WORLDS = ("At a null**", "With a harmful candidate**", "At a null that is hard")
GOOD = "With a good candidate**"
BINNED = "The same candidates and units after binning"
CATS = "`--cats_pdf"


def section(text: str, title: str) -> str:
    """Return one section of the results."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, flags=re.M | re.S)
    if found is None:
        raise SystemExit(f"RESULTS.md has no section '{title}'")
    return found[1]


def rows(text: str, after: str = "") -> list[dict[str, str]]:
    """Return the first table of a text, from the words `after` on, as a mapping by its head for each row."""
    at = text.find(after)
    lines = text[at:].splitlines() if at >= 0 else []
    first = next((index for index, line in enumerate(lines) if line.startswith("|")), None)
    if first is None:
        raise SystemExit(f"RESULTS.md has no table after '{after}'")
    table = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|\n").split("|")])
    head, _, *body = table
    return [dict(zip(head, row, strict=True)) for row in body]


def rate(cell: str) -> str:
    """Return a rate without its interval."""
    return cell.split(" (")[0]


def looks(text: str) -> list[str]:
    """Return how often each method handed over wrongly when one looks again and again, and how tight it is."""
    body = section(text, "Looking fifty times")
    tables = [{row["method"]: row for row in rows(body, after)} for after in WORLDS]
    good = {row["method"]: row for row in rows(body, GOOD)}
    lines = [
        "| method | no gain | harmful | no gain, rare contexts | bound / true gain | rows to a good one |",
        "|---|---|---|---|---|---|",
    ]
    for method in good:
        wrong = [rate(found[method]["false handover at any look"]) if method in found else "-" for found in tables]
        tight, first = good[method]["bound / true gain at the end"], good[method]["rows at the first"]
        lines.append(f"| {method} | {' | '.join(wrong)} | {tight} | {first} |")
    return lines


def peers(text: str) -> list[str]:
    """Return one row for each peer: how many times as fast ours is, slowest to fastest task, and how often the claim holds."""
    body = section(text, "Peers")
    found: dict[str, list[dict[str, str]]] = {}
    for row in rows(body):
        found.setdefault(row["peer"], []).append(row)
    lines = [
        "| peer | tasks | our speed as a multiple of theirs | ours is slower in | claim holds in |",
        "|---|---|---|---|---|",
    ]
    slower = []
    for peer, own in found.items():
        speeds = sorted(float(row["times ours"]) for row in own)
        behind = [f"- {peer}, {row['task']}: {row['times ours']}" for row in own if float(row["times ours"]) < 1]
        holds = sum(row["claim"] == "holds" for row in own)
        low, high = (f"{speed:.0f}" if speed >= 100 else f"{speed:g}" for speed in (speeds[0], speeds[-1]))
        lines.append(f"| {peer} | {len(own)} | {low} to {high} | {len(behind)} | {holds} of {len(own)} |")
        slower += behind
    notes = [line for line in body.splitlines() if line.startswith(("Intervals ", "confseq ", "skdr-eval ", "Spread of drawn"))]
    found_slower = ["", "Where ours is slower, and our speed as a multiple of theirs:", "", *slower] if slower else []
    return [*lines, *found_slower, "", "About errors:", "", *(f"- {line}" for line in notes)]


def table(found: list[dict[str, str]]) -> list[str]:
    """Return the lines of a table, given as a mapping by its head for each row."""
    head = list(found[0])
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *(row.values() for row in found))]


def binned(text: str) -> list[str]:
    """Return bounds for continuous doses beside those after binning them."""
    return table(rows(section(text, "Continuous actions"), BINNED))


def cats(text: str) -> list[str]:
    """Return what `aegis learn` and Vowpal Wabbit's CATS learned from the same logs, with how it was asked."""
    body = section(text, "Continuous actions")
    asked = next((line for line in body.splitlines() if CATS in line), None)
    if asked is None:
        raise SystemExit(f"RESULTS.md has no line with {CATS} under 'Continuous actions'")
    return [asked, "", *table(rows(body, CATS))]


BLOCKS = {"looks": looks, "peers": peers, "cats": cats, "binned": binned}
PAGES = {PAGE: ("looks", "cats", "peers"), DOCS / "continuous.md": ("binned", "cats")}


def written(page: str, text: str, names: Iterable[str]) -> str:
    """Return the page with these of its blocks written anew."""
    for name in names:
        start, end = START.format(name=name), END.format(name=name)
        before, rest = page.split(start)
        _, after = rest.split(end)
        page = f"{before}{start}\n\n" + "\n".join(BLOCKS[name](text)) + f"\n\n{end}{after}"
    return page


if __name__ == "__main__":
    for path, names in PAGES.items():
        path.write_text(written(path.read_text(encoding="utf-8"), RESULTS.read_text(encoding="utf-8"), names), encoding="utf-8")
