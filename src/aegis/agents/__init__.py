"""Agents that learn: from a log (`learn`), or while acting (Algorithm 1 on a plant, in runs that can be resumed)."""

from aegis.agents.agent import AGENTS, Agent
from aegis.agents.candidate_kinds import CANDIDATES, CandidateSettings, make_candidate, uniform_legacy
from aegis.agents.execution import ManySeeds, lockstep_episodes, run, run_in_lockstep, run_to
from aegis.agents.learning import Learned, learn
from aegis.agents.model_fit import FittedModels, fit_mechanisms
from aegis.agents.online_run import Online, make_online, prior_scalings
from aegis.agents.run_checkpoint import (
    LOG_FILE,
    PROBLEM_FILE,
    SETTINGS_FILE,
    SUMMARY_FILE,
    RunResult,
    checkpoint_episode,
    claim_folder,
    identity_digest,
)

__all__ = [
    "AGENTS",
    "CANDIDATES",
    "LOG_FILE",
    "PROBLEM_FILE",
    "SETTINGS_FILE",
    "SUMMARY_FILE",
    "Agent",
    "CandidateSettings",
    "FittedModels",
    "Learned",
    "ManySeeds",
    "Online",
    "RunResult",
    "checkpoint_episode",
    "claim_folder",
    "fit_mechanisms",
    "identity_digest",
    "learn",
    "lockstep_episodes",
    "make_candidate",
    "make_online",
    "prior_scalings",
    "run",
    "run_in_lockstep",
    "run_to",
    "uniform_legacy",
]
