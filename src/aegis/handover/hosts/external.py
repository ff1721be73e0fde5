"""The host 'external': a policy or a learner of your own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aegis.errors import AegisError, PolicyError, SettingError
from aegis.handover.hosts.base import Proposal, check_proposals, host_seed
from aegis.handover.run_history import History
from aegis.ope import fit_reward_models
from aegis.planning import LikelihoodRanks
from aegis.problem import Policy, RewardModel


@dataclass(frozen=True, slots=True)
class ExternalHost:
    """Challenges with a policy as it is, uncapped, and with capped steps towards it.

    source: a fixed policy; or an object with `propose(history, levels, seed)` that returns, for each level it has something for,
    a policy, scores (a reward model) or a whole `Proposal`. levels: at which a fixed policy acts, all if empty. A step towards a
    policy fills from its likeliest action down, ties by a regression of the reward on what was seen in the present phase.

    What has to be there: of a policy `weights`, `taken(level, batch)` and `full(level, batch)`; of scores `predict(level,
    batch)`; and of both, since what is frozen is kept, `state()`, which returns an `aegis.problem.State`, and the classmethod
    `restore(state, problem)`. A plain function becomes such a policy as `aegis.policies.Function(problem, function)`. The seed
    that a learner is given is not that of the run.
    """

    source: Any
    levels: tuple[str, ...] = ()
    name: str = "external"

    def __post_init__(self) -> None:
        fixed = isinstance(self.source, Policy)
        if not fixed and not callable(getattr(self.source, "propose", None)):
            raise SettingError(
                f"host '{self.name}' needs a policy (weights, taken, full) or an object with propose(history, levels, seed), "
                f"found {type(self.source).__name__}"
            )
        if self.levels and not fixed:
            raise SettingError(f"host '{self.name}': 'levels' says where a fixed policy acts; a learner says so itself")

    def propose(self, history: History, levels: Sequence[str], seed: int) -> Mapping[str, Proposal]:
        """Return what the policy or the learner proposes; PolicyError names host and level if it cannot be used."""
        proposed = self._asked(history, levels, seed)
        asked = tuple(level for level in proposed if level in levels)  # others are refused below
        prediction = fit_reward_models(history.problem, history.phase(), asked) if asked else None
        proposals = {level: self._proposal(history, level, item, prediction) for level, item in proposed.items()}
        check_proposals(self.name, proposals, history, levels)
        return proposals

    def _asked(self, history: History, levels: Sequence[str], seed: int) -> dict[str, Any]:
        if isinstance(self.source, Policy):
            chosen = history.problem.scope(self.levels or None)
            return {level: self.source for level in levels if level in chosen}
        try:
            proposed = self.source.propose(history, levels, host_seed(self.source, seed))
        except AegisError as error:
            raise PolicyError(f"host '{self.name}', levels {', '.join(levels)}: {error}") from error
        except Exception as error:  # any that the user's learner raises
            raise PolicyError(
                f"host '{self.name}', levels {', '.join(levels)}: raised {type(error).__name__}: {error}"
            ) from error
        if not isinstance(proposed, Mapping):
            raise PolicyError(
                f"host '{self.name}': propose returns a mapping from levels to proposals, found {type(proposed).__name__}"
            )
        return dict(proposed)

    def _proposal(self, history: History, level: str, item: Any, prediction: RewardModel | None) -> Proposal:
        if isinstance(item, Proposal):
            return item
        if isinstance(item, Policy):
            return Proposal(LikelihoodRanks(history.problem, item, prediction), prediction, item)
        if isinstance(item, RewardModel):
            return Proposal(item, prediction)
        raise PolicyError(
            f"host '{self.name}', level '{level}': a proposal is a policy (weights, taken, full), scores (predict) or a "
            f"Proposal, found {type(item).__name__}"
        )
