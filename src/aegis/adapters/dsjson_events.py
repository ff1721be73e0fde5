"""Lines of a Vowpal Wabbit DSJSON file as events, each checked by itself; errors name file, line and key."""

from __future__ import annotations

import gzip
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from aegis.errors import LogError, SettingError, check_choice

ROUNDING = 1e-6  # of each probability: they are written with six digits or more


@dataclass(frozen=True, slots=True)
class DsjsonEvent:
    """One decision as it was logged.

    where: file and line. shared: features by path, such as `user.age`. actions: one mapping of features per action. taken: from
    0. chances: of all actions, None if the line does not tell. observed: whether an outcome was joined to it, None if the file
    does not say. skipped: it is marked not to be learned from. dropped: the share of events like it that was not logged.
    joined: its outcome stood in a line of its own. deferred: its action waited (`DeferredAction`) for an activation that never
    came.
    """

    where: str
    event_id: str | None
    time: str | None
    shared: Mapping[str, Any]
    actions: Sequence[Any]
    taken: int
    chance: float
    chances: tuple[float, ...] | None
    cost: float
    observed: bool | None
    skipped: bool
    dropped: float
    model: str | None
    joined: bool = False
    deferred: bool = False

    @property
    def unused(self) -> bool:
        """Whether the action was not put to use, as far as the file tells."""
        return self.skipped or self.deferred


@dataclass(frozen=True, slots=True)
class DsjsonOutcome:
    """An outcome, or an activation, in a line of its own.

    where: file and line. event_id: of its decision. reward: its `RewardValue`; rewarded: it has one. activates: its
    `ActionTaken`, which puts a deferred action to use.
    """

    where: str
    event_id: str | None
    reward: Any
    rewarded: bool = True
    activates: bool = False


def read_dsjson_outcomes(paths: Sequence[str | Path]) -> list[DsjsonOutcome]:
    """Return what stands in lines of its own, outcomes and activations, before or after the line of their decision."""
    found: list[DsjsonOutcome] = []
    for path in paths:
        for number, line in _lines(Path(path)):
            if "RewardValue" not in line and "ActionTaken" not in line:
                continue
            where = f"{path}, line {number}"
            content = _parse_line(line, where)
            if _is_separate(content):
                found.append(
                    DsjsonOutcome(
                        where,
                        _text(content, "EventId", where),
                        content.get("RewardValue"),
                        "RewardValue" in content,
                        _flag(content, "ActionTaken", where),
                    )
                )
    return found


def read_dsjson_events(
    paths: Sequence[str | Path], apart: Mapping[str, Sequence[DsjsonOutcome]] | None = None
) -> Iterator[DsjsonEvent]:
    """Yield the events of files, one after the other; apart: what stands in lines of its own by EventId, which is joined."""
    for path in paths:
        for number, line in _lines(Path(path)):
            where = f"{path}, line {number}"
            content = _parse_line(line, where)
            if not _is_separate(content):
                event = _event(content, where)
                yield _join_outcomes(event, (apart or {}).get(event.event_id or "", ()))


def flatten_features(features: Any, path: str = "") -> dict[str, Any]:
    """Return features by dotted path; lists count from 0, names that start with an underscore are not features."""
    if isinstance(features, Mapping):
        parts = [(str(key), value) for key, value in features.items() if not str(key).startswith("_")]
    elif isinstance(features, list):
        parts = [(str(place), value) for place, value in enumerate(features)]
    else:
        return {path: features}
    found: dict[str, Any] = {}
    for key, value in parts:
        found |= flatten_features(value, f"{path}.{key}" if path else key)
    return found


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with _open_text(path) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line
    except UnicodeDecodeError as error:
        raise LogError(
            f"{path}: is not UTF-8 text ({error.reason}, byte {error.start}); DSJSON is one JSON object a line"
        ) from error
    except (OSError, EOFError) as error:
        raise LogError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _open_text(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.GzipFile(path), encoding="utf-8")
    return path.open(encoding="utf-8")


def _parse_line(line: str, where: str) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except json.JSONDecodeError as error:
        raise LogError(f"{where}: is not JSON ({error.msg}, column {error.colno}); DSJSON is one JSON object a line") from error
    if not isinstance(content, dict):
        raise LogError(f"{where}: is a {type(content).__name__}; DSJSON is one JSON object a line")
    return content


def _is_separate(content: Mapping[str, Any]) -> bool:
    """Say whether a line is an outcome, or an activation, whose decision is not in it."""
    return "c" not in content and ("RewardValue" in content or "ActionTaken" in content)


def _join_outcomes(event: DsjsonEvent, apart: Sequence[DsjsonOutcome]) -> DsjsonEvent:
    """Return the event with what stands in lines of its own; LogError if outcomes are two, or not what the decision says."""
    if event.deferred and any(line.activates for line in apart):
        event = replace(event, deferred=False)
    found = [line for line in apart if line.rewarded]
    if not found:
        return event
    if event.observed or len(found) > 1:
        other = event.where if event.observed else found[1].where
        raise LogError(
            f"{found[0].where}, key 'EventId': an outcome of '{event.event_id}', which has another one ({other}); which of them "
            "counts is for you to say: leave the others out"
        )
    if not _is_number(found[0].reward):
        raise LogError(f"{found[0].where}, key 'RewardValue': {_value_words(found[0].reward)}; expected a finite number")
    reward = float(found[0].reward)
    if event.cost != 0 and not math.isclose(event.cost, -reward, rel_tol=1e-6):
        raise LogError(
            f"{found[0].where}, key 'RewardValue': found {reward:g}, but the decision '{event.event_id}' has '_label_cost' "
            f"{event.cost:g}, a reward of {-event.cost:g} ({event.where}). Which of them counts is for you to say: write "
            "'_label_cost' 0 where the outcome comes in a line of its own, or leave that line out"
        )
    return replace(event, cost=-reward, observed=True, joined=True)


def _event(content: Mapping[str, Any], where: str) -> DsjsonEvent:
    inside = content.get("c")
    if not isinstance(inside, Mapping):
        raise LogError(
            f"{where}, key 'c': {_value_words(inside)}; expected the shared features and, under '_multi', one entry per action"
        )
    if "_slots" in inside or "_outcomes" in content:
        raise LogError(
            f"{where}, key '{'_slots' if '_slots' in inside else '_outcomes'}': several decisions in one event (conditional "
            "contextual bandits, slates) are not read; only plain contextual bandits are"
        )
    actions = inside.get("_multi")
    if not isinstance(actions, list) or len(actions) < 2:
        raise LogError(
            f"{where}, key 'c._multi': {_value_words(actions)}; expected a list with an entry for each of two or more actions"
        )
    taken = _taken(content, len(actions), where)
    chance = _number(content, "_label_probability", where)
    if not 0 < chance <= 1:
        raise LogError(
            f"{where}, key '_label_probability': found {chance:g}; the action taken had a probability above 0, at most 1"
        )
    chances = _chances(content, len(actions), where)
    if chances is not None and abs(chances[taken] - chance) > ROUNDING + 1e-5 * chance:
        raise LogError(
            f"{where}, key '_label_probability': found {chance:g}, but 'p' gives the action taken {chances[taken]:g}; they "
            "must agree"
        )
    dropped = _number(content, "pdrop", where) if "pdrop" in content else 0.0
    if not 0 <= dropped < 1:
        raise LogError(
            f"{where}, key 'pdrop': found {dropped:g}; expected the share of events that was dropped, from 0 and below 1"
        )
    return DsjsonEvent(
        where,
        _text(content, "EventId", where),
        _text(content, "Timestamp", where),
        flatten_features({key: value for key, value in inside.items() if key != "_multi"}),
        actions,
        taken,
        chance,
        chances,
        _number(content, "_label_cost", where),
        _observed(content),
        _flag(content, "_skipLearn", where),
        dropped,
        _model(content),
        deferred=_flag(content, "DeferredAction", where) and not _activated(content, where),
    )


def _observed(content: Mapping[str, Any]) -> bool | None:
    """Say whether an outcome was joined to a decision; an activation alone is none. None if the line does not tell."""
    if "o" not in content:
        return None
    joined = content["o"]
    return any(not _is_activation(one) for one in joined) if isinstance(joined, list) else bool(joined)


def _activated(content: Mapping[str, Any], where: str) -> bool:
    """Say whether the line of a decision holds its activation as well."""
    joined = content.get("o")
    inside = [one for one in joined if isinstance(one, Mapping)] if isinstance(joined, list) else []
    return any(_flag(one, "ActionTaken", where) for one in (content, *inside))


def _is_activation(one: Any) -> bool:
    return isinstance(one, Mapping) and "ActionTaken" in one and "v" not in one


def _taken(content: Mapping[str, Any], count: int, where: str) -> int:
    """Return the action taken, counted from 0."""
    found = {
        key: int(value) - first
        for key, first in (("_labelIndex", 0), ("_label_Action", 1))
        if isinstance(value := content.get(key), int) and not isinstance(value, bool)
    }
    if not found:
        raise LogError(
            f"{where}: neither '_labelIndex' nor '_label_Action' is a whole number; one of them tells the action taken"
        )
    if len(set(found.values())) > 1:
        raise LogError(
            f"{where}: '_labelIndex' {content['_labelIndex']} (from 0) and '_label_Action' {content['_label_Action']} (from 1) "
            "are two actions"
        )
    key, taken = next(iter(found.items()))
    if not 0 <= taken < count:
        raise LogError(f"{where}, key '{key}': found {content[key]}, but 'c._multi' has {count} actions")
    return taken


def _chances(content: Mapping[str, Any], count: int, where: str) -> tuple[float, ...] | None:
    """Return the probabilities of the actions in the order of `_multi`, scaled to sum to one; None if they are not there."""
    if "p" not in content and "a" not in content:
        return None
    listed, given = content.get("a"), content.get("p")
    if not isinstance(listed, list) or sorted(map(str, listed)) != sorted(str(place + 1) for place in range(count)):
        raise LogError(
            f"{where}, key 'a': {_value_words(listed)}; expected every action from 1 to {count} (as in 'c._multi') once"
        )
    if not isinstance(given, list) or len(given) != count or not all(_is_number(value) and 0 <= value <= 1 for value in given):
        raise LogError(f"{where}, key 'p': {_value_words(given)}; expected {count} probabilities, in the order of 'a'")
    total = math.fsum(given)
    if abs(total - 1) > count * ROUNDING:
        raise LogError(f"{where}, key 'p': the probabilities sum to {total:.6g}; expected 1, to six digits")
    by_action = {int(action): float(value) / total for action, value in zip(listed, given, strict=True)}
    return tuple(by_action[place + 1] for place in range(count))


def _number(content: Mapping[str, Any], key: str, where: str) -> float:
    value = content.get(key)
    if not _is_number(value):
        raise LogError(f"{where}, key '{key}': {_value_words(value)}; expected a finite number")
    return float(value)  # type: ignore[arg-type]


def _flag(content: Mapping[str, Any], key: str, where: str) -> bool:
    """Return a flag, which some writers put in quotes; false if it is not there."""
    value = content.get(key)
    told = value.strip().lower() if isinstance(value, str) else value
    if told is None or isinstance(told, bool):
        return bool(told)
    if told in ("true", "false"):
        return bool(told == "true")
    raise LogError(f"{where}, key '{key}': {_value_words(value)}; expected true or false")


def _text(content: Mapping[str, Any], key: str, where: str) -> str | None:
    value = content.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise LogError(f"{where}, key '{key}': {_value_words(value)}; expected a text")
    return value


def _model(content: Mapping[str, Any]) -> str | None:
    state = content.get("VWState")
    return str(state["m"]) if isinstance(state, Mapping) and "m" in state else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _value_words(value: Any) -> str:
    """Return what stands there, cut short, for a message."""
    if value is None:
        return "is missing"
    text = json.dumps(value)
    return f"found {text if len(text) <= 60 else text[:57] + '...'}"


# The reward of a decision without an outcome: the default cost of the file, or none.
UNOBSERVED = ("cost", "missing")

# What becomes of events that were not learned from: rows without a reward, or no rows.
SKIPPED = ("missing", "left out")


@dataclass(frozen=True, slots=True)
class DsjsonDeclaration:
    """What the user knows and the file does not say.

    reward_range: limits of -cost; without them nothing is certified. thinned: events that are not in the file were left out by a
    coin toss that looked at nothing. unobserved: what an event without an outcome (`o`) earned: 'cost', as it is labelled, or
    'missing'. skipped: events marked `_skipLearn`, or `DeferredAction` and never activated, are 'missing' their reward, or 'left
    out' because being skipped has nothing to do with the action. action_key: the feature that names an action, such as `item.id`
    or `_tag`; without it actions are places in `_multi`. contexts: the shared features to keep, all if None. cluster: the shared
    feature that events of one unit have in common.
    """

    reward_range: tuple[float, float] | None = None
    thinned: bool = False
    unobserved: str | None = None
    skipped: str | None = None
    action_key: str | None = None
    contexts: tuple[str, ...] | None = None
    cluster: str | None = None
    level: str = "choice"

    def __post_init__(self) -> None:
        if self.unobserved is not None:
            check_choice(self.unobserved, UNOBSERVED, "meaning of an event without an outcome")
        if self.skipped is not None:
            check_choice(self.skipped, SKIPPED, "meaning of a skipped event")
        if self.cluster is not None and self.cluster in (self.contexts or ()):
            raise SettingError(f"'{self.cluster}' is the cluster and a context; a controller that looks at it needs a copy of it")


def action_labels(event: DsjsonEvent, key: str | None) -> list[str]:
    """Return what the actions of an event are called, in the order of `_multi`."""
    if key is None:
        return [str(place + 1) for place in range(len(event.actions))]
    found: list[str] = []
    for place, action in enumerate(event.actions):
        value = action.get("_tag") if key == "_tag" and isinstance(action, dict) else flatten_features(action).get(key)
        if value is None or isinstance(value, float):
            raise LogError(f"{event.where}, key 'c._multi.{place}.{key}': found {value!r}; expected a text that names the action")
        if str(value) in found:
            raise LogError(
                f"{event.where}, key 'c._multi.{place}.{key}': two actions are called '{value}'; choose another --action-key"
            )
        found.append(str(value))
    return found
