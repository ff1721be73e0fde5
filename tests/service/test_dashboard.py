"""The dashboard in a real browser beside a real gate: what it shows, what operators can do, and whether it is connected."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from browser import Running, opened_browser, running_gate
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.handover import Alarm, Paused, Postponed, event_to_plain
from aegis.service.auth import make_token
from aegis.service.episode_counter import EpisodeCounter
from aegis.service.live_state import EVENT
from aegis.service.routes import monitoring
from aegis.service.schemas import Ask
from aegis.service.status import GateStatus
from aegis.service.store.journal import JournalEntry

WAITS = 15_000.0  # milliseconds that a page has to show something
LEVEL = "article[data-level={}]"
CONTRAST = """
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parsed = (text) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.slice(0, 3).map((x) => (x /= 255) <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const found = parsed(getComputedStyle(at).backgroundColor);
      if (found[3] > 250) return found;
    }
    return parsed("Canvas");
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    if (element.closest(".unseen, noscript, script, title, desc, meter")) continue;
    const style = getComputedStyle(element);
    const [one, two] = [light(parsed(element.closest("svg") ? style.fill : style.color)), light(behind(element))];
    const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    if (ratio < 4.5) poor.push(`${ratio.toFixed(2)} ${element.className} ${walker.currentNode.data.trim()}`);
  }
  return poor;
}
"""


@dataclass
class Looker:
    """Opens pages, and remembers what they asked for and complained about."""

    browser: Any
    contexts: list[Any] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def open(self, url: str, width: int = 1280, scheme: str = "light") -> Any:
        """Return a page on which the address is open."""
        context = self.browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        context.set_default_timeout(WAITS)
        self.contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("console", lambda said: self.complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.goto(url)
        return page

    def live(self, url: str, **look: Any) -> Any:
        """Return a page that shows a gate."""
        page = self.open(url, **look)
        page.wait_for_selector("#connection.connected")
        return page

    def outside(self) -> list[str]:
        """Return what pages asked for that is not on this machine."""
        return [url for url in self.asked if not re.match(r"(http://127\.0\.0\.1:\d+/|data:|blob:)", url)]

    def close(self) -> None:
        """Close all pages."""
        for context in self.contexts:
            context.close()


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    """Let streams look more often than once in a second."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(monitoring, "PULSE", 0.05)
        patched.setattr("aegis.service.read_models.PULSE", 0.05)
        yield


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened_browser() as found:
        yield found


@pytest.fixture
def looker(browser: Any) -> Iterator[Looker]:
    found = Looker(browser)
    yield found
    found.close()
    assert not found.outside(), "a page asked somebody outside of this machine"


@pytest.fixture(scope="module")
def waiting_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the store of a gate at which 'inner' waits for an operator."""
    folder = tmp_path_factory.mktemp("waiting")
    with running_gate(folder) as gate:
        gate.run_until(lambda said: said["levels"][1]["waiting"] is not None)
    return folder / "gate.sqlite"


@pytest.fixture
def waiting(waiting_store: Path, tmp_path: Path, looker: Looker) -> Iterator[Running]:
    """Serve such a gate. Pages are closed before it stops."""
    shutil.copy(waiting_store, tmp_path / "gate.sqlite")
    with running_gate(tmp_path) as gate:
        yield gate
        looker.close()


def hand_over(gate: Running) -> None:
    gate.say("approve", "inner", why="it looks right")
    gate.run(10)


@dataclass
class Seen:
    """A gate with a page that shows it; tests that share it change neither."""

    gate: Running
    page: Any
    looker: Looker


def seen(store: Path, folder: Path, browser: Any, prepare: Callable[[Running], None]) -> Iterator[Seen]:
    shutil.copy(store, folder / "gate.sqlite")
    looker = Looker(browser)
    with running_gate(folder) as gate:
        prepare(gate)
        yield Seen(gate, looker.live(gate.url), looker)
        looker.close()
    assert not looker.outside() and not looker.complaints


@pytest.fixture(scope="module")
def shown_waiting(waiting_store: Path, tmp_path_factory: pytest.TempPathFactory, browser: Any) -> Iterator[Seen]:
    """Show a gate at which 'inner' waits for an operator."""
    yield from seen(waiting_store, tmp_path_factory.mktemp("shown"), browser, lambda _: None)


@pytest.fixture(scope="module")
def shown_over(waiting_store: Path, tmp_path_factory: pytest.TempPathFactory, browser: Any) -> Iterator[Seen]:
    """Show a gate at which 'inner' was handed over, some episodes ago."""
    yield from seen(waiting_store, tmp_path_factory.mktemp("shown"), browser, hand_over)


def text(page: Any, where: str) -> str:
    return re.sub(r"\s+", " ", str(page.inner_text(where)))


def sees(page: Any, where: str, words: str) -> None:
    """Wait until a place of a page says something."""
    page.wait_for_function("([where, words]) => document.querySelector(where)?.innerText.includes(words)", arg=[where, words])


# ---- what it shows -----------------------------------------------------------------------------------------------------------


def test_levels_outermost_first_with_who_is_in_control_why_and_what_happens_next(shown_over: Seen) -> None:
    page = shown_over.page
    assert page.locator("article h3").all_inner_texts() == ["meta outermost level", "inner innermost level"]
    assert text(page, ".verdict") == "The agent controls ‘inner’; the legacy controls ‘meta’."
    meta, inner = text(page, LEVEL.format("meta")), text(page, LEVEL.format("inner"))
    assert "The legacy is in control" in meta and "never changed hands" in meta
    gate = shown_over.gate.gate()
    level = gate["levels"][1]
    assert "The agent is in control" in inner and f"Episode {level['since']}" in inner
    assert "Approved by Ada: “it looks right”" in inner and level["next"] in inner
    over = "the policy that wrote the log, exploration included"
    gain = float(re.findall(rf"it gains at least \+([0-9.]+) over {over}", inner)[0])
    assert 0.999 * level["gain_lower"] <= gain <= level["gain_lower"] and "5 % of its decisions" in inner
    assert page.locator("#bound-1-title").count() == 1 and "threshold 0" in text(page, LEVEL.format("meta"))
    assert "Ask first" in text(page, "#tiles") and "at most 0.05" in text(page, "#tiles")
    for who, item in gate["earned"].items():
        assert f"{who}: mean {item['mean']:.4g}".replace("-", "\u2212") in text(page, "#rewards")
    assert "alarm at 100" in text(page, "#monitor")
    assert f"{gate['ledger']['freezes']} freezes" in text(page, "#ledger") and "meta: W = 2, W = 3" in text(page, "#ledger")
    events = page.locator("#events li").all_inner_texts()
    assert "Handover" in events[0] and "Ada approved the change of hands (‘inner’): “it looks right”" in events[1]


def test_the_pill_says_whether_it_is_connected_and_nothing_about_the_mode(shown_waiting: Seen) -> None:
    page = shown_waiting.page
    assert text(page, "#connection") == "Connected"
    assert "Ask first" in text(page, "#tiles")
    assert "live" not in text(page, ".who").lower()


def test_every_challenger_has_its_evidence_and_the_one_that_waits_comes_first(shown_waiting: Seen) -> None:
    page, levels = shown_waiting.page, shown_waiting.gate.gate()["levels"]
    level = levels[1]
    rows = page.locator(f"{LEVEL.format('inner')} tbody tr")
    assert rows.count() == len(level["challengers"])
    first = re.sub(r"\s+", " ", rows.first.inner_text())
    found = next(item for item in level["challengers"] if item["challenge"] == level["waiting"]["challenge"])
    assert first.startswith(f"{found['challenge']} waits W = {found['cap']:g} {found['units']} +") and "certified" in first
    others = page.locator(f"{LEVEL.format('meta')} tbody tr").all_text_contents()
    shares = {item["challenge"]: item["evidence"] for item in levels[0]["challengers"]}
    for row in others:
        name = next(name for name in shares if row.startswith(name))
        share = shares[name]
        assert ("none yet" if share is None else "speaks against" if share < 0 else f"{int(share * 100)} %") in row


def test_it_follows_the_gate_without_being_loaded_again(waiting: Running, looker: Looker) -> None:
    page = looker.live(waiting.url)
    page.evaluate("window.mark = 1")
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    waiting.say("approve", "inner")
    sees(page, LEVEL.format("inner"), "The agent is in control")
    sees(page, "#quiet", "The agent controls ‘inner’; the legacy controls ‘meta’.")
    assert page.locator("button[data-action=approve]").count() == 0
    waiting.say("revert", "inner", why="too early")
    sees(page, LEVEL.format("inner"), "Ada gave it back: “too early”")
    assert page.evaluate("window.mark") == 1


def test_focus_and_open_details_survive_what_comes_in(waiting: Running, looker: Looker) -> None:
    page, counted = looker.live(waiting.url), waiting.gate()["episodes"]["counted"]
    page.locator("#levels summary").last.focus()
    page.keyboard.press("Enter")
    waiting.run(3)
    sees(page, "#tiles", f"{counted + 3}\n")
    assert page.evaluate("document.activeElement.textContent").endswith("more at ‘inner’")
    assert page.locator("#levels details").last.evaluate("found => found.open")


def test_what_people_wrote_is_text_and_nothing_else(waiting: Running, looker: Looker) -> None:
    evil = "<img id=evil src=x onerror=alert(1)><script>alert(2)</script>"
    page = looker.live(waiting.url)
    waiting.say("pause", who=evil, why=evil)
    sees(page, "#events", evil)
    sees(page, "#banner", evil)
    assert page.locator("#evil").count() == 0 and not looker.complaints


# ---- operators ---------------------------------------------------------------------------------------------------------------


def test_an_operator_approves_with_the_keyboard_alone_and_says_why(waiting: Running, looker: Looker) -> None:
    page = looker.live(waiting.url)
    level = waiting.gate()["levels"][1]
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.action") == "approve":
            break
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    assert level["waiting"]["challenge"] in text(page, "#ask-says") and "From the next episode on" in text(page, "#ask-says")
    others = waiting.gate()["levels"][0]["waiting"] is not None
    assert ("has to be certified again" in text(page, "#ask-says")) is others
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert "Say why" in text(page, "#ask-error")
    assert page.evaluate("document.activeElement.id") == "ask-why" and waiting.gate()["levels"][1]["control"] == "legacy"
    page.keyboard.type("the shift agrees")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog:not([open])", state="attached")
    sees(page, LEVEL.format("inner"), "The agent is in control")
    said = next(item for item in waiting.gate()["events"] if item["kind"] == "operator")
    assert (said["action"], said["why"], said["level"]) == ("approve", "the shift agrees", "inner")
    assert page.evaluate("document.activeElement.id") == "levels-title", "the button is gone: focus is nearby, not lost"
    assert not looker.complaints


@pytest.mark.parametrize(
    ("action", "shown", "then"),
    [("pause", "#banner", "Paused."), ("shadow", "#tiles", "Shadow"), ("live", "#tiles", "Live")],
)
def test_what_concerns_the_whole_gate(action: str, shown: str, then: str, waiting: Running, looker: Looker) -> None:
    page = looker.live(waiting.url)
    page.click(f"button[data-action={action}]")
    page.fill("#ask-why", "a reason")
    page.click("dialog button[type=submit]")
    sees(page, shown, then)
    if action == "pause":
        assert page.locator("button[data-action=approve]").count() == 0
        page.click("button[data-action=resume]")
        assert "All open challenges are given up" in text(page, "#ask-says")
        page.fill("#ask-why", "it is fine")
        page.click("dialog button[type=submit]")
        page.wait_for_selector("button[data-action=pause]")
        assert waiting.gate()["paused"] is None
    else:
        assert waiting.gate()["mode"] == action


def test_a_level_is_given_back(waiting: Running, looker: Looker) -> None:
    hand_over(waiting)
    page = looker.live(waiting.url)
    page.click("button[data-action=revert]")
    assert "The legacy decides at level ‘inner’ again, at once" in text(page, "#ask-says")
    page.fill("#ask-why", "strange noises")
    page.click("dialog button[type=submit]")
    sees(page, ".verdict", "The legacy controls every level.")
    assert waiting.gate()["levels"][1]["control"] == "legacy"


def test_the_dialog_keeps_the_focus_and_gives_it_back(waiting: Running, looker: Looker) -> None:
    page = looker.live(waiting.url)
    page.locator("button[data-action=pause]").focus()
    page.keyboard.press("Enter")
    inside = set()
    for _ in range(8):
        inside.add(page.evaluate("document.activeElement === document.body || !!document.activeElement.closest('dialog')"))
        page.keyboard.press("Tab")
    assert inside == {True}
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.dataset.action") == "pause"
    assert waiting.gate()["paused"] is None


def test_the_dialog_follows_the_gate_and_shows_what_was_refused(waiting: Running, looker: Looker) -> None:
    page = looker.live(waiting.url)
    page.route("**/v1/operator", lambda route: route.fulfill(status=409, json={"detail": "no <b>certified</b> flip waits"}))
    page.click("button[data-action=approve]")
    page.fill("#ask-why", "a reason")
    page.click("dialog button[type=submit]")
    sees(page, "#ask-error", "Not done (409): no <b>certified</b> flip waits")
    page.unroute("**/v1/operator")
    waiting.say("pause")
    sees(page, "#ask-error", "not possible any more")
    assert page.locator("dialog button[type=submit]").is_disabled()


def test_what_was_sent_and_not_answered_is_not_done_twice(waiting: Running, looker: Looker) -> None:
    page = looker.live(waiting.url)
    page.click("button[data-action=pause]")
    page.fill("#ask-why", "a reason")
    keys: list[str] = []

    def swallow(route: Any) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) == 1:
            route.fetch()  # it arrives, but the answer is lost
            route.abort()
        else:
            route.continue_()

    page.route("**/v1/operator", swallow)
    page.click("dialog button[type=submit]")
    sees(page, "#ask-error", "not known whether")
    page.click("dialog button[type=submit]")
    page.wait_for_selector("dialog:not([open])", state="attached")
    assert len(keys) == 2 and keys[0] == keys[1]
    assert sum(item["kind"] == "operator" for item in waiting.gate()["events"]) == 1


# ---- the way in --------------------------------------------------------------------------------------------------------------


def test_tokens_let_viewers_look_and_operators_act(waiting_store: Path, tmp_path: Path, looker: Looker) -> None:
    shutil.copy(waiting_store, tmp_path / "gate.sqlite")
    secrets: dict[str, str] = {}

    def tokens(service: Any) -> None:
        for role in ("viewer", "operator"):
            secrets[role] = make_token(service.live.database, f"Eve the {role}", role)

    with running_gate(tmp_path, tokens) as gate:
        page = looker.open(gate.url)
        assert page.title() == "Enter – AEGIS" and page.evaluate("document.activeElement.id") == "token"
        page.keyboard.type("aegis_wrong")
        page.keyboard.press("Enter")
        sees(page, "#wrong", "not known, or was revoked")
        page.fill("#token", secrets["viewer"])
        page.click("button")
        page.wait_for_selector("#connection.connected")
        assert "You look as viewer" in text(page, "header")
        assert page.locator("button[data-action], dialog, #operator").count() == 0
        page.click("text=Leave")
        page.fill("#token", secrets["operator"])
        page.click("button")
        page.wait_for_selector("#connection.connected")
        page.click("button[data-action=pause]")
        page.fill("#ask-why", "a look")
        page.click("dialog button[type=submit]")
        sees(page, "#events", "Eve the operator paused the gate: “a look”")
        page.context.clear_cookies()
        page.click("button[data-action=resume]")
        page.fill("#ask-why", "over")
        page.click("dialog button[type=submit]")
        sees(page, "#ask-error", "Your session has ended")
        looker.close()


# ---- when it is not connected, and when something is wrong -------------------------------------------------------------------


def test_it_says_loudly_that_it_is_not_connected_and_comes_back(waiting: Running, looker: Looker, tmp_path: Path) -> None:
    page = looker.live(waiting.url)
    waiting.stop()
    sees(page, "#stale", "NOT CONNECTED: CONNECTION LOST.")
    sees(page, "#stale", "It may be wrong now.")
    sees(page, "#connection", "Not connected")
    assert page.title().startswith("NOT CONNECTED")
    assert page.locator("button[data-action=approve]").is_disabled(), "nobody approves what the page cannot show"
    assert page.locator("button[data-action=pause]").is_enabled(), "to stop something is always possible"
    sees(page, "#loud", "Not connected: connection lost.")
    with running_gate(tmp_path, port=int(waiting.url.rsplit(":", 1)[1])) as again:
        page.wait_for_selector("#connection.connected")
        assert not page.locator("#stale").is_visible() and page.locator("button[data-action=approve]").is_enabled()
        again.say("pause")
        sees(page, "#banner", "Paused.")
        looker.close()


def test_a_stream_that_breaks_is_not_connected_even_if_the_gate_answers(
    waiting: Running, looker: Looker, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = looker.live(waiting.url)

    def broken(_: Any) -> dict[str, Any]:
        raise RuntimeError("nothing to show")

    monkeypatch.setattr(GateStatus, "picture", broken)
    waiting.run(1)
    sees(page, "#stale", "NOT CONNECTED: CONNECTION LOST.")
    page.wait_for_timeout(200)
    assert text(page, "#connection") == "Not connected"


def test_a_process_that_stands_by_says_so(waiting: Running, looker: Looker, tmp_path: Path) -> None:
    with running_gate(tmp_path, standby=True) as second:
        page = looker.open(second.url)
        sees(page, "#stale", "NOT CONNECTED: THIS PROCESS STANDS BY.")
        assert not page.locator("#content").is_visible()
        page.close()


def test_that_nothing_is_counted_is_shown(waiting: Running, looker: Looker, monkeypatch: pytest.MonkeyPatch) -> None:
    page = looker.live(waiting.url)

    def broken(_: EpisodeCounter) -> bool:
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(EpisodeCounter, "once", broken)
    sees(page, "#banner", "Nothing is counted now. RuntimeError: the disk is full.")
    monkeypatch.undo()


def test_which_episode_holds_up_the_others_is_said(waiting: Running, looker: Looker) -> None:
    page = looker.live(waiting.url)
    live = waiting.service.live
    live.open_episode("open slow", "batch-12")
    live.decide("meta slow", "batch-12", Ask(level="meta", id="m", context={"T": 0.1}, legacy={"distribution": [0.2, 0.5, 0.3]}))
    for place in range(3):
        asked = Ask(level="inner", id=f"i{place}", parent="m", context={"Q": 0.3}, legacy={"distribution": [0.2] * 5})
        live.decide(f"inner slow {place}", "batch-12", asked)
    waiting.plant.run(1, count=False)
    page.wait_for_selector("#banner .notice >> text=1 episode waits behind it")
    said = page.inner_text("#banner .notice[data-key='Held up']")
    assert re.search(
        r"Counting waits for episode .batch-12., open since .*, 3 rewards missing; 1 episode waits behind it\.", said
    )
    assert "1 still open, 1 complete and not counted yet" in page.inner_text("#tiles")
    waiting.plant.run(1, count=False)
    page.wait_for_selector("#banner .notice >> text=2 episodes wait behind it")
    live.close("close slow", "batch-12", abandoned=True)
    page.wait_for_selector("#banner .notice[data-key='Held up']", state="detached")
    assert not looker.complaints


def test_an_alarm_stays_until_an_operator_answers_it(waiting: Running, looker: Looker) -> None:
    hand_over(waiting)
    page = looker.live(waiting.url)
    episode = waiting.gate()["episodes"]["counted"]
    with waiting.service.live.changed:
        waiting.service.live._write([JournalEntry(EVENT, {"event": event_to_plain(Alarm(episode, 120.0, 0.25))})])
    sees(page, "#loud", "Alarm: the reward has fallen below what was certified.")
    sees(page, "#banner", f"Found after episode {episode}")
    assert "ALARM" in page.title()
    waiting.say("pause", why="a look")
    sees(page, "#banner", "Paused. By Ada: a look.")
    assert "Alarm." in text(page, "#banner")
    waiting.say("resume", why="a sensor was dirty")
    page.wait_for_function("() => !document.querySelector('#banner').innerText.includes('Alarm.')")
    assert "1" in text(page, "#tiles .tile:last-child") and "Alarm" in text(page, "#events")


def test_what_the_audit_refused_is_said_with_what_to_do_until_levels_are_given_back(waiting: Running, looker: Looker) -> None:
    hand_over(waiting)
    page = looker.live(waiting.url)
    sees(page, "#tiles", "at most 0.05")
    episode = waiting.gate()["episodes"]["counted"]
    stop = Paused(episode, "the audit refuses what it counts: rewards carry over", "carry-over", "inner", "declare it")
    delay = Postponed(episode, "rewards may carry over", "carry-over", "inner")
    with waiting.service.live.changed:
        waiting.service.live._write([JournalEntry(EVENT, {"event": event_to_plain(delay)})])
    sees(page, "#banner", "Put off. There is some evidence against what is counted, too little to pause. Rewards may carry over")
    with waiting.service.live.changed:
        waiting.service.live._write([JournalEntry(EVENT, {"event": event_to_plain(stop)})])
    sees(page, "#banner", "Paused. The audit refuses what it counts: rewards carry over. What to do: declare it.")
    sees(page, "#banner", "Nothing is promised about \u2018inner\u2019")
    assert "not bounded" in text(page, "#tiles") and "at most 0.05" not in text(page, "#tiles")
    assert "Promised: with probability" not in text(page, "body") and "Nothing is promised about what was handed over" in text(
        page, "body"
    )
    waiting.say("resume", why="it is declared now")
    page.wait_for_function("() => !document.querySelector('#banner').innerText.includes('Paused.')")
    assert "In doubt." in text(page, "#banner")
    waiting.say("revert", "inner", why="to be sure")
    page.wait_for_function("() => !document.querySelector('#banner').innerText.includes('In doubt.')")
    assert not looker.complaints


# ---- for everybody -----------------------------------------------------------------------------------------------------------


def all_open(page: Any) -> None:
    page.evaluate("document.querySelectorAll('details').forEach((found) => (found.open = true))")


def brightness(page: Any) -> float:
    from PIL import Image

    picture = Image.open(io.BytesIO(page.screenshot())).convert("L")
    return float(sum(place * number for place, number in enumerate(picture.histogram())) / (picture.width * picture.height))


def test_text_can_be_read_in_light_and_dark(shown_over: Seen) -> None:
    page, bright = shown_over.page, {}
    all_open(page)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(CONTRAST) == []
        bright[scheme] = brightness(page)
        page.click("button[data-action=revert]")
        page.click("dialog button[type=submit]")
        assert page.evaluate(CONTRAST) == []
        page.keyboard.press("Escape")
    page.emulate_media(color_scheme="light")
    assert bright["light"] > 200 and bright["dark"] < 60


@pytest.mark.parametrize("state", ["shown_waiting", "shown_over"])
def test_nothing_sticks_out_on_a_phone(state: str, request: pytest.FixtureRequest) -> None:
    page = request.getfixturevalue(state).page
    all_open(page)
    page.set_viewport_size({"width": 360, "height": 740})
    page.wait_for_function("() => document.querySelector('.chart').viewBox.baseVal.width < 360")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    out = """[...document.querySelectorAll("main *:not(.unseen, thead, thead *)")]
        .filter((found) => found.getBoundingClientRect().right > 360).map((found) => found.outerHTML)"""
    assert page.evaluate(out) == []
    page.click("button[data-action=pause]")
    box = page.locator("dialog").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 360
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 1280, "height": 800})


def test_the_page_is_made_for_screen_readers_too(shown_over: Seen) -> None:
    page = shown_over.page
    assert page.locator("main, header, footer").count() == 3 and page.locator("h1").count() == 1
    visible = "[...document.querySelectorAll('h1,h2,h3,h4')].filter((one) => one.checkVisibility())"
    headings = page.evaluate(f"{visible}.map((one) => +one.tagName[1])")
    assert headings[0] == 1 and all(after <= before + 1 for before, after in pairwise(headings))
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids))
    named = "[...document.querySelectorAll('[aria-labelledby]')].flatMap((one) => one.getAttribute('aria-labelledby').split(' '))"
    assert set(page.evaluate(named)) <= set(ids)
    buttons = page.get_by_role("button").all()
    assert len(buttons) >= 4 and all(button.inner_text().strip() for button in buttons)
    assert page.get_by_role("img").count() == 3
    for drawn in page.get_by_role("img").all():
        assert drawn.locator("title").text_content() and drawn.locator("desc").text_content()
    assert page.locator("#quiet[aria-live=polite], #loud[aria-live=assertive]").count() == 2
    page.click("button[data-action=pause]")
    assert page.get_by_role("dialog", name="Pause the gate?").count() == 1
    assert page.get_by_role("textbox", name="Why?").count() == 1
    page.keyboard.press("Escape")


def numbers(page: Any, name: str, values: list[float]) -> list[float]:
    """Return what one of the page's functions makes of numbers, read again as numbers."""
    script = """async ([name, values]) => {
        const found = (await import("/pages/numbers.js"))[name];
        return values.map((one) => found(one));
    }"""
    return [float(found.replace("\u2212", "-")) for found in page.evaluate(script, [name, values])]


@given(values=st.lists(st.floats(-1e9, 1e9, allow_subnormal=False), min_size=1, max_size=50))
@settings(max_examples=40, deadline=None)
def test_bounds_are_never_shown_better_than_they_are(shown_waiting: Seen, values: list[float]) -> None:
    for value, shown in zip(values, numbers(shown_waiting.page, "atLeast", values), strict=True):
        assert shown <= value
        assert value - shown <= 1e-3 * abs(value)
    spent = [abs(value) for value in values]
    for value, shown in zip(spent, numbers(shown_waiting.page, "atMost", spent), strict=True):
        assert value <= shown <= value * 1.011
