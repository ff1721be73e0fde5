"""Does a decision affect its next sibling? Under `carry_over: none` it must not (theory section 1a).

`E[(w_prev - 1) f(next)] = 0` for the weight of any policy at the decision before and any f of the next sibling's context or
reward. f is a sign at a cut point, the policies are uniform choices from sets of actions, and the candidate where there is one.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from aegis.audit.bets import Choices, EpisodeBets, mean_log
from aegis.audit.cuts import Cut
from aegis.audit.finding import Finding, finding
from aegis.audit.sums import Thinning, followed
from aegis.audit.view import View
from aegis.problem import AnyArray, Array, Problem

MOST_DECISIONS = 2**16  # of a level that are all looked at; then some batches only
REACTS = math.log(20.0)  # evidence from which the controller counts as reacting to earlier decisions


@dataclass(slots=True)
class _LevelBets:
    """Bets about one level: on each context of the next sibling, on its reward, and on whether its action is the same."""

    context: dict[str, EpisodeBets] = field(default_factory=dict)
    reward: dict[str, EpisodeBets] = field(default_factory=dict)
    action: dict[str, EpisodeBets] = field(default_factory=dict)
    thinning: Thinning = field(default_factory=lambda: Thinning(MOST_DECISIONS))
    pairs: int = 0


class CarryOver:
    """The test of `carry_over: none`, all levels together at level alpha."""

    def __init__(self, problem: Problem, alpha: float) -> None:
        self.problem, self.alpha = problem, alpha
        self.levels = {level.name: _LevelBets() for level in problem.levels if level.propensity is not None}

    def add(self, view: View, weights: dict[str, Array]) -> None:
        """Add the decisions of a batch; weights `[m]` of a candidate by level, where there is one."""
        if self.problem.carry_over != "none":
            return
        for name, bets in self.levels.items():
            table = view.batch.levels[name]
            if not bets.thinning.wants(len(table)) or not np.isfinite(table.mu_taken).all():
                continue
            before = np.flatnonzero(followed(table.parent) & view.fresh_at(name))
            if not before.size:
                continue
            bets.pairs += before.size
            level = self.problem.level(name)
            owner = view.episodes[name][before]
            every = Choices.of(level, table)
            policies = {"": every.take(before)}
            if name in weights:
                policies["candidate"] = Choices.weighted(weights[name][before])
            rewards = _sign(view.rewards_below(name)[before + 1], view.cuts.reward[name])
            own = [cut for cut in view.cuts.context[name] if cut.variable in table.context]
            contexts = {label: sign for cut in own for label, sign in _signs(cut, table.context, before + 1).items()}
            for words, choices in policies.items():
                for label, sign in contexts.items():
                    _bet(bets.context, f"{label}{words}", choices, sign, owner, len(view.batch))
                _bet(bets.reward, words, choices, rewards, owner, len(view.batch))
            again = bets.action.setdefault("", EpisodeBets(every.sets))
            again.add_repeats(policies[""], every.chosen[before + 1], owner, len(view.batch))

    def findings(self, wrong: Collection[str] = ()) -> list[Finding]:
        """Return what was found; levels whose propensities are `wrong` say nothing about carry-over."""
        tested = {name: bets for name, bets in self.levels.items() if name not in wrong}
        reacting = [name for name, bets in tested.items() if mean_log(_evidence(bets.action)) >= REACTS]
        parts: dict[tuple[str, str], Array] = {}
        for name, bets in tested.items():
            for label, found in bets.context.items():
                parts[name, label.removesuffix("candidate")] = found.evidence()
            rewards = _evidence(bets.reward)
            parts[name, "its reward"] = np.full(rewards.size, -np.inf) if name in reacting else rewards
        every = np.concatenate(list(parts.values())) if parts else np.zeros(0)
        noted = [self._reacts(name) for name in reacting]
        if not every.size or mean_log(every) < math.log(1.0 / self.alpha):
            return noted
        (level, what), strongest = max(parts.items(), key=lambda item: item[1].max(initial=-np.inf))
        return [
            finding(
                "carry-over",
                "refused",
                f"level '{level}': {what} of a decision depends on the action of the decision before it in the same parent, but "
                "the problem says 'carry_over: none'",
                level,
                log10_evidence=float(strongest.max()) / math.log(10),
                pairs=float(self.levels[level].pairs),
                bets=float(every.size),
            ),
            *noted,
        ]

    def _reacts(self, level: str) -> Finding:
        return finding(
            "behaviour-reacts",
            "note",
            f"level '{level}': actions depend on the action before them in the same parent, so that carry-over was looked for in "
            "contexts only",
            level,
        )


def _signs(cut: Cut, context: object, rows: AnyArray) -> dict[str, Array]:
    """Return the signs `[p]` of a context at some rows, by words: one for a number, one for each category."""
    codes = cut.codes(context)[rows]  # type: ignore[arg-type]
    if not cut.values:
        return {f"'{cut.name}'": np.where(codes == 1, 1.0, -1.0)}
    return {f"'{cut.name}' ({label})": np.where(codes == place, 1.0, -1.0) for place, label in enumerate(cut.labels)}


def _sign(values: Array, edge: float) -> Array:
    """Return 1 above the edge, -1 at or below it, 0 where the value is not known."""
    return np.where(np.isfinite(values), np.where(values > edge, 1.0, -1.0), 0.0)


def _bet(bets: dict[str, EpisodeBets], label: str, choices: Choices, sign: Array, owner: AnyArray, count: int) -> None:
    bets.setdefault(label, EpisodeBets(choices.sets)).add(choices, sign, owner, count)


def _evidence(bets: dict[str, EpisodeBets]) -> Array:
    return np.concatenate([found.evidence() for found in bets.values()]) if bets else np.zeros(0)
