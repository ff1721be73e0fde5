"""When a column becomes known: before which decision, or only after the last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from aegis.logs.drafting.effects import CLEAR, FEWEST, LIKELY, Draws
from aegis.logs.drafting.guesses import ActionGuess, LevelsGuess
from aegis.logs.drafting.rewards import RewardGuess
from aegis.logs.drafting.sheet import Longs, Look
from aegis.logs.drafting.words import CONTEXT, EPISODE, KNOWN, LATE, RESULT, REWARD, id_rank, is_named, rank
from aegis.problem import Array

UNSURE = ("place", "called", "close")
_CLOSE = 0.9  # correlation with the reward that few contexts have
_RELATED = 0.75  # the same for a column behind the action, which is where results stand
_SAME = 0.98  # correlation with the reward from which on a column is the reward in other words
_BOTH = 10  # rows with and without, before that is no coincidence
_SAID_SO = ("outcome", "result", "next")  # words for what comes after, whatever the numbers say


@dataclass(frozen=True, slots=True)
class Timing:
    """after: how many levels have decided when a column becomes known, from the outside in. why: what says so.

    changes: within which decisions it changes. moves: it moves with the last of these actions, by `force` standard errors. name,
    reward: its name is a result's, or it is the reward once more. place, called, close: it may be a result, which only its place
    in the file, its name or its closeness to the reward suggests, and the log cannot tell. before: why it is believed to be
    known when it is a context.
    """

    after: int
    why: Literal["changes", "moves", "name", "reward", "place", "called", "close"]
    force: float = 0.0
    before: str = ""

    @property
    def unsure(self) -> bool:
        """Whether the column may be a context as well as a result."""
        return self.why in UNSURE

    def doubt(self, action: str, reward: str) -> str:
        """Return in words why a column may come after the innermost action."""
        return {
            "place": f"it stands behind '{action}' in the log",
            "called": "its name is that of a result",
            "close": f"it goes closely with the reward '{reward}'",
        }[self.why]

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
    after = next((index for index, level in enumerate(stack[:-1]) if level.groups.constant(look)), last)
    found = Timing(after, "changes")
    intended = any(level.action.meant is look for level in stack)
    early = intended or _named_early(look)
    named = not early and _named_late(look, stack[after].action)
    behind = look.position > reward.look.position > stack[last].action.look.position and not early
    forces = [0.0 if drawn is None else drawn.strength(look) for drawn in told]
    for index in range(after, len(stack)):
        later = look.position > stack[index].action.look.position and not early
        if forces[index] > (LIKELY if index == last and (named or behind) else CLEAR):
            found = Timing(index + 1, "moves", forces[index])
        elif told[index] is None and later and found.after == index:
            found = Timing(index + 1, "place")  # nothing tells but the order of the columns
    if found.after == len(stack) and found.why == "moves":
        return found
    likeness = _likeness(look, reward)
    if likeness > _SAME:
        return Timing(len(stack), "reward")
    if is_named(look.name, _SAID_SO) or (named and told[last] is None and _called_result(look)):
        return Timing(len(stack), "name")
    if found.after == len(stack):
        return replace(found, why="called") if named else found
    if named and found.why != "moves":  # what an outer action brings about may well be called a result
        return Timing(len(stack), "called")
    later = look.position > stack[found.after].action.look.position
    if likeness > (_RELATED if later else _CLOSE) and not early:
        return Timing(len(stack), "close")
    return replace(found, before=_belief(look, stack[found.after].action, told[found.after] is not None, intended))


def _belief(look: Look, action: ActionGuess, tested: bool, intended: bool) -> str:
    """Return in words why a column is believed to be known before an action is decided."""
    name = action.look.name
    if intended:
        return "what the controller meant to do is known before it acts"
    if tested:
        behind = look.position > action.look.position and not _named_early(look)
        return f"the log shows no effect of '{name}' on it" + (", though it stands behind it" if behind else "")
    if _named_early(look):
        return "only its name says so"
    return f"only its place before '{name}' in the log says so"


def _named_early(look: Look) -> bool:
    """Say whether a column is called something that is known beforehand, and not a result as well."""
    return is_named(look.name, KNOWN) or (
        is_named(look.name, CONTEXT) and not (_called_result(look) or is_named(look.name, LATE))
    )


def _named_late(look: Look, action: ActionGuess) -> bool:
    return _called_result(look) or (look.position > action.look.position and is_named(look.name, LATE))


def _called_result(look: Look) -> bool:
    if look.binary and id_rank(look.name, EPISODE) is not None:
        return True  # whether there was a visit, an order: no id, but an outcome
    return is_named(look.name, RESULT) or rank(look.name, REWARD) is not None


def _likeness(look: Look, reward: RewardGuess) -> float:
    """Return the correlation with the reward, 1 if the one is 0 where the other is; hardly a context foretells it like that."""
    if reward.look.numbers is None or (look.numbers is None and look.kind != "text"):
        return 0.0
    known = (look.codes >= 0) & ~np.isnan(reward.look.numbers)
    other = reward.look.numbers[known]
    if other.size < FEWEST or other.std() == 0:
        return 0.0
    if look.numbers is None:
        return _ratio(look.codes[known], other)
    one = look.numbers[known]
    if one.std() == 0:
        return 0.0
    nothing = one == 0
    if min(nothing.sum(), (~nothing).sum()) >= _BOTH and np.array_equal(nothing, other == 0):
        return 1.0  # what was spent, where the reward is whether something was bought
    return abs(float(np.corrcoef(one, other)[0, 1]))


def _ratio(codes: Longs, numbers: Array) -> float:
    """Return the correlation ratio of numbers with categories, less what as many categories explain by chance."""
    count = np.bincount(codes)
    means = np.bincount(codes, weights=numbers) / np.maximum(count, 1)
    explained = float(np.var(means[codes])) / float(np.var(numbers))
    groups, rows = int(np.count_nonzero(count)), numbers.size
    if groups >= rows:
        return 0.0
    return math.sqrt(max(1 - (1 - explained) * (rows - 1) / (rows - groups), 0.0))
