"""Charts of a handover over episodes: the reward, the certified gain at each level, the evidence of every challenge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from aegis.handover import Event, Flipped
from aegis.ope import Measure
from aegis.report.gate_standing import GateTrajectory, LeadingBound
from aegis.report.numbers import DOWN, format_brief, format_count, format_percent
from aegis.report.svg import Axis, frame, label, line, picture, polyline, tag

WIDTH, HEIGHT = 640.0, 264.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 632.0, 40.0, 220.0

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class ChartCurve:
    """A line through points (episode, value); dots: a mark at each point instead of a line."""

    points: Points
    style: str
    dots: bool = False


def trajectory_chart(
    name: str,
    title: str,
    description: str,
    episodes: int,
    curves: Sequence[ChartCurve],
    rules: Sequence[tuple[float, str]] = (),
    marks: Sequence[tuple[int, str]] = (),
    floor: float | None = None,
) -> tuple[Markup, float | None]:
    """Return the picture, and the value below which points were left out of it (None: all are drawn).

    description: the picture in words. rules: level lines, as value and style. marks: episodes with a word above them. floor: the
    lowest value worth drawing; lines enter from below.
    """
    values = [value for curve in curves for _, value in curve.points] + [value for value, _ in rules]
    lowest = min(values, default=0.0) if floor is None else max(floor, min(values, default=0.0))
    across = Axis(0.0, float(max(episodes, 1)), LEFT, RIGHT)
    up = Axis.around([max(value, lowest) for value in values] or [0.0], BOTTOM, TOP)
    shapes = frame(across, up, (8, 5), "episodes", HEIGHT - 8)
    shapes += [line(LEFT, up(value), RIGHT, up(value), style) for value, style in rules if value >= up.low]
    for curve in curves:
        shapes += _draw_curve(curve, across, up)
    shapes += _draw_marks(marks, across)
    left_out = any(value < up.low for value in values)
    return picture(name, (WIDTH, HEIGHT), title, description, *shapes, style="chart wide"), up.low if left_out else None


def _draw_curve(curve: ChartCurve, across: Axis, up: Axis) -> list[Markup]:
    if curve.dots:
        return [tag("circle", cx=across(x), cy=up(y), r=1.6, class_=curve.style) for x, y in curve.points if y >= up.low]
    pieces: list[list[tuple[float, float]]] = [[]]
    before: tuple[float, float] | None = None
    for x, y in curve.points:
        if y < up.low:
            if pieces[-1]:
                pieces.append([])
        else:
            if before is not None and before[1] < up.low:
                pieces[-1].append((across(x), BOTTOM))  # what lies below is not drawn; the line enters from there
            pieces[-1].append((across(x), up(y)))
        before = (x, y)
    return [polyline(points, curve.style) for points in pieces if points]


def _draw_marks(marks: Sequence[tuple[int, str]], across: Axis) -> list[Markup]:
    shapes = []
    for place, (episode, word) in enumerate(marks):
        x = across(float(episode))
        anchor = "end" if x > RIGHT - 90 else "start"
        height = TOP - 7 - 16 * (place % 2)  # neighbours do not write over each other
        shapes += [
            line(x, height + 3, x, BOTTOM, "flip-line"),
            label(x + (3 if anchor == "start" else -3), height, word, "tick flip-word", anchor),
        ]
    return shapes


REWARD_DOTS = 160  # means of consecutive episodes that are drawn as dots
BOUND_DEPTH = 2.5  # how far below 0 early bounds are drawn, as a multiple of what lies above
LOWEST_SHARE = -0.5  # of evidence that is drawn

RewardArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HandoverFigure:
    """A picture with its title, and what was left out of it."""

    title: str
    picture: Markup
    left_out: str = ""


def reward_figure(
    rewards: RewardArray, flips: Sequence[Flipped], truth: Mapping[str, float] | None, words: str
) -> HandoverFigure:
    """Return mean rewards `[episodes]`, as logged with nan where they are missing, with their moving average."""
    window = window_of(rewards.size)
    curves = [ChartCurve(_dots(rewards), "reward-dot", dots=True), ChartCurve(_moving_average(rewards, window), "bound-line")]
    rules = [
        (truth[who], style) for who, style in (("legacy", "legacy-line"), ("oracle", "oracle-line")) if truth and who in truth
    ]
    finite = rewards[np.isfinite(rewards)]
    text = f"Mean over all episodes {format_brief(float(finite.mean()))}." if finite.size else "No reward was observed."
    text += "".join(f" {flip.level} changes hands after episode {flip.episode}." for flip in flips)
    title = f"Reward {words}, with its average over {window} episodes"
    drawn, _ = trajectory_chart("reward", title, text, rewards.size, curves, rules, _flip_marks(flips))
    return HandoverFigure(title, drawn)


def bound_figures(
    path: GateTrajectory, flips: Sequence[Flipped], measure: Measure, episodes: int, words: str, number: str = "bound"
) -> tuple[HandoverFigure, ...]:
    """Return, level by level, the highest bound of the gain among open challenges; a new line in each phase.

    words: the title. number: what is drawn; an estimate where nothing is bounded.
    """
    figures = []
    for place, (level, phases) in enumerate(path.bounds.items()):
        if not phases:
            continue
        own = [flip for flip in flips if flip.level == level]
        until = own[0].episode if own else episodes
        last = phases[-1][-1]
        leads = f" ({last.challenge})" if last.challenge else ""
        text = f"After {format_count(last.episode)} episodes the {number} is {format_brief(last.bound, DOWN, sign=True)}{leads}."
        text += "".join(f" Changes hands after episode {flip.episode}." for flip in own)
        title = f"{words} at \u2018{level}\u2019"
        curves, rules = _bound_curves(phases, until), [(phases[0][0].margin, "margin")]
        lowest = _lowest_bound(phases, until, [measure.gain(flip.gain_lower) for flip in own])
        drawn, floor = trajectory_chart(f"bound-{place}", title, text, episodes, curves, rules, _flip_marks(flips), lowest)
        left_out = "" if floor is None else f"Early {number}s below {format_brief(floor)} are not drawn."
        figures.append(HandoverFigure(title, drawn, left_out))
    return tuple(figures)


def evidence_figures(path: GateTrajectory, flips: Sequence[Flipped], episodes: int) -> tuple[HandoverFigure, ...]:
    """Return, level by level, the evidence of every challenge as a share of what certifies it."""
    figures = []
    for place, level in enumerate(path.bounds):
        courses = [course for course in path.courses if course.level == level]
        if not courses:
            continue
        ordered = sorted(courses, key=lambda course: course.won)  # what won is drawn last, above the others
        curves = [ChartCurve(course.points, "won-line" if course.won else "course-line") for course in ordered]
        best = max(courses, key=lambda course: course.points[-1][1])
        text = f"{len(courses)} challenges; {best.name} ends at {format_percent(best.points[-1][1], DOWN)} of what certifies it."
        own = [flip for flip in flips if flip.level == level]
        title = f"Evidence of the challenges at \u2018{level}\u2019"
        rules = [(1.0, "margin")]
        drawn, floor = trajectory_chart(f"evidence-{place}", title, text, episodes, curves, rules, _flip_marks(own), LOWEST_SHARE)
        left_out = "" if floor is None else f"Evidence below {format_brief(floor)} is not drawn."
        figures.append(HandoverFigure(title, drawn, left_out))
    return tuple(figures)


def flips_of(events: Sequence[Event]) -> list[Flipped]:
    """Return the flips."""
    return [event for event in events if isinstance(event, Flipped)]


def window_of(episodes: int) -> int:
    """Return over how many episodes the reward is averaged."""
    return int(min(max(10, episodes // 25), 200))


def _bound_curves(phases: Sequence[Sequence[LeadingBound]], until: int) -> list[ChartCurve]:
    """Return a line for each phase. until: the episode after which the level changed hands first."""
    return [
        ChartCurve(
            [(float(item.episode), item.bound) for item in phase], "bound-line" if phase[-1].episode <= until else "later-line"
        )
        for phase in phases
    ]


def _lowest_bound(phases: Sequence[Sequence[LeadingBound]], until: int, certified: Sequence[float]) -> float | None:
    """Return the lowest bound worth drawing; None draws all. certified: gains with which the level changed hands.

    After a level has changed hands upgrades start far below again; they do not decide what is worth drawing.
    """
    ends = [phase[-1].bound for phase in phases if phase[-1].episode <= until]
    above = max(abs(value) for value in (phases[0][0].margin, *certified, *ends))
    return -BOUND_DEPTH * above if above else None


def _flip_marks(flips: Sequence[Flipped]) -> list[tuple[int, str]]:
    words = {"handover": "handed over", "upgrade": "upgraded"}
    return [(flip.episode, f"{flip.level} {words.get(flip.action, 'flips')}") for flip in flips]


def _dots(rewards: RewardArray) -> list[tuple[float, float]]:
    size = max(1, -(-rewards.size // REWARD_DOTS))
    dots = []
    for first in range(0, rewards.size, size):  # parts of the chart, not rows
        part = rewards[first : first + size]
        if np.isfinite(part).any():
            dots.append((first + (part.size + 1) / 2, float(np.nanmean(part))))
    return dots


def _moving_average(rewards: RewardArray, window: int) -> list[tuple[float, float]]:
    """Return the mean of the last `window` observed rewards, at up to a few hundred episodes."""
    known = np.isfinite(rewards)
    sums = np.concatenate([[0.0], np.cumsum(np.where(known, rewards, 0.0))])
    counts = np.concatenate([[0], np.cumsum(known)])
    ends = np.unique(np.linspace(min(window, rewards.size), rewards.size, 2 * REWARD_DOTS).astype(int))
    starts = np.maximum(ends - window, 0)
    observed = counts[ends] - counts[starts]
    means = (sums[ends] - sums[starts]) / np.maximum(observed, 1)
    return [(float(end), float(mean)) for end, mean, number in zip(ends, means, observed, strict=True) if number]
