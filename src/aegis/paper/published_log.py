"""Algorithm 2 of the paper on a recorded log: after which episode its looks would have handed over. **Not a certificate.**

The log is that of a legacy, in the order of time. As behind the gate, the belief is updated with all episodes so far, and every
`stride` episodes each level that would still be the legacy's is judged on its buffer. In the log the legacy acted everywhere to
the end: a look after the first flip judges a level beside the legacy, not beside an agent that acts below or above it.

| the log holds | read as |
|---|---|
| the probability of the action taken | mu, the denominator of the weight |
| no propensities at a level | a deterministic legacy: mu = 1, so that the weight is the agent's probability (`assumed`) |
| rewards | the mean reward of the legacy, and the rewards that weights multiply |

A level above another is planned through what the legacy does below: as the problem states it (`incumbent`), or a policy that is
given; a level that cannot be planned is left out, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from aegis.errors import AegisError, SettingError, check_choice
from aegis.handover import GateLook, Host, check_single_level, refuse_interval_actions
from aegis.mechanisms import Belief, ModelSettings, build_belief, fit_scalings
from aegis.ope import Measure
from aegis.paper.published_gate import STANDARDISED_BY
from aegis.paper.published_looks import Algorithm2, Buffers, PublishedSettings, ScopePlanner, check_host
from aegis.planning import COARSE, Planned, Rule
from aegis.policies import Logged, StatedIncumbent
from aegis.problem import SCOPE_SEPARATOR, Batch, Policy, Problem

AS_PUBLISHED = "as published, not a certificate"


@dataclass(frozen=True, slots=True)
class LogLooks:
    """What Algorithm 2 would have done on a log. Gains, bounds and margins are in units of the reward.

    episodes: of the log. aside: how many of the first ones were set aside to standardise by. looks: all of them; an episode
    counts from the first of the log. flips: after which episode each level that was judged would have been handed over, None if
    never. gains: the number that convinced. ids: of the last episode before each flip. assumed: levels read as deterministic.
    left_out: scopes that could not be judged, with the reason.
    """

    episodes: int
    aside: int
    looks: tuple[GateLook, ...]
    flips: Mapping[str, int | None]
    gains: Mapping[str, float]
    ids: Mapping[str, str]
    assumed: tuple[str, ...]
    left_out: Mapping[str, str]

    @property
    def sentence(self) -> str:
        """Return the outcome in words, with what it is worth."""
        flipped = {level: flip for level, flip in self.flips.items() if flip is not None}
        if not self.looks:
            return f"{AS_PUBLISHED.capitalize()}: {self.episodes} episodes are too few for a look."
        never = [level for level in self.flips if level not in flipped]
        parts = [f"'{level}' after episode {flip}" for level, flip in flipped.items()]
        words = f"Algorithm 2 would have handed over {' and '.join(parts)}" if parts else "Algorithm 2 would not have handed over"
        if never:
            listed = " and ".join(f"'{level}'" for level in never)
            words += f", {listed} never" if parts else f" {listed}"
        return f"{AS_PUBLISHED.capitalize()}: within {self.episodes} episodes {words}."

    def plain(self) -> dict[str, Any]:
        """Return plain data; the looks by scope, in the order of time."""
        return {
            "label": AS_PUBLISHED,
            "certificate": False,
            "sentence": self.sentence,
            "episodes": self.episodes,
            "aside": self.aside,
            "levels": [
                {"level": level, "flip": flip, "id": self.ids.get(level), "gain": self.gains.get(level)}
                for level, flip in self.flips.items()
            ],
            "assumed_deterministic": list(self.assumed),
            "left_out": dict(self.left_out),
            "looks": [asdict(look) for look in self.looks],
        }


def judge_log(
    problem: Problem,
    batch: Batch,
    host: Host,
    settings: PublishedSettings | None = None,
    legacy: Policy | None = None,
    seed: int = 0,
) -> LogLooks:
    """Replay the looks of Algorithm 2 over the log of a legacy.

    Parameters
    ----------
    problem, batch
        The problem and its log; episodes are put in the order of their times if the problem names a time.
    host
        A host with a belief and a rule.
    settings
        Of the published gate. What concerns an agent that acts has no effect: risk_adjust_inner, positivity and refresh.
    legacy
        The policy that wrote the log, for planning above levels where it goes on; None is what the problem states.
    seed
        Draws of theta follow from it.

    Returns
    -------
    LogLooks
        The looks, and after which episode each level would have flipped.

    Raises
    ------
    SettingError
        If the host has no rule, the settings do not fit, or no level can be planned.
    RefusedError
        If a logged propensity is no probability, or the log holds no reward.
    """
    chosen = settings or PublishedSettings()
    causal = check_host(host)
    if not chosen.progressive_handover:
        raise SettingError("without 'progressive_handover' there is no gate: leave the switch on to judge a log")
    refuse_interval_actions(problem)
    algorithm, levels = Algorithm2.of(problem, chosen, causal), _levels(problem, chosen)
    algorithm.check_levels(levels)
    read, assumed = assume_deterministic(_in_time(problem, batch))
    model = chosen.model_of(causal)
    aside = min(STANDARDISED_BY, len(read)) if model.features == "fourier" else 0
    plans = _LogPlans(
        problem=problem,
        model=model,
        planner=ScopePlanner(StatedIncumbent(problem) if legacy is None else legacy, chosen.integration(COARSE, model), seed),
        aside=read.take_episodes(np.arange(aside)),
    )
    scopes, left_out = plans.plannable(algorithm, levels, read)
    own = read.take_episodes(np.arange(aside, len(read)))
    looks, flips, gains = _replay(algorithm, scopes, plans, own)
    judged = {level for scope in scopes for level in scope}
    after = {level: flips[level] + aside if level in flips else None for level in levels if level in judged}
    return LogLooks(
        episodes=len(read),
        aside=aside,
        looks=tuple(_look_at_log(look, aside, algorithm.measure) for look in looks),
        flips=after,
        gains={level: algorithm.measure.gain(gain) for level, gain in gains.items()},
        ids={level: str(read.episode[flip - 1]) for level, flip in after.items() if flip is not None},
        assumed=assumed,
        left_out=left_out,
    )


def _look_at_log(look: GateLook, aside: int, measure: Measure) -> GateLook:
    """Return a look in units of the reward, its episode counted from the first of the log."""
    gain, bound = (None if scaled is None else measure.gain(scaled) for scaled in (look.gain, look.bound))
    return replace(look, episode=look.episode + aside, gain=gain, margin=measure.gain(look.margin), bound=bound)


def assume_deterministic(batch: Batch) -> tuple[Batch, tuple[str, ...]]:
    """Return a log with mu = 1 at levels without any propensity, as the paper reads a deterministic legacy; and these levels."""
    silent = tuple(name for name, table in batch.levels.items() if np.isnan(table.mu_taken).all())
    levels = {
        name: replace(table, mu_taken=np.ones(len(table))) if name in silent else table for name, table in batch.levels.items()
    }
    return replace(batch, levels=levels), silent


def _in_time(problem: Problem, batch: Batch) -> Batch:
    if problem.time is None or batch.time is None:
        return batch
    return batch.take_episodes(np.argsort(batch.time, kind="stable"))


def _levels(problem: Problem, settings: PublishedSettings) -> tuple[str, ...]:
    """Return the levels that are judged, innermost first."""
    for level in settings.levels:
        check_choice(level, problem.names, "level of the gate")
    levels = tuple(name for name in reversed(problem.names) if not settings.levels or name in settings.levels)
    for level in levels:
        check_single_level(problem, level)
    return levels


@dataclass(frozen=True, slots=True)
class _LogPlans:
    """Plans from the belief about a log. aside: episodes to standardise by, where the model has length-scales."""

    problem: Problem
    model: ModelSettings
    planner: ScopePlanner
    aside: Batch

    def prior(self) -> Belief:
        scalings = fit_scalings(self.problem, [self.aside]) if len(self.aside) else {}
        return build_belief(self.problem, self.model, None, scalings, self.planner.seed)

    def plannable(
        self, algorithm: Algorithm2, levels: Sequence[str], batch: Batch
    ) -> tuple[list[tuple[str, ...]], dict[str, str]]:
        """Return the scopes that can be planned, and why the others cannot; SettingError if none can."""
        scopes: list[tuple[str, ...]] = []
        left_out: dict[str, str] = {}
        first, belief = batch.take_episodes(np.arange(min(1, len(batch)))), self.prior()
        for scope in algorithm.scopes(levels):
            try:
                planned = self.planner.plan(belief, algorithm.rule, scope, 0)
                for level in scope:
                    planned.taken(level, first)
            except AegisError as error:
                left_out[SCOPE_SEPARATOR.join(scope)] = self._remedy(scope) or str(error)
            else:
                scopes.append(scope)
        if not scopes:
            raise SettingError("; ".join(f"'{scope}' cannot be judged: {why}" for scope, why in left_out.items()))
        return scopes, left_out

    def _remedy(self, scope: Sequence[str]) -> str:
        """Return what makes a scope plannable, empty if nothing is known to."""
        legacy = self.planner.legacy
        if not isinstance(legacy, StatedIncumbent | Logged):
            return ""
        names, stated = self.problem.names, legacy.levels if isinstance(legacy, StatedIncumbent) else ()
        below = names[min(names.index(level) for level in scope) :]
        missing = [f"'{name}'" for name in below if name not in scope and name not in stated]
        if not missing:
            return ""
        listed = " and ".join(missing)
        return (
            f"its plan needs what the legacy does below: state the incumbent of {listed} in the problem file, or name the policy "
            "that wrote the log (--legacy)"
        )


def _replay(
    algorithm: Algorithm2, scopes: Sequence[tuple[str, ...]], plans: _LogPlans, batch: Batch
) -> tuple[list[GateLook], dict[str, int], dict[str, float]]:
    """Return all looks at a log, after which episode each level flips, and by which scaled gain."""
    belief, stride = plans.prior(), algorithm.settings.stride
    looks: list[GateLook] = []
    flips: dict[str, int] = {}
    gains: dict[str, float] = {}
    for now in range(stride, len(batch) + 1, stride):
        belief = belief.update(batch.take_episodes(np.arange(now - stride, now)))

        def plan(rule: Rule, levels: frozenset[str], belief: Belief = belief, now: int = now) -> Planned:
            return plans.planner.plan(belief, rule, levels, now)

        buffers = Buffers(dict(flips), algorithm.settings.freeze_at_first_flip, recorded=True)
        so_far = batch.take_episodes(np.arange(now))
        taken, convinced = algorithm.looks(scopes, buffers, now, belief, so_far, plan)
        looks += taken
        flips |= dict.fromkeys(convinced, now)
        gains |= convinced
    return looks, flips, gains
