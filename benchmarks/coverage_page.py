"""From stored results to words: the tables of RESULTS.md and the numbers of docs/coverage.md."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aegis.files import write_text
from aegis.validation import excess_p_value
from results import table

HERE = Path(__file__).parent
COVERAGE, CERTIFICATES = HERE / "coverage.json", HERE / "certificates.json"
PAGE = HERE.parent / "docs" / "coverage.md"
START, END = "<!-- numbers: written by benchmarks -->", "<!-- end of numbers -->"
METHODS = {"plain": "plain", "robust": "doubly robust", "auto": "water-filled"}
SIZES = (200, 1000, 5000)


def coverage_lines(content: Mapping[str, Any]) -> list[str]:
    """Return every claim of every study as tables."""
    lines: list[str] = []
    for name, study in content["studies"].items():
        whole = "; ".join(
            f"{method} {item['violations']} of {item['runs']} (p {_p(item, content['delta']):.2g})"
            for method, item in study["together"].items()
        )
        head = ["method", "scope", "claim", "ever above the truth", "p", "median bound", "median truth", "mean abs(w - u)"]
        rows = [
            [
                claim["method"],
                " + ".join(claim["scope"]),
                claim["what"],
                f"{claim['violations']} ({100 * claim['violations'] / claim['runs']:.1f} %)",
                f"{claim['p_value']:.2g}",
                f"{claim['median_bound']:.3f}",
                f"{claim['median_truth']:.3f}",
                f"{claim['moved']:.2f}",
            ]
            for claim in study["claims"]
        ]
        over, day = study.get("comparator", "logger"), study.get("made", content["made"]).partition(";")[0]
        lines += [
            f"**{name}**, gains over the {over}, {study['runs']} runs, {day}. Any claim at its share of the risk: {whole}.",
            "",
            *table(head, rows),
            "",
        ]
    return lines + gate_lines(content)


def gate_lines(content: Mapping[str, Any]) -> list[str]:
    """Return what must not be handed over or certified, and how often it was."""
    if not content.get("gates"):
        return []
    rows = [
        [name, str(item["runs"]), f"{item['wrong']} ({100 * item['wrong'] / item['runs']:.1f} %)", str(item["other"])]
        for name, item in content["gates"].items()
    ]
    head = ["gate or candidate", "runs", "wrongly handed over or certified", "rightly handed over or refused as identical"]
    return [*table(head, rows), ""]


def tight_lines(content: Mapping[str, Any]) -> list[str]:
    """Return how tight bounds of the value are."""
    rows = [
        [name, METHODS[method], *[f"{item[f'{method} {size}']:.3f}" for size in SIZES], str(item["runs"][method])]
        for name, item in content["tight"].items()
        for method in METHODS
    ]
    return table(["legacy", "method", *[f"K = {size}" for size in SIZES], "runs"], rows)


def units_lines(content: Mapping[str, Any]) -> list[str]:
    """Return after how many units a gain is certified."""
    rows = [
        [task, key, *["more" if item[method] is None else f"{item[method]:.0f}" for method in METHODS], str(item["runs"]["auto"])]
        for task in ("inner", "outer")
        for key, item in content[task].items()
    ]
    return table(["level", "legacy and candidate", *METHODS.values(), "runs"], rows)


def summary_lines(content: Mapping[str, Any]) -> list[str]:
    """Return one line per study: its worst claim, and how often a whole certificate was wrong."""
    head = [
        "study",
        "gains over",
        "runs",
        "worst claim",
        "how often (p)",
        "whole certificate: water-filled, doubly robust, plain",
    ]
    rows = []
    for name, study in content["studies"].items():
        worst = max(study["claims"], key=lambda claim: claim["violations"])
        rate = 100 * worst["violations"] / worst["runs"]
        shares = ", ".join(
            f"{100 * study['together'][method]['violations'] / study['together'][method]['runs']:.1f} %"
            if method in study["together"]
            else "-"
            for method in ("auto", "robust", "plain")
        )
        said = f"{worst['what']} at {' + '.join(worst['scope'])}, {METHODS[worst['method']]}"
        over = study.get("comparator", "logger")
        rows.append(
            [name.removeprefix("incumbent: "), over, str(study["runs"]), said, f"{rate:.1f} % ({worst['p_value']:.2g})", shares]
        )
    return table(head, rows)


def earlier_words(coverage: Mapping[str, Any]) -> str:
    """Return which studies were not run on the day of the page; nothing if there is none."""
    today = coverage["made"].partition(";")[0]
    days = Counter(study.get("made", coverage["made"]).partition(";")[0] for study in coverage["studies"].values())
    found = ", ".join(f"{days[day]} on {day}" for day in sorted(days) if day != today)
    return f". Run before and not run again: {found} ([each with its day](../benchmarks/RESULTS.md#coverage))" if found else ""


def numbers() -> str:
    """Return all numbers of the page, from the stored results."""
    coverage, certificates = (json.loads(path.read_text(encoding="utf-8")) for path in (COVERAGE, CERTIFICATES))
    parts = [
        START,
        "",
        "### How often a bound was ever above the truth",
        "",
        f"Promised: at most {100 * coverage['delta']:g} %. {coverage['made']}{earlier_words(coverage)}",
        "",
        *summary_lines(coverage),
        "",
        *gate_lines(coverage),
        "### Lower bound of a value as a share of the value",
        "",
        f"{certificates['made']}",
        "",
        *tight_lines(certificates),
        "",
        "### Median units to a certified gain",
        "",
        *units_lines(certificates),
        "",
        END,
    ]
    return "\n".join(parts)


def rewrite_page() -> None:
    """Put the stored results into the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    write_text(PAGE, before + numbers() + rest.partition(END)[2])


def _p(item: Mapping[str, Any], delta: float) -> float:
    return excess_p_value(item["violations"], item["runs"], delta)
