"""Where the remaining columns belong: contexts of a level, results of the decisions, or nowhere; and when each is known."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from aegis.logs.draft import vocabulary as words
from aegis.logs.draft.column_profile import CodeArray, ColumnProfile, LogProfile, describe_unclear_dates
from aegis.logs.draft.effects import CLEAR_EFFECT, FEWEST_EPISODES, LIKELY_EFFECT, ActionDraws, action_draws
from aegis.logs.draft.guesses import ActionGuess, IdGuess, LevelsGuess
from aegis.logs.draft.logging_policy import is_probability_column
from aegis.logs.draft.reward_column import RewardGuess
from aegis.logs.draft.vocabulary import has_word, id_word_rank, name_words, word_rank
from aegis.problem import Array

_CLOSE = 0.9  # correlation with the reward that few contexts have
_RELATED = 0.75  # the same for a column behind the action, which is where results stand
_SAME = 0.98  # correlation with the reward from which on a column is the reward in other words
_BOTH = 10  # rows with and without, before that is no coincidence
_CLEAR_RESULTS = ("outcome", "result", "next")  # words for results, against all numbers


@dataclass(frozen=True, slots=True)
class ColumnTiming:
    """When a column becomes known. after: how many levels have decided by then, from the outside in.

    reason: why it comes after the innermost action, in words. unsure: only its place in the file, its name or its closeness to
    the reward suggests that, and the log cannot tell. force: it moves with the last of these actions, by so many standard errors.
    before: why it is believed to be known when it is a context.
    """

    after: int
    reason: str = ""
    unsure: bool = False
    force: float = 0.0
    before: str = ""


def find_timing(
    look: ColumnProfile, levels: LevelsGuess, draws: Sequence[ActionDraws | None], reward: RewardGuess
) -> ColumnTiming:
    """Return when a column becomes known.

    Not before the decisions within which it changes, and not before an action that it moves with. draws: what the log tells
    about the action of each level. Where it tells nothing about the innermost one, only names and places do.
    """
    stack = levels.levels
    last, end = len(stack) - 1, len(stack)
    action, earned = stack[last].action.look, reward.look
    after = next((index for index, level in enumerate(stack[:-1]) if level.groups.constant(look)), last)
    timing = ColumnTiming(after)
    intended = any(level.action.meant is look for level in stack)
    early = intended or _named_early(look)
    late = look.position > stack[after].action.look.position and has_word(look.name, words.LATE_RESULT)
    named = not early and (late or _called_result(look))
    behind = look.position > earned.position > action.position and not early
    forces = [0.0 if drawn is None else drawn.strength(look) for drawn in draws]
    for index in range(after, end):
        later = look.position > stack[index].action.look.position and not early
        if forces[index] > (LIKELY_EFFECT if index == last and (named or behind) else CLEAR_EFFECT):
            reason = f"it moves with the chance by which '{action.name}' was drawn ({forces[index]:.0f} standard errors), so it "
            timing = ColumnTiming(index + 1, f"{reason}comes after it", force=forces[index])
        elif draws[index] is None and later and timing.after == index:
            # only the order of the columns tells
            timing = ColumnTiming(index + 1, f"it stands behind '{action.name}' in the log", unsure=True)
    if timing.after == end and timing.force:
        return timing
    likeness = _likeness(look, reward)
    if likeness > _SAME:
        return ColumnTiming(end, f"it goes with the reward '{earned.name}' so closely that it can only be known with it")
    if has_word(look.name, _CLEAR_RESULTS) or (named and draws[last] is None and _called_result(look)):
        return ColumnTiming(end, f"its name is that of a result of '{action.name}'")
    # The results of an outer action may well be called so.
    if named and (timing.after == end or not timing.force):
        return ColumnTiming(end, "its name is that of a result", unsure=True)
    if timing.after == end:
        return timing
    later = look.position > stack[timing.after].action.look.position
    if likeness > (_RELATED if later else _CLOSE) and not early:
        return ColumnTiming(end, f"it goes closely with the reward '{earned.name}'", unsure=True)
    return replace(timing, before=_belief(look, stack[timing.after].action, draws[timing.after] is not None, intended))


def _belief(look: ColumnProfile, action: ActionGuess, tested: bool, intended: bool) -> str:
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


def _named_early(look: ColumnProfile) -> bool:
    """Say whether a column is called something that is known beforehand, and not a result as well."""
    return has_word(look.name, words.KNOWN_BEFORE) or (
        has_word(look.name, words.CONTEXT) and not (_called_result(look) or has_word(look.name, words.LATE_RESULT))
    )


def _called_result(look: ColumnProfile) -> bool:
    if look.binary and id_word_rank(look.name, words.EPISODE) is not None:
        return True  # whether there was a visit, an order: no id, but an outcome
    return has_word(look.name, words.RESULT) or word_rank(look.name, words.REWARD) is not None


def _likeness(look: ColumnProfile, reward: RewardGuess) -> float:
    """Return the correlation with the reward, 1 if the one is 0 where the other is; hardly a context foretells it like that."""
    if reward.look.numbers is None or (look.numbers is None and look.kind != "text"):
        return 0.0
    known = (look.codes >= 0) & ~np.isnan(reward.look.numbers)
    other = reward.look.numbers[known]
    if other.size < FEWEST_EPISODES or other.std() == 0:
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


def _ratio(codes: CodeArray, numbers: Array) -> float:
    """Return the correlation ratio of numbers with categories, less what as many categories explain by chance."""
    count = np.bincount(codes)
    means = np.bincount(codes, weights=numbers) / np.maximum(count, 1)
    explained = float(np.var(means[codes])) / float(np.var(numbers))
    groups, rows = int(np.count_nonzero(count)), numbers.size
    if groups >= rows:
        return 0.0
    return math.sqrt(max(1 - (1 - explained) * (rows - 1) / (rows - groups), 0.0))


MOST_TEXT_CATEGORIES = 30
_VECTOR = 4  # from so many numbered columns on they are one vector


@dataclass(frozen=True, slots=True)
class ContextGuess:
    """A context: one column of numbers, one of categories, or a vector of several columns under a name.

    why: the reason to believe that it is known before the decision; of an undecided one, the reason to doubt it.
    """

    name: str
    looks: tuple[ColumnProfile, ...]
    why: str = ""

    @property
    def kind(self) -> Literal["real", "vector", "categorical"]:
        """Return how the problem file declares it."""
        if len(self.looks) > 1:
            return "vector"
        return "real" if self.looks[0].kind == "number" else "categorical"


@dataclass(slots=True)
class PlacedColumns:
    """contexts: one list per level. results: what the innermost action brings about, the clearest first. unused: with reasons.

    undecided: contexts of the innermost level, if they are known in time.
    """

    contexts: list[list[ContextGuess]]
    results: list[ColumnProfile] = field(default_factory=list)
    undecided: list[ContextGuess] = field(default_factory=list)
    outcome: ContextGuess | None = None
    unused: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)


def place_columns(
    sheet: LogProfile, used: Collection[str], levels: LevelsGuess, ids: IdGuess, reward: RewardGuess
) -> PlacedColumns:
    """Return the contexts of each level and what cannot be one, for all columns that are not `used`."""
    placed = PlacedColumns([[] for _ in levels.levels])
    by_level: list[list[ColumnProfile]] = [[] for _ in levels.levels]
    timings: dict[str, ColumnTiming] = {}
    undecided: list[ColumnProfile] = []
    draws = [action_draws(level.action, level.groups, ids.groups) for level in levels.levels]
    suspected = {look.name: level.action for level in levels.levels for look in level.action.suspects}
    for look in sheet.but(used):
        why = _unfit(look, sheet)
        if look.name in suspected:
            action = suspected[look.name]
            kind, drawn = ("density", "drawn") if action.density else ("probability", "chosen")
            why = f"perhaps the {kind} with which '{action.look.name}' was {drawn}; else list it as a context"
        if look.name == ids.refused:
            why = "its name is that of a unit, its values are those of an outcome or a count; see the question about it"
        if why:
            placed.unused.append((look.name, why))
            continue
        timings[look.name] = known = find_timing(look, levels, draws, reward)
        if known.after == len(levels.levels) and not known.unsure:
            placed.results.append(look)
        elif look.missing:
            gaps = f"missing in {look.missing} of {sheet.rows} rows"
            placed.unused.append((look.name, f"{gaps}; a context is always known: fill it in, or write a word for missing"))
        elif known.after == len(levels.levels):
            undecided.append(look)
        else:
            by_level[known.after].append(look)
    taken = set(sheet.looks)
    placed.contexts = [_as_contexts(looks, taken, {name: known.before for name, known in timings.items()}) for looks in by_level]
    placed.undecided = _as_contexts(undecided, taken, {name: known.reason for name, known in timings.items()})
    placed.results.sort(key=lambda look: (-timings[look.name].force, look.position))
    _settle_results(placed, timings, levels, ids)
    _ask_about_contexts(placed, levels, draws)
    return placed


def _unfit(look: ColumnProfile, sheet: LogProfile) -> str:
    """Say why a column can be neither a context nor a result, or return an empty text."""
    if not look.name:
        return "without a name"
    if look.kind == "other":
        return "neither text nor numbers, flags or dates"
    if look.count < 2:
        mostly = "mostly empty" if 2 * look.missing > sheet.rows else "empty in some rows"
        gaps = f"{mostly}: nothing in {look.missing} of {sheet.rows} rows, and the same in the others"
        return "empty" if not look.count else gaps if look.missing else "the same in every row"
    if is_probability_column(look):
        return "looks like a probability, " + (
            "of another policy" if has_word(look.name, words.TARGET) else "but of no action found"
        )
    if dates := describe_unclear_dates(look):
        return f"{dates}; log what the controller made of it, such as the hour or the age, as a number"
    if _is_id(look, sheet):
        return "an id"
    if look.running:
        return "a running number of the rows, which says nothing about a decision; else list it as a context"
    if look.kind == "date":
        return "a date; log what the controller made of it, such as the hour or the age, as a number"
    if look.kind == "text" and look.count > MOST_TEXT_CATEGORIES:
        return f"text with {look.count} different values; log a category or a number instead"
    return ""


def _is_id(look: ColumnProfile, sheet: LogProfile) -> bool:
    """Say whether a column only tells rows apart: a number without a size, or nearly as many texts as rows."""
    if not look.key or look.binary or (look.kind == "text" and look.count <= MOST_TEXT_CATEGORIES):
        return False
    if name_words(look.name)[-1:] in (("id",), ("uuid",)) or any(
        id_word_rank(look.name, names) is not None for names in (words.EPISODE, words.ENTITY)
    ):
        return True
    named = any(id_word_rank(look.name, names) is not None for names in (words.DECISION, words.PLAIN_ID))
    return look.count > sheet.rows / 2 and look.count > 2 and (named or look.kind == "text")


def _settle_results(placed: PlacedColumns, timings: Mapping[str, ColumnTiming], levels: LevelsGuess, ids: IdGuess) -> None:
    """Choose the outcome among the results; the others are left out, with the reason."""
    outer = [groups for groups in (ids.groups, *(level.groups for level in levels.levels[:-1])) if not groups.single]

    def rank(look: ColumnProfile) -> tuple[bool, bool, float]:
        named = has_word(look.name, (*words.RESULT, *words.REWARD))
        return not named, has_word(look.name, words.GUARD), -timings[look.name].force

    # An outcome belongs to one innermost decision: its value is not repeated over several.
    inner = [look for look in placed.results if not any(groups.constant(look) for groups in outer)]
    inner = [look for look in inner if look.kind == "number" or (look.kind != "date" and 2 <= look.count <= MOST_TEXT_CATEGORIES)]
    chosen = min(inner, key=rank, default=None)
    if chosen is not None:
        placed.outcome = ContextGuess(chosen.name, (chosen,))
    for look in placed.results:
        reason = timings[look.name].reason
        if look is chosen:
            placed.notes.append(f"'{look.name}' is the outcome, not a context: {reason}")
        else:
            placed.unused.append((look.name, f"{reason}; it may be worth a guard, or be the outcome"))
        if not timings[look.name].force:
            action = levels.levels[-1].action.look.name
            placed.questions.append(f"Is '{look.name}' known only after '{action}' is decided? If not, make it a context.")


def _as_contexts(looks: Sequence[ColumnProfile], taken: set[str], why: Mapping[str, str]) -> list[ContextGuess]:
    """Return one context per column; numbered columns of numbers (x_0, x_1, ...) become one vector.

    taken: names that are not free for a vector; those given to one are added. why: by column; a vector has the reason of all.
    """
    stems = {look.name: re.sub(r"[\W_]*\d+$", "", look.name) if look.kind == "number" else look.name for look in looks}
    members: dict[tuple[str, str], list[ColumnProfile]] = {}
    for look in looks:
        members.setdefault((stems[look.name], why[look.name]), []).append(look)
    contexts: dict[str, ContextGuess] = {}
    for look in looks:
        stem, reason = stems[look.name], why[look.name]
        vector = ContextGuess(stem, tuple(members[stem, reason]), reason)
        free = stem and stem not in taken and len(vector.looks) >= _VECTOR
        if not (free and contexts.setdefault(stem, vector).why == reason):
            contexts[look.name] = ContextGuess(look.name, (look,), reason)
    taken |= set(contexts)
    return list(contexts.values())


def _ask_about_contexts(placed: PlacedColumns, levels: LevelsGuess, draws: Sequence[ActionDraws | None]) -> None:
    """Ask the one thing about contexts that matters most: a policy cannot look at what is not there yet."""
    if placed.undecided:
        placed.questions.append(
            f"Which of these are known before '{levels.levels[-1].action.look.name}' is decided: {_by_reason(placed.undecided)}? "
            "The log cannot tell, so that they are left out; move those that are known from the comment into the context."
        )
    listed = [
        (f"'{level.action.look.name}'", contexts, drawn is None)
        for level, contexts, drawn in zip(levels.levels, placed.contexts, draws, strict=True)
        if contexts
    ]
    if not listed:
        return
    shown = "; ".join(f"before {name}: {_by_reason(contexts)}" for name, contexts, _ in listed)
    unsure = ", ".join(name for name, _, blind in listed if blind)
    doubt = f" The log cannot tell for {unsure}: that takes known chances for all actions and {FEWEST_EPISODES} episodes."
    placed.questions.append(
        f"Is every context known when the decision is taken? The draft believes it, {shown}. A result among them makes a policy "
        f"that cannot be run: delete it.{doubt if unsure else ''}"
    )


def _by_reason(contexts: Sequence[ContextGuess]) -> str:
    """Return all names, those with one reason together."""
    names: dict[str, list[str]] = {}
    for context in contexts:
        columns = f" ({', '.join(look.name for look in context.looks)})" if context.kind == "vector" else ""
        names.setdefault(context.why, []).append(f"'{context.name}'{columns}")
    return ", ".join(f"{', '.join(named)} ({why})" for why, named in names.items())


def suggest_guards(placed: PlacedColumns) -> list[ColumnProfile]:
    """Return results that people often do not want to get worse: those named like harm or cost, and further results."""
    chosen = None if placed.outcome is None else placed.outcome.name
    results = [look for look in placed.results if look.kind == "number" and look.count > 1]
    return [look for look in results if look.name != chosen or has_word(look.name, words.GUARD)]
