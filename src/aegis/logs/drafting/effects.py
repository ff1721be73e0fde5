"""Did a column come before an action, or after it? Where the chances of an action are known, the log itself tells.

An action drawn with known chances is independent of everything that was there before, given those chances. A column that moves
with what was drawn was brought about by it: it is no context of that decision.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aegis.logs.drafting.guesses import ActionGuess
from aegis.logs.drafting.sheet import Groups, Look, side_by_side
from aegis.problem import AnyArray, Array

CLEAR = 5.5  # standard errors: with some hundred comparisons a false alarm is one in a hundred thousand logs
FEWEST = 30  # episodes below which nothing is said
_INDICATORS = 40  # actions and categories that are looked at one by one
_LARGEST_WEIGHT = 1e6


def can_tell(action: ActionGuess, groups: Groups, episodes: Groups) -> bool:
    """Say whether the log can tell what an action brings about: chances are known and add up, and there are episodes enough."""
    return len(episodes) >= FEWEST and next(_surprises(action, groups.first), None) is not None


def strength(action: ActionGuess, look: Look, groups: Groups, episodes: Groups) -> float:
    """Return how clearly a column moves with an action: the largest of several |z|, one unit per episode.

    groups: the decisions of the action. The column has one value in each of them, or at least its first row's is taken.
    """
    if len(episodes) < FEWEST:
        return 0.0
    first = groups.first
    unit = episodes.of[first]
    largest = 0.0
    for surprise in _surprises(action, first):
        for feature in _features(look, first):
            per_unit = np.bincount(unit, weights=surprise * feature, minlength=len(episodes))
            spread = float(np.sqrt(np.sum(per_unit**2)))
            if np.count_nonzero(per_unit) >= FEWEST and spread > 0:
                largest = max(largest, abs(float(per_unit.sum())) / spread)
    return largest


def moves_chances(action: ActionGuess, other: ActionGuess, groups: Groups, episodes: Groups) -> bool:
    """Say whether one action moves the chances of another, which is then decided later."""
    return any(strength(action, look, groups, episodes) > CLEAR for look in other.chances)


def _surprises(action: ActionGuess, first: AnyArray) -> Iterator[Array]:
    """Yield functions of the action minus what was to be expected, `[m]`: mean 0 whatever was known before.

    With the whole distribution that is exact. With the chance of the action taken it needs a chance for all actions that are
    available; where the inverse chances do not add up, nothing is yielded.
    """
    taken = action.index[first]
    scores = _scores(action)
    if action.full:
        chances = side_by_side(action.full)[first]
        for score in scores:
            yield score[taken] - chances @ score
        return
    if action.taken is None or action.taken.numbers is None:
        return
    weight = np.minimum(1 / action.taken.numbers[first], _LARGEST_WEIGHT)
    possible = side_by_side(action.available)[first] if action.available else np.ones((first.size, len(action.values)))
    counts = [weight * (taken == value) - possible[:, value] for value in range(len(action.values))]
    if any(abs(float(count.sum())) > CLEAR * max(float(np.sqrt(np.sum(count**2))), 1e-9) for count in counts):
        return
    for score in scores:
        yield weight * score[taken] - possible @ score


def _scores(action: ActionGuess) -> list[Array]:
    """Return functions of the action by its place among the values, `[A]` each: its size, its square, and single actions."""
    count = len(action.values)
    found = list(np.eye(count)[: min(count, _INDICATORS)])
    if all(not isinstance(value, str | bool) for value in action.values):
        numbers = np.asarray(action.values, dtype=np.float64)
        scaled = (numbers - numbers.mean()) / max(float(numbers.std()), 1e-12)
        found += [scaled, scaled**2 - 1]
    return found


def _features(look: Look, first: AnyArray) -> Iterator[Array]:
    """Yield functions of a column, `[m]`: the rank of a number and its square (no outlier has a say), or single categories."""
    codes = look.codes[first]
    if look.numbers is not None and look.count > 2:
        numbers = look.numbers[first]
        known = codes >= 0
        place = np.zeros(first.size)
        order = np.unique(numbers[known], return_inverse=True, return_counts=True)
        middle = np.cumsum(order[2]) - (order[2] + 1) / 2
        place[known] = 2 * middle[order[1].reshape(-1)] / max(int(known.sum()) - 1, 1) - 1
        yield place
        yield np.where(known, place**2 - 1 / 3, 0.0)
        return
    for code in range(min(look.count, _INDICATORS)):
        hits = codes == code
        yield hits - hits.mean()
