"""Hosts: who proposes challengers. A host looks at the closed episodes and says how good it takes each action to be.

| name | proposes |
|---|---|
| `greedy` | the values of actions under the posterior mean |
| `ncts` | nested causal Thompson sampling: the mean of values over posterior draws |
| `ucb` | the paper's AEGIS-UCB, which is pessimistic once it is deployed: mean minus kappa_k standard deviations |
| `ids` | information-directed sampling: steps towards its distribution |
| `pb` | the particle mixture with the largest PAC-Bayes certificate, and steps towards it |
| `external` | a policy or a learner of your own, and steps towards it |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aegis.handover.hosts.base import Host
from aegis.handover.hosts.causal import CausalHost, PacBayesHost
from aegis.handover.hosts.external import ExternalHost
from aegis.mechanisms import MODELS
from aegis.planning import Greedy, Ids, Lcb, Thompson

# Factories; only that of 'external' needs an argument, the policy or the learner.
HOSTS: Mapping[str, Callable[..., Host]] = {
    "greedy": lambda: CausalHost("greedy", Greedy(), MODELS),
    "ncts": lambda: CausalHost("ncts", Thompson(8), MODELS),
    "ucb": lambda: CausalHost("ucb", Lcb(draws=8), MODELS, "pessimistic"),
    "ids": lambda: CausalHost("ids", Ids(8), MODELS, "likeliest"),
    "pb": lambda: PacBayesHost(MODELS),
    "external": ExternalHost,
}

__all__ = ["HOSTS"]
