"""Metrics of the service for Prometheus."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from aegis.handover import GateState
from aegis.service.episode_counter import EpisodeCounter
from aegis.service.http_errors import StoreUnavailable
from aegis.service.live_state import LiveState
from aegis.service.status import GateStatus

LATENCIES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)

GAUGES: dict[str, tuple[str, Callable[[LiveState, GateState], float]]] = {
    "episodes_started": ("Episodes that took a decision.", lambda live, _: live.started),
    "episodes_counted": ("Episodes that the gate has counted.", lambda _, gate: gate.episode),
    "episodes_going": ("Episodes that are not counted yet.", lambda live, _: len(live.trees)),
    "episodes_waiting": ("Episodes that are settled, and not counted yet.", lambda live, _: live.waiting()),
    "holding_seconds": (
        "Age of the episode that holds up the counting of others, in this process; 0 if none does.",
        lambda live, _: live.holding_seconds(),
    ),
    "paused": ("1 if the gate is paused.", lambda _, gate: gate.paused is not None),
    "alarms": ("Alarms of the monitor so far.", lambda _, gate: gate.alarms),
    "late_decisions": ("Episodes of which a decision came after they were counted.", lambda _, gate: gate.late),
    "risk_spent": ("Risk that all challenges so far have been given.", lambda _, gate: gate.spent),
}


@dataclass(slots=True)
class ServiceMetrics:
    """The metrics of one service."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    requests: Counter = field(init=False)
    seconds: Histogram = field(init=False)
    decisions: Counter = field(init=False)
    gauges: dict[str, Gauge] = field(init=False)
    handed_over: Gauge = field(init=False)
    gain_lower: Gauge = field(init=False)
    counting_failed: Gauge = field(init=False)
    writer: Gauge = field(init=False)

    def __post_init__(self) -> None:
        at = self.registry
        self.requests = Counter("aegis_requests_total", "Requests answered.", ["method", "route", "status"], registry=at)
        self.seconds = Histogram("aegis_request_seconds", "Time to answer.", ["route"], buckets=LATENCIES, registry=at)
        self.decisions = Counter("aegis_decisions_total", "Decisions answered.", ["level", "by"], registry=at)
        self.gauges = {name: Gauge(f"aegis_{name}", words, registry=at) for name, (words, _) in GAUGES.items()}
        self.handed_over = Gauge("aegis_handed_over", "1 if a level is controlled by an agent.", ["level"], registry=at)
        gain = "Certified gain of the policy in control of a level, over its comparator (see /v1/levels)."
        self.gain_lower = Gauge("aegis_gain_lower", gain, ["level"], registry=at)
        self.counting_failed = Gauge("aegis_counting_failed", "1 if nothing is counted now.", registry=at)
        self.writer = Gauge("aegis_writer", "1 if this process is the writer of its gate.", registry=at)

    def text(self, reading: GateStatus, counting: EpisodeCounter) -> bytes:
        """Return all metrics in Prometheus' format."""
        live, gate = reading.live, reading.live.state.gate
        self.writer.set(live.started)
        self.counting_failed.set(counting.failure is not None)
        if gate is not None:
            # For what is quick: no value walks all episodes. While a write hangs, they are shown as they were.
            with contextlib.suppress(StoreUnavailable), live.reading():
                gate = live.state.opened
                for name, (_, value) in GAUGES.items():
                    self.gauges[name].set(value(live.state, gate))
            for level in gate.levels:
                deployed = gate.at(level)
                self.handed_over.labels(level).set(deployed is not None)
                self.gain_lower.labels(level).set(0.0 if deployed is None else reading.measure.gain(deployed.gain_lower))
        return generate_latest(self.registry)
