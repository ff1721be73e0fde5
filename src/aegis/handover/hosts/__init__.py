"""Hosts: who proposes challengers. A host looks at the closed episodes and says how good it takes each action to be.

| name | proposes |
|---|---|
| `greedy` | the values of actions under the posterior mean |
| `ncts` | nested causal Thompson sampling: the mean of values over posterior draws |
| `ucb` | the paper's AEGIS-UCB, which is pessimistic once it is deployed: mean minus kappa_k standard deviations |
| `ids` | information-directed sampling: steps towards its distribution |
| `d-optimal` | the paper's NC-DOpt: steps towards the most informative action |
| `pessimistic` | the paper's pessimistic warm start: as `ucb`, from what an earlier log taught |
| `pb` | the particle mixture with the largest PAC-Bayes certificate, and steps towards it |
| `external` | a policy or a learner of your own, and steps towards it |
| an agent | what the agent of this name does: its model and its rule (every row of `AGENTS` that plans nested) |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aegis.handover.hosts.agent_hosts import AGENT_HOSTS
from aegis.handover.hosts.base import Host
from aegis.handover.hosts.beliefs import WarmStart
from aegis.handover.hosts.causal import CausalHost, PacBayesHost
from aegis.handover.hosts.external import ExternalHost
from aegis.mechanisms import MODELS
from aegis.planning import DOptimal, Greedy, Ids, Lcb, Thompson
from aegis.problem import Batch


def pessimistic_host(log: Batch | None = None) -> CausalHost:
    """Return the pessimistic warm start (Aouali et al. 2024): `ucb`, with p0 the belief after an earlier log of the plant."""
    return CausalHost("pessimistic", Lcb(draws=8), MODELS, "pessimistic", warm=WarmStart(log))


# Factories; only that of 'external' needs an argument, the policy or the learner.
HOSTS: Mapping[str, Callable[..., Host]] = {
    "greedy": lambda: CausalHost("greedy", Greedy(), MODELS),
    "ncts": lambda: CausalHost("ncts", Thompson(8), MODELS),
    "ucb": lambda: CausalHost("ucb", Lcb(draws=8), MODELS, "pessimistic"),
    "ids": lambda: CausalHost("ids", Ids(8), MODELS, "likeliest", exploring=Ids(8)),
    "d-optimal": lambda: CausalHost("d-optimal", DOptimal(), MODELS, "likeliest"),
    "pessimistic": pessimistic_host,
    "pb": lambda: PacBayesHost(MODELS),
    "external": ExternalHost,
    **AGENT_HOSTS,
}

__all__ = ["HOSTS"]
