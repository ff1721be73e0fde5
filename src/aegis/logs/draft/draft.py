"""Draft a problem file from the columns of a log."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from aegis.errors import LogError, SettingError
from aegis.logs.draft import vocabulary as words
from aegis.logs.draft.actions import counts_decisions, find_actions
from aegis.logs.draft.column_profile import (
    LogProfile,
    describe_formatted_numbers,
    describe_missing,
    stray_row_questions,
)
from aegis.logs.draft.context_columns import place_columns
from aegis.logs.draft.episode_ids import find_ids
from aegis.logs.draft.guesses import ActionGuess
from aegis.logs.draft.levels import find_levels
from aegis.logs.draft.log_sample import LogSample, read_sample
from aegis.logs.draft.logging_policy import MOST_LISTED_ACTIONS, intention_questions, is_continuous, is_probability_column
from aegis.logs.draft.reward_column import RewardGuess, find_reward
from aegis.logs.draft.vocabulary import has_word, word_rank
from aegis.logs.draft.yaml_text import DraftContent, draft_text
from aegis.logs.log_files import LogInput, normalise_inputs, resolve_parts
from aegis.logs.source import Source
from aegis.problem import Problem, parse_problem

SAMPLE_ROWS = 200_000
_SEVERAL = "Can a decision affect later ones of its episode, or their rewards? Then write 'carry_over: within'."
_SINGLE = (
    "Can a decision affect another row (the next visit of the same person, a stock that both draw on)? Then rows are not "
    "independent: make one episode of such rows, and write 'carry_over: within'. A 'cluster' does not mend that."
)
_FEW_VALUES, _SHOWN = 20, 10  # columns that are offered as actions where none was found


@dataclass(frozen=True, slots=True)
class Draft:
    """A guess at the problem behind a log.

    text: a commented problem file. problem: what it says, or None as long as something is missing from it (no action or no reward
    was found). notes: what was guessed, and why. questions: what only the user can decide. unused: columns that the draft does
    not use, each with the reason.
    """

    text: str
    problem: Problem | None
    notes: tuple[str, ...]
    questions: tuple[str, ...]
    unused: tuple[tuple[str, str], ...] = ()


def draft_problem(
    paths: LogInput | Sequence[LogInput], rows: int = SAMPLE_ROWS, actions: Sequence[str] = (), propensities: Sequence[str] = ()
) -> Draft:
    """Draft a problem from the names and values in the first rows of a log.

    Nothing in the draft is more than a guess. The range of the reward and the absence of carry-over in particular are the user's
    to declare.

    Parameters
    ----------
    paths
        The log, as `Source` takes it.
    rows
        How many rows are read.
    actions
        The columns that are actions; guessed if empty.
    propensities
        The columns that hold the probability (or density) of the action taken: `COLUMN`, or `ACTION=COLUMN` where there are
        several actions.

    Returns
    -------
    Draft
        The problem file with comments, the problem if it is complete, notes and questions.

    Raises
    ------
    LogError
        If the log cannot be read or has no rows.
    InputError
        If a named column cannot have its role.
    """
    if rows < 1:
        raise SettingError(f"'rows' is a whole number from 1, found {rows}")
    inputs = normalise_inputs(paths)
    sample = read_sample(resolve_parts(inputs), rows)
    sheet = LogProfile.of(sample.table)
    guesses = find_actions(sheet, actions, propensities)
    used = {column for action in guesses for column in action.columns}  # labels of an action may look like numbers
    unread = {look.name: text for look in sheet.but(used) if (text := describe_formatted_numbers(look))}
    sheet = sheet.without(unread)
    ids = find_ids(sheet, guesses)
    levels = find_levels(sheet, guesses, ids)
    used = {*ids.columns, *levels.columns}
    garbled = _unread_reward(unread, sheet)
    reward = None if garbled else find_reward(sheet, used, levels, ids)
    placed = None
    if reward is not None and levels.levels:
        placed = place_columns(sheet, {*used, reward.look.name}, levels, ids, reward)
        placed.unused += [*sample.left_out, *unread.items()]
    notes = [*sample.read_as, *ids.notes, *(note for action in guesses for note in action.notes), *levels.notes]
    notes += [*(reward.notes if reward else ()), *(placed.notes if placed else ())]
    if not sample.complete:
        notes.append(f"only the first {sheet.rows} rows were read; values that come later are not listed")
    questions = [*_about_values(sample, unread), *stray_row_questions(sheet), *ids.questions, *levels.questions]
    questions += [text for action in guesses for text in action.questions]
    questions += [*_about_reward(reward, garbled), *_about_actions(sheet, guesses)]
    questions += [text for action in guesses for text in intention_questions(action)]
    questions += placed.questions if placed else []
    if levels.levels:
        questions.append(_SINGLE if ids.groups.single else _SEVERAL)
    content = DraftContent(sample.origin, ids, levels, reward, placed, tuple(dict.fromkeys(questions)), sample.read_as)
    text, problem = draft_text(content), None
    if reward is not None and levels.levels:
        problem = parse_problem(text, "draft")
        trouble = _trouble(inputs, problem, rows)
        if trouble is not None:
            question = f"The log does not read with this draft yet: {trouble}"
            content = replace(content, questions=(*content.questions, question))
            text = draft_text(content)
    unused = () if placed is None else tuple(placed.unused)
    return Draft(text=text, problem=problem, notes=tuple(notes), questions=content.questions, unused=unused)


def _about_values(sample: LogSample, unread: Mapping[str, str]) -> Iterator[str]:
    """Ask about numbers that are written for people."""
    for name, advice in unread.items():
        yield f"'{name}' {advice}, and draft again: as it is, it is text and not used."
    for name, example in sample.grouped.items():
        yield (
            f"Is '{example}' in column '{name}' {example.replace('.', '')}? Every point there stands before three digits. It is "
            "read as a number with decimals: if points mark thousands, write the numbers without them, and draft again."
        )


def _unread_reward(unread: Collection[str], sheet: LogProfile) -> str:
    """Return the column that is called a reward but cannot be read as it is; empty if another is called so more clearly."""
    numbers = [look.name for look in sheet.looks.values() if look.kind == "number"]
    ranks = [(at, name) for name in (*numbers, *unread) if (at := word_rank(name, words.REWARD)) is not None]
    best = min(ranks, key=lambda entry: entry[0], default=(0, ""))[1]
    return best if best in unread else ""


def _trouble(inputs: Sequence[LogInput], problem: Problem, rows: int) -> str | None:
    """Return why the first rows of a log cannot be read with a problem, or None if they can."""
    count = 0
    try:
        for batch in Source(inputs, problem).batches():
            count += 0 if batch.reward is None else batch.reward.size
            if count >= rows:
                break
    except LogError as error:
        return str(error)
    return None


def _about_reward(reward: RewardGuess | None, garbled: str) -> list[str]:
    if garbled:
        return [f"Which column is the reward? '{garbled}' by its name, but its numbers cannot be read yet: see above."]
    if reward is None:
        return ["Which column is the reward? It is a number, the more of it the better (or the less: 'goal: minimise')."]
    low, high = reward.limits
    text = (
        f"Which values of '{reward.look.name}' are possible at all? The draft says [{low:g}, {high:g}]; the range is declared by "
        "you, and an assumption of every certificate."
    )
    return [*reward.questions, text]


def _about_actions(sheet: LogProfile, actions: list[ActionGuess]) -> Iterator[str]:
    """Ask about actions without probabilities or without a choice, and about columns that are nearly actions or probabilities."""
    if not actions:
        yield _which_action(sheet)
    for action in actions:
        if not action.paired:
            yield _about_chances(action)
        elif action.taken is not None and not action.density and action.taken.values == (1,):
            yield f"'{action.taken.name}' is 1 in every row: if nothing was left to chance, no gain can be certified there."
    open_sets = [f"'{action.look.name}'" for action in actions if not (action.full or action.available or action.density)]
    if open_sets:
        yield f"Are all values listed that {', '.join(open_sets)} could have taken? A log does not show what was never chosen."
    used = {column for action in actions for column in (*action.columns, *(look.name for look in action.suspects))}
    for look in sheet.but(used):
        rank, chance = word_rank(look.name, words.ACTION), has_word(look.name, words.PROPENSITY)
        called = rank is not None and rank < len(words.ACTION)
        if called and 0 < look.missing < sheet.rows / 2 and 2 <= look.count <= MOST_LISTED_ACTIONS:
            yield f"Is '{look.name}' an action? There is {describe_missing(look)}: fill it in and draft again."
        if look.kind == "number" and chance and not has_word(look.name, words.TARGET) and not look.within(0, 1):
            yield f"Is '{look.name}' a probability? It is not a number from 0 to 1 in every row."
        elif look.kind == "number" and called and look.count > MOST_LISTED_ACTIONS and not counts_decisions(look):
            named = f"; or name it, if any number may be taken: --action {shlex.quote(look.name)}" if is_continuous(look) else ""
            yield (
                f"Is '{look.name}' an action? It has {look.count} values, and only up to {MOST_LISTED_ACTIONS} are taken for "
                f"actions: round it to a grid, and log the probability of the point{named}."
            )


def _which_action(sheet: LogProfile) -> str:
    """Ask which column is the action, and offer those that may be one."""
    chances = [look for look in sheet.looks.values() if is_probability_column(look)]
    others = [look for look in sheet.looks.values() if look not in chances and word_rank(look.name, words.REWARD) is None]
    few = [look.name for look in others if 2 <= look.count <= _FEW_VALUES and not look.missing]
    any_of = [look.name for look in others if is_continuous(look)]
    hint = f" Columns with a few values: {_some(few)}." if few else ""
    hint += f" Columns with any number, as a dose or set-point has: {_some(any_of)}." if any_of else ""
    hint += " Name those that the controller chose: --action COLUMN." if hint else ""
    chance = next((look.name for look in chances if not has_word(look.name, words.TARGET)), None)
    if chance is not None:
        hint += f" Is '{chance}' its probability? Then name both: --propensity {shlex.quote(f'ACTION={chance}')}."
    return f"Which column is the action? None was found by name, and no probabilities of actions either.{hint}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


def _about_chances(action: ActionGuess) -> str:
    """Ask for the chances of an action without any, and about columns that may hold them."""
    name, (what, chosen) = action.look.name, ("density", "drawn") if action.density else ("probability", "chosen")
    asked = f"With which {what} was '{name}' {chosen}{', per unit of it' if action.density else ''}?"
    pair = shlex.quote(f"{name}={action.suspects[0].name if action.suspects else 'COLUMN'}")
    if not action.suspects:
        logged = "Nothing can be certified there until it is logged; if a column holds it, draft again with"
        return f"{asked} {logged} --propensity {pair}."
    listed = ", ".join(f"'{look.name}'" for look in action.suspects)
    return (
        f"{asked} Perhaps {listed} {'tells' if len(action.suspects) == 1 else 'tell'}: draft again with --propensity {pair} if "
        "it does, or list it as a context if it means something else. Nothing can be certified there until it is known."
    )
