"""Does an episode affect the next one? Then episodes are not independent, whatever `carry_over` says.

`E[(w - 1) f(next episode)] = 0` for the weight of any policy at a decision of an episode and any f of the outermost context or of
the mean reward of the next one, in the order of time or of the log. The decision is the last one of its level; where episodes
differ in size the first one, because the last one may be the last one for what it did. In a product over episodes every
term has mean zero given the others, because its earliest weight has: the pairs may overlap. The mean reward of the next episode
is also bet on by all decisions, one after the other: an effect that is spread over them shows there.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from aegis.audit.bets import Choices, EpisodeBets, mean_log, merge_bets, set_of
from aegis.audit.cuts import EPISODES
from aegis.audit.finding import Finding, finding
from aegis.audit.group_bets import GroupBets
from aegis.audit.siblings import centred
from aegis.audit.signs import context_signs, sign_at
from aegis.audit.view import View
from aegis.audit.windows import members_of
from aegis.problem import AnyArray, Array, Problem

REACTS = math.log(20.0)  # evidence from which the controller counts as reacting to the episode before


class Interference:
    """The test of independence between neighbouring episodes, all levels together."""

    def __init__(self, problem: Problem, alpha: float) -> None:
        self.problem, self.alpha = problem, alpha
        self.declared = [level for level in problem.levels if level.propensity is not None]
        self.bets: dict[tuple[str, str, int], EpisodeBets] = {}
        self.again: dict[tuple[str, int], EpisodeBets] = {}
        self.mean: dict[str, GroupBets] = {}
        self.pairs = 0

    def add(self, view: View, before: AnyArray, now: AnyArray) -> None:
        """Add pairs `[p]` of neighbouring episodes."""
        kept = view.fresh[before] & view.fresh[now]
        before, now = before[kept], now[kept]
        if not before.size:
            return
        self.pairs += before.size
        outermost = self.problem.names[0]
        first, _ = view.first_decisions(outermost)
        own = [cut for cut in view.cuts.context[outermost] if cut.variable in view.batch.levels[outermost].context]
        signs = context_signs(own, view.batch.levels[outermost].context, first[now])
        signs["the reward"] = sign_at(view.episode_rewards()[now], view.cuts.reward[outermost])
        result = centred(view.episode_rewards()[now], view.cuts, EPISODES)
        for name, members in members_of(view, before).items():
            draws = members.draws
            own_bets = self.mean.setdefault(name, GroupBets(draws.surprise.shape[1], ("next",)))
            own_bets.add_single(draws.surprise, result, draws.variance is not None, members.owner)
        for level in self.declared:
            table = view.batch.levels[level.name]
            start, some = view.first_decisions(level.name)
            pairs = np.flatnonzero(some[before] & some[now])
            drawn = view.last_decisions(level.name) if view.even(level.name) else start
            rows, after = drawn[before[pairs]], start[now[pairs]]
            if not pairs.size or not np.isfinite(table.mu_taken[rows]).all():
                continue
            drawn_from = table.take(rows, rows)
            halves = Choices.of(level, drawn_from, 2)  # what grows with the action shows in these, all else in finer sets
            finer = [Choices.of(level, drawn_from)] if level.actions.count > 2 else []
            for choices in (halves, *finer):
                for label, sign in signs.items():
                    bets = self.bets.setdefault((level.name, label, choices.sets), EpisodeBets(choices.sets))
                    bets.add_single(choices, sign[pairs])
                again = self.again.setdefault((level.name, choices.sets), EpisodeBets(choices.sets))
                next_set = set_of(level, table.action[after], choices.sets)
                again.add_repeats(choices, next_set, np.arange(pairs.size), pairs.size)

    def merge(self, other: Interference) -> None:
        """Add what was found in other episodes."""
        merge_bets(self.bets, other.bets)
        merge_bets(self.again, other.again)
        for name, bets in other.mean.items():
            if name in self.mean:
                self.mean[name].merge(bets)
            else:
                self.mean[name] = bets
        self.pairs += other.pairs

    def findings(self, order: str, wrong: Collection[str] = (), joined: Collection[str] = ()) -> list[Finding]:
        """Return what was found. order: of the episodes, in words. Levels whose propensities are `wrong` say nothing.

        joined: levels whose draws in one episode may go together, which are not bet on one after the other.
        """
        reacting = {name for (name, _), bets in self.again.items() if mean_log(bets.evidence()) >= REACTS}
        parts: dict[tuple[str, str, int], Array] = {}
        for (name, label, sets), bets in self.bets.items():
            if name not in wrong:
                logs = bets.evidence()
                mute = name in reacting and label == "the reward"  # the controller's reaction, not the plant's
                parts[name, label, sets] = np.full(logs.size, -np.inf) if mute else logs
        for name, every_draw in self.mean.items():
            if name not in wrong:
                logs = every_draw.evidence()
                parts[name, "the mean reward", 0] = np.full(logs.size, -np.inf) if name in {*reacting, *joined} else logs
        every = np.concatenate(list(parts.values())) if parts else np.zeros(0)
        if not every.size or mean_log(every) < math.log(1.0 / self.alpha):
            return []
        (level, what, _), strongest = max(parts.items(), key=lambda item: item[1].max(initial=-np.inf))
        return [
            finding(
                "episodes-interfere",
                "refused",
                f"{what} of an episode depends on an action of level '{level}' in the episode before it ({order})",
                level,
                log10_evidence=float(strongest.max()) / math.log(10),
                pairs=float(self.pairs),
                bets=float(every.size),
            )
        ]
