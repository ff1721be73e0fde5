"""What the sections say: the numbers of the certificate, rounded to the safe side, and no bound of what is refused."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from page_reader import Element, read, section
from report_cases import KINDS, certified, guarded, minimise, not_yet, refused, several, three_levels
from report_parts import level, path, stored_test, weights

from aegis.certificate import Certificate
from aegis.report import render_certificate

LABEL = "estimate, not a certificate"


def page_of(certificate: Certificate) -> Element:
    return read(render_certificate(certificate.to_json()))


def number(text: str) -> float:
    return float(text.replace("\u2212", "-").replace(" ", ""))


def tile(page: Element, name: str) -> Element:
    return next(item for item in page.all(".tile") if item.one("dt").text.startswith(name))


def exact(element: Element) -> float:
    return float(element.attributes["title"].removeprefix("exactly "))


def cells(page: Element, title: str, column: str) -> list[Element]:
    return section(page, title).all(lambda item: item.attributes.get("data-label") == column)


@pytest.mark.parametrize(
    ("make", "word", "style", "says"),
    [
        (certified, "Certified", "certified", "Yes: hand over dose"),
        (not_yet, "Not yet", "not-yet", "Keep the incumbent for now"),
        (refused, "Refused", "refused", "Do not hand over"),
    ],
)
def test_the_verdict_comes_first_with_what_to_do(make: Any, word: str, style: str, says: str) -> None:
    certificate = make()
    page = page_of(certificate)
    banner = page.one("main").children[1]
    assert isinstance(banner, Element)
    assert banner.attributes["class"] == f"banner {style}"
    assert banner.one(".verdict").text == word
    assert says in banner.one(".action").text
    assert banner.one(".sentence").text == certificate.verdict.sentence
    assert banner.one("svg").attributes["class"] == "icon"
    assert page.all("h2")[0].text == "What to do next"
    assert section(page, "What to do next").one("p").text == certificate.verdict.next_step
    assert word in page.one("head").one("title").children[0]


def test_verdicts_differ_in_shape_and_border_not_only_in_colour() -> None:
    pages = [page_of(make()) for make in (certified, not_yet, refused)]
    shapes = {json.dumps([item.attributes for item in page.one(".banner-icon").walk()]) for page in pages}
    assert len(shapes) == 3
    style = pages[0].one("style").text
    assert "dashed" in style and "double" in style


def test_the_five_numbers_are_those_of_the_certificate() -> None:
    certificate = certified()
    page = page_of(certificate)
    gain, estimate = tile(page, "Certified gain").one(".value"), tile(page, "Estimated gain").one(".value")
    legacy = tile(page, "Value of the log").one(".value")
    assert exact(gain) == certificate.verdict.gain_lower and gain.text == "at least +1.234 EUR"
    assert exact(estimate) == certificate.verdict.estimate and estimate.text == "+2.050 EUR"
    assert exact(legacy) == 11.406 and legacy.text == "11.406 EUR"
    assert tile(page, "Evidence").one(".value").text == "812 episodes"
    assert tile(page, "Risk").one(".value").text == "at most 5 %"
    assert "95 %" in tile(page, "Certified gain").text and "per decision at \u2018dose\u2019" in tile(page, "Certified gain").text
    assert "at most 1 of 20 analyses" in tile(page, "Risk").text
    assert LABEL in tile(page, "Estimated gain").text and LABEL in tile(page, "Value of the log").text


def test_not_yet_says_how_far_it_is() -> None:
    page = page_of(not_yet())
    assert tile(page, "Certified gain so far").one(".value").text == "at least \u22120.315 EUR"
    assert "needs more than 0.500" in tile(page, "Certified gain so far").text
    assert "about 1 340 more are needed" in tile(page, "Evidence").text
    assert cells(page, "Level by level", "Further evidence")[0].text == "about 1 340 episodes"
    assert "No ledger" in section(page, "For the auditor").text
    hopeless = dataclasses.replace(not_yet(), verdict=dataclasses.replace(not_yet().verdict, further_units=None))
    assert "would not do" in tile(page_of(hopeless), "Evidence").text


def test_no_bound_of_a_refused_certificate_is_shown() -> None:
    text = render_certificate(refused().to_json())
    for digits in ("7.77", "8.88", "0.66", "0.55", "9.99"):
        assert digits not in text
    page = read(text)
    assert tile(page, "Certified gain").one(".value").text == "none"
    assert {item.one("strong").text for item in cells(page, "Level by level", "Gain")} == {"none certified"}
    assert cells(page, "Gains in parts of the data", "Verdict")[0].text == "Refused"
    assert not page.all(".bound-line") and not section(page, "Level by level").one("tbody").all(".bound")
    assert "Nothing is drawn" in section(page, "How the evidence grew").text
    assert "hold together" not in text
    reasons = section(page, "Why").all("li")
    assert "taken with probability one" in reasons[0].text and "What would repair it: mix exploration" in reasons[0].text


def test_a_refused_scope_of_a_certified_certificate_shows_no_bound_either() -> None:
    bad = level(
        ("recipe",),
        "refused",
        gain_lower=7.77123,
        value_lower=8.88123,
        path=path(7.77123, 812),
        tests=(stored_test(0.55123, True),),
    )
    found = dataclasses.replace(certified(), levels=(certified().levels[1], bad))
    text = render_certificate(found.to_json())
    assert "7.77" not in text and "8.88" not in text and "0.55123" not in text
    assert "first repair what refuses" in text
    assert len(read(text).all(".bound-line")) == 1 + 1  # the path of the certified scope, and the legend


def test_every_estimate_is_labelled() -> None:
    for make in KINDS.values():
        page = page_of(make())
        for cell in page.all(lambda item: item.attributes.get("data-label") in ("Gain", "Value")):
            for note in cell.all(".small"):
                assert LABEL in note.text
        for picture in page.all("desc"):
            text = "".join(child for child in picture.children if isinstance(child, str))
            assert text.lower().count("estimate") == text.lower().count("estimate, not a certificate")


def test_rows_hold_the_numbers_of_their_scope_the_main_one_first() -> None:
    certificate = certified()
    page = page_of(certificate)
    rows = section(page, "Level by level").one("tbody").all("tr")
    scopes = [row.one("th").children[0] for row in rows]
    assert scopes == ["dose", "recipe", "recipe + dose"]
    assert "main-row" in rows[0].attributes["class"] and "class" not in rows[1].attributes
    for row, scope in zip(rows, (("dose",), ("recipe",), ("recipe", "dose")), strict=True):
        result = certificate.level(*scope)
        cell = row.all(lambda item: item.attributes.get("data-label") == "Gain")[0]
        assert exact(cell.one("strong")) == result.gain_lower
        shown = number(cell.one("strong").text.removeprefix("at least ").removeprefix("+"))
        assert result.gain_lower is not None and shown <= result.gain_lower < shown + 0.001
        assert f"+{result.estimate:.3f} \u00b1 {result.estimate_error:.3f}" in cell.text
    values = [cell.one("strong").text for cell in cells(page, "Level by level", "Value")]
    assert values == ["at least 11.907", "none certified", "at least 11.907"]
    assert [cell.text for cell in cells(page, "Level by level", "Further evidence")] == [
        "none",
        "about 1 340 episodes",
        "more of the same would not do",
    ]


def test_levels_are_named_outermost_first() -> None:
    found = certified()
    turned = tuple(dataclasses.replace(item, scope=item.scope[::-1]) for item in found.levels)
    page = page_of(dataclasses.replace(found, levels=turned))
    assert section(page, "Level by level").one("tbody").all("th")[2].children[0] == "recipe + dose"
    assert len(section(page_of(three_levels()), "Level by level").one("tbody").all("tr")) == 7


def test_guards_are_in_words_and_a_worsening_is_rounded_up() -> None:
    page = page_of(guarded())
    lines = [item.text for item in page.all(".guard")]
    assert lines[0] == "Certified scrap_rate gets worse by at most 0.00412; allowed: worse by 0.01"
    assert lines[1] == "Not yet energy gets worse by at most 3.22; allowed: worse by 2"
    assert lines[2] == "Certified noise gets better by at least 0.123; allowed: worse by 0.5"
    assert lines[3] == "Not yet smell has no bound yet; allowed: worse by 0.5"
    why = [item.text for item in section(page, "Why").all("li")]
    assert "a handover needs more than 0" in why[0]
    assert why[1].startswith("The guard \u2018energy\u2019 gets worse by at most 3.22") and "smell" in why[2]


def test_costs_are_at_most_and_rounded_up() -> None:
    page = page_of(minimise())
    assert cells(page, "Level by level", "Value")[0].one("strong").text == "at most 4 322.0"
    assert tile(page, "Certified gain").one(".value").text == "at least +123.4 kWh"
    assert "costs per episode" in tile(page, "Value of the log").text
    assert tile(page, "Evidence").one(".value").text == "812 clusters"
    assert "means less than under the policy it is compared with" in section(page, "Level by level").text


def test_a_path_ends_at_the_certified_bound() -> None:
    result = level(("dose",), path=path(0.9, 600))
    page = page_of(dataclasses.replace(certified(), levels=(result,)))
    described = section(page, "How the evidence grew").all("desc")[0].children[0]
    assert isinstance(described, str) and "After 812 episodes the gain is certified to be at least +1.234." in described
    assert "-" not in described and not page_of(dataclasses.replace(certified(), levels=(level(("dose",), path=()),))).all(
        ".bound-dot"
    )


def test_decimals_follow_the_result_that_the_verdict_speaks_of() -> None:
    other = level(("recipe",), "not yet", estimate=1234.5)
    page = page_of(dataclasses.replace(certified(), levels=(level(("dose",)), other)))
    assert tile(page, "Certified gain").one(".value").text == "at least +1.234 EUR"


def test_candidates_are_told_apart() -> None:
    page = page_of(several())
    assert page.one(".action").text == "Yes: hand over dose (capped)"
    rows = [row.text for row in section(page, "Level by level").one("tbody").all("th")]
    assert rows[0].startswith("dose capped") and rows[2] == "dose greedy"
    captions = [item.text for item in section(page, "How the evidence grew").all("figcaption")]
    assert captions[0] == "dose (capped) Certified" and len(captions) == 6


def test_weights_name_what_blocks_and_show_the_main_scope_first() -> None:
    page = page_of(three_levels())
    part = section(page, "How much of the log speaks for the candidate")
    assert part.one(".blocking").text == three_levels().blocking
    assert [item.text for item in part.all("figcaption")] == [
        "recipe + dose",
        "recipe on its own",
        "dose on its own",
        "plan on its own",
    ]
    assert "plan on its own" in part.one("details").text and "recipe on its own" not in part.one("details").text
    assert "43.2 %" in part.text and "11.2" in part.text and "8.7 %" in part.text
    assert "5.88 times as wide" in part.text
    zeros = [{**weights(["dose"], None), "zero_share": None, "histogram": [[None, 0.25], [0, 0.75]]}]
    again = section(
        page_of(dataclasses.replace(certified(), diagnostics={"weights": zeros})), "How much of the log speaks for the candidate"
    )
    assert again.all("desc")[0].children == ["weight 0: 25\u00a0%; from 1 to 2: 75\u00a0%"]


def test_differences_and_subgroups_are_shown() -> None:
    page = page_of(certified())
    part = section(page, "Where the candidate differs from its comparator")
    assert [item.text for item in part.all("h3")] == ["dose", "recipe"]  # the level handed over first
    assert "47.2 %" in part.text and "38.8 %" in part.text and "4 000" in part.text
    assert "temperature: above 82.5" in part.text
    assert part.all(".meter")[0].children[0].attributes == {"style": "width: 81.0%"}
    groups = cells(page, "Gains in parts of the data", "Gain over the comparator")
    assert [item.one("strong").text for item in groups] == ["at least +0.521", "at least \u22120.212", "at least \u22121.700"]
    worse = [("looks worse here" in item.text) for item in cells(page, "Gains in parts of the data", "Verdict")]
    assert worse == [False, False, True]
    assert [item.text for item in cells(page, "Gains in parts of the data", "Risk")] == ["1.25 %"] * 3
    assert not [item for item in page_of(not_yet()).all("h2") if item.text == "Gains in parts of the data"]


def test_assumptions_findings_and_looks_are_shown() -> None:
    page = page_of(certified())
    rests = section(page, "What the certificate rests on")
    for item in certified().assumptions:
        assert item.statement in rests.text and item.checked in rests.text
    found = section(page, "What was found in the log").all("article")
    assert [item.one("h3").text for item in found] == [
        "Warning poor-overlap at level \u2018recipe\u2019",
        "Note range-too-wide at column \u2018margin\u2019",
    ]
    assert "What to do: learn a candidate closer" in found[0].text and "share: 0.41; where: task 3" in found[0].text
    assert "1 other question was put to the same data before" in page.text
    assert "of all statements of the 2 requests registered on these data is at most" in page.text
    risk = {"asked": 0.1, "requests": 2, "sum": 0.1, "looks": True, "fixed_before": "minutes of 3 May <b>"}
    declared = dataclasses.replace(certified(), settings={**certified().settings, "risk": risk})
    caution = page_of(declared).all(".caution")
    assert [item.text for item in caution if item.text.startswith("Take care: 1 other question was put to the same data")]
    assert sum("minutes of 3 May <b>" in item.text for item in caution) == 2
    same = dataclasses.replace(certified(), looks={"number": 1, "earlier": [{"when": "today", "same": True}], "ledger": "x"})
    assert "Take care" not in render_certificate(same.to_json())


def test_the_auditor_finds_everything() -> None:
    certificate = certified()
    content = certificate.to_json()
    part = section(page_of(certificate), "For the auditor")
    text = part.text
    assert "aegis verify CERT LOG" in text
    for word in (
        content["seal"],
        "c0ffee" * 8,
        "files.log.parquet",
        "2.4.6",
        "first try",
        "looks/ab12.json",
        "water-filled",
        "0.00625",
    ):
        assert word in text
    assert json.loads(part.one("pre").text) == content["problem"]
    assert len(part.all("table")[1].one("tbody").all("tr")) == sum(len(item.tests) for item in certificate.levels)
    assert str(1.23456 / 40) in text
