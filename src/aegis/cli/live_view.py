"""The live view of a gate that runs: a picture on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from aegis.cli.output import console
from aegis.handover import NO_GATE, NOT_A_CERTIFICATE, Event, Flipped, format_lower_bound, has_gate
from aegis.ope import Measure, reward_measure
from aegis.report import (
    LeadingChallenge,
    LevelStanding,
    describe_cap,
    describe_event,
    describe_need,
    describe_wait,
    level_standings,
)

Watch = Callable[[Sequence[Event]], None]
RECENT = 50  # episodes whose mean is the recent reward
SHOWN_EVENTS = 6  # events that stay on the screen
EVERY = 5.0  # seconds between lines where there is no terminal
BAR = 10  # blocks of the bar of evidence
BLOCKS, SPARKS = "▁▂▃▄▅▆▇█", 48  # of the line of rewards, and how many it has at most
EVENT_STYLES = {
    **{"flip": "bold green", "waiting": "yellow", "put off": "yellow", "noted": "yellow", "restarted": "yellow"},
    **{"alarm": "bold red", "paused": "bold red"},
}


@dataclass(slots=True)
class LiveView:
    """What is shown of a run: the gate, and what happened lately."""

    gate: Any
    certificate: bool
    episodes: int
    measure: Measure = field(init=False)
    lines: list[tuple[int, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.measure = reward_measure(self.gate.problem)

    def add(self, events: Sequence[Event]) -> list[str]:
        """Take in events; return the sentences that are worth a line."""
        lines = []
        for event in events:
            if isinstance(event, Flipped) and not self.gated:
                continue
            words = describe_event(event, self.measure, self.certificate)
            if words is not None and words[0] in EVENT_STYLES:
                episode = int(getattr(event, "episode", 0))
                self.lines.append((episode, *words))
                lines.append(f"episode {episode}: {words[1]}")
        return lines

    @property
    def gated(self) -> bool:
        """Return whether a gate decides who acts."""
        return has_gate(self.gate.events)

    @property
    def rewards(self) -> list[float]:
        """Return the mean rewards of closed episodes as logged, without those that are missing."""
        return [self.measure.value(value) for value in self.gate.rewards if np.isfinite(value)]

    def standings(self) -> tuple[LevelStanding, ...]:
        """Return where every level stands."""
        return level_standings(self.gate.state, self.measure, getattr(self.gate, "looks", ()))

    def line(self) -> str:
        """Return where the run stands in one line."""
        levels = "; ".join(_standing_words(item, self.certificate, self.gate.state.settings.mode) for item in self.standings())
        return f"reward {_mean(self.rewards[-RECENT:])}; {levels}"

    def screen(self) -> RenderableType:
        """Return the picture."""
        parts: list[RenderableType] = []
        if not self.certificate:
            what = "This gate is published" if self.gated else NO_GATE.capitalize()
            parts.append(Text(f"{what}, and {NOT_A_CERTIFICATE}.", style="bold red"))
        parts += [_levels(self.standings(), self.certificate, self.gate.state.settings.mode), self._rewards()]
        parts += [
            Text(f"episode {episode}: {text}", style=EVENT_STYLES[kind]) for episode, kind, text in self.lines[-SHOWN_EVENTS:]
        ]
        return Group(*parts)

    def _rewards(self) -> Text:
        values = self.rewards
        if not values:
            return Text("reward: no episode yet")
        flip = next((episode for episode, kind, _ in self.lines if kind == "flip"), len(self.gate.rewards))
        before = [self.measure.value(value) for value in self.gate.rewards[:flip] if np.isfinite(value)]
        who = "legacy with exploration" if self.gate.state.settings.explore else "legacy"
        text = f"reward  {who} {_mean(before)}   last {min(RECENT, len(values))} episodes {_mean(values[-RECENT:])}   "
        return Text(text + _sparkline(values))


@contextlib.contextmanager
def watch_run(gate: Any, episodes: int, certificate: bool = True, quiet: bool = False) -> Iterator[Watch]:
    """Yield the function that a run calls with the events of every block, and with none when an interrupted run goes on."""
    view, screen = LiveView(gate, certificate, episodes), console(to_stderr=True)
    if quiet:
        yield lambda events: None
    elif screen.is_terminal:
        with _watch_on_terminal(view, screen) as watch:
            yield watch
    else:
        yield _watch_in_lines(view, screen)


@contextlib.contextmanager
def _watch_on_terminal(view: LiveView, screen: Console) -> Iterator[Watch]:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} episodes"))
    bar = Progress(*columns, TimeRemainingColumn(), TextColumn("left"))
    task = bar.add_task("handover", total=view.episodes)
    with Live(Group(view.screen(), bar), console=screen, refresh_per_second=4) as live:

        def watch(events: Sequence[Event]) -> None:
            if not events:  # the time left is that of what is left
                view.add(view.gate.events)
                bar.reset(task, total=view.episodes, completed=view.gate.state.episode)
            view.add(events)
            bar.update(task, completed=view.gate.state.episode)
            live.update(Group(view.screen(), bar))

        yield watch


def _watch_in_lines(view: LiveView, screen: Console) -> Watch:
    started = last = time.monotonic()
    begun = 0

    def watch(events: Sequence[Event]) -> None:
        nonlocal last, begun, started
        done, now = view.gate.state.episode, time.monotonic()
        if not events:  # the time left is that of what is left
            started, begun = now, done
            return
        lines = view.add(events)
        if done == view.episodes or now - last >= EVERY:
            last = now
            left = (now - started) / max(done - begun, 1) * (view.episodes - done)
            lines.append(f"{done}/{view.episodes}, about {left:.0f} s left  {view.line()}")
        for line in lines:
            screen.print(f"handover: {line}", soft_wrap=True, markup=False)

    return watch


def _levels(standings: Sequence[LevelStanding], certificate: bool, mode: str) -> Table:
    levels = Table(title="Who controls each level", title_justify="left")
    number = "gain at least (needs)" if certificate else "estimate, not a bound (needs)"
    for head, justify in (("level", "left"), ("in control", "left"), ("challenge", "left"), (number, "right")):
        levels.add_column(head, justify=justify)  # type: ignore[arg-type]
    levels.add_column("evidence (log10)", no_wrap=True)
    for item in standings:
        gain = f", {format_lower_bound(item.gain_lower or 0.0, '+')}" if certificate else ""
        now = "legacy" if item.since is None else f"agent since {item.since}{gain}"
        levels.add_row(item.level, Text(now, style="" if item.since is None else "green"), *_challenge(item.leading, mode))
    return levels


def _challenge(leading: LeadingChallenge | None, mode: str) -> list[str]:
    if leading is None:
        return ["-", "-", "-"]
    what = f"{'upgrade, ' if leading.kind == 'upgrade' else ''}{describe_cap(leading.cap)}"
    return [what, f"{leading.bound:+.4g} ({leading.margin:g})", describe_wait(mode) if leading.certified else _evidence(leading)]


def _evidence(leading: LeadingChallenge) -> str:
    evidence = leading.evidence
    if evidence is None:
        return f"{leading.units} episodes"
    known = np.isfinite(evidence.wealth)
    filled = min(max(int(BAR * evidence.share), 0), BAR) if known else 0
    return f"{'█' * filled}{'░' * (BAR - filled)} {f'{evidence.wealth:.1f}' if known else '-'} of {evidence.threshold:.1f}"


def _standing_words(item: LevelStanding, certificate: bool, mode: str) -> str:
    who = "legacy" if item.since is None else f"agent since {item.since}"
    if item.leading is None or (item.since is not None and item.leading.kind == "upgrade"):
        return f"{item.level}: {who}"
    number, needs = f"{item.leading.bound:+.3g}", f"({describe_need(f'{item.leading.margin:g}', certificate)})"
    if not certificate:
        return f"{item.level}: {who}, estimate {number} {needs}, {NOT_A_CERTIFICATE}"
    waits = f", {describe_wait(mode)}" if item.leading.certified else ""
    return f"{item.level}: {who}, gain at least {number} {needs}{waits}"


def _mean(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.4g}" if values else "-"


def _sparkline(values: Sequence[float]) -> str:
    """Return a line of blocks that show means of consecutive values."""
    means = [float(part.mean()) for part in np.array_split(np.array(values), min(SPARKS, len(values)))]
    low, span = min(values), (max(values) - min(values)) or 1.0
    return "".join(BLOCKS[min(7, int(8 * (mean - low) / span))] for mean in means)
