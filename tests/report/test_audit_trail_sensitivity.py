"""How wrong the logged probabilities may be, on the page: one sentence for each certified scope, and nothing for the others."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from page_reader import Element, read, section
from report_cases import certified, not_yet, refused
from report_parts import level

from aegis.certificate import Certificate
from aegis.certificate.certificate import Sensitivity
from aegis.files import json_digest
from aegis.report import render_certificate

TITLE = "How wrong may the logged probabilities be?"
TRIED = (1.02, 1.05, 1.1, 1.2, 1.3, 1.5, 2.0, 3.0, 5.0, 10.0)


def with_sensitivity(gamma: float | None, reason: str = "", make: Any = certified) -> Certificate:
    certificate = make()
    found = Sensitivity(gamma, reason, TRIED, "water-filled + plain", 812)
    return dataclasses.replace(
        certificate, levels=tuple(dataclasses.replace(item, sensitivity=found) for item in certificate.levels)
    )


def lines(certificate: Certificate) -> list[Element]:
    return section(read(render_certificate(certificate.to_json())), TITLE).all("li")


def titles(text: str) -> list[str]:
    return [item.text for item in read(text).all("h2")]


@pytest.mark.parametrize(
    ("gamma", "words"),
    [
        (1.2, "wrong by a factor of up to 1.2; a logged 20 % may then in truth have been anything from 16.7 % to 24 %."),
        (1.1, "up to 1.1; a logged 20 % may then in truth have been anything from 18.2 % to 22 %."),
        (10.0, "up to 10; a logged 20 % may then in truth have been anything from 2 % to 100 %."),
    ],
)
def test_a_certified_scope_says_what_it_survives(gamma: float, words: str) -> None:
    (line,) = lines(with_sensitivity(gamma))  # the other scopes are not certified
    text = line.text.replace("\u00a0", " ")
    assert text.startswith("dose: it stays certified even if every logged probability is") and words in text
    assert "on 812 episodes, by these tests: water-filled + plain" in text and "class" not in line.attributes


def test_the_example_is_rounded_to_the_side_that_promises_less() -> None:
    assert "from 15.4 % to 26 %" in lines(with_sensitivity(1.3))[0].text  # 15.38... and 26
    assert "from 19.7 % to 20.4 %" in lines(with_sensitivity(1.02))[0].text  # 19.60..., not 19.6


def test_what_survives_nothing_says_so() -> None:
    (line,) = lines(with_sensitivity(1.0, "the plain test was used"))
    assert "relies on the logged probabilities being right" in line.text and "factor of 1.02" in line.text
    assert "the plain test was used" in line.text and line.attributes["class"] == "caution"
    (line,) = lines(with_sensitivity(None, "clusters may go on"))
    assert "could not be found out; clusters may go on." in line.text


def test_every_certified_scope_has_a_line_the_main_one_first() -> None:
    several = with_sensitivity(1.5)
    more = level(("recipe",), sensitivity=Sensitivity(1.1, "", TRIED, "plain", 812))
    found = lines(dataclasses.replace(several, levels=(more, *several.levels[1:])))
    assert [item.text.split(":")[0] for item in found] == ["dose", "recipe"]


def test_nothing_is_said_where_nothing_is_certified() -> None:
    for make in (not_yet, refused):
        assert TITLE not in titles(render_certificate(with_sensitivity(1.5, make=make).to_json()))
    assert TITLE not in titles(render_certificate(certified().to_json()))  # of which it was not asked


def test_certificates_that_do_not_have_it_have_a_page() -> None:
    content = json.loads(json.dumps(with_sensitivity(1.5).to_json()))
    for item in content["levels"]:
        del item["sensitivity"]
    content["seal"] = json_digest({key: value for key, value in content.items() if key != "seal"})
    assert TITLE not in titles(render_certificate(content))
