"""Vowpal Wabbit DSJSON logs as a tidy log and a problem."""

from __future__ import annotations

import datetime
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from aegis.adapters.base import ConvertedLog, write_converted
from aegis.adapters.dsjson_events import (
    DsjsonDeclaration,
    DsjsonEvent,
    DsjsonOutcome,
    action_labels,
    flatten_features,
    read_dsjson_events,
    read_dsjson_outcomes,
)
from aegis.errors import LogError, SettingError, did_you_mean
from aegis.problem import Actions, Level, Problem, Propensity, Reward, Variable

ABSENT_CATEGORY = "(absent)"  # the category of an event without this feature

MOST_ACTIONS = 1000
MOST_TEXTS = 1000  # different texts of one feature
ROWS_AT_ONCE = 65536
EPISODE, TIME, ACTION, REWARD, CLUSTER = "event_id", "timestamp", "action", "reward", "cluster"


@dataclass(slots=True)
class DsjsonSurvey:
    """The first pass over the files: what they hold, before a row is written.

    kinds: by shared feature, its texts; None for numbers. actions: labels, as they come. counts: of events that are `kept`, and
    of those with a property. dropped, observed: where each value came first.
    """

    declared: DsjsonDeclaration
    kinds: dict[str, dict[str, None] | None] = field(default_factory=dict)
    present: Counter[str] = field(default_factory=Counter)
    features: dict[str, None] = field(default_factory=dict)
    actions: dict[str, None] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    models: set[str | None] = field(default_factory=set)
    dropped: dict[float, str] = field(default_factory=dict)
    costs: set[float] = field(default_factory=set)
    observed: dict[bool | None, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    masked: bool = False
    featured: bool = False
    dangling: int = 0

    def add(self, event: DsjsonEvent) -> None:
        """Add an event; LogError if it does not fit those before."""
        if event.unused and self.declared.skipped is None:
            raise _undeclared_skip(event)
        if event.event_id is not None:
            if event.event_id in self.ids:
                raise LogError(
                    f"{event.where}, key 'EventId': '{event.event_id}' was there before ({self.ids[event.event_id]}); every "
                    "decision has an id of its own: leave one of the two lines out"
                )
            self.ids[event.event_id] = event.where
        counts = self.counts
        counts += Counter(skipped=event.skipped, deferred=event.deferred, joined=event.joined)
        left_out = event.unused and self.declared.skipped == "left out"
        if event.observed or not left_out:
            self.observed.setdefault(event.observed, event.where)
        if left_out:
            return
        named, timed, full = (value is not None for value in (event.event_id, event.time, event.chances))
        counts += Counter(kept=1, EventId=named, Timestamp=timed, p=full)
        if len(self.costs) < 2:
            self.costs.add(event.cost)
        self.models.add(event.model)
        self.dropped.setdefault(event.dropped, event.where)
        labels = action_labels(event, self.declared.action_key)
        self.masked = self.masked or (bool(self.actions) and list(self.actions) != labels)
        self.actions |= dict.fromkeys(labels)
        if len(self.actions) > MOST_ACTIONS:
            raise LogError(
                f"{event.where}: more than {MOST_ACTIONS} different actions; name a feature with fewer values under "
                "--action-key, or leave it out: actions are then places in '_multi'"
            )
        self.featured = self.featured or any(flatten_features(action) for action in event.actions)
        self.features |= dict.fromkeys(event.shared)
        for key, value in event.shared.items():
            self._add_feature(event, key, value)

    def _add_feature(self, event: DsjsonEvent, key: str, value: Any) -> None:
        if value is None or (
            self.declared.contexts is not None and key not in self.declared.contexts and key != self.declared.cluster
        ):
            return
        text = isinstance(value, str | bool)
        if key not in self.kinds:
            self.kinds[key] = {} if text else None
        self.present[key] += 1
        known = self.kinds[key]
        if text != (known is not None):
            expected = "a number" if known is None else "a text"
            raise LogError(
                f"{event.where}, key 'c.{key}': found {value!r}, but {expected} in lines before; a feature is of one kind"
            )
        if known is not None and key != self.declared.cluster:
            known[str(value)] = None
            if len(known) > MOST_TEXTS:
                raise LogError(
                    f"{event.where}, key 'c.{key}': more than {MOST_TEXTS} different texts; an id is no context: name the "
                    "contexts to keep (--context), or make it the cluster (--cluster)"
                )

    def check(self, apart: Sequence[DsjsonOutcome]) -> None:
        """Raise LogError for what the files leave open and the user did not declare. apart: outcomes in lines of their own."""
        declared, events = self.declared, self.counts["kept"]
        if not events:
            raise LogError("there is nothing to convert: no line holds a decision that is kept")
        for key in [*(declared.contexts or ()), *([] if declared.cluster is None else [declared.cluster])]:
            if key not in self.kinds:
                known = ", ".join(self.features) or "none"
                raise LogError(f"no event has the shared feature '{key}'{did_you_mean(key, self.features)}; features: {known}")
        for key in ("EventId", "p"):
            if 0 < self.counts[key] < events:
                raise LogError(f"{self.counts[key]} of {events} events have the key '{key}': all of them must have it, or none")
        rates = list(self.dropped.items())
        if len(rates) > 1:
            (one, first), (other, second) = rates[:2]
            raise LogError(
                f"{second}, key 'pdrop': found {other:g}, but {one:g} at {first}: events were thinned at different rates, so "
                "that those in the file are not like those that happened. Convert stretches of one rate by themselves"
            )
        lost = [line for line in apart if line.event_id not in self.ids]
        self.dangling = len(lost)
        if not declared.thinned:
            self._check_thinning(lost, len(apart), rates[0][0])
        if declared.unobserved is None:
            self._check_outcomes()

    def _check_thinning(self, lost: Sequence[DsjsonOutcome], outcomes: int, rate: float) -> None:
        """Raise LogError if decisions are missing. lost: outcomes without a decision. rate: at which events were dropped."""
        if lost and len(lost) == outcomes:
            theirs = "has none" if lost[0].event_id is None else f"has '{lost[0].event_id}'"
            own = next((f"a decision has '{name}' ({where})" for name, where in self.ids.items()), "no decision has one")
            raise LogError(
                f"{lost[0].where}, key 'EventId': an outcome {theirs}, but {own}: not one of the {outcomes} outcomes belongs to "
                "a decision, their ids do not match. Name the files of the decisions and of their outcomes together"
            )
        if rate > 0 or lost:
            reason = f"'pdrop' is {rate:g}" if rate > 0 else f"{len(lost)} outcomes have no decision in the file"
            raise LogError(
                f"{reason}: decisions are missing from this file. A certificate then speaks of all decisions only if those that "
                "are missing were left out by a coin toss that looked at nothing (neither context, nor action, nor outcome): "
                "declare it with --thinned if you know that it was so"
            )

    def _check_outcomes(self) -> None:
        """Raise LogError if some events have an outcome and some have none, or no event has one."""
        declare = (
            "which is right only if no outcome means that nothing happened: declare --unobserved cost in that case, "
            "--unobserved missing if outcomes may have been lost"
        )
        where = self.observed.get(False) or self.observed.get(None)
        if len(self.observed) > 1:
            raise LogError(
                f"{where}, key 'o': this event has no outcome, others have (in 'o', or in a line with its EventId and a "
                f"'RewardValue'). Its cost is then a default, {declare}"
            )
        if True not in self.observed and (False in self.observed or self.costs == {0.0}):
            sign = "an empty 'o'" if False in self.observed else "the cost 0 and no 'o'"
            raise LogError(
                f"{where}: not one of the {self.counts['kept']} decisions has an outcome (all have {sign}). Outcomes in a file "
                "of their own (lines with 'EventId' and 'RewardValue') are to be named with it. Else these costs are defaults, "
                f"{declare}"
            )

    @property
    def contexts(self) -> tuple[str, ...]:
        """Return the shared features that become contexts, in the order of the first event that has them."""
        return tuple(
            key for key in self.kinds if key != self.declared.cluster and (self.kinds[key] is None or self._values(key)[1:])
        )

    def problem(self) -> Problem:
        """Return the problem of the log; LogError if a feature has the name of another column."""
        labels = tuple(self.actions)
        own = [EPISODE, TIME, ACTION, REWARD, CLUSTER, *(f"p:{label}" for label in labels), *(f"can:{label}" for label in labels)]
        for key in self.contexts:
            if key in own:
                raise LogError(
                    f"the shared feature '{key}' has the name of a column of the log; name the contexts to keep without it"
                )
        if len(labels) < 2:
            raise LogError(f"all actions are called '{labels[0]}': choose another --action-key")
        context = tuple(
            Variable(key) if self.kinds[key] is None else Variable(key, "categorical", values=tuple(self._values(key)))
            for key in self.contexts
        )
        full = tuple(f"p:{label}" for label in labels)
        propensity = Propensity(columns=full) if self.counts["p"] else Propensity(column="p")
        masks = tuple(f"can:{label}" for label in labels) if self.masked else ()
        level = Level(self.declared.level, Actions(ACTION, labels, "labels"), context, propensity, EPISODE, masks)
        return Problem(
            (level,),
            Reward(REWARD, self.declared.reward_range),
            episode=(EPISODE,),
            cluster=None if self.declared.cluster is None else CLUSTER,
            time=TIME if self.counts["Timestamp"] == self.counts["kept"] else None,
        )

    def _absent(self, key: str) -> bool:
        """Return whether some events do not have a feature."""
        return self.present[key] < self.counts["kept"]

    def _values(self, key: str) -> list[str]:
        """Return the categories of a feature of texts."""
        known = self.kinds[key] or {}
        return [*known, *([ABSENT_CATEGORY] if self._absent(key) and ABSENT_CATEGORY not in known else [])]

    def notes(self) -> tuple[str, ...]:
        """Return what to know about the log."""
        declared, counts = self.declared, self.counts
        models = self.models - {None}
        constant = [key for key in self.kinds if key != declared.cluster and key not in self.contexts]
        same_cost = True not in self.observed and len(self.costs) == 1
        notes = {
            f"{counts['kept']} decisions; rewards are costs with the other sign": True,
            "no reward range was declared: put one into problem.yaml before anything is certified": declared.reward_range is None,
            "an action is its place in '_multi': name its feature (--action-key) if places change their meaning": (
                declared.action_key is None
            ),
            "features of single actions are not contexts of a decision and were left out": (
                self.featured and declared.action_key is None
            ),
            "only the probability of the action taken is known: sharper certificates need 'a' and 'p'": not counts["p"],
            f"{len(models)} models wrote this log, so that it learned: learn with --split time": len(models) > 1,
            f"{counts['joined']} outcomes stood in lines of their own and were joined to their decisions by EventId": (
                counts["joined"]
            ),
            "decisions are missing from the file, declared to be left out by a coin toss that looked at nothing": (
                max(self.dropped) > 0 or self.dangling
            ),
            f"{counts['skipped']} events were marked _skipLearn: declared '{declared.skipped}'": counts["skipped"],
            f"{counts['deferred']} deferred actions were never activated: declared '{declared.skipped}'": counts["deferred"],
            f"no decision tells of an outcome, and all have the same cost, {min(self.costs):g}": same_cost,
            f"events without an outcome: declared '{declared.unobserved}'": len(self.observed) > 1,
            "some events have no Timestamp: times were left out": 0 < counts["Timestamp"] < counts["kept"],
            f"shared features that never change were left out: {', '.join(constant)}": constant,
            "a number that an event does not have is 0, as in Vowpal Wabbit": any(
                self.kinds[key] is None and self._absent(key) for key in self.contexts
            ),
        }
        return tuple(note for note, applies in notes.items() if applies)


def _undeclared_skip(event: DsjsonEvent) -> LogError:
    fault = "'_skipLearn': the event was marked not to be learned from, as when its action was never shown."
    if event.deferred:
        fault = "'DeferredAction': the action was to wait for its activation ('ActionTaken'), and the file has none."
    return LogError(
        f"{event.where}, key {fault} If that can depend on the action, leaving it out favours actions that are shown rarely: "
        "declare skipped 'missing' (it counts at its worst), or 'left out' if it has nothing to do with the action (--skipped)"
    )


def read_dsjson(paths: str | Path | Sequence[str | Path], declared: DsjsonDeclaration | None = None) -> ConvertedLog:
    """Return DSJSON files (`.gz` too) as one log in memory; LogError names file, line and key of what cannot be used."""
    survey, tables = _survey_files(paths, declared)
    return ConvertedLog(pa.concat_tables(list(tables)), survey.problem(), survey.notes())


def convert_dsjson(
    paths: str | Path | Sequence[str | Path], folder: str | Path, declared: DsjsonDeclaration | None = None
) -> tuple[int, Problem, tuple[str, ...]]:
    """Write DSJSON files as `log.parquet` and `problem.yaml` into a folder, block by block; return rows, problem and notes."""
    survey, tables = _survey_files(paths, declared)
    problem = survey.problem()
    return write_converted(tables, problem, folder), problem, survey.notes()


def _survey_files(
    paths: str | Path | Sequence[str | Path], declared: DsjsonDeclaration | None
) -> tuple[DsjsonSurvey, Iterator[pa.Table]]:
    """Return the checked survey of files, and the rows of the log, some at a time."""
    files = [paths] if isinstance(paths, str | Path) else list(paths)
    if not files:
        raise SettingError("there is no file to convert; name at least one")
    apart = read_dsjson_outcomes(files)
    by_id: dict[str, list[DsjsonOutcome]] = {}
    for outcome in apart:
        if outcome.event_id is not None:
            by_id.setdefault(outcome.event_id, []).append(outcome)
    survey = DsjsonSurvey(declared or DsjsonDeclaration())
    for event in read_dsjson_events(files, by_id):
        survey.add(event)
    survey.check(apart)
    return survey, _tables(survey, read_dsjson_events(files, by_id))


def _tables(survey: DsjsonSurvey, events: Iterator[DsjsonEvent]) -> Iterator[pa.Table]:
    problem = survey.problem()
    schema = _schema(survey, problem)
    logged = (event for event in events if not (event.unused and survey.declared.skipped == "left out"))
    rows = (_row(event, survey, problem, number) for number, event in enumerate(logged, 1))
    while block := list(itertools.islice(rows, ROWS_AT_ONCE)):
        yield pa.Table.from_pylist(block, schema)


def _schema(survey: DsjsonSurvey, problem: Problem) -> pa.Schema:
    level = problem.innermost
    kinds: dict[str, pa.DataType] = {EPISODE: pa.string() if survey.counts["EventId"] else pa.int64()}
    if problem.time is not None:
        kinds[TIME] = pa.timestamp("us")
    if problem.cluster is not None:
        kinds[CLUSTER] = pa.string()
    kinds |= {name: pa.float64() if survey.kinds[name] is None else pa.string() for name in survey.contexts}
    kinds[ACTION] = pa.string()
    kinds |= dict.fromkeys(level.available, pa.bool_())
    kinds |= dict.fromkeys(level.propensity.log_columns if level.propensity else (), pa.float64())
    return pa.schema({**kinds, REWARD: pa.float64()})


def _row(event: DsjsonEvent, survey: DsjsonSurvey, problem: Problem, number: int) -> dict[str, Any]:
    """Return one decision as a row of the log."""
    labels = action_labels(event, survey.declared.action_key)
    row: dict[str, Any] = {EPISODE: event.event_id if survey.counts["EventId"] else number, ACTION: labels[event.taken]}
    if problem.time is not None:
        row[TIME] = _event_time(event)
    if survey.declared.cluster is not None:
        value = event.shared.get(survey.declared.cluster)
        if value is None:
            raise LogError(f"{event.where}, key 'c.{survey.declared.cluster}': is missing; every event belongs to a cluster")
        row[CLUSTER] = _id_text(value)
    for key in survey.contexts:
        value = event.shared.get(key)
        if survey.kinds[key] is None:
            row[key] = 0.0 if value is None else float(value)
        else:
            row[key] = ABSENT_CATEGORY if value is None else str(value)
    row |= {f"can:{label}": label in labels for label in survey.actions if problem.innermost.available}
    if event.chances is None:
        row["p"] = event.chance
    else:
        row |= dict.fromkeys((f"p:{label}" for label in survey.actions), 0.0)
        row |= {f"p:{label}": chance for label, chance in zip(labels, event.chances, strict=True)}
    lost = (event.unused and survey.declared.skipped == "missing") or (
        not event.observed and survey.declared.unobserved == "missing"
    )
    return {**row, REWARD: None if lost else -event.cost}


def _id_text(value: Any) -> str:
    """Return an id as text; a number counts by its size, 1.0 like 1. The survey checked that it is a number everywhere."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _event_time(event: DsjsonEvent) -> datetime.datetime:
    """Return when an event happened, in UTC without saying so, as logs have it."""
    try:
        time = datetime.datetime.fromisoformat(str(event.time))
    except ValueError as error:
        raise LogError(
            f"{event.where}, key 'Timestamp': found '{event.time}'; expected a time such as 2021-07-29T10:00:00.999Z"
        ) from error
    return time if time.tzinfo is None else time.astimezone(datetime.UTC).replace(tzinfo=None)
