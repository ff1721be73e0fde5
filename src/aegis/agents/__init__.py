"""Agents that learn: from a log (`learn`), or while acting (Algorithm 1 on a plant, in runs that can be resumed)."""

from aegis.agents.agent import AGENTS, Agent
from aegis.agents.candidates import CANDIDATES, CandidateSettings
from aegis.agents.fitting import Fitted, fit
from aegis.agents.learn import Learned, learn
from aegis.agents.lockstep import ManySeeds, run_together
from aegis.agents.online import Online
from aegis.agents.prior import make_online, prior_scalings
from aegis.agents.run import Result, run, run_to

__all__ = [
    "AGENTS",
    "CANDIDATES",
    "Agent",
    "CandidateSettings",
    "Fitted",
    "Learned",
    "ManySeeds",
    "Online",
    "Result",
    "fit",
    "learn",
    "make_online",
    "prior_scalings",
    "run",
    "run_to",
    "run_together",
]
