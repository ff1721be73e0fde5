"""The pictures of a handover: reward, certified gain level by level, evidence of every challenge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from aegis.certificate.measures import Measure
from aegis.handover.events import Event, Flipped
from aegis.report.charts.trajectory import Curve, Mark, Rule, trajectory_chart
from aegis.report.handover_path import Trajectory
from aegis.report.numbers import DOWN, brief, count, percent

DOTS = 160  # means of consecutive episodes that are drawn as dots
DEPTH = 2.5  # how far below 0 early bounds are drawn, as a multiple of what lies above
LOWEST_SHARE = -0.5  # of evidence that is drawn
Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture with its title, and what was left out of it."""

    title: str
    picture: Markup
    left_out: str = ""


def reward_figure(rewards: Values, flips: Sequence[Flipped], truth: Mapping[str, float] | None, words: str) -> Figure:
    """Return mean rewards `[episodes]`, as logged with nan where they are missing, with their moving average."""
    window = window_of(rewards.size)
    curves = [Curve(_dots(rewards), "reward-dot", dots=True), Curve(_moving(rewards, window), "bound-line")]
    rules = [
        Rule(truth[who], style) for who, style in (("legacy", "legacy-line"), ("oracle", "oracle-line")) if truth and who in truth
    ]
    finite = rewards[np.isfinite(rewards)]
    said = f"Mean over all episodes {brief(float(finite.mean()))}." if finite.size else "No reward was observed."
    said += "".join(f" {flip.level} changes hands after episode {flip.episode}." for flip in flips)
    title = f"Reward {words}, with its average over {window} episodes"
    drawn, _ = trajectory_chart("reward", title, said, rewards.size, curves, rules, _marks(flips))
    return Figure(title, drawn)


def bound_figures(path: Trajectory, flips: Sequence[Flipped], measure: Measure, episodes: int, words: str) -> tuple[Figure, ...]:
    """Return, level by level, the highest bound of the gain among open challenges; a new line in each phase. words: its name."""
    return tuple(
        _bounds(f"bound-{place}", level, path, flips, measure, episodes, words)
        for place, level in enumerate(path.bounds)
        if path.bounds[level]
    )


def evidence_figures(path: Trajectory, flips: Sequence[Flipped], episodes: int) -> tuple[Figure, ...]:
    """Return, level by level, the evidence of every challenge as a share of what certifies it."""
    found = []
    for place, level in enumerate(path.bounds):
        courses = [course for course in path.courses if course.level == level]
        if not courses:
            continue
        ordered = sorted(courses, key=lambda course: course.won)  # what won is drawn last, above the others
        curves = [Curve(course.points, "won-line" if course.won else "course-line") for course in ordered]
        best = max(courses, key=lambda course: course.points[-1][1])
        said = f"{len(courses)} challenges; {best.name} ends at {percent(best.points[-1][1], DOWN)} of what certifies it."
        own = [flip for flip in flips if flip.level == level]
        title = f"Evidence of the challenges at \u2018{level}\u2019"
        rules = [Rule(1.0, "margin")]
        drawn, floor = trajectory_chart(f"evidence-{place}", title, said, episodes, curves, rules, _marks(own), LOWEST_SHARE)
        found.append(Figure(title, drawn, "" if floor is None else f"Evidence below {brief(floor)} is not drawn."))
    return tuple(found)


def flips_of(events: Sequence[Event]) -> list[Flipped]:
    """Return the flips."""
    return [event for event in events if isinstance(event, Flipped)]


def window_of(episodes: int) -> int:
    """Return over how many episodes the reward is averaged."""
    return int(min(max(10, episodes // 25), 200))


def _bounds(
    name: str, level: str, path: Trajectory, flips: Sequence[Flipped], measure: Measure, episodes: int, words: str
) -> Figure:
    phases = path.bounds[level]
    margin = phases[0][0].margin
    own = [flip for flip in flips if flip.level == level]
    until = own[0].episode if own else episodes
    curves = [
        Curve([(float(item.episode), item.bound) for item in phase], "bound-line" if phase[-1].episode <= until else "later-line")
        for phase in phases
    ]
    certified = [measure.gain(flip.gain_lower) for flip in own]
    # After a level has changed hands upgrades start far below again; they do not decide what is worth drawing.
    above = max([abs(margin), *map(abs, certified), *[abs(p[-1].bound) for p in phases if p[-1].episode <= until]], default=0.0)
    last = phases[-1][-1]
    leads = f" ({last.challenge})" if last.challenge else ""
    said = f"After {count(last.episode)} episodes the bound is {brief(last.bound, DOWN, sign=True)}{leads}."
    said += "".join(f" Changes hands after episode {flip.episode}." for flip in own)
    title = f"{words} at \u2018{level}\u2019"
    drawn, floor = trajectory_chart(
        name, title, said, episodes, curves, [Rule(margin, "margin")], _marks(flips), -DEPTH * above if above else None
    )
    return Figure(title, drawn, "" if floor is None else f"Early bounds below {brief(floor)} are not drawn.")


def _marks(flips: Sequence[Flipped]) -> list[Mark]:
    words: dict[str, Any] = {"handover": "{} handed over", "upgrade": "{} upgraded"}
    return [Mark(flip.episode, words.get(flip.action, "{} flips").format(flip.level)) for flip in flips]


def _dots(rewards: Values) -> list[tuple[float, float]]:
    size = max(1, -(-rewards.size // DOTS))
    found = []
    for first in range(0, rewards.size, size):  # parts of the chart, not rows
        part = rewards[first : first + size]
        if np.isfinite(part).any():
            found.append((first + (part.size + 1) / 2, float(np.nanmean(part))))
    return found


def _moving(rewards: Values, window: int) -> list[tuple[float, float]]:
    """Return the mean of the last `window` observed rewards, at up to a few hundred episodes."""
    known = np.isfinite(rewards)
    sums = np.concatenate([[0.0], np.cumsum(np.where(known, rewards, 0.0))])
    counts = np.concatenate([[0], np.cumsum(known)])
    ends = np.unique(np.linspace(min(window, rewards.size), rewards.size, 2 * DOTS).astype(int))
    starts = np.maximum(ends - window, 0)
    seen = counts[ends] - counts[starts]
    means = (sums[ends] - sums[starts]) / np.maximum(seen, 1)
    return [(float(end), float(mean)) for end, mean, number in zip(ends, means, seen, strict=True) if number]
