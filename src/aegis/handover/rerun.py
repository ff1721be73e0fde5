"""Rerun of a gate: whether a run that is run again equals its kept events, and where it differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aegis.errors import InputError, PolicyError
from aegis.handover.challenge import SEAL_FILES
from aegis.handover.events import Event, Frozen, UnitCounted, event_to_plain

CHANGED = (
    "it comes out differently, so plant, host or code have changed since, or the events were edited; restore the file or start "
    "anew"
)
LONGEST = 60  # characters of a value in a message


def check_same(kept: Sequence[Event], again: Sequence[Event], first: int = 0, code: Sequence[str] = ()) -> None:
    """Raise PolicyError, naming the line and what differs, unless events from `first` on are the same as far as both go.

    code: the modules, with their files, that challengers are defined in.
    """
    for place, (one, other) in enumerate(zip(kept[first:], again[first:], strict=False), start=first):
        if one != other:
            name = _altered_source(one, other)
            if name is not None:
                raise PolicyError(
                    f"line {place + 1} of the events: the source of challenger '{name}' has changed since this run began, in "
                    f"{' or '.join(code) or 'the module that defines it'}. To go on, put the file back as it was; to use the new "
                    "source, start a run in another folder"
                )
            raise PolicyError(f"line {place + 1} of the events: run again, {describe_difference(one, other)}: {CHANGED}")


def check_complete(kept: Sequence[Event], again: Sequence[Event]) -> None:
    """Raise PolicyError, naming the line and what differs, unless events begin with all that is kept."""
    check_same(kept, again)
    if len(again) < len(kept):
        place = len(again)
        raise PolicyError(f"line {place + 1} of the events: run again, '{kept[place].kind}' does not come about: {CHANGED}")


def check_order(kept: Sequence[Event]) -> None:
    """Raise InputError, naming the line, unless episodes come one after the other."""
    episode = 0
    for place, event in enumerate(kept):
        if isinstance(event, UnitCounted):
            episode += 1
            if event.episode != episode:
                raise InputError(
                    f"line {place + 1} of the events: episodes are counted in the order in which they started: expected episode "
                    f"{episode}, found {event.episode}"
                )


def describe_difference(kept: Event, again: Event) -> str:
    """Return in words by what an event that is kept differs from the one that comes about."""
    if kept.kind != again.kind:
        return f"'{kept.kind}' is kept where '{again.kind}' comes about"
    if isinstance(kept, UnitCounted) and isinstance(again, UnitCounted):
        if kept.episode == again.episode and kept.reward != again.reward:
            return f"episode {kept.episode} is kept with the reward {kept.reward}, and comes out with {again.reward}"
        if kept.episode == again.episode and kept.arm == again.arm and kept.evidence.keys() == again.evidence.keys():
            name = next(name for name in kept.evidence if kept.evidence[name] != again.evidence[name])
            return f"episode {kept.episode} is kept with other evidence for challenge '{name}' than comes out"
        where = f"episode {again.episode}, "
    else:
        where = f"'{kept.kind}', "
    path, one, other = _first_difference(event_to_plain(kept), event_to_plain(again), ())
    found = [_short(one), _short(other)]
    if found[0] == found[1]:  # they differ further on
        found = [_short(value) for value in _apart(str(one), str(other))]
    return f"{where}{' of '.join(reversed(path))}: {found[0]} is kept, and {found[1]} comes out"


def _altered_source(kept: Event, again: Event) -> str | None:
    """Return the first challenger whose files are other ones now than when it was frozen; None if there is none."""
    if not isinstance(kept, Frozen) or not isinstance(again, Frozen):
        return None
    now = {item.name: item.seal for item in again.challenges}
    files = {item.name: (item.seal or "").partition(SEAL_FILES)[2] for item in kept.challenges if now.get(item.name) is not None}
    return next((name for name, digest in files.items() if digest and digest != (now[name] or "").partition(SEAL_FILES)[2]), None)


def _apart(one: str, other: str) -> tuple[str, str]:
    """Return the ends of two texts from where they differ first."""
    place = next((place for place, (left, right) in enumerate(zip(one, other, strict=False)) if left != right), 0)
    return f"...{one[place:]}", f"...{other[place:]}"


def _first_difference(one: Any, other: Any, path: tuple[str, ...]) -> tuple[tuple[str, ...], Any, Any]:
    """Return where two trees of plain data differ first, outermost name first, and what is there."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in {**other, **one}:
            if name not in one or name not in other or one[name] != other[name]:
                return _first_difference(one.get(name), other.get(name), (*path, f"'{name}'"))
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            if left != right:
                return _first_difference(left, right, (*path, _called(right, place)))
    return path, one, other


def _called(item: Any, place: int) -> str:
    named = item.get("name", item.get("what")) if isinstance(item, Mapping) else None
    return f"number {place + 1}" if named is None else f"'{named}'"


def _short(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
