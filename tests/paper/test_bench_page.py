"""docs/bench.md: every key, measure, test and figure is there, and its examples run."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from bench_cases import bench, made_up, results

from aegis.errors import InputError
from aegis.paper import (
    Bench,
    ResultStore,
    bench_page,
    collect_results,
    list_benches,
    load_bench,
    parse_bench,
    plan_bench,
    run_plans,
)
from aegis.paper.bench_claims import FAILS, HOLDS, TESTS, UNTESTED, JudgedClaim
from aegis.paper.bench_figures import FIGURES
from aegis.paper.bench_file import merge_settings
from aegis.paper.bench_page import PARTLY, judge_statements
from aegis.paper.bench_units import key_of
from aegis.paper.measure_table import MEASURES

PAGE = (Path(__file__).parents[2] / "docs" / "bench.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*MEASURES, *TESTS, *FIGURES, *sorted(set(Bench.model_fields) - {"name"})])
def test_every_name_is_on_the_page(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_the_file_on_the_page_is_a_bench() -> None:
    text = re.search(r"```yaml\n(.*?)```", PAGE, re.S)
    assert text is not None
    bench = parse_bench(text[1], "mine", "docs/bench.md")
    assert run_plans([plan_bench(bench, "quick", {"episodes": 3, "seeds": 1})], ResultStore(None)) == []


def test_the_program_on_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = re.search(r"```python\n(.*?)```", PAGE, re.S)
    assert text is not None
    exec(text[1], {})
    assert "thompson" in capsys.readouterr().out


DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def kept(tmp_path: Path) -> bench_page.Archive:
    bench_page.save_archive(tmp_path / "paper.json", [made_up("1a"), made_up("2a")], {"2a": ["2a-1"]})
    return bench_page.load_archive(tmp_path / "paper.json")


def test_an_archive_gives_the_same_rows(kept: bench_page.Archive) -> None:
    assert [results.rows() for results in kept.results] == [made_up("1a").rows(), made_up("2a").rows()]
    assert all("curve" not in run for results in kept.results for own in results.runs.values() for run in own.values())


def test_the_page_says_everything(kept: bench_page.Archive) -> None:
    text = bench_page.markdown_page(kept, "figures")
    for shown_results, judged in kept.judged():
        assert f"## {shown_results.bench.name}: {shown_results.bench.title}" in text
        for item in judged:
            assert f"| {item.says} | {item.of} | **{item.verdict}** |" in text
        for row in shown_results.rows():
            assert bench_page.format_mean(row["mean"], row["sd"]) in text
            if row["paper"] is not None:
                assert bench_page.format_mean(row["paper"]["mean"], row["paper"]["sd"]) in text
            assert row["value"] is None or f"{row['agent']}, {key_of(row['value'])}" in text
    assert "![Tempering the posterior, by backend](figures/2a-1.svg)" in text
    shown = bench_page.html_page(kept, {"2a-1": "<?xml?><svg><title>x</title></svg>"})
    assert "<svg><title>x</title></svg>" in shown and "<?xml" not in shown
    assert len(re.findall("<section", shown)) == 4


def test_the_head_says_by_what_claims_are_judged_and_leads_on(kept: bench_page.Archive) -> None:
    head = bench_page.markdown_page(kept, "figures").partition("## ")[0]
    shown = bench_page.html_page(kept, {}).partition("<section")[0]
    for page in (bench_page.ITEMS_PAGE, bench_page.PROBLEMS_PAGE):
        assert f"]({page})" in head and f'href="{page}"' in shown
        assert (DOCS / page).exists()
    assert "where it leaves one open, the bench says what was chosen" in head
    assert bench_page.JUDGED_BY in head and bench_page.JUDGED_BY in unescape(shown)


OURS = re.compile(r"(ours\b.*|certified|share|covered|gain_lower|value_lower|width)(@.*)?")  # arms and metrics


@pytest.mark.parametrize("name", list_benches())
def test_no_claim_of_the_paper_is_judged_by_what_is_ours(name: str) -> None:
    """What the head of the page promises; texts among the entries of a claim are names of arms and of metrics."""
    for claim in load_bench(name).claims:
        named = {item for item in claim.entries.values() if isinstance(item, str)}
        ours = sorted(item for item in named if OURS.fullmatch(item))
        assert claim.whose == "ours" or not ours, f"{claim.says}: judged by {', '.join(ours)}"


def test_what_is_far_from_the_paper_is_listed(kept: bench_page.Archive) -> None:
    listed = bench_page.differing_results(kept)
    far = [bench_page.distance_words(row) for results in kept.results for row in results.rows()]
    failed = [item for _, judged in kept.judged() for item in judged if item.of == "paper" and item.verdict != HOLDS]
    assert len(listed) == sum(gap is not None for gap in far) + len(failed) and len(failed) > 0
    text = bench_page.markdown_page(kept, "figures")
    assert all(f"| {row['bench']} | {row['what']} | {row['ours']} |" in text for row in listed)


def test_far_is_two_standard_deviations_or_a_tenth() -> None:
    def row(mean: float, sd: float | None, known: float, spread: float | None) -> dict[str, object]:
        return {"mean": mean, "sd": sd, "paper": {"mean": known, "sd": spread}}

    assert bench_page.distance_words(row(10.0, 3.0, 0.0, 4.0)) is None
    assert bench_page.distance_words(row(10.1, 3.0, 0.0, 4.0)) == "+2.0 sd"
    assert bench_page.distance_words(row(-10.1, 3.0, 0.0, 4.0)) == "-2.0 sd"
    assert bench_page.distance_words(row(110.0, 1.0, 100.0, None)) is None
    assert bench_page.distance_words(row(89.0, 1.0, 100.0, None)) == "-11 %"


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    bench_page.save_archive(tmp_path / "paper.json", [made_up("1a")], {}, ["2a", "3a"])
    assert "Not complete, and left out: 2a, 3a." in bench_page.markdown_page(
        bench_page.load_archive(tmp_path / "paper.json"), "figures"
    )


def test_every_table_is_said_only_of_a_page_with_every_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def head(left_out: list[str]) -> str:
        bench_page.save_archive(tmp_path / "paper.json", [made_up("1a"), made_up("2a")], {}, left_out)
        return bench_page.markdown_page(bench_page.load_archive(tmp_path / "paper.json"), "figures").partition("## ")[0]

    for left_out in ([], ["3a"]):  # named alone, or not complete
        assert "Every table" not in head(left_out)
        assert "Some tables and figures of the paper's evaluation, run by this package: `aegis bench run 1a 2a --pre" in head([])
    monkeypatch.setattr(bench_page, "list_benches", lambda: ["1a", "2a"])
    assert "Every table and figure of the paper's evaluation, run by this package: `aegis bench run all --preset" in head([])


def test_no_reason_is_known_only_of_claims_that_do_not_hold() -> None:
    apart, unknown = ["+3.0 sd", FAILS, UNTESTED, FAILS], [""] * 4
    assert bench_page._reasons(bench(), apart, unknown) == ["", "no reason is known", "", "no reason is known"]
    explained = bench().model_copy(update={"differs": "other noise"})
    assert bench_page._reasons(explained, apart, unknown) == ["other noise", "the same", "", "the same"]
    assert bench_page._reasons(explained, apart[2:], unknown[2:]) == ["", "other noise"]
    assert bench_page._reasons(explained, apart, ["", "few runs", "", ""]) == ["other noise", "few runs", "", "the same"]


def test_a_statement_that_holds_under_another_reading_is_not_called_false(tmp_path: Path) -> None:
    numbers = results({("low", None): [1.0, 2.0, 3.0], ("high", None): [11.0, 12.0, 13.5]})
    pair = {"test": "welch", "paper": "so", "statement": "one arm gains"}
    right = {**pair, "says": "high gains", "reading": "first", "with": {"above": "high", "below": "low"}}
    wrong = {**pair, "says": "low gains", "reading": "second", "with": {"above": "low", "below": "high"}}
    own = Bench.model_validate({**numbers.bench.model_dump(by_alias=True), "claims": [right, wrong]})
    bench_page.save_archive(tmp_path / "paper.json", [replace(numbers, bench=own)], {})
    archive = bench_page.load_archive(tmp_path / "paper.json")
    (row,) = [row for row in bench_page.differing_results(archive) if row["what"] == "claim: low gains"]
    assert row["apart"] == f"{FAILS}; holds under: first"
    assert bench_page.readings_rows(archive) == [("one arm gains", "first", HOLDS), ("", "second", FAILS)]
    assert "Of 1 statements of the paper 0 hold under every reading that is judged, 1 under some" in bench_page.claims_summary(
        archive
    )


def test_never_is_said_of_flips_alone() -> None:
    row = {"metric": "flip_inner", "mean": None, "sd": None, "never": 3, "runs": 3}
    assert bench_page.our_number(row) == "never"
    assert bench_page.our_number({**row, "metric": "bound_before_inner"}) == "-"
    some = {**row, "mean": 12.0, "never": 1}
    assert bench_page.our_number(some) == "12.0 (1 of 3 never)"
    assert bench_page.our_number({**some, "metric": "after_inner"}) == "12.0 (1 of 3 without)"


CHANGED = {
    "episodes": {"base": {"episodes": 7}},
    "legacy": {"base": {"legacy": "natural"}},
    "seeds": {"seeds": 99},
    "sweep": {"sweep": {"values": [0.1, 0.25, 0.5, 0.75, 0.9, 1.0]}},
}


def changed_bench(name: str, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object]) -> None:
    """Have one bench of the package read with changed settings."""
    whole = load_bench(name)
    changed = Bench.model_validate(merge_settings(whole.model_dump(by_alias=True), changes))
    monkeypatch.setattr(bench_page, "load_bench", lambda asked: changed if asked == name else load_bench(asked))


@pytest.mark.parametrize("what", CHANGED)
def test_an_archive_of_a_changed_bench_is_outdated(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, whole = tmp_path / "paper.json", made_up("2a")
    seeds = load_bench("2a").seeds
    runs = {unit: dict.fromkeys(range(seeds), own[0]) for unit, own in whole.runs.items()}
    bench_page.save_archive(path, [replace(whole, seeds=seeds, runs=runs, changes={})], {})
    monkeypatch.setattr(bench_page, "list_benches", lambda: ["2a"])
    assert bench_page.outdated_benches(path) == []
    changed_bench("2a", monkeypatch, CHANGED[what])
    (line,) = bench_page.outdated_benches(path)
    assert line.startswith("bench 2a: other ")


def test_an_archive_without_an_arm_or_a_metric_of_its_bench_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "paper.json"
    bench_page.save_archive(path, [made_up("2a")], {})
    for changes in ({"arms": {"another": {"agent": "nested_cts"}}}, {"metrics": ["reward", "another"]}):
        changed_bench("2a", monkeypatch, changes)
        with pytest.raises(InputError, match="another"):
            bench_page.load_archive(path)


def test_the_archive_that_is_kept_is_of_the_benches_as_they_are() -> None:
    assert bench_page.outdated_benches(DOCS / "paper.json") == []


def test_a_damaged_archive(tmp_path: Path) -> None:
    (tmp_path / "paper.json").write_text('{"preset": "full"}')
    with pytest.raises(InputError, match=r"paper\.json"):
        bench_page.load_archive(tmp_path / "paper.json")


def test_the_page_that_is_kept_is_what_its_numbers_say() -> None:
    kept = bench_page.load_archive(DOCS / "paper.json")
    assert (DOCS / "paper.md").read_text(encoding="utf-8") == bench_page.markdown_page(kept, "figures")
    for names in kept.figures.values():
        assert all((DOCS / "figures" / f"{name}.svg").exists() for name in names)
    assert json.loads((DOCS / "paper.json").read_text())["preset"] == "full"


def test_a_bench_of_ones_own_has_a_table() -> None:
    plan = plan_bench(bench(), "quick")
    store = ResultStore(None)
    for unit in plan.units:
        store.add(unit, {0: {"reward": 2.0}})
    assert "| linear | 2.00 | 1.00 ± 0.50 |  | 1 |" in bench_page.results_table(collect_results(plan, store))


@pytest.mark.parametrize(
    ("mean", "sd", "shown"),
    [(0.00973, 0.00011, "0.0097 ± 0.0001"), (0.0, None, "0.00"), (0.12, None, "0.12"), (-12.34, 1.0, "-12.3 ± 1.0")],
)
def test_small_numbers_keep_their_digits(mean: float, sd: float | None, shown: str) -> None:
    assert bench_page.format_mean(mean, sd) == shown


def claim(verdict: str, reading: str = "", statement: str = "a gains over b", of: str = "paper") -> JudgedClaim:
    return JudgedClaim(says="so", verdict=verdict, why="", paper="", of=of, statement=statement, reading=reading)


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        (HOLDS, HOLDS, HOLDS),
        (HOLDS, FAILS, PARTLY),
        (FAILS, FAILS, FAILS),
        (HOLDS, UNTESTED, HOLDS),
        (FAILS, UNTESTED, FAILS),
        (UNTESTED, UNTESTED, UNTESTED),
    ],
)
def test_a_statement_is_judged_over_all_readings_that_can_be_tested(first: str, second: str, verdict: str) -> None:
    for claims in ([claim(first, "raw"), claim(second, "standardised")], [claim(second, "raw"), claim(first, "standardised")]):
        (statement,) = judge_statements(claims).values()
        assert statement.verdict == verdict


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [([HOLDS, HOLDS], HOLDS), ([HOLDS, FAILS], FAILS), ([UNTESTED, FAILS], FAILS), ([HOLDS, UNTESTED], UNTESTED)],
)
def test_a_reading_holds_if_all_of_its_claims_do(verdicts: list[str], verdict: str) -> None:
    (statement,) = judge_statements([claim(own, "raw") for own in verdicts]).values()
    assert statement.readings == {"raw": verdict} and statement.verdict == verdict
    assert statement.holds_under() == (["raw"] if verdict == HOLDS else [])


def test_statements_are_told_apart_by_their_words_and_ours_do_not_count() -> None:
    statements = judge_statements([claim(HOLDS), claim(FAILS, statement="b gains over c"), claim(FAILS, of="ours")])
    assert {words: own.verdict for words, own in statements.items()} == {"a gains over b": HOLDS, "b gains over c": FAILS}


def test_every_reading_has_a_name_where_a_statement_has_several() -> None:
    claims = [own for name in list_benches() for own in load_bench(name).claims if own.whose == "paper"]
    by_words: dict[str, set[str]] = {}
    for own in claims:
        by_words.setdefault(own.statement or own.says, set()).add(own.reading)
    wrong = [words for words, readings in by_words.items() if len(readings) > 1 and "" in readings]
    assert not wrong, f"statements with a reading that has no name: {wrong}"


def test_only_claims_of_the_paper_have_statements_and_readings() -> None:
    for name in list_benches():
        for own in load_bench(name).claims:
            assert own.whose == "paper" or not (own.statement or own.reading), f"{name}: {own.says}"
