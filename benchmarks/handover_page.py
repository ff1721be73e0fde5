"""The tables of the handover benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import ttest_1samp

from handover_tasks import EFFECTS, LEGACIES, Task
from results import record, table, with_earlier

MOST_INNER = {"uniform": {2.0: 60, 1.0: 100, 0.5: 180}, "sign": {2.0: 75, 1.0: 130, 0.5: 260}}
MOST_OUTER, MOST_UNIFIED = 150, 650
Results = Mapping[tuple[str, int], Mapping[str, Any]]


def write(results: Results, known: Mapping[str, Task]) -> None:
    """Record everything there is."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for (name, _), found in sorted(results.items()):
        groups.setdefault(name, []).append(found)
    lines = [
        "Whole gate, default settings, delta 0.05, host `greedy`, patience included, unless a row says otherwise. Medians of the "
        "episode of the handover. Not one run of the command: rows that were recorded before from more runs are kept. Gains are "
        "over the incumbent, the legacy without its exploration. What is asked of legacies that explore (sign, natural, lever) "
        "was set for gains over the log, in which the end of exploration counts as a gain.",
        "",
        *_inner(groups),
        *_outer(groups, known),
        *_wrong(groups, known),
        *_rewards(groups),
        *_ablations(groups),
    ]
    record("Handover", "python benchmarks/handover.py", with_earlier("Handover", lines))


def _inner(groups: Mapping[str, list[Any]]) -> list[str]:
    rows = []
    for legacy in LEGACIES:
        for effect in EFFECTS:
            found = groups.get(f"inner, {legacy}, f_a = {effect:g}", [])
            routes = [groups.get(f"{gate}, {legacy}, f_a = {effect:g}", []) for gate in ("pac-bayes", "published")]
            beside = [f"{_median(route, 'inner')} ({len(route)})" if route else "" for route in routes]
            rows.append(
                [
                    f"{legacy}, f_a = {effect:g}",
                    _median(found, "inner"),
                    str(MOST_INNER[legacy][effect]),
                    str(len(found)),
                    *beside,
                ]
            )
    return [
        "**Inner level alone, additive world.** `pac-bayes`: the sharp bound with a data-free prior. `published`: Algorithm 2, "
        "which is no certificate (both: at most 4000 episodes; runs in brackets).",
        "",
        *table(["setting", "median episode", "asked, at most", "runs", "`pac-bayes`", "`published`"], rows),
        "",
    ]


def _outer(groups: Mapping[str, list[Any]], known: Mapping[str, Task]) -> list[str]:
    rows = []
    for name, found in groups.items():
        levels = known[name].until if name in known else ()
        if len(levels) < 2 or (name.startswith("both,") and name != "both, range of means"):
            continue
        most = MOST_UNIFIED if name.startswith("unified") else MOST_OUTER if name.startswith("both") else None
        complete = [item for item in found if set(levels) <= item["flips"].keys()]
        first = [{"flips": {"first": min(item["flips"][level] for level in levels)}} for item in complete]
        after = [_after(item["flips"], levels) for item in found]
        rows.append(
            [
                name,
                _median(first, "first"),
                _median(after, "after"),
                "" if most is None else str(most),
                f"{len(complete) / len(found):.0%} within {known[name].episodes}",
                str(len(found)),
            ]
        )
    head = [
        "setting",
        "first level",
        "last level, episodes after the inner one",
        "asked, at most",
        "all levels handed over",
        "runs",
    ]
    why = (
        "Unified: `lever` has the natural legacy at the outer level and a uniform one at the inner level. With the "
        "natural legacy at both (`natural`) the best inner actions are hardly ever tried, a capped inner policy is a "
        "small step, and what is then left to gain at the outer level is small against the range of the rewards: it "
        "takes long. These runs have the default caps, upgrades of the inner level and the range of means that holds "
        "for any policy, [-12, 12]. `published` here plans anew every 50 episodes."
    )
    return ["**Every level.**", "", *table(head, rows), "", why, ""]


def _after(flips: Mapping[str, int], levels: tuple[str, ...]) -> dict[str, Any]:
    if not set(levels) <= flips.keys():
        return {"flips": {}}
    inner = levels[0] if len(levels) == 2 else levels[-1]
    return {"flips": {"after": max(flips[level] for level in levels) - flips[inner]}}


def _wrong(groups: Mapping[str, list[Any]], known: Mapping[str, Task]) -> list[str]:
    rows = []
    for name in ("null", "slightly worse", "null, pac-bayes", "counter-example", "counter-example, published"):
        found = groups.get(name, [])
        if found:
            wrong = np.mean([item["wrong"] for item in found])
            asked = "" if "published" in name else "0 %" if "counter" in name else "5 %"
            rows.append([f"{name}, {known[name].episodes} episodes", f"{wrong:.1%}", asked, str(len(found))])
    return [
        "**Wrong handovers**: runs in which anything was put in control whose true gain is not above 0. Null: nothing to gain at "
        "any level. Slightly worse: an agent of one's own that loses a little, whose weights vary a lot. Counter-example: theory "
        "section 2.",
        "",
        *table(["setting", "runs with a wrong handover", "asked, at most", "runs"], rows),
        "",
    ]


def _rewards(groups: Mapping[str, list[Any]]) -> list[str]:
    found = {name: [item["rewards"] for item in groups.get(name, [])] for name in ("5000 episodes", "5000 episodes, published")}
    ours, published = found.values()
    rows = []
    for label, pairs in (
        ("after the first flip minus before", [item["after"] - item["before"] for item in ours if "after" in item]),
        ("after the last flip minus before the first", [item["last"] - item["before"] for item in ours if "last" in item]),
        ("5000 episodes, minus the legacy on the same episodes", [item["gate"] - item["legacy"] for item in ours]),
        ("5000 episodes, minus the published gate", [a["gate"] - b["gate"] for a, b in zip(ours, published, strict=False)]),
    ):
        if len(pairs) > 1:
            test = ttest_1samp(pairs, 0.0)
            rows.append(
                [
                    label,
                    f"{np.mean(pairs):.3f} ± {np.std(pairs, ddof=1):.3f}",
                    f"{min(pairs):.3f}",
                    f"{test.pvalue:.1e}",
                    str(len(pairs)),
                ]
            )
    head = ["mean reward per decision, paired by seed", "mean ± sd", "smallest", "p (paired t)", "runs"]
    return ["**What it earns**, additive world, uniform legacy.", "", *table(head, rows), ""]


def _ablations(groups: Mapping[str, list[Any]]) -> list[str]:
    rows = []
    for name in ["both", *sorted(name for name in groups if name.startswith("both, "))]:
        found = groups.get(name, [])
        if found:
            after = [_after(item["flips"], ("inner", "meta")) for item in found]
            gain = (
                np.mean([item["gains"][0] for item in found if item["gains"]]) if any(item["gains"] for item in found) else np.nan
            )
            rows.append(
                [
                    name.removeprefix("both, ") if name != "both" else "default",
                    _median(found, "inner"),
                    f"{gain:.2f}",
                    _median(after, "after"),
                    str(len(found)),
                ]
            )
    head = ["changed", "inner level", "true gain of the first flip", "outer level, episodes after", "runs"]
    return ["**One change at a time**, additive world, both levels.", "", *table(head, rows)]


def _median(found: list[Any], name: str) -> str:
    if not found:
        return ""
    median = float(np.median([float(item["flips"].get(name, np.inf)) for item in found]))
    return "not yet" if np.isinf(median) else f"{median:g}"
