"""Find the reward column and its level, and suggest a range for the user to correct."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from aegis.logs.draft import vocabulary as words
from aegis.logs.draft.column_profile import ColumnProfile, LogProfile, SampleGroups
from aegis.logs.draft.column_sets import tidy_number
from aegis.logs.draft.guesses import Guess, IdGuess, LevelsGuess
from aegis.logs.draft.logging_policy import is_probability_column
from aegis.logs.draft.vocabulary import has_word, word_rank
from aegis.problem import Array


@dataclass(frozen=True, slots=True)
class RewardGuess(Guess):
    """The reward: its column, what it is per, whether less is better, and limits that are wider than its values."""

    look: ColumnProfile
    per: str
    minimise: bool
    limits: tuple[float, float]

    @property
    def seen(self) -> tuple[float, float]:
        """Return the lowest and the highest reward in the rows that were looked at."""
        numbers = np.zeros(1) if self.look.numbers is None else self.look.numbers[~np.isnan(self.look.numbers)]
        return float(numbers.min()), float(numbers.max())


def find_reward(sheet: LogProfile, used: Collection[str], levels: LevelsGuess, ids: IdGuess) -> RewardGuess | None:
    """Return the reward among the columns that are not `used`: by its name, else the last column of numbers, else None."""
    numbers = [look for look in sheet.but(used) if look.name and look.kind == "number" and look.missing < sheet.rows]
    looks = [look for look in numbers if not is_probability_column(look)]
    named = [(at, -look.position, look) for look in looks if (at := word_rank(look.name, words.REWARD)) is not None]
    if named:
        look = min(named, key=lambda entry: entry[:2])[2]
        reward = _guess(look, f"'{look.name}' is the reward by its name")
        rivals = [other.name for at, _, other in named if other is not look and at < len(words.REWARD)]
        rivals += [other.name for other in looks if other.binary and has_word(other.name, (*words.EPISODE, *words.RESULT))]
        rivals += [other.name for other in looks if other.name == ids.refused and other is not look]
        others = " or ".join(f"'{name}'" for name in rivals)
        question = f"Is '{look.name}' what you want {_wanted(reward)} of, rather than {others}?" if rivals else ""
    else:
        looks = [look for look in looks if look.count > 1 and not look.running]
        looks = [look for look in looks if not (look.key and has_word(look.name, words.DECISION))]
        if not looks:
            return None
        reward = _guess(looks[-1], f"'{looks[-1].name}' is taken for the reward: it is the last column of numbers")
        question = f"No column is called a reward. Is '{reward.look.name}' what you want {_wanted(reward)} of?"
    asked = (question, *reward.questions) if question else reward.questions
    return _with_owner(replace(reward, questions=asked), levels, ids)


def wide_range(numbers: Array) -> tuple[float, float]:
    """Return round limits well outside the numbers; 0 stays a limit of what never crosses it, and shares stay in [0, 1]."""
    low, high = float(numbers.min()), float(numbers.max())
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    span = (high - low) or max(abs(high), 1.0)
    if not math.isfinite(2 * span):
        return (low, high) if low < high else (low - 1.0, high + 1.0)
    lower = max(low - span / 2, 0.0) if low >= 0 else low - span / 2
    upper = min(high + span / 2, 0.0) if high <= 0 else high + span / 2
    digits = 10.0 ** math.floor(math.log10(upper - lower)) / 10
    limits = tidy_number(math.floor(lower / digits) * digits, 6), tidy_number(math.ceil(upper / digits) * digits, 6)
    # Large numbers that hardly differ lie outside of what six digits can say.
    return limits if limits[0] <= low < high <= limits[1] or low == high else (lower, upper)


def _guess(look: ColumnProfile, note: str) -> RewardGuess:
    numbers = look.numbers
    known = np.zeros(1) if numbers is None else numbers[~np.isnan(numbers)]
    less, more = has_word(look.name, words.COST), has_word(look.name, words.GAIN)
    minimise = less and not more
    guess = RewardGuess(look, "decision", minimise, wide_range(known)).saying(note)
    if not less:
        return guess
    goal, better = ("minimise", "less") if minimise else ("maximise", "more")
    return guess.saying(question=f"Is {better} of '{look.name}' better? The draft says 'goal: {goal}', by its name alone.")


def _with_owner(reward: RewardGuess, levels: LevelsGuess, ids: IdGuess) -> RewardGuess:
    """Find out what a reward belongs to: repeated for a whole episode, or a whole outer decision, it is theirs."""
    look = reward.look
    if look.missing and not ids.groups.single and _once(look, ids.groups):
        text = (
            f"'{look.name}' is filled in once in each episode: if it is the reward of the whole episode, repeat it in all rows "
            "and write 'per: episode'. As it stands all other rows count as missing."
        )
        return reward.saying(question=text)
    owners = [("episode", ids.groups), *((level.name, level.groups) for level in levels.levels[:-1])]
    for name, groups in owners:
        if look.count > 1 and not groups.single and groups.constant(look):
            what = "episode" if name == "episode" else f"decision of level '{name}'"
            note = f"'{look.name}' is the same in all rows of each {what}, so it belongs to the whole of it"
            return replace(reward, per=name).saying(note)
    return reward


def _wanted(reward: RewardGuess) -> str:
    return "less" if reward.minimise else "more"


def _once(look: ColumnProfile, groups: SampleGroups) -> bool:
    known = np.bincount(groups.of, weights=(look.codes >= 0).astype(np.float64), minlength=len(groups))
    return bool(known.max(initial=0) <= 1)
