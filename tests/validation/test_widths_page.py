"""The table of widths on the page and in the results is that of the stored measurement, and says what it should."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from aegis.evidence import BOUNDS  # noqa: E402
from aegis.validation import OURS as KNOWN  # noqa: E402
from aegis.worlds import WORLDS  # noqa: E402
from widths import LEGACY, SIZES, trials  # noqa: E402
from widths_page import END, FIXED, OURS, START, WIDTHS, lines, numbers  # noqa: E402

content = json.loads(WIDTHS.read_text(encoding="utf-8"))


def test_the_page_and_the_results_hold_the_stored_widths() -> None:
    page = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    assert page.count(START) == page.count(END) == 1
    assert numbers() in page, "write it again: python benchmarks/widths.py --table"
    assert "\n".join(lines(content)).strip() in (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")


def test_every_world_and_every_certificate_was_measured() -> None:
    assert content["runs"] >= 10 and content["legacy"] == LEGACY and tuple(content["sizes"]) == SIZES
    assert content["worlds"] == list(WORLDS)
    assert set(trials()) == {f"{world}, {size}" for world in WORLDS for size in SIZES}
    assert set(OURS) == set(KNOWN) and set(FIXED) <= set(BOUNDS)
    for what in ("gain", "value"):
        found = content["widths"][what]
        for bound in (
            *OURS,
            "betting, plain values",
            "sharp PAC-Bayes, Q = p0",
            "LS, lambda fixed",
            *FIXED[1:],
            "anytime empirical Bernstein",
        ):
            assert set(found[bound]) == set(WORLDS), bound
            assert all(set(widths) == {str(size) for size in SIZES} for widths in found[bound].values()), bound
    for bound in ("PRISM: prior lam, B declared", "PRISM: 1/sqrt(K), B declared"):
        assert set(content["widths"]["value"][bound]) == set(WORLDS)


def test_more_units_and_our_own_bounds_are_narrower() -> None:
    for what, bounds in content["widths"].items():
        for bound, worlds in bounds.items():
            for world, widths in worlds.items():
                sizes = [widths[str(size)]["width"] for size in SIZES]
                assert sizes == sorted(sizes, reverse=True), (what, bound, world)
    for world in WORLDS:
        value, gain = content["widths"]["value"], content["widths"]["gain"]
        for size in map(str, SIZES):
            assert value["plain"][world][size]["width"] < 0.5 * value["PRISM: prior lam, B declared"][world][size]["width"]
            assert gain["plain"][world][size]["width"] < gain["Hoeffding"][world][size]["width"]
            best = min(gain[bound][world][size]["width"] for bound in OURS)
            assert best == min(widths[world][size]["width"] for widths in gain.values())


def test_no_certificate_was_above_the_truth_more_often_than_chance_allows() -> None:
    runs = content["runs"]
    for bounds in content["widths"].values():
        for worlds in bounds.values():
            for widths in worlds.values():
                assert all(item["above"] <= (4 if runs <= 12 else 6) for item in widths.values())
