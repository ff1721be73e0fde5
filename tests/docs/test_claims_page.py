"""docs/claims.md: the tests and sections it names exist, its numbers are theirs, its failures print what it shows."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import page_steps
import pytest

sys.path.insert(0, str(page_steps.ROOT / "benchmarks"))

from comparison_page import section

PAGE = page_steps.page("claims.md")
RESULTS = (page_steps.ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
PROMISED = PAGE.split("## What is promised")[1].split("\n## ")[0]
HEADS = ("claim", "what comes out")
ROWS = [
    (cells[0], cells[1], cells[2] if len(cells) > 2 else "")  # claim, what backs it, its number if there is one
    for line in PROMISED.splitlines()
    if line.startswith("| ") and (cells := [cell.strip() for cell in line.strip("|").split("|")])[0] not in HEADS
]


def functions_of(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef)}


def test_every_test_that_is_named_exists() -> None:
    named = re.findall(r"\[`(test_\w+)`\]\((\.\./tests/[^)]+)\)", PAGE)
    assert len(named) >= 50
    for test, place in named:
        assert test in functions_of((page_steps.DOCS / place).resolve()), f"{place}: {test}"


def test_every_claim_is_backed() -> None:
    assert len(ROWS) >= 30
    for claim, backed, _ in ROWS:
        assert "](../tests/" in backed or "](../benchmarks/" in backed, claim


@pytest.mark.parametrize(("claim", "backed", "number"), ROWS)
def test_sections_exist_and_hold_the_numbers(claim: str, backed: str, number: str) -> None:
    titles = re.findall(r"\[([A-Z][\w ]+)\]\(\.\./benchmarks/RESULTS\.md\)", backed)
    text = "".join(section(RESULTS, title) for title in titles)
    for figure in re.findall(r"\d+(?:\.\d+)?(?: ?%)?", number):
        assert not titles or figure in text, f"{claim}: {figure} is not in {', '.join(titles)}"


def test_the_worst_rates_are_the_worst() -> None:
    coverage = section(RESULTS, "Coverage")
    claims = [int(found) for found in re.findall(r"\| (\d+) \(\d+\.\d %\) \|", coverage)]
    whole = [int(found) for found in re.findall(r"(\d+) of 1000 \(p", coverage)]
    assert f"worst of all claims {max(claims)} of 1000" in PAGE
    assert f"at most {max(whole)} of 1000" in PAGE
    looks = section(RESULTS, "Looking fifty times").split("**With a good candidate")[0]
    own = [
        float(found) for found in re.findall(r"^\| aegis, [^|]+\| at all looks[^|]*\|[^|]+\|[^|]+\| ([\d.]+)%", looks, flags=re.M)
    ]
    assert f"at most {max(own)}% (Student" in PAGE
    anew = re.findall(r"^\| aegis, certify run anew[^|]+\|[^|]+\| (\d+) \| 10 \| (([\d.]+)% \([^)]+\))", looks, flags=re.M)
    logs, told, _ = max(anew, key=lambda found: float(found[2]))
    assert len(anew) == 3 and f"ten looks, {logs} logs: at most {told}" in PAGE


def test_the_figures_of_continuous_actions_are_the_worst_and_the_medians() -> None:
    measured = section(RESULTS, "Continuous actions")
    rates = re.findall(r"^\| [^|]+: (?:gain|value) \| 1000 \| ([\d.]+) % \|", measured, flags=re.M)
    assert f"at most {max(map(float, rates))} % of 1000 runs in each of {len(rates)} claims" in PAGE
    assert max(map(float, rates)) <= 5.0
    medians = re.findall(r"^\| gain \| binned[^|]*\| ([\d.]+) \| ([\d.]+) \|", measured, flags=re.M)
    (own, cells), (_, every) = medians
    values = re.findall(r"^\| value \| binned[^|]*\| ([\d.]+) \| ([\d.]+) \|", measured, flags=re.M)
    (value, valued), (_, all_valued) = values
    assert f"median gain {own} against {cells}, median value {value} against {valued}; " in PAGE
    assert f"with all cells {every} and {all_valued} " in PAGE
    assert float(own) > float(cells) and float(value) < float(valued)  # as the page says


def test_the_failures_print_what_the_page_shows(tmp_path: Path) -> None:
    reader = page_steps.follow("claims.md", tmp_path)
    printed = "".join(text for _, text in reader.printed)
    wrong = re.findall(r"certify: certified, gain at least ([\d.]+); in truth (-[\d.]+)", printed)
    assert len(wrong) >= 4  # these are shown because they are wrong
    assert "episodes-interfere" in printed and "estimated-propensities" in printed and "drift" in printed
    assert "challenger: nothing handed over" in printed and "published: [('setting', " in printed
