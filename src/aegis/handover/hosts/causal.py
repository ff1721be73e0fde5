"""Hosts that learn the plant's mechanisms and plan with what they believe, one level at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from aegis.certificate.models import fitted_rewards
from aegis.errors import SettingError, choose
from aegis.handover.history import History
from aegis.handover.hosts.proposal import Proposal, check_proposals
from aegis.mechanisms import Belief, ModelSettings, build_belief, fit_scalings, select
from aegis.planning import Greedy, Integration, Planned, PlannedValues, Rule, plan
from aegis.planning.effort import COARSE
from aegis.planning.scores import Likeliest, Pessimistic
from aegis.problem import Batch, Problem, RewardModel
from aegis.rng import stream


@dataclass(frozen=True, slots=True)
class Causal:
    """A belief about the plant's mechanisms and a rule that plans with it, one level at a time.

    models: candidates for every mechanism, of which the likeliest is kept. reading: how a plan by the rule becomes scores, a
    name of READINGS. integration: of plans with several draws, which cost as many times what the posterior mean costs; None
    means the usual one, which the posterior mean has: capped steps below a lever need its nodes.
    """

    name: str
    rule: Rule
    models: Mapping[str, ModelSettings]
    reading: str = "mean"
    integration: Integration | None = COARSE

    def __post_init__(self) -> None:
        choose(self.reading, READINGS, "reading of a plan")

    def propose(self, history: History, levels: Sequence[str], seed: int) -> Mapping[str, Proposal]:
        """Return proposals by the recursion: at each level the values of its actions, the policies in control acting elsewhere.

        The prediction is that of the posterior mean. Above a level where the policy in control is known in the states that were
        met only, what an action earns is read off the episodes of the present phase, which have its continuation built in. Raises
        PolicyError, naming host and level, if scores are not finite.
        """
        problem = history.problem
        refuse_carry_over(problem, self.name)
        belief = learned_belief(problem, history.everything(), self.models)
        found = {}
        for level in levels:
            if not history.everywhere and level != problem.innermost.name:
                seen = fitted_rewards(problem, history.phase(), (level,))
                if seen is not None:
                    found[level] = Proposal(seen, seen)
                continue
            mean = planned_mean(belief, level, history)
            if isinstance(self.rule, Greedy):
                found[level] = Proposal(mean, mean)
                continue
            rng = stream(seed, "host", self.name, level, history.episodes)
            scope, episode = [level], history.episodes
            drawn = plan(belief, self.rule, rng, scope, history.acting, integration=self.integration, episode=episode)
            found[level] = READINGS[self.reading](problem, drawn, mean)
        check_proposals(self.name, found, history, levels)
        return found


def _mean(problem: Problem, drawn: Planned, prediction: RewardModel) -> Proposal:
    """Score an action by the mean of its values over the draws."""
    return Proposal(PlannedValues(problem, drawn), prediction)


def _pessimistic(problem: Problem, drawn: Planned, prediction: RewardModel) -> Proposal:
    """Score an action by the mean minus kappa standard deviations of its values over the draws."""
    return Proposal(Pessimistic(problem, drawn), prediction)


def _likeliest(problem: Problem, drawn: Planned, prediction: RewardModel) -> Proposal:
    """Score an action by how likely the rule takes it, then by what the mean predicts."""
    return Proposal(Likeliest(problem, drawn, prediction), prediction)


READINGS: Mapping[str, Callable[[Problem, Planned, RewardModel], Proposal]] = {
    "mean": _mean,
    "pessimistic": _pessimistic,
    "likeliest": _likeliest,
}


def planned_mean(belief: Belief, level: str, history: History) -> PlannedValues:
    """Return the values of a level's actions under the posterior mean, the policies in control acting elsewhere."""
    nothing_random = stream(0, "posterior mean")
    return PlannedValues(history.problem, plan(belief, Greedy(), nothing_random, [level], history.acting))


def refuse_carry_over(problem: Problem, host: str) -> None:
    """Raise SettingError where planning is not what it seems: a decision affects more than its own subtree."""
    if problem.carry_over == "within":
        raise SettingError(
            f"host '{host}' plans as if a decision affected only its own subtree; this problem says 'carry_over: within'. Use "
            "the host 'external' with a policy of your own"
        )


def learned_belief(problem: Problem, batch: Batch, models: Mapping[str, ModelSettings]) -> Belief:
    """Return the belief about all mechanisms after a batch, each with the likeliest of several models."""
    scalings = fit_scalings(problem, [batch])
    beliefs = [build_belief(problem, settings, None, scalings).update(batch) for settings in models.values()]
    return select(beliefs)[0]
