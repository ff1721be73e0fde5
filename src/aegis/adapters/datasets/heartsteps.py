"""HeartSteps V1, a micro-randomised trial: send a suggestion or not (outer), of which type (inner, only if one is sent)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from aegis.adapters.base import ConvertedLog
from aegis.adapters.datasets.published_table import Flags, PublishedTable, Texts, columns_of, read_only_file
from aegis.problem import Actions, Level, Problem, Propensity, Reward, Variable

FILE = "suggestions.csv"
ENCODING = "cp1252"
SEND, EVEN = 0.6, 0.5  # the documented probabilities of a suggestion, and of either type once there is one
MOST_STEPS = 7500  # 250 a minute for half an hour, faster than people run
ACTIVITIES = ("STILL", "ON_FOOT", "ON_BICYCLE", "IN_VEHICLE", "AUGMENTED_VEHICLE", "UNKNOWN", "not connected")
PLACES = ("home", "work", "other", "unknown")
_WANTED = (
    *("user.index", "decision.index", "sugg.select.update", "sugg.select.slot", "avail", "send", "send.active", "send.sedentary"),
    *("recognized.activity", "dec.weather.condition", "dec.location.category", "jbsteps30", "jbsteps30pre.zero"),
)


def read_heartsteps(paths: Sequence[Path]) -> ConvertedLog:
    """Return the published `suggestions.csv` as a log of two levels, `send` above `type`, with the person as the cluster.

    Every row of the file is a row of the log. Where the person was not available nothing was drawn: only what happened was
    possible, with probability one. A step count that is missing is a missing reward (the file also offers zeros in its place).
    Raises LogError that names file, row and column.
    """
    published = read_only_file(paths, f"the {FILE} of HeartSteps V1", _WANTED, ENCODING)
    available, _ = published.flags("avail")
    sent, stated = published.flags("send", missing=True)
    published.refuse(available & ~stated, "send", "expected TRUE or FALSE where avail is TRUE")
    kind = _types(published, sent)
    steps = published.numbers("jbsteps30", "a number of steps from 0 on, or nothing", low=0, missing=True)
    before = published.numbers("jbsteps30pre.zero", "a number of steps from 0 on", low=0)
    person = published.numbers("user.index", "the number of a person", low=0).astype(np.int64)
    decision = published.numbers("decision.index", "the number of a decision", low=0).astype(np.int64)
    published.refuse(_repeated(person, decision), "decision.index", "expected each decision of a person once")
    untyped = sent & (kind == "none")
    drawn = sent & ~untyped
    table = pa.table(
        columns_of(
            person=person,
            decision=decision,
            day=_days(published),
            slot=published.text("sugg.select.slot", ["1", "2", "3", "4", "5"]),
            activity=_activities(published),
            weather=np.where(np.isin(published.text("dec.weather.condition"), ["", "unknown"]), "unknown", "known"),
            place=_places(published),
            steps_before=np.log(before + 0.5),
            send=np.where(sent, "yes", "no"),
            can_skip=(available | ~sent).astype(np.int64),
            can_send=(available | sent).astype(np.int64),
            p_skip=np.where(available, 1.0 - SEND, ~sent),
            p_send=np.where(available, SEND, sent),
            type=kind,
            can_none=(~drawn).astype(np.int64),
            can_active=drawn.astype(np.int64),
            can_sedentary=drawn.astype(np.int64),
            p_none=np.where(drawn, 0.0, 1.0),
            p_active=np.where(drawn, EVEN, 0.0),
            p_sedentary=np.where(drawn, EVEN, 0.0),
            log_steps=np.log(steps + 0.5),
        )
    )
    return ConvertedLog(table, heartsteps_problem(), notes=_notes(published, available, sent, untyped, np.isnan(steps)))


def heartsteps_problem() -> Problem:
    """Return the problem: a decision point is an episode, the person the cluster, the reward the log of steps plus one half."""
    context = (
        Variable("slot", "categorical", values=("1", "2", "3", "4", "5")),
        Variable("can_skip"),
        Variable("can_send"),
        Variable("activity", "categorical", values=ACTIVITIES),
        Variable("weather", "categorical", values=("known", "unknown")),
        Variable("place", "categorical", values=PLACES),
        Variable("steps_before"),
    )
    send = Level(
        "send",
        Actions.of("send", ("no", "yes")),
        context,
        Propensity(columns=("p_skip", "p_send"), least=1.0 - SEND),
        available=("can_skip", "can_send"),
    )
    kind = Level(
        "type",
        Actions.of("type", ("none", "active", "sedentary")),
        propensity=Propensity(columns=("p_none", "p_active", "p_sedentary"), least=EVEN),
        available=("can_none", "can_active", "can_sedentary"),
    )
    limits = (float(np.log(0.5)), float(np.log(MOST_STEPS + 0.5)))
    reward = Reward("log_steps", limits, unit="log steps")
    return Problem((send, kind), reward=reward, episode=("person", "decision"), cluster="person", time="day")


def _types(published: PublishedTable, sent: Flags) -> Texts:
    """Return the type of each suggestion, `none` where there is none."""
    active, _ = published.flags("send.active", missing=True)
    sedentary, _ = published.flags("send.sedentary", missing=True)
    published.refuse(active & sedentary, "send.active", "expected one type, not both")
    published.refuse((active | sedentary) & ~sent, "send", "expected TRUE where a suggestion has a type")
    return np.where(active, "active", np.where(sedentary, "sedentary", "none"))


def _days(published: PublishedTable) -> Texts:
    """Return dates such as `2015-07-22`, for `2015/7/22` and for themselves."""
    dates = np.array([_iso(day) for day in published.text("sugg.select.update")])
    published.refuse(dates == "", "sugg.select.update", "expected a date such as 2015/7/22")
    return dates


def _iso(day: str) -> str:
    try:
        return datetime.strptime(day.replace("-", "/"), "%Y/%m/%d").date().isoformat()
    except ValueError:
        return ""


def _activities(published: PublishedTable) -> Texts:
    stated = published.text("recognized.activity", [*ACTIVITIES[:-1], ""])
    return np.where(stated == "", ACTIVITIES[-1], stated)


def _places(published: PublishedTable) -> Texts:
    stated = published.text("dec.location.category")
    return np.where(np.isin(stated, ["", "unknown"]), "unknown", np.where(np.isin(stated, PLACES[:2]), stated, "other"))


def _repeated(person: np.typing.NDArray[np.int64], decision: np.typing.NDArray[np.int64]) -> Flags:
    pairs = np.stack([person, decision], axis=1)
    _, first = np.unique(pairs, axis=0, return_index=True)
    again = np.ones(len(pairs), dtype=bool)
    again[first] = False
    return again


def _notes(published: PublishedTable, available: Flags, sent: Flags, untyped: Flags, missing: Flags) -> tuple[str, ...]:
    forced = ~available & sent
    notes = [
        f"{int((~available).sum()):,} of {len(published):,} decisions were not drawn, because the person was not available: only "
        "what happened was possible there, with probability 1",
        f"{int(missing.sum()):,} step counts ({missing.mean():.1%}) are missing and stay missing rewards; the file's zeros in "
        "their place (jbsteps30.zero) are not used",
        f"the propensities are the documented ones: send {SEND:g}, and then {EVEN:g} for either type",
    ]
    if forced.any():
        notes.append(f"sent although not available: {published.rows(forced)}; kept, as decisions that were not drawn")
    if untyped.any():
        notes.append(f"sent, but of no recorded type: {published.rows(untyped)}; kept, with type 'none' as the only possible one")
    return tuple(notes)
