"""The client of a live gate: decisions for a plant that go on when the gate is away."""

from aegis.service.client.gate_client import ActionChoice, Client, Episode

__all__ = ["ActionChoice", "Client", "Episode"]
