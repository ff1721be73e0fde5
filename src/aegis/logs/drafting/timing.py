"""When a column becomes known: before which decision, or only after the last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from aegis.logs.drafting.effects import CLEAR, FEWEST, LIKELY, Draws
from aegis.logs.drafting.guesses import LevelsGuess
from aegis.logs.drafting.rewards import RewardGuess
from aegis.logs.drafting.sheet import Look
from aegis.logs.drafting.words import CONTEXT, RESULT, REWARD, is_named, rank

_SAME = 0.98  # correlation with the reward from which on a column is the reward in other words
_SAID_SO = ("outcome", "result", "next")  # words for what comes after, whatever the numbers say


@dataclass(frozen=True, slots=True)
class Timing:
    """after: how many levels have decided when a column becomes known, from the outside in. why: what says so.

    changes: within which decisions it changes. moves: it moves with the last of these actions, by `force` standard errors. name,
    reward: its name is a result's, or it is the reward once more. place: only its place behind the reward suggests it.
    """

    after: int
    why: Literal["changes", "moves", "name", "reward", "place"]
    force: float = 0.0

    def reason(self, action: str, reward: str) -> str:
        """Return in words why a column comes after the innermost action."""
        if self.why == "moves":
            return (
                f"it moves with the chance by which '{action}' was drawn ({self.force:.0f} standard errors), so it comes after it"
            )
        if self.why == "reward":
            return f"it goes with the reward '{reward}' so closely that it can only be known with it"
        return f"its name is that of a result of '{action}'"


def when_known(look: Look, levels: LevelsGuess, told: Sequence[Draws | None], reward: RewardGuess) -> Timing:
    """Return when a column becomes known.

    Not before the decisions within which it changes, and not before an action that it moves with; told: what the log tells about
    the action of each level. Where the log cannot tell about the innermost one, names and places are all there is.
    """
    stack = levels.levels
    last = len(stack) - 1
    found = Timing(next((index for index, level in enumerate(stack[:-1]) if level.groups.constant(look)), last), "changes")
    named = _named_late(look)
    behind = look.position > reward.look.position > stack[last].action.look.position and not is_named(look.name, CONTEXT)
    for index, drawn in enumerate(told[found.after :], start=found.after):
        force = 0.0 if drawn is None else drawn.strength(look)
        if force > (LIKELY if index == last and (named or behind) else CLEAR):
            found = Timing(index + 1, "moves", force)
    if found.after == len(stack):
        return found
    if _like_reward(look, reward):
        return Timing(len(stack), "reward")
    if is_named(look.name, _SAID_SO) or (named and told[last] is None):
        return Timing(len(stack), "name")
    return Timing(len(stack), "place") if behind and told[last] is None else found


def _named_late(look: Look) -> bool:
    if is_named(look.name, CONTEXT):
        return False
    return is_named(look.name, RESULT) or rank(look.name, REWARD) is not None


def _like_reward(look: Look, reward: RewardGuess) -> bool:
    """Say whether a column is the reward once more: nothing that is known beforehand foretells it like that."""
    if look.numbers is None or reward.look.numbers is None:
        return False
    known = ~(np.isnan(look.numbers) | np.isnan(reward.look.numbers))
    one, other = look.numbers[known], reward.look.numbers[known]
    if one.size < FEWEST or one.std() == 0 or other.std() == 0:
        return False
    return abs(float(np.corrcoef(one, other)[0, 1])) > _SAME
