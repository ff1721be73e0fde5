"""The page of a handover says what happened: verdict, control, trajectories, events, ledger, settings, what to do."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from handover_runs import challenger, published
from page_reader import Element, read, section

from aegis.errors import OutputError
from aegis.handover import Alarm, Frozen, GateLook, Handover, OperatorAction, Paused, UnitCounted, step
from aegis.ope import reward_measure
from aegis.report import (
    describe_event,
    render_handover,
    write_handover_report,
)
from aegis.report.charts.handover_charts import flips_of
from aegis.report.gate_standing import level_standings, look_trajectory

TRUTH = {"legacy": 0.225, "agent": 2.5, "oracle": 5.725}


@pytest.fixture(scope="module")
def page(run: Handover) -> Element:
    return read(render_handover(run, {"world": "additive", "legacy": "uniform"}, TRUTH))


def test_the_verdict_comes_first(page: Element, run: Handover) -> None:
    header = page.one("header")
    assert header.one(".verdict").text == "Handed over in part"
    since = run.state.deployed[0].since
    assert f"'inner' since episode {since}" in header.one(".sentence").text and "certified" in header.attributes["class"]
    tiles = {tile.one("dt").text: tile.text for tile in page.all(".tile")}
    assert list(tiles) == ["Handed over", "Reward before", "Reward now", "Risk", "Evidence"]
    assert "1 of 2 levels" in tiles["Handed over"] and "at most 5 %" in tiles["Risk"].replace("\u00a0", " ")
    assert "90 episodes" in tiles["Evidence"]
    measure = reward_measure(run.problem)
    before = np.mean([measure.value(value) for value in run.rewards[: since - 1]])
    assert f"{before:.3g}" in tiles["Reward before"]
    assert "meta" in section(page, "What to do next").text


def test_who_controls_each_level_since_when(page: Element, run: Handover) -> None:
    found = section(page, "Who controls each level")
    rows = {row.one("th").text: [cell.text for cell in row.all("td")] for row in found.all("tbody")[0].all("tr")}
    since = run.state.deployed[0].since
    assert list(rows) == ["meta", "inner"]
    assert rows["inner"][:2] == ["Agent", f"episode {since}"] and rows["inner"][2].startswith("at least +")
    assert rows["meta"][:3] == ["Legacy", "from the start", "-"] and "needs more than 0" in rows["meta"][3]
    assert "the legacy earns 0.225, the policies in control now 2.5, and the best possible controller 5.725" in found.text


def test_a_bound_is_rounded_down(run: Handover) -> None:
    measure = reward_measure(run.problem)
    flip = next(event for event in run.events if event.kind == "flip")
    words = describe_event(replace(flip, gain_lower=0.0299999 / measure.width), measure)  # type: ignore[type-var]
    assert words is not None and "at least +0.0299)" in words[1]


def test_pictures_have_lines_margins_and_flips(page: Element, run: Handover) -> None:
    flips = len(flips_of(run.events))
    for title, style in (("Reward", "bound-line"), ("Certified gain, level by level", "bound-line")):
        for picture in section(page, title).all("figure"):
            assert picture.all(f".{style}") and len(picture.all(".flip-line")) == flips
            assert picture.one("desc").children
    bounds = section(page, "Certified gain, level by level").all("figure")
    assert [figure.one("figcaption").text for figure in bounds] == [
        "Certified gain of the leading challenge at \u2018inner\u2019",
        "Certified gain of the leading challenge at \u2018meta\u2019",
    ]
    assert all(len(figure.all(".margin")) == 1 for figure in bounds)
    evidence = section(page, "Evidence of every challenge").all("figure")
    assert len(evidence[0].all(".won-line")) == 1 and not evidence[1].all(".won-line")


def test_events_and_ledger_are_those_of_the_run(page: Element, run: Handover) -> None:
    rows = section(page, "What happened").all("tbody")[0].all("tr")
    told = [event for event in run.events if not isinstance(event, UnitCounted | Frozen) and event.kind != "opened"]
    assert [row.all(".kind")[0].text for row in rows] == [event.kind for event in told]
    freezes = section(page, "Ledger of the risk").all("tbody")[0].all("tr")
    assert len(freezes) == run.state.freeze
    spent = [float(row.all("td")[3].text) for row in freezes]
    assert spent == sorted(spent) and run.state.spent <= spent[-1] < 0.05
    assert spent[-1] == pytest.approx(run.state.spent, rel=0.01)


def test_settings_are_all_there(page: Element, run: Handover) -> None:
    names = {item.text for item in section(page, "Settings").all("dt")}
    assert {name.replace("_", " ") for name in run.settings.plain()} <= names
    assert {"world", "legacy", "seed", "episodes"} <= names


def test_the_page_needs_nothing_else_and_is_the_same_again(run: Handover) -> None:
    text = render_handover(run)
    assert text == render_handover(run)
    assert not re.search(r"(src|href)=|@import|url\(", text)
    assert "This plant is simulated" not in text  # nobody said what is true
    assert text.startswith("<!DOCTYPE html>")


def test_names_of_the_users_are_escaped(run: Handover) -> None:
    text = render_handover(run, {"legacy": "<script>alert(1)</script>"})
    assert "<script>" not in text and "&lt;script&gt;" in text


def test_a_run_without_a_flip_says_not_yet() -> None:
    page = read(render_handover(challenger(30)))
    assert page.one(".verdict").text == "Not yet"
    assert "Nothing but episodes and freezes" in section(page, "What happened").text
    none = read(render_handover(challenger(5)))
    assert "No challengers were frozen" in section(none, "Ledger of the risk").text
    assert "no challenge has counted an episode yet" in section(none, "Certified gain, level by level").text


def test_what_waits_is_said() -> None:
    page = read(render_handover(challenger(60, mode="approve")))
    assert page.one(".verdict").text == "Waiting"
    assert "Approve the certified flip of \u2018inner\u2019" in section(page, "What to do next").text
    shadow = read(render_handover(challenger(60, mode="shadow")))
    assert "In shadow nothing changes hands" in section(shadow, "What to do next").text


def test_operators_pauses_and_alarms_are_told() -> None:
    run = challenger(60)
    run.say(Paused(0, "no data"))
    while not run.state.alarms and run.state.episode < 200:
        run._take(*step(run.state, UnitCounted(run.state.episode + 1, 0.0)))  # the worst of all rewards
    run.say(OperatorAction("revert", "Ada", "<b>it smells</b>", 0, "inner"))
    assert any(isinstance(event, Alarm) for event in run.events)
    page = read(render_handover(run))
    assert page.one(".verdict").text == "Paused"
    kinds = [item.text for item in section(page, "What happened").all(".kind")]
    assert kinds[-4:] == ["paused", "alarm", "operator", "reverted"]
    text = section(page, "What happened").text
    assert "Ada: revert at level 'inner', because <b>it smells</b>." in text and "no data" in text


def test_the_published_gate_is_not_a_certificate() -> None:
    run = published(60)
    text = render_handover(run, certificate=False)  # type: ignore[arg-type]
    page = read(text)
    assert page.one(".verdict").text == "Not a certificate"
    assert "refused" in page.one("header").attributes["class"]
    assert "Ledger of the risk" not in text and "Probability of any wrong handover" not in text
    drawn = section(page, "Estimated gain, level by level: not a certificate").text
    assert "which is not a certificate, at" in drawn and "the estimate is" in text and "a handover must reach" in drawn
    assert not re.search(r"\b(its|a|the|early) bounds?\b|must exceed|more than 0|computed", text, flags=re.I)
    (inner,) = [row for row in page.all("tr") if row.text.startswith("inner")]
    assert "estimate" in inner.text and "needs at least 0" in inner.text
    assert "Run the same plant with the gate" in section(page, "What to do next").text
    measure = reward_measure(run.problem)
    path = look_trajectory(run.looks, run.state.levels, measure)
    assert [item.bound for phase in path.bounds["inner"] for item in phase] == [
        measure.gain(look.gain) for look in run.looks if look.level == "inner" and look.gain is not None
    ]


def test_an_agent_without_a_gate_has_been_handed_nothing() -> None:
    run = published(40, progressive_handover=False)
    text = render_handover(run, certificate=False)  # type: ignore[arg-type]
    page = read(text)
    assert page.one("h1").text == "Not a certificate No gate: the agent acts from the start"
    assert section(page, "What happened").text.endswith("Nothing but episodes and freezes.")
    assert "there is no gate, and so no look" in section(page, "Estimated gain, level by level: not a certificate").text
    assert "There is no gate in this run" in section(page, "What the numbers mean").text
    assert not re.search(r"handed over|changes? hands after|difference of|since control changed", text, flags=re.I)
    (inner,) = [row for row in page.all("tr") if row.text.startswith("inner")]
    assert "from the start" in inner.text and "+0" not in inner.text
    before = next(item.text for item in page.all(".tile") if item.text.startswith("Reward before"))
    assert "not known" in before and "the legacy alone has had no episode" in before


@pytest.mark.parametrize(("explore", "who"), [(0.0, "the legacy alone"), (0.2, "the legacy with exploration")])
def test_the_reward_before_is_that_of_who_acted_then(explore: float, who: str) -> None:
    page = read(render_handover(challenger(20, explore=explore, first=8)))
    before = next(item.text for item in page.all(".tile") if item.text.startswith("Reward before"))
    assert f"under {who}; an average over this run" in before


def test_looks_after_a_flip_are_not_drawn_as_what_a_gate_decides_by() -> None:
    run = published(20, stride=10)
    look = GateLook(10, "inner", 0.1, 0.0, "", units=4)
    after = GateLook(20, "inner", 0.2, 0.0, "", units=4, decides=False)
    measure = reward_measure(run.problem)
    (phase,) = look_trajectory([look, after], run.state.levels, measure).bounds["inner"]
    assert [item.episode for item in phase] == [10]
    (standing,) = [item for item in level_standings(run.state, measure, [look]) if item.level == "inner"]
    assert standing.leading is not None
    assert standing.leading.units == 4  # of its buffer


def test_a_place_that_cannot_be_written(run: Handover, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match="cannot write"):
        write_handover_report(run, tmp_path / "file" / "page.html")
    assert write_handover_report(run, tmp_path / "page.html").read_text() == render_handover(run)
