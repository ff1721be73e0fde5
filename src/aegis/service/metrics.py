"""Numbers for Prometheus: requests, who decides, what is counted, whether the store answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from aegis.service.counting import Counting
from aegis.service.reading import Reading

LATENCIES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


@dataclass(slots=True)
class Metrics:
    """The numbers of one service."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    requests: Counter = field(init=False)
    seconds: Histogram = field(init=False)
    decisions: Counter = field(init=False)
    gauges: dict[str, Gauge] = field(init=False)

    def __post_init__(self) -> None:
        at = self.registry
        self.requests = Counter("aegis_requests_total", "Requests answered.", ["method", "route", "status"], registry=at)
        self.seconds = Histogram("aegis_request_seconds", "Time to answer.", ["route"], buckets=LATENCIES, registry=at)
        self.decisions = Counter("aegis_decisions_total", "Decisions answered.", ["level", "by"], registry=at)
        self.gauges = {
            name: Gauge(f"aegis_{name}", words, labels, registry=at)
            for name, words, labels in (
                ("episodes_started", "Episodes that took a decision.", ()),
                ("episodes_counted", "Episodes that the gate has counted.", ()),
                ("episodes_going", "Episodes that are not counted yet.", ()),
                ("episodes_waiting", "Episodes that are settled, and not counted yet.", ()),
                ("holding_seconds", "Age of the episode that holds up the counting of others; 0 if none does.", ()),
                ("paused", "1 if the gate is paused.", ()),
                ("alarms", "Alarms of the monitor so far.", ()),
                ("risk_spent", "Risk that all challenges so far have been given.", ()),
                ("handed_over", "1 if a level is controlled by an agent.", ("level",)),
                (
                    "gain_lower",
                    "Certified gain of the policy in control of a level, over its comparator (see /v1/levels).",
                    ("level",),
                ),
                ("counting_failed", "1 if nothing is counted now.", ()),
                ("writer", "1 if this process is the writer of its gate.", ()),
            )
        }

    def text(self, reading: Reading, counting: Counting) -> bytes:
        """Return all of them in Prometheus' format. Whoever calls holds `live.changed`."""
        live, gauges = reading.live, self.gauges
        gauges["writer"].set(live.started)
        gauges["counting_failed"].set(counting.failure is not None)
        if live.state.gate is not None:
            gate = live.state.gate
            gauges["episodes_started"].set(live.state.started)
            gauges["episodes_counted"].set(gate.episode)
            gauges["episodes_going"].set(len(live.state.trees))
            holding = live.state.holding()
            gauges["episodes_waiting"].set(live.state.waiting())
            gauges["holding_seconds"].set(0.0 if holding is None else holding.seconds())
            gauges["paused"].set(gate.paused is not None)
            gauges["alarms"].set(gate.alarms)
            gauges["risk_spent"].set(gate.spent)
            for level in gate.levels:
                held = gate.at(level)
                gauges["handed_over"].labels(level).set(held is not None)
                gauges["gain_lower"].labels(level).set(0.0 if held is None else reading.measure.gain(held.gain_lower))
        return generate_latest(self.registry)
