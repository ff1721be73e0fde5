"""A kept run is taken up as it is: no command cuts anything off it, and what was edited or cannot have happened is refused."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aegis.errors import InputError, PolicyError, SettingError
from aegis.handover import (
    HOSTS,
    ChallengeCertified,
    Event,
    Flipped,
    Frozen,
    GateSettings,
    Handover,
    OperatorAction,
    UnitCounted,
    Waiting,
    event_from_plain,
    event_to_plain,
    make_gate,
    read_events,
    replay_events,
    run_in_folder,
    verify_events,
)
from aegis.handover.events import pack_logs, unpack_logs
from aegis.handover.replay import describe_difference
from aegis.worlds import make_world

WORLD = make_world("additive", f_a=2.0, inner_steps=3)
SETTINGS = GateSettings(caps=(2.0,), upgrades=False)
Edit = Callable[[list[dict[str, Any]]], None]


def start(settings: GateSettings = SETTINGS) -> Handover:
    return Handover(WORLD, WORLD.legacy("uniform"), HOSTS["greedy"](), settings, 1)


def content(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def flip() -> Flipped:
    """Return the first flip of the run."""
    run = start()
    run.advance(60)
    return next(event for event in run.events if isinstance(event, Flipped))


@pytest.fixture(scope="module")
def flipped(flip: Flipped, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run whose last episode handed a level over."""
    place = tmp_path_factory.mktemp("kept") / "run"
    with pytest.MonkeyPatch.context() as patch:  # the first gate of its plant, with other tests' gates uncounted
        patch.setenv("AEGIS_LEDGER", str(tmp_path_factory.mktemp("ledger")))
        run_in_folder(place, start(), flip.episode)
    return place


@pytest.fixture
def kept(flipped: Path, tmp_path: Path) -> Path:
    """Return a copy of that run."""
    return Path(shutil.copytree(flipped, tmp_path / "run"))


def said(action: str, level: str | None = None) -> OperatorAction:
    return OperatorAction(action, "ann", "the trend holds", 0, level)


# ---- nothing is cut off ------------------------------------------------------------------------------------------------------


def test_a_flip_of_the_last_episode_stays(kept: Path, flip: Flipped) -> None:
    before = content(kept)
    for episodes in (flip.episode, 20, 1):
        found = run_in_folder(kept, start(), episodes)
        assert found["episodes"] == flip.episode and found["levels"][0]["control"] == "agent"
        assert content(kept) == before


def test_what_was_handed_over_last_can_be_given_back(kept: Path, flip: Flipped) -> None:
    found = run_in_folder(kept, start(), flip.episode, actions=[said("revert", "inner")])
    assert found["levels"][0]["control"] == "legacy" and found["episodes"] == flip.episode
    events = read_events(kept / "events.jsonl")
    assert [event.kind for event in events[-3:]] == ["flip", "operator", "reverted"]
    assert events[-1].episode == flip.episode  # type: ignore[union-attr]
    assert not (kept / "policies" / "inner").exists()


def test_what_began_to_wait_last_can_be_approved(tmp_path: Path) -> None:
    asking = SETTINGS.model_copy(update={"mode": "approve"})
    whole = start(asking)
    whole.advance(60)
    wait = next(event for event in whole.events if isinstance(event, Waiting))
    assert run_in_folder(tmp_path, start(asking), wait.episode)["waiting"][0]["level"] == "inner"
    found = run_in_folder(tmp_path, start(asking), wait.episode, actions=[said("approve", "inner")])
    assert found["levels"][0]["since"] == wait.episode + 1 and found["waiting"] == []


@pytest.mark.parametrize(
    "words",
    [
        [said("aprove", "inner")],
        [said("revert", "meta")],
        [said("resume")],
        [said("pause"), said("revert", "outer")],
        [OperatorAction("pause", "ann", " ", 0)],
    ],
)
def test_words_that_are_refused_change_nothing(words: list[OperatorAction], kept: Path, flip: Flipped) -> None:
    before = content(kept)
    for episodes in (flip.episode, flip.episode + 10):
        with pytest.raises(InputError):
            run_in_folder(kept, start(), episodes, actions=words)
    assert content(kept) == before


def test_nobody_speaks_of_a_run_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="operator actions need a stored run"):
        run_in_folder(tmp_path / "new", start(), 20, actions=[said("pause")])
    assert not (tmp_path / "new").exists()
    gate = make_gate("published", WORLD, WORLD.legacy("uniform"), HOSTS["greedy"](), None, 1)
    with pytest.raises(SettingError, match="accepts no operator actions"):
        run_in_folder(tmp_path / "new", gate, 20, actions=[said("pause")])  # type: ignore[arg-type]


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_what_a_broken_write_lost_of_the_last_episode_comes_about_again(kept: Path, flip: Flipped, lost: int) -> None:
    path = kept / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    whole = b"".join(lines)
    path.write_bytes(b"".join(lines[:-lost]) + lines[-lost][:30])
    before = path.read_bytes()
    seen = run_in_folder(kept, start(), 20)  # and nothing is written
    lacking = lost - 1  # the flip alone, or the last episodes with it
    assert (seen["episodes"], seen["levels"][0]["control"]) == (flip.episode - lacking, "legacy" if lacking else "agent")
    assert path.read_bytes() == before
    run_in_folder(kept, start(), flip.episode)
    assert path.read_bytes() == whole


def test_reading_events_leaves_the_file_alone(kept: Path) -> None:
    path = kept / "events.jsonl"
    path.write_bytes(path.read_bytes() + b'{"kind": "un')
    before = path.read_bytes()
    assert len(read_events(path)) == len(before.splitlines()) - 1 and path.read_bytes() == before


# ---- what was edited ---------------------------------------------------------------------------------------------------------


def first(events: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next(event for event in events if event["kind"] == kind)


def lifted(events: list[dict[str, Any]]) -> None:
    unit = next(event for event in events if event["kind"] == "unit" and event["evidence"])
    claims = unit["evidence"]["1-meta-2"]
    claims["gain"] = [
        pack_logs(tuple(None if log is None else log + 2**31 for log in unpack_logs(part))) for part in claims["gain"]
    ]


def claim(name: str, value: float) -> Edit:
    def edit(events: list[dict[str, Any]]) -> None:
        first(events, "frozen")["challenges"][0]["claims"][0][name] = value

    return edit


def earlier(events: list[dict[str, Any]]) -> None:
    freeze = first(events, "frozen")
    for item in [freeze, *freeze["challenges"]]:
        item["since"] = 1


def after(episode: int, /, **event: Any) -> Edit:
    """Invent an event after an episode."""

    def edit(events: list[dict[str, Any]]) -> None:
        place = next(place for place, event in enumerate(events) if event["kind"] == "unit" and event["episode"] == episode)
        events.insert(place + 1, event)

    return edit


def flips(events: list[dict[str, Any]]) -> None:
    frozen = next(item for item in first(events, "frozen")["challenges"] if item["level"] == "meta")
    numbers = {"episode": 20, "since": 21, "units": 6, "gain_lower": 0.2, "value_lower": 0.1, "cap": 2.0}
    names = {"level": "meta", "challenge": frozen["name"], "action": "handover", "policy": frozen["policy"]}
    after(20, kind="flip", **names, **numbers)(events)


def dropped(kind: str) -> Edit:
    def edit(events: list[dict[str, Any]]) -> None:
        events.remove(first(events, kind))

    return edit


def left_out(events: list[dict[str, Any]]) -> None:
    unit = next(event for event in events if event["kind"] == "unit" and event["evidence"])
    del unit["evidence"]["1-meta-2"]


def held(events: list[dict[str, Any]]) -> None:
    events[3] |= {"arm": "legacy"}


def other(events: list[dict[str, Any]]) -> None:
    first(events, "frozen")["challenges"][0]["policy"] = "0" * 64


EDITS: dict[str, tuple[Edit, str]] = {
    "evidence": (lifted, r"line 17 of the events: run again, 'unit', evidence\.1-meta-2\.gain\.0: "),
    "share of the risk": (claim("delta", 0.999), r"line 16 .*claims.0.delta: 0\.999 is recorded"),
    "margin": (claim("margin", -0.2), r"line 16 .*challenges.0.claims.0.margin: -0\.2 is recorded, and 0\.0 comes"),
    "start of a test": (earlier, r"line 16 .*since: 1 is recorded, and 15 comes out"),
    "policy": (other, "line 16 .*challenges.0.policy: "),
    "certified": (
        after(20, kind="certified", challenge="1-meta-2", level="meta", episode=20, units=6, gain_lower=0.3),
        "line 23 .*'certified' is recorded where 'unit' comes out",
    ),
    "flip": (flips, "line 23 .*'flip' is recorded where 'unit' comes out"),
    "waiting": (after(20, kind="waiting", level="meta", challenge="1-meta-2", episode=20, why="so"), "line 23 "),
    "restart": (after(20, kind="restarted", episode=20, since=21, why="so"), "line 23 .*'restarted' is recorded"),
    "revert": (after(20, kind="reverted", level="meta", episode=20, since=21), "line 23 "),
    "alarm": (after(20, kind="alarm", episode=20, evidence=200.0, floor=0.1), "line 23 "),
    "a freeze that is gone": (dropped("frozen"), "line 16 .*'unit' is recorded where 'frozen' comes out"),
    "an episode that is gone": (dropped("unit"), "line 2 .*episode: 2 is recorded, and 1 comes out"),
    "evidence that is gone": (left_out, "line 17 .*evidence.1-meta-2: None is recorded, and .* comes out"),
    "who acted": (held, "line 4 .*arm: 'legacy' is recorded, and 'agent' comes out"),
    "certified, which is gone": (dropped("certified"), "line 44 .*is recorded where 'certified' comes out"),
    "words nobody could say": (
        after(20, kind="operator", action="revert", who="x", why="y", episode=20, level="meta"),
        "line 23 .*there is nothing to revert",
    ),
}


@pytest.mark.parametrize("what", EDITS)
def test_what_was_edited_is_refused_with_its_line(what: str, kept: Path) -> None:
    path = kept / "events.jsonl"
    edit, message = EDITS[what]
    events = [json.loads(line) for line in path.read_text().splitlines()]
    edit(events)
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    before = content(kept)
    for episodes in (1, 100):
        with pytest.raises(InputError, match=f"events.jsonl: {message}"):
            run_in_folder(kept, start(), episodes)
        assert content(kept) == before


def test_differences_are_named_where_they_are() -> None:
    one = ChallengeCertified("1-inner-2", "inner", 40, 20, 0.25)
    assert describe_difference(one, replace(one, units=21)) == "'certified', units: 20 is recorded, and 21 comes out"
    unit = UnitCounted(3, 0.5, "agent", {})
    assert describe_difference(unit, replace(unit, reward=None)) == "'unit', reward: 0.5 is recorded, and None comes out"


# ---- deriving events again ---------------------------------------------------------------------------------------------------


def verified(path: Path, edit: Edit) -> None:
    events = [event_to_plain(event) for event in read_events(path)]
    edit(events)
    verify_events([event_from_plain(json.loads(json.dumps(event))) for event in events])


def test_events_of_a_run_follow_from_its_units(flipped: Path) -> None:
    events = read_events(flipped / "events.jsonl")
    assert verify_events(events) == replay_events(events)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("share of the risk", r"line 16 .*challenges.0.claims.0.delta: 0.999 is recorded"),
        ("start of a test", "line 16 .*0 episodes .* but 14 are known"),
        ("policy", "line 51 .*'flip', policy: "),
        ("certified", "line 23 .*'certified' cannot have happened there"),
        ("flip", "line 23 .*'flip' cannot have happened there"),
        ("waiting", "line 23 .*'waiting' cannot have happened there"),
        ("revert", "line 23 .*'reverted' cannot have happened there"),
        ("alarm", "line 23 .*'alarm' cannot have happened there"),
        ("a freeze that is gone", "line 16 .*expected evidence for the challenges"),
        ("evidence that is gone", "line 17 .*expected evidence for the challenges"),
        ("certified, which is gone", "line 44 .*is recorded where 'certified' comes out"),
    ],
)
def test_events_that_do_not_follow_are_refused(what: str, message: str, flipped: Path) -> None:
    with pytest.raises(InputError, match=message):
        verified(flipped / "events.jsonl", EDITS[what][0])


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("certified", {"gain_lower": 0.4}),
        ("certified", {"units": 3}),
        ("certified", {"level": "meta"}),
        ("certified", {"episode": 20}),
        ("flip", {"gain_lower": 0.4}),
        ("flip", {"value_lower": 0.9}),
        ("flip", {"units": 3}),
        ("flip", {"since": 3}),
        ("flip", {"cap": 3.0}),
        ("flip", {"action": "upgrade"}),
        ("frozen", {"episode": 3}),
        ("frozen", {"since": 40}),
    ],
)
def test_numbers_of_events_are_derived_again(kind: str, change: dict[str, Any], flipped: Path) -> None:
    (name,) = change
    with pytest.raises(InputError, match=rf"line \d+ of the events: (.*{name}: |3 episodes|2 episodes)"):
        verified(flipped / "events.jsonl", lambda events: first(events, kind).update(change))


def test_a_flip_needs_the_mode_and_a_gate_that_counts(flipped: Path) -> None:
    events: list[Event] = read_events(flipped / "events.jsonl")
    for extra in ({"kind": "mode", "mode": "shadow"}, {"kind": "mode", "mode": "approve"}, {"kind": "paused", "why": "so"}):
        said = event_from_plain({**extra, "episode": events[-1].episode})  # type: ignore[union-attr]
        with pytest.raises(InputError, match="comes out"):
            verify_events([*events[:-1], said, events[-1]])


def test_a_held_back_episode_is_no_evidence(flipped: Path) -> None:
    events = read_events(flipped / "events.jsonl")
    place = next(place for place, event in enumerate(events) if isinstance(event, Frozen)) + 1
    with pytest.raises(InputError, match="cannot have been left to 'legacy': that takes"):
        verify_events([*events[:place], replace(events[place], arm="legacy")])  # type: ignore[type-var]


PLANT = """
import numpy as np
from aegis.policies import Function
from visits_plant import Visits

def even(level, rows):
    return np.full((len(rows["need"]), 2), 0.5)

plant = Visits()
legacy = Function(plant.problem, even, name="own_plant:even")
"""


def test_a_module_that_changed_since_the_run_began_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "own_plant.py"
    monkeypatch.syspath_prepend(str(tmp_path))

    def run(episodes: int) -> None:
        monkeypatch.delitem(sys.modules, "own_plant", raising=False)
        own = importlib.import_module("own_plant")
        made = Handover(own.plant, own.legacy, HOSTS["greedy"](), GateSettings(upgrades=False), 2)
        run_in_folder(tmp_path / "run", made, episodes, ledger=tmp_path / "ledger")

    source.write_text(PLANT)
    run(40)
    source.write_text(PLANT + "# a remark\n")
    with pytest.raises(PolicyError, match="has changed since this run began, in module 'own_plant'") as caught:
        run(60)
    assert str(source) in str(caught.value) and "put the file back as it was" in str(caught.value)
    source.write_text(PLANT)
    run(60)
