"""Setting up an online run: standardisation from a little prior data of the legacy.

Length-scales and priors are stated in standardised units. What one standard deviation is comes from a short log of the legacy,
made before the run and used for nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable

from aegis.agents.agent import Agent
from aegis.agents.online import Online
from aegis.errors import SettingError
from aegis.mechanisms import Scaling, fit_scalings
from aegis.problem import Plant, Policy
from aegis.rng import stream


def make_online(
    plant: Plant, agent: Agent, seed: int, legacy: Policy | None = None, scope: Iterable[str] | None = None
) -> Online:
    """Return the run of an agent on a plant; agents that standardise get `agent.prior_episodes` episodes of the legacy first."""
    controlled = plant.problem.scope(scope)
    if agent.prior_episodes == 0:
        return Online(plant, agent, controlled, seed, legacy)
    if legacy is None:
        raise SettingError(
            f"agent '{agent.name}' standardises by a short log of the legacy: give the legacy, or set standardise=False"
        )
    return Online(plant, agent, controlled, seed, legacy, prior_scalings(plant, legacy, agent.prior_episodes, seed))


def prior_scalings(plant: Plant, legacy: Policy, episodes: int, seed: int) -> dict[str, Scaling]:
    """Return the standardisation fitted on episodes of the legacy, whose noise is independent of the run's."""
    other = int(stream(seed, "prior").integers(2**62))
    return fit_scalings(plant.problem, [plant.episodes(0, episodes, legacy, other)])
