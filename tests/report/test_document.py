"""The certificate as a page reads it: decimals and names that every section shares."""

from __future__ import annotations

import dataclasses

from page_reader import section
from report_cases import KINDS, certified, several
from report_parts import level
from section_parts import LABEL, page_of, tile

from aegis.certificate import CERTIFIED, NOT_YET, REFUSED
from aegis.report.document import verdict_face


def test_every_estimate_is_labelled() -> None:
    for make in KINDS.values():
        page = page_of(make())
        for cell in page.all(lambda item: item.attributes.get("data-label") in ("Gain", "Value")):
            for note in cell.all(".small"):
                assert LABEL in note.text
        for picture in page.all("desc"):
            text = "".join(child for child in picture.children if isinstance(child, str))
            assert text.lower().count("estimate") == text.lower().count("estimate, not a certificate")


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


def test_verdicts_have_words_styles_and_shapes_of_their_own() -> None:
    faces = [verdict_face(verdict) for verdict in (CERTIFIED, NOT_YET, REFUSED)]
    assert [face.word for face in faces] == ["Certified", "Not yet", "Refused"]
    assert len({face.style for face in faces}) == len({face.icon for face in faces}) == 3


def test_other_words_look_neutral() -> None:
    assert (verdict_face("waiting").word, verdict_face("waiting").style) == ("Waiting", "neutral")
    assert verdict_face(None).word == "Unknown"
