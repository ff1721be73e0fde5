"""Columns about the logging policy: the probability or density of the action taken, and the action it intended."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import numpy as np

from aegis.errors import InputError, did_you_mean
from aegis.logs.column_values import POINT, match_values, number_hint
from aegis.logs.draft import vocabulary as words
from aegis.logs.draft.column_profile import (
    ColumnProfile,
    LogProfile,
    describe_formatted_numbers,
    describe_missing,
    text_entries,
)
from aegis.logs.draft.effects import FEWEST_EPISODES
from aegis.logs.draft.guesses import ActionGuess
from aegis.logs.draft.vocabulary import has_word, name_words, without_words, word_rank

MOST_LISTED_ACTIONS = 200
_FEW = 20  # values that a list of actions may well have, however short the log


def is_continuous(look: ColumnProfile) -> bool:
    """Say whether a column holds any number of an interval rather than some values: hardly one comes twice, on no coarse grid."""
    if look.kind != "number" or look.numbers is None or look.missing or look.whole:
        return False
    if look.count > MOST_LISTED_ACTIONS:
        return True
    changes = 1 + int(np.count_nonzero(look.codes[1:] != look.codes[:-1]))  # an outer decision repeats its number row by row
    return look.count > _FEW and 2 * look.count > changes and not _on_a_grid(look)


def _on_a_grid(look: ColumnProfile) -> bool:
    """Say whether all numbers lie on an even grid of at most MOST_LISTED_ACTIONS points."""
    values = np.asarray(look.values, dtype=np.float64)
    places = (values - values[0]) / float(np.diff(values).min())
    return bool(places[-1] < MOST_LISTED_ACTIONS and np.all(np.abs(places - np.rint(places)) < 1e-6))


def interval_guess(look: ColumnProfile, column: ColumnProfile | None, why: str) -> ActionGuess:
    """Return an action that any number of an interval can be. column: its density, None if it is not logged."""
    low, high = round_outwards(float(np.min(look.numbers)), float(np.max(look.numbers)))  # type: ignore[arg-type]
    question = f"From where to where may '{look.name}' go, and how far from the number it chooses may a policy act ('bandwidth')?"
    if column is not None:
        question += (
            f" Is '{column.name}' a density, per unit of '{look.name}'? A number at which the controller has a probability of "
            "its own, such as an end that it clips to, goes under 'atoms'."
        )
    return ActionGuess(look, (low, high), taken=column, density=True).saying(why, question)


def round_outwards(low: float, high: float) -> tuple[float, float]:
    """Return round numbers below and above, to a hundredth of the distance between them or so."""
    step = 10.0 ** np.floor(np.log10((high - low) / 50.0)) if high > low else 1.0
    ends = float(np.floor(low / step) * step), float(np.ceil(high / step) * step)
    return float(f"{ends[0]:.12g}"), float(f"{ends[1]:.12g}")


_OFF = 0.2  # by which inverse chances may miss the number of rows
_OFF_EACH = 0.5  # the same for a single action


def is_probability_column(look: ColumnProfile) -> bool:
    """Say whether a column is called a probability and holds one; 0 and 1 alone say yes and no."""
    return has_word(look.name, words.PROPENSITY) and look.within(0, 1) and not (look.whole and look.count == 2)


def is_positive(look: ColumnProfile) -> bool:
    """Say whether a column holds a number above 0 in every row."""
    return look.kind == "number" and look.numbers is not None and not look.missing and bool(look.numbers.min(initial=1.0) > 0)


def propensity_misfit(look: ColumnProfile, probability: ColumnProfile) -> float:
    """Return how far a column is from being drawn with a probability: each value, weighted by its inverse, counts every row once.

    The largest |z| over the values; about 1 to 3 if the column is the action and all actions have a chance in every row.
    """
    if probability.numbers is None:
        return float("inf")
    weights, rows = 1 / probability.numbers, look.codes.size
    total = np.bincount(look.codes, weights=weights, minlength=look.count)
    squares = np.bincount(look.codes, weights=weights**2, minlength=look.count)
    spread = np.sqrt(np.maximum(squares - 2 * total + rows, 1e-12))
    return float(np.max(np.abs(total - rows) / spread))


def fits_propensity(look: ColumnProfile, column: ColumnProfile) -> bool:
    """Say whether a column may be the probability of the values drawn: each, weighted by its inverse, counts every row once.

    That says something about FEWEST rows or more. It need not be so: a share of something around one over the number of
    actions does the same. So what fits is asked about, and never used.
    """
    rows, positive = look.codes.size, is_positive(column) and column.within(0, 1)
    if column.numbers is None or rows < FEWEST_EPISODES or look.missing or not positive or column.values == (1,):
        return False
    weights = 1 / column.numbers
    total = np.bincount(look.codes, weights=weights, minlength=look.count) / rows
    often = np.bincount(look.codes, minlength=look.count) >= FEWEST_EPISODES
    return bool(abs(total.mean() - 1) <= _OFF and np.all(np.abs(total[often] - 1) <= _OFF_EACH))


def suspected_propensities(action: ActionGuess, sheet: LogProfile, used: set[str]) -> tuple[ColumnProfile, ...]:
    """Return columns that are not `used` and may hold the chances of an action for which none were found.

    Those called a probability (or density) come first, then those whose numbers fit, unless they are called something else.
    """
    free = [look for look in sheet.but(used) if look.name and is_positive(look) and not has_word(look.name, words.TARGET)]
    if action.density:
        return tuple(look for look in free if has_word(look.name, (*words.DENSITY, *words.PROPENSITY)))
    called = [look for look in free if is_probability_column(look)]
    other = (*words.CONTEXT, *words.REWARD, *words.RESULT, *words.GUARD)
    fitting = [
        look for look in free if look not in called and not has_word(look.name, other) and fits_propensity(action.look, look)
    ]
    reward = _unnamed_reward(sheet, used)
    return (*called, *(look for look in fitting if look is not reward))


def _unnamed_reward(sheet: LogProfile, used: set[str]) -> ColumnProfile | None:
    """Return the column that is taken for the reward because none is called so."""
    looks = [look for look in sheet.but(used) if look.kind == "number" and not is_probability_column(look)]
    return None if not looks or any(word_rank(look.name, words.REWARD) is not None for look in looks) else looks[-1]


def parse_declared_propensities(texts: Sequence[str], sheet: LogProfile) -> list[tuple[str | None, ColumnProfile]]:
    """Return action, None where it is not said, and column of each; InputError for what is not in the log or cannot be meant."""
    pairs: list[tuple[str | None, ColumnProfile]] = []
    for text in texts:
        left, mark, right = text.partition("=")
        action, column = (left, right) if mark and text not in sheet.looks else (None, text)  # a name may hold the sign
        look = sheet.looks.get(column)
        if look is None:
            raise InputError(f"the log has no column '{column}' for a propensity{did_you_mean(column, sheet.looks)}")
        if action is not None and action not in sheet.looks:
            raise InputError(f"the log has no column '{action}' for an action{did_you_mean(action, sheet.looks)}")
        if format_hint := describe_formatted_numbers(look):
            raise InputError(f"column '{column}' cannot be a propensity as it is: it {format_hint}")
        if not is_positive(look):
            raise InputError(
                f"column '{column}' cannot be a propensity: it holds {_trouble(look)}; a propensity is the probability of the "
                "action taken, above 0 and at most 1 in every row (of an action on an interval its density, above 0)"
            )
        pairs.append((action, look))
    return pairs


def check_propensity_column(action: ColumnProfile, column: ColumnProfile) -> None:
    """Raise InputError unless a column can be the chance of an action: at most 1 unless the action is any number."""
    if is_continuous(action) or column.within(0, 1):
        return
    high = 0.0 if column.numbers is None else float(column.numbers.max())
    raise InputError(
        f"column '{column.name}' cannot be the probability of '{action.name}': it goes up to {high:g}, and a probability is at "
        f"most 1{' (divide percentages by 100)' if high <= 100 else ''}"
    )


def _trouble(look: ColumnProfile) -> str:
    if look.kind != "number" or look.numbers is None:
        odd = next(iter(text_entries(look).items()), None)
        shown = "" if odd is None else f" (row {odd[0] + 1}: '{odd[1]}'{number_hint(odd[1], POINT)})"
        return {"text": "text", "flag": "flags", "date": "dates"}.get(look.kind, "no numbers") + shown
    if look.missing:
        return describe_missing(look)
    return f"{look.numbers.min():g}"


_MOSTLY = 0.5  # share of the rows in which what was meant was done
_KAPPA = 0.3  # share of the agreement left by chance, from which on two columns go together without sharing a name


def find_intended_action(action: ActionGuess, sheet: LogProfile, used: Collection[str]) -> ColumnProfile | None:
    """Return the column that is named like an intention, holds values of the action and mostly agrees with it; None without."""
    if action.density:
        return None
    shared = set(name_words(action.look.name))
    fitting: list[tuple[bool, float, ColumnProfile]] = []
    for look in sheet.but({*used, *action.columns}):
        if look.missing or not has_word(look.name, words.INTENTION) or not set(look.values) <= set(action.values):
            continue
        other, differs = not shared & set(name_words(look.name)), share_differing(action, look)
        # `default` may be a default on a loan, which agrees with an offer as often as two columns of mostly 0 do.
        if differs <= _MOSTLY and (not other or look.count == 1 or _beyond_chance(action, look)):
            fitting.append((other, differs, look))
    return min(fitting, key=lambda entry: (*entry[:2], entry[2].position))[2] if fitting else None


def find_intention_pairs(actions: Sequence[ColumnProfile], sheet: LogProfile) -> list[tuple[ColumnProfile, ColumnProfile]]:
    """Return the columns, among those that may be an action, that stand beside one with what was meant, and that one.

    The two share a name but for words such as `meant` and `actual`, the one holds values of the other, and they mostly agree.
    """
    pairs: list[tuple[ColumnProfile, ColumnProfile]] = []
    for look in actions:
        named = without_words(_stem(look), words.EXECUTION)
        other = has_word(look.name, (*words.INTENTION, *words.PROPENSITY, *words.COST, *words.REWARD))
        beside = [one for one in sheet.but({look.name}) if without_words(_stem(one), words.INTENTION) == named]
        if named and beside and not other:
            near = LogProfile({one.name: one for one in beside}, sheet.rows)
            meant = find_intended_action(ActionGuess(look, look.values), near, ())
            pairs += [(look, meant)] if meant is not None else []
    return pairs


def _beyond_chance(action: ActionGuess, meant: ColumnProfile) -> bool:
    """Say whether two columns agree clearly more often than two that have nothing to do with each other (Cohen's kappa)."""
    one, other = action.index, match_values(meant.distinct, action.values)[meant.codes]
    size = len(action.values)
    chance = float(np.bincount(one, minlength=size) @ np.bincount(other, minlength=size)) / one.size**2
    return 1 - share_differing(action, meant) - chance > _KAPPA * (1 - chance)


def _stem(look: ColumnProfile) -> tuple[str, ...]:
    """Return the words of a name without a unit in brackets."""
    return name_words(re.sub(r"[\[(][^\])]*[\])]", " ", look.name))


def share_differing(action: ActionGuess, meant: ColumnProfile) -> float:
    """Return how often what was done is not what was meant."""
    return float(np.mean(action.index != match_values(meant.distinct, action.values)[meant.codes]))


def intention_questions(action: ActionGuess) -> list[str]:
    """Ask what only the user knows about an intention: whether it is one, and how often the controller explored."""
    if action.meant is None:
        return []
    name, meant, differs = action.look.name, action.meant.name, share_differing(action, action.meant)
    epsilon = min(differs * len(action.values) / max(len(action.values) - 1, 1), 1.0)  # a uniform choice may hit what was meant
    questions = [
        f"Is '{meant}' what the controller does at '{name}' if nothing is handed over? Gains are then over it "
        "('incumbent'); delete that line if it is not."
    ]
    if action.paired:
        return questions
    if not differs:
        return [*questions, f"'{name}' is '{meant}' in every row: if nothing was left to chance, no gain can be certified there."]
    return [
        f"Did the controller do '{meant}', except for a fixed share of decisions in which it drew '{name}' uniformly? Then "
        f"write that share as 'epsilon', as it is programmed. The two differ in {differs:.1%} of the rows, as with "
        f"epsilon {epsilon:.2g}; that is an estimate, which cannot be certified with.",
        *questions,
    ]
