"""Lines of a Vowpal Wabbit DSJSON file as events, each checked by itself; errors name file, line and key."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat, StringConstraints, ValidationError

from aegis.errors import LogError, SettingError, check_choice

ROUNDING = 1e-6  # of each probability: they are written with six digits or more


def _unquote(value: Any) -> Any:
    """Return a flag that some writers put in quotes as it is meant; anything else unchanged."""
    words = {"true": True, "false": False}
    return words.get(value.strip().lower(), value) if isinstance(value, str) else value


FLAG, TEXT, NUMBER = "true or false", "a text", "a finite number"
Flag = Annotated[bool, BeforeValidator(_unquote)]
Text = Annotated[str, StringConstraints(min_length=1)] | None


class DsjsonOutcome(BaseModel):
    """A line with the outcome of a decision (`RewardValue`), or the activation of a deferred action (`ActionTaken`), alone.

    where: file and line. Descriptions say what is expected, for errors.
    """

    model_config = ConfigDict(strict=True)

    where: str = ""
    event_id: Text = Field(None, alias="EventId", description=TEXT)
    activates: Flag | None = Field(None, alias="ActionTaken", description=FLAG)
    reward: Any = Field(None, alias="RewardValue")

    @property
    def rewarded(self) -> bool:
        """Whether it holds an outcome."""
        return "reward" in self.model_fields_set


class _DecisionLine(DsjsonOutcome):
    """The keys of a line that holds a decision; those that hang together are checked one by one."""

    time: Text = Field(None, alias="Timestamp", description=TEXT)
    chance: FiniteFloat = Field(
        alias="_label_probability", gt=0, le=1, description="the probability of the action taken, above 0 and at most 1"
    )
    cost: FiniteFloat = Field(alias="_label_cost", description=NUMBER)
    skipped: Flag | None = Field(None, alias="_skipLearn", description=FLAG)
    deferred: Flag | None = Field(None, alias="DeferredAction", description=FLAG)
    dropped: FiniteFloat = Field(
        0.0, alias="pdrop", ge=0, lt=1, description="the share of events that was dropped, from 0 and below 1"
    )


Line = TypeVar("Line", bound=DsjsonOutcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class DsjsonEvent:
    """One decision as it was logged.

    where: file and line. shared: features by path, such as `user.age`. actions: one mapping of features per action. taken: from
    0. chances: of all actions, None if the line has taken ones only. observed: whether an outcome was joined to it, None if the
    file does not say. skipped: it is marked not to be learned from. dropped: the share of events like it that was not logged.
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
        """Whether the action was not put to use, as far as the file shows."""
        return self.skipped or self.deferred


def read_dsjson_outcomes(paths: Sequence[str | Path]) -> list[DsjsonOutcome]:
    """Return outcomes and activations in lines of their own, before or after the line of their decision."""
    # Looked for in the text first: most lines are decisions, and need not be parsed for this.
    contents = (
        (where, _parse_line(line, where)) for where, line in _lines(paths) if "RewardValue" in line or "ActionTaken" in line
    )
    return [_read_keys(DsjsonOutcome, content, where) for where, content in contents if _is_separate(content)]


def read_dsjson_events(
    paths: Sequence[str | Path], apart: Mapping[str, Sequence[DsjsonOutcome]] | None = None
) -> Iterator[DsjsonEvent]:
    """Yield the events of files, one after the other, joined with the lines apart from them. apart: by EventId."""
    for where, line in _lines(paths):
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
    flat: dict[str, Any] = {}
    for key, value in parts:
        flat |= flatten_features(value, f"{path}.{key}" if path else key)
    return flat


def _lines(paths: Sequence[str | Path]) -> Iterator[tuple[str, str]]:
    """Yield the lines that are not empty, each with its file and number."""
    for path in map(Path, paths):
        try:
            with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    if line.strip():
                        yield f"{path}, line {number}", line
        except UnicodeDecodeError as error:
            raise LogError(
                f"{path}: is not UTF-8 text ({error.reason}, byte {error.start}); DSJSON is one JSON object a line"
            ) from error
        except (OSError, EOFError) as error:
            raise LogError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _parse_line(line: str, where: str) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except json.JSONDecodeError as error:
        raise LogError(f"{where}: is not JSON ({error.msg}, column {error.colno}); DSJSON is one JSON object a line") from error
    if not isinstance(content, dict):
        raise LogError(f"{where}: is a {type(content).__name__}; DSJSON is one JSON object a line")
    return content


def _read_keys(kind: type[Line], content: Mapping[str, Any], where: str) -> Line:
    """Return the keys of a line; LogError names the first that is not what is expected."""
    try:
        return kind.model_validate({**content, "where": where})
    except ValidationError as error:
        key = str(error.errors()[0]["loc"][0])
        expected = next(field.description for field in kind.model_fields.values() if field.alias == key)
        raise LogError(f"{where}, key '{key}': {_value_words(content.get(key))}; expected {expected}") from None


def _is_separate(content: Mapping[str, Any]) -> bool:
    """Say whether a line is an outcome, or an activation, whose decision is not in it."""
    return "c" not in content and ("RewardValue" in content or "ActionTaken" in content)


def _join_outcomes(event: DsjsonEvent, apart: Sequence[DsjsonOutcome]) -> DsjsonEvent:
    """Return the event with its lines apart; LogError if there are two outcomes, or one that contradicts the decision."""
    if event.deferred and any(line.activates for line in apart):
        event = replace(event, deferred=False)
    outcomes = [line for line in apart if line.rewarded]
    if not outcomes:
        return event
    first = outcomes[0]
    if event.observed or len(outcomes) > 1:
        other = event.where if event.observed else outcomes[1].where
        raise LogError(
            f"{first.where}, key 'EventId': an outcome of '{event.event_id}', which has another one ({other}); which of them "
            "counts is for you to say: leave the others out"
        )
    if not _is_number(first.reward):
        raise LogError(f"{first.where}, key 'RewardValue': {_value_words(first.reward)}; expected a finite number")
    reward = float(first.reward)
    if event.cost != 0 and not math.isclose(event.cost, -reward, rel_tol=1e-6):
        raise LogError(
            f"{first.where}, key 'RewardValue': found {reward:g}, but the decision '{event.event_id}' has '_label_cost' "
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
    keys = _read_keys(_DecisionLine, content, where)
    taken = _taken(content, len(actions), where)
    chances = _chances(content, len(actions), where)
    if chances is not None and abs(chances[taken] - keys.chance) > ROUNDING + 1e-5 * keys.chance:
        raise LogError(
            f"{where}, key '_label_probability': found {keys.chance:g}, but 'p' gives the action taken {chances[taken]:g}; they "
            "must agree"
        )
    state = content.get("VWState")
    return DsjsonEvent(
        where=where,
        event_id=keys.event_id,
        time=keys.time,
        shared=flatten_features({key: value for key, value in inside.items() if key != "_multi"}),
        actions=actions,
        taken=taken,
        chance=keys.chance,
        chances=chances,
        cost=keys.cost,
        observed=_observed(content),
        skipped=bool(keys.skipped),
        dropped=keys.dropped,
        model=str(state["m"]) if isinstance(state, Mapping) and "m" in state else None,
        deferred=bool(keys.deferred) and not _activated(content, keys, where),
    )


def _observed(content: Mapping[str, Any]) -> bool | None:
    """Say whether an outcome was joined to a decision; an activation alone is none. None if the line does not say."""
    if "o" not in content:
        return None
    joined = content["o"]
    if not isinstance(joined, list):
        return bool(joined)
    return any(not (isinstance(one, Mapping) and "ActionTaken" in one and "v" not in one) for one in joined)


def _activated(content: Mapping[str, Any], keys: _DecisionLine, where: str) -> bool:
    """Say whether the line of a decision holds its activation as well."""
    joined = content.get("o")
    inside = [one for one in joined if isinstance(one, Mapping)] if isinstance(joined, list) else []
    return bool(keys.activates) or any(_read_keys(DsjsonOutcome, one, where).activates for one in inside)


def _taken(content: Mapping[str, Any], count: int, where: str) -> int:
    """Return the action taken, counted from 0."""
    places = {
        key: int(value) - first
        for key, first in (("_labelIndex", 0), ("_label_Action", 1))
        if isinstance(value := content.get(key), int) and not isinstance(value, bool)
    }
    if not places:
        raise LogError(
            f"{where}: neither '_labelIndex' nor '_label_Action' is a whole number; one of them names the action taken"
        )
    if len(set(places.values())) > 1:
        raise LogError(
            f"{where}: '_labelIndex' {content['_labelIndex']} (from 0) and '_label_Action' {content['_label_Action']} (from 1) "
            "are two actions"
        )
    key, taken = next(iter(places.items()))
    if not 0 <= taken < count:
        raise LogError(f"{where}, key '{key}': found {content[key]}, but 'c._multi' has {count} actions")
    return taken


def _chances(content: Mapping[str, Any], count: int, where: str) -> tuple[float, ...] | None:
    """Return the probabilities of the actions in the order of `_multi`, scaled to sum to one; None if they are not there."""
    if "p" not in content and "a" not in content:
        return None
    listed, values = content.get("a"), content.get("p")
    if not isinstance(listed, list) or sorted(map(str, listed)) != sorted(str(place + 1) for place in range(count)):
        raise LogError(
            f"{where}, key 'a': {_value_words(listed)}; expected every action from 1 to {count} (as in 'c._multi') once"
        )
    if not isinstance(values, list) or len(values) != count or not all(_is_number(value) and 0 <= value <= 1 for value in values):
        raise LogError(f"{where}, key 'p': {_value_words(values)}; expected {count} probabilities, in the order of 'a'")
    total = math.fsum(values)
    if abs(total - 1) > count * ROUNDING:
        raise LogError(f"{where}, key 'p': the probabilities sum to {total:.6g}; expected 1, to six digits")
    by_action = {int(action): float(value) / total for action, value in zip(listed, values, strict=True)}
    return tuple(by_action[place + 1] for place in range(count))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _value_words(value: Any) -> str:
    """Return a value, cut short, for a message."""
    if value is None:
        return "is missing"
    text = json.dumps(value)
    return f"found {text if len(text) <= 60 else text[:57] + '...'}"


# The reward of a decision without an outcome: the default cost of the file, or none.
UNOBSERVED = ("cost", "missing")

# Events that were not learned from: rows without a reward, or no rows.
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
    labels: list[str] = []
    for place, action in enumerate(event.actions):
        value = action.get("_tag") if key == "_tag" and isinstance(action, dict) else flatten_features(action).get(key)
        if value is None or isinstance(value, float):
            raise LogError(f"{event.where}, key 'c._multi.{place}.{key}': found {value!r}; expected a text that names the action")
        if str(value) in labels:
            raise LogError(
                f"{event.where}, key 'c._multi.{place}.{key}': two actions are called '{value}'; choose another --action-key"
            )
        labels.append(str(value))
    return labels
