"""The page of all benches: paper, ours, oracle, claims, settings and what was not reproducible, in Markdown and HTML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from aegis.experiments.archive import Archive
from aegis.experiments.claims import HOLDS, Judged
from aegis.experiments.results import Results, key_of

HEAD = """# The paper, experiment by experiment

Every table and figure of the paper's evaluation, run by this package: `aegis bench run all --preset {preset}`, then
`aegis bench report --preset {preset}`. Rewards are sums over an episode, means ± standard deviations over seeds. *Oracle* is the
best that can be reached by whoever controls the same levels. A claim holds, does not hold, or cannot be tested; the numbers
behind it stand beside it. What the paper says is in its own column.

{summary}
"""


def summary(archive: Archive) -> str:
    """Return how many claims hold, and which code says so."""
    judged = [item for _, claims in archive.judged() for item in claims]
    holds = sum(item.verdict == HOLDS for item in judged)
    return f"{holds} of {len(judged)} claims hold. aegis {archive.version}, code {archive.code}."


def markdown(archive: Archive, folder: str) -> str:
    """Return the page. folder: of the pictures, relative to the page."""
    parts = [HEAD.format(preset=archive.preset, summary=summary(archive))]
    for results, judged in archive.judged():
        figures = [f"{folder}/{name}.svg" for name in archive.figures.get(results.bench.name, [])]
        parts.append("\n".join(_section(results, judged, figures)))
    return "\n".join(parts)


def _section(results: Results, judged: list[Judged], figures: Sequence[str]) -> list[str]:
    bench = results.bench
    lines = [f"## {bench.name}: {bench.title}", "", f"*{bench.section}.* {bench.question}", "", _settings(results), ""]
    lines += [*table(results), "", "| claim | verdict | numbers | paper |", "|---|---|---|---|"]
    lines += [f"| {item.says} | **{item.verdict}** | {item.why} | {item.paper} |" for item in judged]
    lines.append("")
    for figure in figures:
        lines += [f"![{bench.title}]({figure})", ""]
    for note in bench.notes:
        lines += [f"- {note}"]
    return [*lines, ""] if bench.notes else lines


def _settings(results: Results) -> str:
    """Return in one line what was run."""
    bench = results.bench
    base = {key: value for key, value in bench.base.model_dump(exclude_none=True).items() if value not in ({}, None)}
    arms = "; ".join(f"`{name}`{': ' + arm.about if arm.about else ''}" for name, arm in bench.arms.items())
    swept = f" Swept: `{bench.sweep.key}` over {', '.join(key_of(v) for v in results.values())}." if bench.sweep else ""
    return f"Measure `{bench.measure}`, {results.seeds} seeds. Settings: `{json.dumps(base, default=str)}`.{swept} Arms: {arms}."


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
    return str(_template().render(sections=sections, preset=archive.preset, summary=summary(archive), **words))


def _inline(svg: str) -> str:
    return svg[svg.index("<svg") :]


@cache
def _template() -> Any:
    from jinja2 import Environment, PackageLoader

    return Environment(loader=PackageLoader("aegis.experiments"), autoescape=True, trim_blocks=True).get_template("paper.html")
