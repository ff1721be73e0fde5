"""The host 'pb': direct maximisation of the sharp PAC-Bayes certificate (the paper's AEGIS-PB, on the sharp form).

`Q = argmax of the gain bound`, a reweighting of particles. A particle is a posterior draw, acting as it thinks best or in capped
steps that raise no probability more than W times: on their way there, steps vary less and are certified earlier. To be a bound at
all, particles must not know the units it is taken on: they are drawn from the belief after all but the later half of the present
phase, and weighed on that half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aegis.errors import SettingError
from aegis.evidence import PacBayesBound, Particles, best_posterior, value_grid
from aegis.handover.history import History
from aegis.handover.hosts.causal import learned_belief, planned_mean, refuse_carry_over
from aegis.handover.hosts.proposal import Proposal, check_proposals
from aegis.handover.particle_units import LIFT, lifted_gains, logged_chances
from aegis.mechanisms import Draw, ModelSettings, Theta
from aegis.mechanisms.regression import RegressionDraw
from aegis.planning import Integration, Planned, PlannedValues, Thompson, plan
from aegis.planning.effort import COARSE
from aegis.planning.rules import best, check_count, closed_off
from aegis.planning.scores import Likeliest
from aegis.planning.thompson import ThompsonChoice
from aegis.policies import Capped, Mixture, cap, path_full
from aegis.policies.capped import check_limit
from aegis.policies.support import open_actions
from aegis.problem import Array, Batch, Policy
from aegis.rng import stream

HIGH = 2.0 * LIFT  # a lifted gain is a mean of at most this, since gains are at most 1
MOST = 4  # particles of the policy, the heaviest: each costs as much as a whole plan
GRID = value_grid(-4)  # bets around 1/16: a lifted gain is near 1, and gains worth handing over for are some hundredths


@dataclass(frozen=True, slots=True)
class Weighed:
    """Particles of one level, weighed.

    plan: has the draws. caps: of the steps; the particles are all draws as they are, then all draws with the first cap, and so
    on. best: the largest bound of the lifted gain, with its weights Q. posterior: the bound of Q = p_k, equal weights
    over the draws as they are, which pays for no choice.
    """

    plan: Planned
    legacy: Policy
    level: str
    caps: tuple[float, ...]
    best: PacBayesBound
    posterior: PacBayesBound

    @property
    def policy(self) -> Policy:
        """Return the Q-mixture: one policy for each of the heaviest particles, drawn once per episode with its weight."""
        kept = np.sort(np.argsort(-self.best.weights, kind="stable")[:MOST])
        kept = kept[self.best.weights[kept] > 0]
        weights = self.best.weights[kept]
        members = [self.particle(int(place)) for place in kept]
        return members[0] if len(members) == 1 else Mixture(members, (weights / weights.sum()).tolist())

    def particle(self, place: int) -> Policy:
        """Return one of the particles as a policy."""
        step, draw = divmod(place, self.plan.theta.count)
        alone = _alone(self.plan, draw)
        if step == 0:
            return alone
        values = PlannedValues(self.plan.problem, alone)
        return Capped(self.plan.problem, values, self.legacy, self.caps[step - 1], [self.level])


@dataclass(frozen=True, slots=True)
class Pb:
    """Weighs posterior draws, and capped steps towards them, by the certificate they give.

    models: as of `Causal`. draws: how many. caps: W of the steps. delta: of the certificate that is maximised.
    """

    models: Mapping[str, ModelSettings]
    draws: int = 8
    caps: tuple[float, ...] = (1.5, 2.0, 3.0)
    delta: float = 0.05
    integration: Integration | None = COARSE
    name: str = "pb"

    def __post_init__(self) -> None:
        check_count(self.draws, "pb: 'draws'")
        object.__setattr__(self, "caps", tuple(check_limit(limit) for limit in self.caps))
        if not 0.0 < self.delta < 1.0:
            raise SettingError(f"pb: 'delta' lies between 0 and 1, found {self.delta!r}")

    def propose(self, history: History, levels: Sequence[str], seed: int) -> Mapping[str, Proposal]:
        """Return the Q-mixture of each level, and steps towards it."""
        problem = history.problem
        refuse_carry_over(problem, self.name)
        mean = learned_belief(problem, history.everything(), self.models)
        found = {}
        for level, weighed in self.weigh(history, levels, seed).items():
            policy, prediction = weighed.policy, planned_mean(mean, level, history)
            found[level] = Proposal(Likeliest(problem, policy, prediction), prediction, policy)
        check_proposals(self.name, found, history, levels)
        return found

    def weigh(self, history: History, levels: Sequence[str], seed: int) -> dict[str, Weighed]:
        """Return the particles of each level with the weights that give the largest bound on the later half of the phase."""
        problem, whole = history.problem, history.everything()
        own = np.array([place for place in range(history.start, history.episodes) if history.arms[place] == "agent"])
        later = own[own.size // 2 :]
        if not later.size or later[0] == 0:
            raise SettingError(
                f"host '{self.name}' draws particles from earlier episodes than those it weighs them on: it needs two of the "
                f"present phase, found {own.size}"
            )
        belief = learned_belief(problem, whole.take_episodes(np.arange(later[0])), self.models)
        units, found = whole.take_episodes(later), {}
        for level in levels:
            rng = stream(seed, "host", self.name, level, history.episodes)
            drawn = plan(belief, Thompson(self.draws), rng, [level], history.acting, integration=self.integration)
            ratios = self._ratios(drawn, history.legacy, level, units)
            gains = lifted_gains(problem, level, units, ratios, history.comparator)
            every = Particles.empty(GRID, gains.shape[1]).add(gains)
            single = Particles.empty(GRID, self.draws).add(gains[:, : self.draws])
            largest, equal = best_posterior(every, self.delta, HIGH), single.lower(single.prior, self.delta, HIGH)
            found[level] = Weighed(drawn, history.legacy, level, self.caps, largest, equal)
        return found

    def _ratios(self, drawn: Planned, legacy: Policy, level: str, batch: Batch) -> Array:
        """Return candidate over logged probability of the action taken, `[n, N]`, of all draws and their steps."""
        table, values = batch.levels[level], drawn.values(level, batch)
        count, actions = values.shape[1:]
        allowed = open_actions(table.available, count, actions, f"level '{level}'")
        mu = np.tile(path_full(legacy, level, batch), (self.draws, 1))
        taken = np.tile(table.action.astype(np.int64), self.draws)[:, None]
        steps = [best(closed_off(values, allowed)).reshape(-1, actions)]  # what the plan itself does, from the same values
        steps += [cap(values.reshape(-1, actions), mu, limit) for limit in self.caps]
        own = [np.take_along_axis(chances, taken, axis=1).reshape(self.draws, count).T for chances in steps]
        return np.concatenate(own, axis=1) / logged_chances(level, batch)[:, None]


def _alone(drawn: Planned, place: int) -> Planned:
    """Return the plan under one of its draws."""
    functions = {name: _one(function, place) for name, function in drawn.theta.functions.items()}
    choice = ThompsonChoice(Theta(functions, 1))
    return Planned(drawn.problem, choice, drawn.scope, drawn.legacy, drawn.commit, drawn.integration, drawn.affine)


def _one(function: object, place: int) -> RegressionDraw:
    if not isinstance(function, RegressionDraw):
        raise SettingError(f"host 'pb' weighs draws of regressions, found a {type(function).__name__}; use models of features")
    weights: Array = function.drawn.weights[place : place + 1]
    return RegressionDraw(function.spec, Draw(weights, function.drawn.sd[place : place + 1]))
