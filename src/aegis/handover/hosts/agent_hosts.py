"""Agents behind a gate: a row of the table of agents as a host, with its model and its rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from aegis.agents import AGENTS, Agent
from aegis.errors import SettingError
from aegis.handover.hosts.causal import CausalHost
from aegis.planning import COARSE

NESTED = "nested"  # the commit shape in which each level decides when its turn comes, as behind a gate
STRUCTURES = ("factorised", "joint")  # of models that are regressions, which a host can learn and plan with


def agent_host(agent: Agent) -> CausalHost:
    """Return an agent as a host: its model of every mechanism, and its rule at each level.

    Parameters
    ----------
    agent
        A row of `aegis.AGENTS`, or one of your own.

    Returns
    -------
    CausalHost
        A host of the agent's name. Inputs and rewards are in units of their spread in what was seen.

    Raises
    ------
    SettingError
        If the agent is of a kind that hands over no single level: another commit shape, or a table of cells.
    """
    reason = why_no_host(agent)
    if reason is not None:
        raise SettingError(f"agent '{agent.name}' is no host: {reason}")
    return CausalHost(agent.name, agent.make_rule(), {agent.name: agent.model}, "rule", agent.integration or COARSE)


def why_no_host(agent: Agent) -> str | None:
    """Return why an agent cannot stand behind a gate; None if it can."""
    if agent.commit != NESTED:
        return f"a gate hands over level by level, and its commit shape is '{agent.commit}'; hosts plan '{NESTED}'"
    if agent.model.structure not in STRUCTURES:
        return f"its model is of the structure '{agent.model.structure}'; hosts learn models that are {' or '.join(STRUCTURES)}"
    return None


AGENT_HOSTS: Mapping[str, Callable[[], CausalHost]] = {
    name: partial(agent_host, agent) for name, agent in AGENTS.items() if why_no_host(agent) is None
}
