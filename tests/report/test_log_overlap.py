"""The section of overlap: what blocks is named, and the main scope comes first."""

from __future__ import annotations

import dataclasses

from page_reader import section
from report_cases import certified, not_yet, three_levels
from report_parts import weights
from section_parts import cells, page_of


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
