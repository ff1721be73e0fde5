"""The page of all benches in Markdown and HTML, and the JSON archive from which every number of it comes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from aegis.errors import InputError
from aegis.files import write_text
from aegis.paper.bench_claims import FAILS, HOLDS, UNTESTED, JudgedClaim, judge_claim
from aegis.paper.bench_file import Bench, list_benches, load_bench
from aegis.paper.bench_results import FLIP, BenchResults, change_words, settings_of
from aegis.paper.bench_units import key_of, plan_bench
from aegis.paper.code_digest import code_version
from aegis.version import __version__

LONGEST = 8  # lists with more numbers are for pictures

DIGITS = 7


PARTLY = "holds under some readings"


@dataclass(frozen=True)
class Statement:
    """A statement of the paper. readings: by name the verdict of each; a reading without a name is the only one."""

    words: str
    readings: dict[str, str]

    @property
    def verdict(self) -> str:
        """Return the verdict over all readings that can be tested."""
        tested = {verdict for verdict in self.readings.values() if verdict != UNTESTED}
        return tested.pop() if len(tested) == 1 else PARTLY if tested else UNTESTED

    def holds_under(self) -> list[str]:
        """Return the names of the readings under which it holds."""
        return [name for name, verdict in self.readings.items() if verdict == HOLDS and name]


def judge_statements(claims: Iterable[JudgedClaim]) -> dict[str, Statement]:
    """Return the statements of the paper by their words.

    A reading may have several claims, such as one for each noise level: it fails if any of them does, and holds if all do.
    """
    verdicts: dict[str, dict[str, list[str]]] = {}
    for claim in claims:
        if claim.of == "paper":
            verdicts.setdefault(claim.statement, {}).setdefault(claim.reading, []).append(claim.verdict)
    return {
        words: Statement(words, {name: _of_all(own) for name, own in readings.items()}) for words, readings in verdicts.items()
    }


def _of_all(verdicts: list[str]) -> str:
    return next((verdict for verdict in (FAILS, UNTESTED) if verdict in verdicts), HOLDS)


@dataclass(frozen=True)
class Archive:
    """Everything a page needs. code: the digest of the code that gave the numbers. figures: by bench, names of pictures."""

    preset: str
    code: str
    version: str
    results: tuple[BenchResults, ...]
    figures: dict[str, list[str]]
    left_out: tuple[str, ...] = ()

    def judged(self) -> list[tuple[BenchResults, list[JudgedClaim]]]:
        """Return all results with the verdicts of their claims."""
        return [(results, [judge_claim(claim, results) for claim in results.bench.claims]) for results in self.results]

    def statements(self) -> dict[str, Statement]:
        """Return the statements of the paper by their words, judged over all benches."""
        return judge_statements(claim for _, claims in self.judged() for claim in claims)


def save_archive(
    path: Path, results: Sequence[BenchResults], figures: dict[str, list[str]], left_out: Sequence[str] = ()
) -> None:
    """Write an archive. left_out: benches that were asked for and are not complete."""
    content = {
        "preset": results[0].preset if results else "",
        "code": code_version(),
        "version": __version__,
        "benches": {
            own.bench.name: {
                "seeds": own.seeds,
                "settings": own.settings,
                **({"changes": dict(own.changes)} if own.changes else {}),
                # the content of a bench that does not come with the package
                **({} if own.bench.name in list_benches() else {"bench": own.bench.model_dump(by_alias=True)}),
                "units": [
                    {"arm": arm, "value": value, "runs": {str(seed): _kept(metrics) for seed, metrics in runs.items()}}
                    for (arm, value), runs in own.runs.items()
                ],
            }
            for own in results
        },
        "figures": figures,
        "left_out": list(left_out),
    }
    write_text(path, json.dumps(content, indent=0, allow_nan=False) + "\n")


def load_archive(path: Path) -> Archive:
    """Return an archive; InputError if it is none, or if its benches do not exist any more or have other arms or metrics."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        results = tuple(_results(name, own, content["preset"]) for name, own in content.pop("benches").items())
        return Archive(**{**content, "results": results, "left_out": tuple(content["left_out"])})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} holds no results of benches: {error}; write it with 'aegis bench report'") from error


def _kept(metrics: dict[str, Any]) -> dict[str, Any]:
    return {name: _rounded(item) for name, item in metrics.items() if not isinstance(item, list) or len(item) <= LONGEST}


def _rounded(item: Any) -> Any:
    if isinstance(item, list):
        return [_rounded(part) for part in item]
    return float(f"{item:.{DIGITS}g}") if isinstance(item, float) else item


def _results(name: str, content: dict[str, Any], preset: str) -> BenchResults:
    bench = Bench.model_validate(content["bench"]) if "bench" in content else load_bench(name)
    values = {key_of(value): value for value in ([None] if bench.sweep is None else [u["value"] for u in content["units"]])}
    runs = {
        (unit["arm"], values[key_of(unit["value"])]): {int(seed): own for seed, own in unit["runs"].items()}
        for unit in content["units"]
    }
    _check_runs(bench, runs)
    own = {name: content[name] for name in ("seeds", "settings", "changes") if name in content}
    return BenchResults(bench=bench, preset=preset, runs=runs, **own)


def _check_runs(bench: Bench, runs: Mapping[tuple[str, Any], Mapping[int, Mapping[str, Any]]]) -> None:
    """Raise ValueError unless runs are those of a bench: every arm at every value, with every metric that tables show."""
    arms, values = {arm for arm, _ in runs}, {value for _, value in runs}
    if arms != set(bench.arms) or len(runs) != len(arms) * len(values):
        raise ValueError(
            f"bench {bench.name} has the arms {', '.join(bench.arms)}, and runs are there of {', '.join(sorted(arms))}"
        )
    wanted = {metric.partition("@")[0] for metric in bench.metrics}
    for (arm, _), own in runs.items():
        for metrics in own.values():
            if missing := sorted(wanted - set(metrics)):
                raise ValueError(f"bench {bench.name}, arm {arm}: runs have no {', '.join(missing)}")


def outdated_benches(path: Path) -> list[str]:
    """Return what an archive says of the benches of the package that is not so any more, a line for each bench.

    Compared are names, seeds and the settings of every arm and swept value with those of the archive's preset. Words, such as
    those of claims and notes, are read from the benches whenever a page is written.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    names, kept = list_benches(), content["benches"]
    lines = [f"bench {name}: the archive lacks it" for name in names if name not in kept]
    for name, own in kept.items():
        if name not in names:
            lines.append(f"bench {name}: it does not come with the package")
            continue
        plan = plan_bench(load_bench(name), content["preset"])
        now = {
            "seeds": plan.seeds,
            "settings": json.loads(json.dumps(settings_of(plan))),
            "arms and swept values": sorted(json.dumps([unit.arm, unit.value]) for unit in plan.units),
        }
        before = {
            "seeds": own["seeds"],
            "settings": own["settings"],
            "arms and swept values": sorted(json.dumps([unit["arm"], unit["value"]]) for unit in own["units"]),
        }
        if other := [what for what in now if now[what] != before[what]]:
            lines.append(f"bench {name}: other {' and '.join(other)} than those that were run")
    return lines


FAR_DEVIATIONS = 2.0  # standard deviations from which a number is not that of the paper

PAGE_HEAD = """# The paper, experiment by experiment

{extent} of the paper's evaluation, run by this package: `aegis bench run {names} --preset {preset}`, then
`aegis bench report --preset {preset}`. Rewards are sums over an episode, means ± standard deviations over seeds. *Oracle* is the
best expected reward that a controller of the same levels can reach; a mean over few episodes can lie above it. A claim holds,
does not hold, or cannot be tested; beside it you see the numbers behind the verdict and whose claim it is. What the paper says is
in its own column.

{judged} [Every item of the paper]({items}) has its code and its test in a table; the paper's
[open problems]({problems}) have a page of their own.

{summary}
"""

JUDGED_BY = (
    "The paper's claims are judged by settings that the paper describes; where it leaves one open, the bench says what was "
    "chosen. What AEGIS does in its own way stands in separate rows, marked as ours; no claim of the paper is judged by them."
)
ITEMS_PAGE, PROBLEMS_PAGE = "paper-items.md", "open-problems.md"  # beside the page in the documentation


def claims_summary(archive: Archive) -> str:
    """Return how many statements of the paper and claims of our own hold, and which code says so."""
    statements = [statement.verdict for statement in archive.statements().values()]
    own = [item.verdict for _, claims in archive.judged() for item in claims if item.of == "ours"]
    parts = [
        f"Of {len(statements)} statements of the paper {_counted(statements, _VERDICTS)}",
        f"of our own {len(own)} claims {_counted(own, _OUR_VERDICTS)}",
    ]
    left_out = f" Not complete, and left out: {', '.join(archive.left_out)}." if archive.left_out else ""
    return f"{'; '.join(parts)}. Numbers of aegis {archive.version}, code {archive.code}.{left_out}"


_VERDICTS = {
    HOLDS: "hold under every reading that is judged",
    PARTLY: "under some readings",
    FAILS: "under none",
    UNTESTED: "cannot be tested",
}
_OUR_VERDICTS = {HOLDS: "hold", FAILS: "not", UNTESTED: "cannot be tested"}


def _counted(verdicts: Sequence[str], words: Mapping[str, str]) -> str:
    shown = [f"{verdicts.count(verdict)} {word}" for verdict, word in words.items() if verdict == HOLDS or verdict in verdicts]
    return ", ".join(shown)


def markdown_page(archive: Archive, folder: str) -> str:
    """Return the page. folder: of the pictures, relative to the page."""
    parts = [_page_head(archive), "\n".join(_differing_section(archive)), "\n".join(_readings_section(archive))]
    for results, judged in archive.judged():
        figures = [f"{folder}/{name}.svg" for name in archive.figures.get(results.bench.name, [])]
        parts.append("\n".join(_section(results, judged, figures)))
    return "\n".join(parts)


def _page_head(archive: Archive) -> str:
    shown = {"judged": JUDGED_BY, "items": ITEMS_PAGE, "problems": PROBLEMS_PAGE}
    names = [results.bench.name for results in archive.results]
    whole = set(list_benches()) <= set(names)
    extent = "Every table and figure" if whole else "Some tables and figures"
    run = "all" if whole else " ".join(name if name in list_benches() else f"{name}.yaml" for name in names)
    return PAGE_HEAD.format(preset=archive.preset, summary=claims_summary(archive), extent=extent, names=run, **shown)


def differing_results(archive: Archive) -> list[dict[str, str]]:
    """Return what did not come out as in the paper: numbers far from it, claims of it that do not hold, and why.

    Runs of changed settings have no number to compare.
    """
    differing, statements = [], archive.statements()
    for results, judged in archive.judged():
        rows = [
            {
                "what": _who(row),
                "ours": our_number(row),
                "paper": format_mean(row["paper"]["mean"], row["paper"]["sd"]),
                "apart": gap,
            }
            for row in ([] if results.changed else results.rows())
            if (gap := distance_words(row)) is not None
        ]
        known = [""] * len(rows)
        for item, claim in zip(judged, results.bench.claims, strict=True):
            if item.of == "paper" and item.verdict != HOLDS:
                words = _verdict_words(item.verdict, statements[item.statement])
                rows.append({"what": f"claim: {item.says}", "ours": item.why, "paper": item.paper, "apart": words})
                known.append(claim.why)
        reasons = _reasons(results.bench, [row["apart"] for row in rows], known)
        differing += [{"bench": results.bench.name, **row, "why": why} for row, why in zip(rows, reasons, strict=True)]
    return differing


def _verdict_words(verdict: str, statement: Statement) -> str:
    """Return a verdict, and under which other readings the statement holds."""
    elsewhere = statement.holds_under()
    return f"{verdict}; holds under: {'; '.join(elsewhere)}" if elsewhere else verdict


def _reasons(bench: Bench, apart: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return why each row differs: its own reason, the bench's text once, or that no reason is known of what does not hold.

    known: by row the reason of its claim, if it has one.
    """
    reasons, shown = [], False
    for words, own in zip(apart, known, strict=True):
        if own or words.startswith(UNTESTED):
            reasons.append(own)
        elif bench.differs:
            reasons.append("the same" if shown else bench.differs)
            shown = True
        else:
            reasons.append("no reason is known" if words.startswith(FAILS) else "")
    return reasons


DIFFERING_TEXT = (
    f"Numbers further from the paper's than {FAR_DEVIATIONS:g} standard deviations of both together, or a "
    "tenth where it gives none; and "
    "claims of the paper that do not hold or cannot be tested."
)


def _differing_section(archive: Archive) -> list[str]:
    head, rows = ("bench", "what", "ours", "paper", "apart"), differing_results(archive)
    known = dict.fromkeys((row["bench"], row["why"]) for row in rows if row["why"] not in ("", "the same"))
    table = _table(head, [[row[name] for name in head] for row in rows])
    why = ["Why, as far as it is known:", "", *(f"- *{bench}*: {words}" for bench, words in known), ""]
    return ["## What did not come out as in the paper", "", DIFFERING_TEXT, "", *table, "", *(why if known else [])]


READINGS_TEXT = (
    "The paper leaves some settings open, such as the units of inputs. Each statement is judged under every reading that was "
    "run. A statement that holds under one of them is not called false. It may take different readings to make different "
    "statements hold. Settings tried beside stand in rows of their own and judge nothing."
)


def readings_rows(archive: Archive) -> list[tuple[str, str, str]]:
    """Return statement, reading and verdict of every statement of the paper that has several readings."""
    several = [statement for statement in archive.statements().values() if len(statement.readings) > 1]
    return [
        (statement.words if place == 0 else "", name, verdict)
        for statement in several
        for place, (name, verdict) in enumerate(statement.readings.items())
    ]


def _readings_section(archive: Archive) -> list[str]:
    if not (rows := readings_rows(archive)):
        return []
    return [
        "## Statements of the paper under each reading",
        "",
        READINGS_TEXT,
        "",
        *_table(("statement", "reading", "verdict"), rows),
        "",
    ]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {' | '.join(cells)} |" for cells in rows)]


def distance_words(row: Mapping[str, Any]) -> str | None:
    """Return how far our number of a row is from the paper's, in words; None if it is near or there is none."""
    if row["paper"] is None or row["mean"] is None:
        return None
    gap, reported = row["mean"] - row["paper"]["mean"], row["paper"]
    if reported["sd"] is None:
        return f"{100 * gap / abs(reported['mean']):+.0f} %" if abs(gap) > abs(reported["mean"]) / 10 else None
    spread = math.hypot(reported["sd"], row["sd"] or 0.0)
    return f"{gap / spread:+.1f} sd" if abs(gap) > FAR_DEVIATIONS * spread else None


def _who(row: Mapping[str, Any]) -> str:
    value = "" if row["value"] is None else f", {key_of(row['value'])}"
    return f"{row['agent']}{value}" + ("" if row["metric"] == "reward" else f", {row['metric']}")


def _section(results: BenchResults, judged: list[JudgedClaim], figures: Sequence[str]) -> list[str]:
    bench = results.bench
    claims = [[item.says, item.of, f"**{item.verdict}**", item.why, item.paper] for item in judged]
    lines = [f"## {bench.name}: {bench.title}", "", f"*{bench.section}.* {bench.question}", "", _settings(results), ""]
    lines += [*results_table(results), "", *_table(("claim", "whose", "verdict", "numbers", "paper"), claims), ""]
    for figure in figures:
        lines += [f"![{bench.title}]({figure})", ""]
    return [*lines, *(f"- {note}" for note in bench.notes), ""] if bench.notes else lines


def _settings(results: BenchResults) -> str:
    """Return in one line what was run."""
    bench, own = results.bench, results.settings.get("arms", {})
    arms = "; ".join(
        f"`{name}`" + (f": {arm.about}" if arm.about else "") + (f" ({_pairs(own[name])})" if own.get(name) else "")
        for name, arm in bench.arms.items()
    )
    swept = f" Swept: `{bench.sweep.key}` over {', '.join(key_of(v) for v in results.values())}." if bench.sweep else ""
    common = _pairs(results.settings.get("common", {}))
    changed = f" Changed from the preset: `{change_words(results.changed)}`." if results.changed else ""
    return f"Measure `{bench.measure}`, {results.seeds} seeds. Settings: {common}.{swept}{changed} Arms: {arms}."


def _pairs(settings: Mapping[str, Any]) -> str:
    shown = ((key, value if isinstance(value, str) else json.dumps(value)) for key, value in settings.items())
    return ", ".join(f"`{key} = {value}`" for key, value in shown)


def results_table(results: BenchResults) -> list[str]:
    """Return the numbers as a Markdown table."""
    bench, rows = results.bench, results.rows()
    columns = {
        "who": [row["agent"] if row["value"] is None else f"{row['agent']}, {key_of(row['value'])}" for row in rows],
        "metric": [row["metric"] for row in rows],
        "ours": [our_number(row) for row in rows],
        "between draws": ["" if row["between"] is None else f"± {row['between']:.1f}" for row in rows],
        "paper": ["" if row["paper"] is None else format_mean(row["paper"]["mean"], row["paper"]["sd"]) for row in rows],
        "oracle": ["" if row["oracle"] is None else f"{row['oracle']:.1f}" for row in rows],
        "runs": [str(row["runs"]) for row in rows],
    }
    if len(bench.metrics) == 1:
        del columns["metric"]
    if bench.sweep is None or not bench.sweep.pool:
        del columns["between draws"]
    return [f"Numbers: {bench.unit}.", "", *_table(list(columns), zip(*columns.values(), strict=True))]


def our_number(row: dict[str, Any]) -> str:
    """Return our number of a row. A flip that never came is `never`; another number that there is not is `-`."""
    flip = row["metric"].startswith(FLIP)
    if row["mean"] is None:
        return "never" if flip else "-"
    lacking = f" ({row['never']} of {row['runs']} {'never' if flip else 'without'})" if row["never"] else ""
    return format_mean(row["mean"], row["sd"]) + lacking


def format_mean(mean: float, sd: float | None) -> str:
    """Return `mean ± sd` with the digits that matter."""
    digits = 1 if abs(mean) >= 10 else 2 if abs(mean) >= 0.1 or mean == 0 else 4
    return f"{mean:.{digits}f}" if sd is None else f"{mean:.{digits}f} ± {sd:.{digits}f}"


def html_page(archive: Archive, pictures: dict[str, str]) -> str:
    """Return the page as one HTML file. pictures: SVG texts by name."""
    sections = [
        {
            "bench": results.bench,
            "settings": _settings(results).replace("`", ""),
            "rows": results.rows(),
            "claims": judged,
            "pictures": [
                pictures[name][pictures[name].index("<svg") :]
                for name in archive.figures.get(results.bench.name, [])
                if name in pictures
            ],
        }
        for results, judged in archive.judged()
    ]
    words = {"ours": our_number, "number": format_mean, "key_of": key_of}
    shown = {
        "differing": differing_results(archive),
        "about": DIFFERING_TEXT,
        "readings": readings_rows(archive),
        "about_readings": READINGS_TEXT,
        "summary": claims_summary(archive),
        "judged": JUDGED_BY,
        "items": ITEMS_PAGE,
        "problems": PROBLEMS_PAGE,
        "preset": archive.preset,
    }
    return str(_template().render(sections=sections, **shown, **words))


@cache
def _template() -> Any:
    from jinja2 import Environment, PackageLoader

    return Environment(loader=PackageLoader("aegis.paper"), autoescape=True, trim_blocks=True).get_template("paper.html")
