"""Which columns are actions, by names that go together and by what the numbers say."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from aegis.errors import InputError, did_you_mean
from aegis.logs.column_values import match_values
from aegis.logs.draft import vocabulary as words
from aegis.logs.draft.column_profile import ColumnProfile, LogProfile, describe_missing, stack_numbers
from aegis.logs.draft.column_sets import ColumnSet, add_mask, align_values, find_column_sets, widen_column_set
from aegis.logs.draft.guesses import ActionGuess
from aegis.logs.draft.logging_policy import (
    MOST_LISTED_ACTIONS,
    check_propensity_column,
    find_intended_action,
    find_intention_pairs,
    fits_propensity,
    interval_guess,
    is_continuous,
    is_positive,
    is_probability_column,
    parse_declared_propensities,
    propensity_misfit,
    suspected_propensities,
)
from aegis.logs.draft.vocabulary import has_word, name_words, without_words, word_rank
from aegis.problem import SUM_TOLERANCE

_COUNTED = {"number": "numbers", "text": "texts", "date": "dates"}
_KINDS = ("number", "text", "flag")
_STRONG = ("action", "arm", "treatment", "treat", "choice", "chosen", "intervention", "setting", "dose")


@dataclass(slots=True)
class _Search:
    """The guesses so far, and actions whose probabilities are there but in an order that is not clear."""

    sheet: LogProfile
    named: tuple[str, ...] = ()  # by the user: no other column is an action
    guesses: list[ActionGuess] = field(default_factory=list)
    unclear: dict[str, ColumnSet] = field(default_factory=dict)

    @property
    def used(self) -> set[str]:
        """The columns that are accounted for."""
        unclear = {column for column_set in self.unclear.values() for column in column_set.columns} | set(self.unclear)
        return unclear | {column for guess in self.guesses for column in guess.columns}

    def candidates(self, least: int = 2) -> list[ColumnProfile]:
        """Return columns that may still be an action: from `least` to MOST_LISTED_ACTIONS values, never missing."""
        return [
            look
            for look in self.sheet.but(self.used)
            if look.name
            and (not self.named or look.name in self.named)
            and least <= look.count <= MOST_LISTED_ACTIONS
            and not look.missing
            and look.kind in _KINDS
            and (look.name in self.named or not is_probability_column(look))
        ]

    def wide(self) -> list[ColumnProfile]:
        """Return columns that may still be an action on an interval."""
        free = [look for look in self.sheet.but(self.used) if look.name and (not self.named or look.name in self.named)]
        return [look for look in free if is_continuous(look) and not has_word(look.name, (*words.PROPENSITY, *words.DENSITY))]

    def either(self) -> list[ColumnProfile]:
        """Return columns that may still be an action of either kind, in the order of the file; any number only if called so."""
        called = [look for look in self.wide() if (at := _rank(self, look)) is not None and at < len(words.ACTION)]
        listed = [look for look in self.candidates() if not is_continuous(look) or look in called]
        return sorted({look.name: look for look in (*listed, *called)}.values(), key=lambda look: look.position)

    def add(self, look: ColumnProfile, column: ColumnProfile | None, why: str, question: str = "") -> None:
        """Take a column for an action, on an interval if it holds any number; column: the chance of what was taken."""
        listed = ActionGuess(look, look.values, taken=column).saying(why)
        self.guesses.append((interval_guess(look, column, why) if is_continuous(look) else listed).saying(question=question))


def find_actions(sheet: LogProfile, named: Sequence[str] = (), propensities: Sequence[str] = ()) -> list[ActionGuess]:
    """Return the actions of a log, in the order of its columns.

    named: those that the user named; then there are no others. propensities: the columns of their probabilities (or
    densities), `COLUMN` or `ACTION=COLUMN`. Raises InputError for a column that cannot have its role.
    """
    pairs = parse_declared_propensities(propensities, sheet)
    paired = [action for action, _ in pairs if action is not None]
    search = _Search(sheet, (*named, *(name for name in paired if named and name not in named)))
    _check_named(search, paired)
    _with_declared(search, pairs)
    _with_full_distributions(search)
    _with_own_density(search)
    _with_own_probability(search)
    _with_general_probability(search)
    _with_meant(search)
    _by_name_alone(search)
    _with_unclear_distributions(search)
    _with_fitting_probability(search)
    used: set[str] = set()
    guesses: list[ActionGuess] = []
    for guess in search.guesses:
        masked = guess if guess.density else add_mask(guess, sheet, search.used | used)
        used |= set(masked.columns)
        guesses.append(_in_file_order(masked))
    used |= search.used
    for place, guess in enumerate(guesses):
        meant = find_intended_action(guess, sheet, used)
        used |= set() if meant is None else {meant.name}
        guesses[place] = replace(guess, meant=meant)
    guesses = [
        guess if guess.paired else replace(guess, suspects=suspected_propensities(guess, sheet, used)) for guess in guesses
    ]
    return sorted(guesses, key=lambda guess: guess.look.position)


def _check_named(search: _Search, paired: Sequence[str]) -> None:
    """Refuse columns that are not in the log, or cannot be actions."""
    for name in (*search.named, *paired):
        look = search.sheet.looks.get(name)
        if look is None:
            raise InputError(f"the log has no column '{name}'{did_you_mean(name, search.sheet.looks)}")
        listed = 1 <= look.count <= MOST_LISTED_ACTIONS and not look.missing and look.kind in _KINDS
        if not (listed or is_continuous(look)):
            content = f"{look.count} {_COUNTED.get(look.kind, 'values')}"
            content += f", and {describe_missing(look)}" if look.missing else ""
            whole = "; put so many whole numbers into classes, to the nearest ten, say" if look.whole and not look.missing else ""
            raise InputError(
                f"column '{name}' cannot be an action: found {content}; an action has 2 to {MOST_LISTED_ACTIONS} values or "
                "is any number "
                f"of an interval, and there is one in every row{whole}"
            )


def _with_declared(search: _Search, pairs: Sequence[tuple[str | None, ColumnProfile]]) -> None:
    """Pair actions with the columns that the user named as their probabilities."""
    for name, column in sorted(pairs, key=lambda pair: pair[0] is None):
        look = _action_of(search, column) if name is None else search.sheet.looks[name]
        if look.name in search.used:
            raise InputError(f"'{look.name}' has two propensities; name one column with the probability of what was taken")
        check_propensity_column(look, column)
        if look.count < 2:
            raise InputError(
                f"column '{look.name}' cannot be an action: it is the same in every row, and nothing is decided there"
            )
        what = "density" if is_continuous(look) else "probability"
        search.add(look, column, f"'{look.name}' is an action: you named '{column.name}' as its {what}")


def _action_of(search: _Search, column: ColumnProfile) -> ColumnProfile:
    """Return the action that a probability named by itself belongs to: the only one named, else the one called most like one."""
    free = [look for look in search.either() if look.name != column.name]
    if not search.named:
        called = [look for look in free if not counts_decisions(look)]
        ranked = [(at, look.position, look) for look in called if (at := word_rank(look.name, words.ACTION)) is not None]
        free = [min(ranked, key=lambda entry: entry[:2])[2]] if ranked else []
    if len(free) != 1:
        known = f"; actions: {', '.join(look.name for look in free)}" if free else ""
        raise InputError(
            f"it is not clear of which action '{column.name}' is the propensity{known}: write --propensity "
            f"{shlex.quote(f'ACTION={column.name}')}"
        )
    return free[0]


def _with_full_distributions(search: _Search) -> None:
    """Find sets of columns that sum to one in every row, with a column that they are the distribution of."""
    pool = [look.name for look in search.sheet.looks.values() if look.within(0, 1) and look.kind == "number"]
    scored: list[tuple[tuple[int, int, int], ColumnProfile, ColumnSet]] = []
    candidates = search.candidates(least=1)
    known = {name_words(look.name) for look in candidates}
    for look in candidates:
        for column_set in find_column_sets(look.values, [name for name in pool if name != look.name]):
            complete = _complete(search.sheet, look, column_set, pool)
            if complete is not None and (score := _closeness(look, complete, known)):
                at = word_rank(look.name, words.ACTION)
                scored.append(((-score, len(words.ACTION) * 2 if at is None else at, look.position), look, complete))
    for _, look, column_set in sorted(scored, key=lambda entry: entry[0]):
        if look.name in search.used or search.used & set(column_set.columns):
            continue
        if not column_set.values:
            search.unclear[look.name] = column_set
            continue
        guess = ActionGuess(look, column_set.values, full=tuple(search.sheet.looks[name] for name in column_set.columns))
        note = f"'{look.name}' is an action: {column_set.columns[0]} to {column_set.columns[-1]} sum to one in every row"
        never = len(column_set.values) - look.count
        search.guesses.append(
            guess.saying(note + (f"; {never} of its {len(column_set.values)} actions were never taken" if never else ""))
        )


def _with_unclear_distributions(search: _Search) -> None:
    """Add actions of which more probabilities than values are known, without the probabilities: a wrong order would be worse."""
    for name, column_set in search.unclear.items():
        look = search.sheet.looks[name]
        if look.count < 2:
            continue
        span = f"'{column_set.columns[0]}' to '{column_set.columns[-1]}'"
        question = (
            f"Which {len(column_set.columns)} values do {span} stand for? They sum to one, but only {look.count} values of "
            f"'{name}' were taken. List all values in the order of these columns, and name the columns under 'propensity'."
        )
        note = f"'{name}' is an action: {span} are its probabilities, but it is not clear of which values"
        search.guesses.append(ActionGuess(look, look.values).saying(note, question))


def _complete(sheet: LogProfile, look: ColumnProfile, column_set: ColumnSet, pool: Sequence[str]) -> ColumnSet | None:
    """Return the set as a distribution over the action's values: sums of one, a chance for every action that was taken.

    Its `values` are empty if there are more columns than values and the log does not tell which is which. None if it is none.
    """
    for chosen in (column_set, widen_column_set(column_set, [name for name in pool if name != look.name])):
        if chosen is None or len(chosen.columns) < 2:
            continue
        numbers = stack_numbers([sheet.looks[name] for name in chosen.columns])
        if np.any(np.abs(numbers.sum(axis=1) - 1) > SUM_TOLERANCE):
            continue
        values = chosen.values or align_values(look, numbers)
        if values is None:
            return chosen
        taken = match_values(look.distinct, values)[look.codes]
        if np.all(taken >= 0) and np.all(numbers[np.arange(sheet.rows), taken] > 0):
            return replace(chosen, values=values)
    return None


def _closeness(look: ColumnProfile, column_set: ColumnSet, known: set[tuple[str, ...]]) -> int:
    """Return how well a set of columns is named after an action: 3 by its name, 2 as probabilities, 1 by its labels, 0 not."""
    if any(word in words.TARGET for word in column_set.stem):
        return 0
    named = any(word in words.PROPENSITY for word in column_set.stem)
    rest = without_words(column_set.stem, words.PROPENSITY)
    if rest == name_words(look.name) or (named and rest and rest == without_words(name_words(look.name), ("id",))):
        return 3
    if rest in known:
        return 0
    if named and not without_words(rest, words.LOGGER):
        return 2
    return (
        1
        if column_set.by == "value" and any(isinstance(value, str) for value in column_set.values) and (named or not rest)
        else 0
    )


def _with_own_density(search: _Search) -> None:
    """Pair `dose`, which is any number, with `density_dose`, `p_dose` and the like."""
    for column in search.sheet.but(search.used):
        named = has_word(column.name, (*words.PROPENSITY, *words.DENSITY)) and not has_word(column.name, words.TARGET)
        stem = without_words(name_words(column.name), (*words.PROPENSITY, *words.DENSITY, "score"))
        if not (named and stem and is_positive(column)):
            continue
        look = next((look for look in search.wide() if name_words(look.name) == stem), None)
        if look is not None:
            why = f"'{look.name}' is an action: {look.count} values, which '{column.name}' is named as the density of"
            search.guesses.append(interval_guess(look, column, why))


def _with_own_probability(search: _Search) -> None:
    """Pair `setting` with `p_setting`, `setting_prob` and the like."""
    by_words = {name_words(look.name): look for look in reversed(search.candidates())}
    for column in _probabilities(search):
        look = by_words.get(without_words(name_words(column.name), (*words.PROPENSITY, "score")))
        if look is not None and look.name not in search.used:
            search.add(look, column, f"'{look.name}' is an action: '{column.name}' is named as its probability")


def _with_general_probability(search: _Search) -> None:
    """Pair `pscore`, `action_prob` and the like with the column that is called most like an action, or behaves like one."""
    for column in _probabilities(search):
        if without_words(name_words(column.name), (*words.PROPENSITY, *words.LOGGER)):
            continue
        ranked = [
            (at, abs(look.position - column.position), look)
            for look in search.either()
            if (at := _rank(search, look)) is not None
        ]
        if ranked:
            look = min(ranked, key=lambda entry: entry[:2])[2]
            search.add(look, column, f"'{look.name}' is an action by its name, and '{column.name}' its probability")
            continue
        drawn = [look for look in search.candidates() if not has_word(look.name, words.EPISODE)]
        best = min(drawn, key=lambda look: propensity_misfit(look, column), default=None)
        if best is not None and propensity_misfit(best, column) <= 4:
            note = f"'{best.name}' is an action: of all columns its values come most as often as '{column.name}' says"
            search.add(best, column, note, f"Is '{best.name}' the action that '{column.name}' is the probability of?")


def _rank(search: _Search, look: ColumnProfile) -> int | None:
    """Return how much a column is called like an action, 0 most; what the user named is one."""
    return 0 if look.name in search.named else word_rank(look.name, words.ACTION)


def _probabilities(search: _Search) -> list[ColumnProfile]:
    """Return the columns that may be the probability of an action taken: called so, above 0, and not another policy's."""
    free = search.sheet.but({*search.used, *search.named})
    return [look for look in free if is_probability_column(look) and not has_word(look.name, words.TARGET) and is_positive(look)]


def _with_fitting_probability(search: _Search) -> None:
    """Pair an action without chances with a column that is called a probability of something else, if its numbers fit."""
    for place, guess in enumerate(search.guesses):
        if guess.paired or guess.density or guess.look.name in search.unclear:
            continue
        fitting = [look for look in _probabilities(search) if fits_propensity(guess.look, look)]
        if len(fitting) == 1:
            column = fitting[0]
            question = f"Is '{column.name}' the probability with which '{guess.look.name}' was chosen? Its numbers fit."
            note = f"'{column.name}' is called a probability, and its numbers fit '{guess.look.name}'"
            search.guesses[place] = replace(guess, taken=column).saying(note, question)


def _with_meant(search: _Search) -> None:
    """Take columns for actions that stand beside one with what was meant: `speed` beside `meant_speed`."""
    if search.named:
        return
    for look, meant in find_intention_pairs(search.candidates(), search.sheet):
        question = (
            f"Is '{look.name}' an action, decided after '{meant.name}' was computed? The two agree in most rows. If "
            f"'{look.name}' is a measurement, name the action: --action COLUMN."
        )
        search.add(look, None, f"'{look.name}' is an action: '{meant.name}' is named as what was meant", question)


def _by_name_alone(search: _Search) -> None:
    """Take columns for actions that are called so, or were named, although no probabilities were found for them."""
    if search.named:
        for look in search.either():
            search.add(look, None, f"'{look.name}' is an action: you named it")
        return
    called = [look for look in search.either() if not counts_decisions(look)]
    ranked = sorted((at, look.position, look.name) for look in called if (at := word_rank(look.name, words.ACTION)) is not None)
    whole = [name for at, _, name in ranked if at < len(words.ACTION)]
    strong = [name for name in whole if has_word(name, _STRONG)]
    for name in strong if search.guesses else strong or whole[:1] or [name for _, _, name in ranked[:1]]:
        search.add(search.sheet.looks[name], None, f"'{name}' is an action by its name")


def counts_decisions(look: ColumnProfile) -> bool:
    """Say whether a column counts or names decisions rather than holding them, or says something else about an action."""
    parts = name_words(look.name)
    counts = not parts or parts[-1] in words.ID_ENDING or ("decision" in parts and look.kind == "number")
    return counts or has_word(look.name, (*words.PROPENSITY, *words.MASK, *words.BASE))


def _in_file_order(guess: ActionGuess) -> ActionGuess:
    """Return the guess with labels in the order of their columns, which people choose with more sense than the alphabet."""
    columns = guess.full or guess.available
    if not columns or not any(isinstance(value, str) for value in guess.values):
        return guess
    order = np.argsort([look.position for look in columns])
    full, available = (tuple(part[index] for index in order) if part else () for part in (guess.full, guess.available))
    return replace(guess, values=tuple(guess.values[index] for index in order), full=full, available=available)
