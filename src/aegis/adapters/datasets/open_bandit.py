"""The Open Bandit Dataset: which item to show at which position of a fashion site, by a uniform choice or Thompson sampling."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aegis.adapters.base import ConvertedLog
from aegis.adapters.datasets.published_table import PublishedTable, Texts, columns_of, read_published_table
from aegis.errors import LogError, check_choice
from aegis.policies import Legacy, Shares, Uniform
from aegis.problem import Actions, Level, Policy, Problem, Propensity, Reward, Variable

CAMPAIGNS = {"all": 80, "men": 34, "women": 46}  # how many items each has
LOGGERS = ("random", "bts")
UNITS = ("window", "impression")
WINDOW_GAP = 5  # minutes between two windows: longer than any draw is seen to be held
POSITIONS = ("1", "2", "3")
_ROUND_OFF = 1e-9
EXPECTED_FILE = "the file obp-0.4.1-py3-none-any.whl (or a folder with bts/ and random/ in it)"
_INSIDE = "obp/dataset/obd"
_FEATURES = tuple(f"user_feature_{index}" for index in range(4))
_WANTED = ("timestamp", "item_id", "position", "click", "propensity_score", *_FEATURES)


def read_open_bandit(
    paths: Sequence[Path], campaign: str = "all", logged_by: str = "random", unit: str = "window"
) -> ConvertedLog:
    """Return one campaign as one policy logged it, with the other policy as a candidate.

    Every row is an episode of one decision; its context is the position and the four (hashed) features of the user. The random
    log has the whole distribution (uniform), that of bts the propensity of the item shown. The candidate `bts` of a random log
    is a frozen table: the share of each item at each position in the log of bts. The candidate `random` of a bts log is the
    uniform choice.

    unit: impressions of one position that are less than a minute or two apart show the same item far too often for draws of
    their own. `window` makes a cluster of each hour and leaves its first five minutes out, so that no draw is in two clusters;
    `impression` keeps every row as if it had a draw of its own, which the audit refuses. Raises LogError that names file, row
    and column.
    """
    for value, allowed, what in ((campaign, CAMPAIGNS, "campaign"), (logged_by, LOGGERS, "logger"), (unit, UNITS, "unit")):
        check_choice(value, allowed, what)
    if len(paths) != 1:
        raise LogError(f"found {len(paths)} files; expected one, {EXPECTED_FILE}")
    logs = {logger: _read_campaign(Path(paths[0]), logger, campaign) for logger in LOGGERS}
    published, items = logs[logged_by], CAMPAIGNS[campaign]
    problem = open_bandit_problem(_features(logs), items, logged_by, unit)
    score = published.numbers("propensity_score", "a probability above 0 and at most 1", low=np.finfo(float).tiny, high=1)
    if logged_by == "random":
        wrong = np.abs(score * items - 1) > _ROUND_OFF
        published.refuse(wrong, "propensity_score", f"expected 1/{items}: the random policy chose evenly among {items} items")
    shown = _times(published)
    table = pa.table(
        columns_of(
            impression=np.arange(1, len(published) + 1),
            shown_at=shown,
            window=shown.astype("datetime64[h]").astype(str),
            position=published.text("position", POSITIONS),
            **{name: published.text(name) for name in _FEATURES},
            item=_items(published, items),
            propensity=score,
            click=published.zero_one("click"),
        )
    )
    candidate: Policy = _shares(logs["bts"], problem) if logged_by == "random" else Legacy(problem, {"item": Uniform()})
    notes = _notes(logs, logged_by)
    if unit == "window":
        late = (shown - shown.astype("datetime64[h]")) >= np.timedelta64(WINDOW_GAP, "m")
        left = f"{int((~late).sum()):,} impressions in the first {WINDOW_GAP} minutes of an hour are left out"
        table, notes = table.filter(late), (f"{left}, so that windows share no draw", *notes)
    return ConvertedLog(table=table, problem=problem, policies={_other(logged_by): candidate}, notes=notes)


def open_bandit_problem(features: Mapping[str, Sequence[str]], items: int, logged_by: str, unit: str) -> Problem:
    """Return the problem: an impression is an episode of one decision, a click its reward.

    features: the values of each category that is known of a user. unit: `window` makes clusters of hours.
    """
    position = Variable("position", "categorical", values=POSITIONS)
    users = tuple(Variable(name, "categorical", values=tuple(values)) for name, values in features.items())
    propensity = Propensity(policy="uniform") if logged_by == "random" else Propensity(column="propensity")
    actions = Actions.of("item", tuple(str(index) for index in range(items)))
    level = Level("item", actions, (position, *users), propensity, decision="impression")
    reward, cluster = Reward("click", (0.0, 1.0), unit="clicks"), "window" if unit == "window" else None
    return Problem((level,), reward=reward, episode=("impression",), cluster=cluster, time="shown_at")


def _other(logged_by: str) -> str:
    return LOGGERS[1 - LOGGERS.index(logged_by)]


def _read_campaign(path: Path, logger: str, campaign: str) -> PublishedTable:
    """Return the log of one policy in one campaign, out of the package's file or of a folder."""
    inside = f"{logger}/{campaign}/{campaign}.csv"
    if path.is_dir():
        for place in (path / inside, path / _INSIDE / inside):
            if place.is_file():
                return read_published_table(place.read_bytes(), str(place), _WANTED)
        raise LogError(f"{path} holds neither {inside} nor {_INSIDE}/{inside}; expected {EXPECTED_FILE}")
    if not path.exists():
        raise LogError(f"{path} does not exist; expected {EXPECTED_FILE}")
    try:
        with zipfile.ZipFile(path) as wheel:
            content = wheel.read(f"{_INSIDE}/{inside}")
    except KeyError as error:
        raise LogError(f"{path} does not hold {_INSIDE}/{inside}; expected {EXPECTED_FILE}") from error
    except (OSError, zipfile.BadZipFile) as error:
        raise LogError(f"{path} cannot be read as a package file: {error}; expected {EXPECTED_FILE}") from error
    return read_published_table(content, f"{path}/{_INSIDE}/{inside}", _WANTED)


def _features(logs: Mapping[str, PublishedTable]) -> dict[str, list[str]]:
    """Return the values of each user feature in both logs, so that both have the same categories; one value is no category."""
    values = {name: sorted({str(value) for log in logs.values() for value in np.unique(log.text(name))}) for name in _FEATURES}
    return {name: categories for name, categories in values.items() if len(categories) > 1}


def _items(published: PublishedTable, items: int) -> Texts:
    return published.text("item_id", [str(index) for index in range(items)])


def _times(published: PublishedTable) -> npt.NDArray[np.datetime64]:
    """Return when each item was shown, in microseconds of universal time."""
    shown = published.text("timestamp")
    times = np.array([_time(str(text)) for text in shown], dtype="datetime64[us]")
    published.refuse(np.isnat(times), "timestamp", "expected a time such as 2019-11-24 00:00:34.762830+00:00")
    return times


def _time(text: str) -> np.datetime64:
    try:
        moment = datetime.fromisoformat(text)
        return np.datetime64(moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment, "us")
    except ValueError:
        return np.datetime64("NaT", "us")


def _shares(bts: PublishedTable, problem: Problem) -> Legacy:
    """Return how often bts showed each item at each position, as a policy that does not change any more.

    The share of an item is an unbiased estimate of its mean propensity over the log; unlike means of the propensities of items
    that were shown, shares sum to one.
    """
    values = problem.innermost.actions.values
    item, position = _items(bts, len(values)), bts.text("position", POSITIONS)
    counts = np.array(
        [[np.sum((position == at) & (item == str(value))) for value in values] for at in POSITIONS], dtype=np.float64
    )
    empty = counts.sum(axis=1) == 0
    if empty.any():
        raise LogError(
            f"{bts.file}: nothing was shown at position {POSITIONS[int(np.argmax(empty))]}; expected all three positions"
        )
    rows = (counts / counts.sum(axis=1, keepdims=True)).tolist()
    return Legacy(problem, {"item": Shares(tuple(tuple(row) for row in rows), "position")})


def _notes(logs: Mapping[str, PublishedTable], logged_by: str) -> tuple[str, ...]:
    other, log = _other(logged_by), logs[_other(logged_by)]
    clicks, score = log.zero_one("click"), logs[logged_by].numbers("propensity_score", "a probability")
    frozen = "a frozen table: its share of each item at each position" if other == "bts" else "the uniform choice"
    return (
        f"the candidate '{other}' is {frozen}; no click of this log went into it",
        f"on its own log of {len(log):,} impressions '{other}' has a mean of {clicks.mean():.5f} clicks",
        f"propensities of this log are from {score.min():.3g} to {score.max():.3g}",
    )
