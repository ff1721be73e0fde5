"""What the sections say: the numbers of the certificate, rounded to the safe side, and no bound of what is refused."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from page_reader import Element, read, section
from report_cases import certified, not_yet, refused
from section_parts import LABEL, cells, exact, page_of, tile

from aegis.report import render_certificate


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
