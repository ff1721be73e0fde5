"""The page of all benches: paper, ours, oracle, claims, settings and what was not reproducible, in Markdown and HTML."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from aegis.experiments.archive import Archive
from aegis.experiments.claims import FAILS, HOLDS, UNTESTED, Judged
from aegis.experiments.results import Results, key_of

FAR = 2.0  # standard deviations from which a number is not that of the paper
HEAD = """# The paper, experiment by experiment

Every table and figure of the paper's evaluation, run by this package: `aegis bench run all --preset {preset}`, then
`aegis bench report --preset {preset}`. Rewards are sums over an episode, means ± standard deviations over seeds. *Oracle* is the
best that can be reached by whoever controls the same levels. A claim holds, does not hold, or cannot be tested; the numbers
behind it stand beside it, and whose claim it is. What the paper says is in its own column.

{summary}
"""


def summary(archive: Archive) -> str:
    """Return how many claims hold, the paper's and ours apart, and which code says so."""
    judged = [item for _, claims in archive.judged() for item in claims]
    counts = []
    for whose, words in (("paper", "the paper's"), ("ours", "our own")):
        own = [item.verdict for item in judged if item.of == whose]
        rest = "".join(f", {own.count(verdict)} {word}" for verdict, word in _FURTHER if own.count(verdict))
        counts.append(f"of {words} {len(own)} claims {own.count(HOLDS)} hold{rest}")
    sentence = "; ".join(counts)
    return f"{sentence[0].upper()}{sentence[1:]}. Numbers of aegis {archive.version}, code {archive.code}.{_left_out(archive)}"


def _left_out(archive: Archive) -> str:
    return f" Not complete, and left out: {', '.join(archive.left_out)}." if archive.left_out else ""


_FURTHER = ((FAILS, "do not"), (UNTESTED, "cannot be tested"))


def markdown(archive: Archive, folder: str) -> str:
    """Return the page. folder: of the pictures, relative to the page."""
    parts = [HEAD.format(preset=archive.preset, summary=summary(archive)), "\n".join(_differing(archive))]
    for results, judged in archive.judged():
        figures = [f"{folder}/{name}.svg" for name in archive.figures.get(results.bench.name, [])]
        parts.append("\n".join(_section(results, judged, figures)))
    return "\n".join(parts)


def differing(archive: Archive) -> list[dict[str, str]]:
    """Return what did not come out as in the paper: numbers far from it, claims of it that do not hold, and why."""
    found = []
    for results, judged in archive.judged():
        rows = [
            {"what": _who(row), "ours": ours(row), "paper": number(row["paper"]["mean"], row["paper"]["sd"]), "apart": gap}
            for row in results.rows()
            if (gap := apart(row)) is not None
        ]
        rows += [
            {"what": f"claim: {item.says}", "ours": item.why, "paper": item.paper, "apart": item.verdict}
            for item in judged
            if item.of == "paper" and item.verdict != HOLDS
        ]
        reasons = [results.bench.differs or "not known", *["the same"] * len(rows)]
        found += [{"bench": results.bench.name, **row, "why": why} for row, why in zip(rows, reasons, strict=False)]
    return found


DIFFERING = (
    f"Numbers further from the paper's than {FAR:g} standard deviations of both together, or a tenth where it gives none; and "
    "claims of the paper that do not hold."
)


def _differing(archive: Archive) -> list[str]:
    head = ("bench", "what", "ours", "paper", "apart", "why")
    lines = ["## What did not come out as in the paper", "", DIFFERING, "", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return [*lines, *(f"| {' | '.join(row[name] for name in head)} |" for row in differing(archive)), ""]


def apart(row: Mapping[str, Any]) -> str | None:
    """Return how far our number of a row is from the paper's, in words; None if it is near or there is none."""
    if row["paper"] is None or row["mean"] is None:
        return None
    gap, reported = row["mean"] - row["paper"]["mean"], row["paper"]
    if reported["sd"] is None:
        return f"{100 * gap / abs(reported['mean']):+.0f} %" if abs(gap) > abs(reported["mean"]) / 10 else None
    spread = math.hypot(reported["sd"], row["sd"] or 0.0)
    return f"{gap / spread:+.1f} sd" if abs(gap) > FAR * spread else None


def _who(row: Mapping[str, Any]) -> str:
    value = "" if row["value"] is None else f", {key_of(row['value'])}"
    return f"{row['agent']}{value}" + ("" if row["metric"] == "reward" else f", {row['metric']}")


def _section(results: Results, judged: list[Judged], figures: Sequence[str]) -> list[str]:
    bench = results.bench
    lines = [f"## {bench.name}: {bench.title}", "", f"*{bench.section}.* {bench.question}", "", _settings(results), ""]
    lines += [*table(results), "", "| claim | whose | verdict | numbers | paper |", "|---|---|---|---|---|"]
    lines += [f"| {item.says} | {item.of} | **{item.verdict}** | {item.why} | {item.paper} |" for item in judged]
    lines.append("")
    for figure in figures:
        lines += [f"![{bench.title}]({figure})", ""]
    for note in bench.notes:
        lines += [f"- {note}"]
    return [*lines, ""] if bench.notes else lines


def _settings(results: Results) -> str:
    """Return in one line what was run."""
    bench = results.bench
    own = results.settings.get("arms", {})
    arms = "; ".join(_arm(name, arm.about, own.get(name, {})) for name, arm in bench.arms.items())
    swept = f" Swept: `{bench.sweep.key}` over {', '.join(key_of(v) for v in results.values())}." if bench.sweep else ""
    common = _pairs(results.settings.get("common", {}))
    return f"Measure `{bench.measure}`, {results.seeds} seeds. Settings: {common}.{swept} Arms: {arms}."


def _arm(name: str, about: str, own: Mapping[str, Any]) -> str:
    return f"`{name}`" + (f": {about}" if about else "") + (f" ({_pairs(own)})" if own else "")


def _pairs(settings: Mapping[str, Any]) -> str:
    shown = ((key, value if isinstance(value, str) else json.dumps(value)) for key, value in settings.items())
    return ", ".join(f"`{key} = {value}`" for key, value in shown)


def table(results: Results) -> list[str]:
    """Return the numbers as a Markdown table."""
    bench, several = results.bench, len(results.bench.metrics) > 1
    between = bench.sweep is not None and bench.sweep.pool
    head = ["who", *(["metric"] if several else []), "ours", *(["between draws"] if between else []), "paper", "oracle", "runs"]
    lines = [f"Numbers: {bench.unit}.", "", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in results.rows():
        cells = [row["agent"] if row["value"] is None else f"{row['agent']}, {key_of(row['value'])}"]
        cells += [row["metric"]] if several else []
        cells.append(ours(row))
        if between:
            cells.append("" if row["between"] is None else f"± {row['between']:.1f}")
        cells.append("" if row["paper"] is None else number(row["paper"]["mean"], row["paper"]["sd"]))
        cells += ["" if row["oracle"] is None else f"{row['oracle']:.1f}", str(row["runs"])]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def ours(row: dict[str, Any]) -> str:
    """Return our number of a row."""
    if row["mean"] is None:
        return "never"
    return number(row["mean"], row["sd"]) + (f" ({row['never']} of {row['runs']} never)" if row["never"] else "")


def number(mean: float, sd: float | None) -> str:
    """Return `mean ± sd` with the digits that matter."""
    digits = 1 if abs(mean) >= 10 else 2
    return f"{mean:.{digits}f}" if sd is None else f"{mean:.{digits}f} ± {sd:.{digits}f}"


def html(archive: Archive, pictures: dict[str, str]) -> str:
    """Return the page as one HTML file. pictures: SVG texts by name."""
    sections = [
        {
            "name": results.bench.name,
            "bench": results.bench,
            "settings": _settings(results).replace("`", ""),
            "rows": results.rows(),
            "claims": judged,
            "pictures": [_inline(pictures[name]) for name in archive.figures.get(results.bench.name, []) if name in pictures],
        }
        for results, judged in archive.judged()
    ]
    words = {"ours": ours, "number": number, "key_of": key_of}
    shown = {"differing": differing(archive), "about": DIFFERING, "summary": summary(archive), "preset": archive.preset}
    return str(_template().render(sections=sections, **shown, **words))


def _inline(svg: str) -> str:
    return svg[svg.index("<svg") :]


@cache
def _template() -> Any:
    from jinja2 import Environment, PackageLoader

    return Environment(loader=PackageLoader("aegis.experiments"), autoescape=True, trim_blocks=True).get_template("paper.html")
