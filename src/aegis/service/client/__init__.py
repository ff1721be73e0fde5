"""The client of a live gate: decisions for a plant that go on when the gate is away."""

from aegis.service.client.choices import ActionChoice, UnreportedChoice
from aegis.service.client.counters import ClientCounters
from aegis.service.client.gate_client import Client, Episode

__all__ = ["ActionChoice", "Client", "ClientCounters", "Episode", "UnreportedChoice"]
