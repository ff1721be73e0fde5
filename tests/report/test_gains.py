"""The section of gains: numbers of the certificate, rounded to the safe side, and no bound of what is refused."""

from __future__ import annotations

import dataclasses

from page_reader import read, section
from report_cases import certified, guarded, minimise, three_levels
from report_parts import level, path, stored_test
from section_parts import cells, exact, page_of, tile

from aegis.report import render_certificate


def number(text: str) -> float:
    return float(text.replace("\u2212", "-").replace(" ", ""))


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
