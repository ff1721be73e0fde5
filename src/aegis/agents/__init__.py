"""Agents that learn: the table of agents, Algorithm 1 on a plant, and runs that can be resumed."""

from aegis.agents.agent import AGENTS, Agent
from aegis.agents.online import Online
from aegis.agents.run import Result, run, run_to

__all__ = ["AGENTS", "Agent", "Online", "Result", "run", "run_to"]
