"""A claim of other settings, or of more episodes than were run, cannot be tested."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from bench_cases import SMALL, bench

from aegis.paper import BenchResults, ResultStore, bench_page, collect_results, judge_claim, plan_bench
from aegis.paper.bench_claims import HOLDS, UNTESTED
from aegis.paper.bench_results import change_words

CLAIM = "claims: [{says: so, test: within, of: %s, horizon: %s, with: {arm: %s, low: 0}}]"


def stored(claim: str, changes: Mapping[str, object] | None = None, preset: str = "quick", text: str = SMALL) -> BenchResults:
    plan = plan_bench(bench(text[: text.index("claims:")] + claim), preset, changes)
    store = ResultStore(None)
    for unit in plan.units:
        store.add(unit, {seed: {"reward": 9.0 + seed} for seed in range(plan.seeds)})
    return collect_results(plan, store)


def again(results: BenchResults, folder: Path) -> BenchResults:
    bench_page.save_archive(folder / "paper.json", [results], {})
    return bench_page.load_archive(folder / "paper.json").results[0]


@pytest.mark.parametrize(
    ("preset", "horizon", "why"),
    [
        ("quick", 6, ""),
        ("quick", 8, "it speaks of 8 episodes, 6 were run"),
        ("full", 8, ""),
        ("full", 9, "it speaks of 9 episodes, 8 were run"),
    ],
)
def test_with_fewer_episodes_than_its_horizon_a_claim_cannot_be_tested(
    preset: str, horizon: int, why: str, tmp_path: Path
) -> None:
    first = stored(CLAIM % ("ours", horizon, "linear"), preset=preset)
    for results in (first, again(first, tmp_path)):
        answer = judge_claim(results.bench.claims[0], results)
        assert answer.verdict == (UNTESTED if why else HOLDS) and (not why or answer.why == why)


def test_the_episodes_are_those_of_the_arms_that_are_compared() -> None:
    own = SMALL.replace("{agent: flat_joint}", "{agent: flat_joint, episodes: 4}")
    both = "claims: [{says: so, test: gap, horizon: 5, with: {above: linear, below: table, low: 0, high: 0}}]"
    results = stored(both, text=own)
    assert judge_claim(results.bench.claims[0], results).why == "it speaks of 5 episodes, 4 were run"
    results = stored(CLAIM % ("ours", 5, "linear"), text=own)
    assert judge_claim(results.bench.claims[0], results).verdict == HOLDS


def test_episodes_that_are_swept() -> None:
    text = SMALL.replace("seeds: 3", "seeds: 3\nsweep: {key: episodes, values: [4, 6]}").replace("paper: {l", "paper: {} #")
    results = stored(CLAIM % ("ours", 5, "linear@6"), text=text)
    assert judge_claim(results.bench.claims[0], results).verdict == HOLDS
    results = stored(CLAIM % ("ours", 5, "linear@4"), text=text)
    assert judge_claim(results.bench.claims[0], results).why == "it speaks of 5 episodes, 4 were run"
    flat = "claims: [{says: so, test: flat, horizon: 5, with: {arm: linear, most: 1}}]"
    results = stored(flat, text=text)
    assert judge_claim(results.bench.claims[0], results).verdict == UNTESTED


def test_episodes_that_are_not_known() -> None:
    results = stored(CLAIM % ("ours", 5, "linear"))
    unknown = BenchResults(results.bench, results.preset, results.seeds, results.runs)
    assert judge_claim(results.bench.claims[0], unknown).why == "it speaks of 5 episodes, and how many were run is not known"


def test_claims_of_the_paper_are_not_judged_by_changed_settings(tmp_path: Path) -> None:
    changed = stored(CLAIM % ("paper", "null", "linear"), {"world.f_a": 1.0, "seeds": 2})
    for results in (changed, again(changed, tmp_path)):
        answer = judge_claim(results.bench.claims[0], results)
        assert (answer.verdict, answer.why) == (UNTESTED, "settings were changed: world.f_a = 1.0")
    for claim, changes in (("paper", {"seeds": 2}), ("ours", {"world.f_a": 1.0})):
        results = stored(CLAIM % (claim, "null", "linear"), changes)
        assert judge_claim(results.bench.claims[0], results).verdict == HOLDS


def test_the_page_names_changes_and_compares_no_number_of_changed_settings(tmp_path: Path) -> None:
    paper = CLAIM % ("paper", "null", "linear")
    for changes, rows in (({"world.f_a": 1.0}, 1), ({}, 0)):
        bench_page.save_archive(tmp_path / "paper.json", [stored(paper, changes)], {})
        kept = bench_page.load_archive(tmp_path / "paper.json")
        listed = [row for row in bench_page.differing_results(kept) if row["apart"] == UNTESTED]
        assert len(listed) == rows
        text = bench_page.markdown_page(kept, "figures")
        assert ("Changed from the preset: `world.f_a = 1.0`." in text) == bool(changes)
        assert ("settings were changed: world.f_a = 1.0" in text) == bool(changes)
        assert ("settings were changed: world.f_a = 1.0" in bench_page.html_page(kept, {})) == bool(changes)
        assert ("+8.0 sd" in [row["apart"] for row in bench_page.differing_results(kept)]) == (not changes)  # (10 - 1) / 1.118


def test_changes_in_words() -> None:
    assert change_words({"world.sigma_q": 6, "agent": "x", "options.points": [1]}) == (
        "world.sigma_q = 6, agent = x, options.points = [1]"
    )
