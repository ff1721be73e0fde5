"""The section of overlap: what blocks is named, and the main scope comes first."""

from __future__ import annotations

import dataclasses

import pytest
from page_reader import drawn, edges, section
from report_cases import certified, not_yet, three_levels
from report_parts import weights
from section_parts import cells, page_of

from aegis.report.overlap import action_bars, range_strip, weight_histogram


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


def test_bars_of_weights_are_as_high_as_their_shares() -> None:
    picture = drawn(weight_histogram("x", "title", [(-2, 0.1), (0, 0.4), (3, 0.2)], 0.3))
    heights = [float(item.attributes["height"]) for item in picture.all(".weight")]
    assert heights == pytest.approx([heights[1] / 4, heights[1], heights[1] / 2], abs=0.02)
    assert float(picture.one(".weight-zero").attributes["height"]) == pytest.approx(heights[1] * 0.75, abs=0.02)
    lefts = [float(item.attributes["x"]) for item in picture.all(".weight")]
    assert float(picture.one(".weight-zero").attributes["x"]) < lefts[0] < lefts[1] < lefts[2]
    assert lefts[2] - lefts[1] == pytest.approx(1.5 * (lefts[1] - lefts[0]), abs=0.05)  # empty bins keep their room
    assert weight_histogram("x", "title", [], 0.0) and weight_histogram("x", "title", [], 1.0)
    assert "2^-20" in weight_histogram("x", "title", [(-20, 0.5), (39, 0.5)], 0.0)


@pytest.mark.parametrize("actions", [1, 2, 5, 41])
def test_action_bars_have_both_policies_and_readable_labels(actions: int) -> None:
    names = [f"setting {place}" for place in range(actions)]
    policy = [(place + 1) / (actions * (actions + 1) / 2) for place in range(actions)]
    picture = drawn(action_bars("x", "title", names, policy, [1 / actions] * actions))
    assert len(picture.all(".candidate")) == len(picture.all(".legacy")) == actions
    heights = [float(item.attributes["height"]) for item in picture.all(".candidate")]
    assert heights == pytest.approx([heights[-1] * share / policy[-1] for share in policy], abs=0.02)
    labels = [item for item in picture.all("text") if item.text.startswith("setting")]
    assert 1 <= len(labels) <= 4
    assert not drawn(action_bars("x", "title", names, policy, None)).all(".legacy")


def test_actions_on_a_grid_have_short_labels() -> None:
    picture = drawn(
        action_bars("x", "title", ["-0.3999999999999999", "1.2000000000000002", "a very long name"], [0.2, 0.3, 0.5], None)
    )
    labels = [item.text for item in picture.all("text")]
    assert "\u22120.4" in labels and "0000" not in " ".join(labels)


def test_a_range_shows_what_was_seen_in_it() -> None:
    picture = drawn(range_strip("x", "title", 0.0, 40.0, (10.0, 20.0), 15.0))
    whole, seen = edges(picture.one(".legacy")), edges(picture.one(".weight"))
    assert (seen[0] - whole[0], seen[1] - whole[0]) == pytest.approx(
        ((whole[1] - whole[0]) / 4, (whole[1] - whole[0]) / 2), abs=0.05
    )
    assert not drawn(range_strip("x", "title", 0.0, 40.0, (10.0, 20.0), None)).all(".estimate-mark")
