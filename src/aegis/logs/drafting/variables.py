"""Where the remaining columns belong: contexts of a level, results of the decisions, or nowhere."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from aegis.logs.drafting.chances import like_probability
from aegis.logs.drafting.dates import undated
from aegis.logs.drafting.effects import FEWEST, Draws, draws
from aegis.logs.drafting.guesses import ActionGuess, IdGuess, LevelsGuess
from aegis.logs.drafting.rewards import RewardGuess
from aegis.logs.drafting.sheet import Look, Sheet
from aegis.logs.drafting.timing import Timing, when_known
from aegis.logs.drafting.words import (
    DECISION,
    ENTITY,
    EPISODE,
    GUARD,
    PLAIN_ID,
    RESULT,
    REWARD,
    TARGET,
    id_rank,
    is_named,
    words,
)

MOST_CATEGORIES = 30
_VECTOR = 4  # from so many numbered columns on they are one vector


@dataclass(frozen=True, slots=True)
class Context:
    """A context: one column of numbers, one of categories, or a vector of several columns under a name.

    why: the reason to believe that it is known before the decision; of an undecided one, the reason to doubt it.
    """

    name: str
    looks: tuple[Look, ...]
    why: str = ""

    @property
    def kind(self) -> Literal["real", "vector", "categorical"]:
        """Return how the problem file declares it."""
        if len(self.looks) > 1:
            return "vector"
        return "real" if self.looks[0].kind == "number" else "categorical"


@dataclass(slots=True)
class Placed:
    """contexts: one list per level. results: what the innermost action brings about, the clearest first. unused: with reasons.

    undecided: contexts of the innermost level, if they are known in time.
    """

    contexts: list[list[Context]]
    results: list[Look] = field(default_factory=list)
    undecided: list[Context] = field(default_factory=list)
    outcome: Context | None = None
    unused: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)


def place_columns(sheet: Sheet, used: Collection[str], levels: LevelsGuess, ids: IdGuess, reward: RewardGuess) -> Placed:
    """Return the contexts of each level and what cannot be one, for all columns that are not `used`."""
    placed = Placed([[] for _ in levels.levels])
    by_level: list[list[Look]] = [[] for _ in levels.levels]
    timings: dict[str, Timing] = {}
    undecided: list[Look] = []
    told = [draws(level.action, level.groups, ids.groups) for level in levels.levels]
    suspected = {look.name: level.action for level in levels.levels for look in level.action.suspects}
    for look in sheet.but(used):
        why = _suspected(suspected[look.name]) if look.name in suspected else _unfit(look, sheet)
        if look.name == ids.refused:
            why = "its name is that of a unit, its values are those of an outcome or a count; see the question about it"
        if why:
            placed.unused.append((look.name, why))
            continue
        timings[look.name] = known = when_known(look, levels, told, reward)
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
    action, earned = levels.levels[-1].action.look.name, reward.look.name
    placed.contexts = [_as_contexts(looks, taken, {name: known.before for name, known in timings.items()}) for looks in by_level]
    placed.undecided = _as_contexts(undecided, taken, {look.name: timings[look.name].doubt(action, earned) for look in undecided})
    placed.results.sort(key=lambda look: (-timings[look.name].force, look.position))
    _settle_results(placed, timings, levels, ids, reward.look.name)
    _ask_about_contexts(placed, levels, told)
    return placed


def _unfit(look: Look, sheet: Sheet) -> str:
    """Say why a column can be neither a context nor a result, or return an empty text."""
    if not look.name:
        return "without a name"
    if look.kind == "other":
        return "neither text nor numbers, flags or dates"
    if look.count < 2:
        return _constant(look, sheet)
    if like_probability(look):
        return "looks like a probability, " + ("of another policy" if is_named(look.name, TARGET) else "but of no action found")
    if undated(look):
        return f"{undated(look)}; log what the controller made of it, such as the hour or the age, as a number"
    if _is_id(look, sheet):
        return "an id"
    if look.running:
        return (
            "a running number of the rows, which says nothing about a decision; list it as a context if it means something else"
        )
    if look.kind == "date":
        return "a date; log what the controller made of it, such as the hour or the age, as a number"
    if look.kind == "text" and look.count > MOST_CATEGORIES:
        return f"text with {look.count} different values; log a category or a number instead"
    return ""


def _constant(look: Look, sheet: Sheet) -> str:
    if not look.count:
        return "empty"
    if not look.missing:
        return "the same in every row"
    mostly = "mostly empty" if 2 * look.missing > sheet.rows else "empty in some rows"
    return f"{mostly}: nothing in {look.missing} of {sheet.rows} rows, and the same in the others"


def _suspected(action: ActionGuess) -> str:
    if action.density:
        return f"perhaps the density with which '{action.look.name}' was drawn; else list it as a context"
    return f"perhaps the probability with which '{action.look.name}' was chosen; else list it as a context"


def _is_id(look: Look, sheet: Sheet) -> bool:
    """Say whether a column only tells rows apart: a number without a size, or nearly as many texts as rows."""
    if not look.key or look.binary or (look.kind == "text" and look.count <= MOST_CATEGORIES):
        return False
    if words(look.name)[-1:] in (("id",), ("uuid",)) or any(id_rank(look.name, names) is not None for names in (EPISODE, ENTITY)):
        return True
    named = any(id_rank(look.name, names) is not None for names in (DECISION, PLAIN_ID))
    return look.count > sheet.rows / 2 and look.count > 2 and (named or look.kind == "text")


def _settle_results(placed: Placed, timings: Mapping[str, Timing], levels: LevelsGuess, ids: IdGuess, reward: str) -> None:
    """Choose the outcome among the results; the others are left out, with the reason."""
    action = levels.levels[-1].action.look.name
    inner = [look for look in placed.results if not _shared(look, levels, ids) and _variable(look)]
    inner.sort(
        key=lambda look: (not is_named(look.name, (*RESULT, *REWARD)), is_named(look.name, GUARD), -timings[look.name].force)
    )
    chosen = next(iter(inner), None)
    if chosen is not None:
        placed.outcome = Context(chosen.name, (chosen,))
    for look in placed.results:
        reason = timings[look.name].reason(action, reward)
        if look is chosen:
            placed.notes.append(f"'{look.name}' is the outcome, not a context: {reason}")
        else:
            placed.unused.append((look.name, f"{reason}; it may be worth a guard, or be the outcome"))
        if timings[look.name].why != "moves":
            placed.questions.append(f"Is '{look.name}' known only after '{action}' is decided? If not, make it a context.")


def _shared(look: Look, levels: LevelsGuess, ids: IdGuess) -> bool:
    """Say whether a column repeats one value over several innermost decisions."""
    groups = [ids.groups, *(level.groups for level in levels.levels[:-1])]
    return any(not group.single and group.constant(look) for group in groups)


def _variable(look: Look) -> bool:
    return look.kind == "number" or (look.kind in ("text", "flag") and 2 <= look.count <= MOST_CATEGORIES)


def _as_contexts(looks: Sequence[Look], taken: set[str], why: Mapping[str, str]) -> list[Context]:
    """Return one context per column; numbered columns of numbers (x_0, x_1, ...) become one vector.

    taken: names that are not free for a vector; those given to one are added. why: by column; a vector has the reason of all.
    """
    sets: dict[str, list[Look]] = {}
    for look in looks:
        stem = re.sub(r"[\W_]*\d+$", "", look.name) if look.kind == "number" and re.search(r"\d$", look.name) else ""
        if stem:
            sets.setdefault(f"{stem}\n{why[look.name]}", []).append(look)
    large = {key.split("\n")[0]: found for key, found in sets.items() if len(found) >= _VECTOR}
    vectors = {stem: found for stem, found in large.items() if stem not in taken}
    taken |= set(vectors)
    inside = {look.name: stem for stem, found in vectors.items() for look in found}
    contexts: dict[str, Context] = {}
    for look in looks:
        if look.name in inside:
            stem = inside[look.name]
            contexts.setdefault(vectors[stem][0].name, Context(stem, tuple(vectors[stem]), why[look.name]))
        else:
            contexts[look.name] = Context(look.name, (look,), why[look.name])
    return list(contexts.values())


def _ask_about_contexts(placed: Placed, levels: LevelsGuess, told: Sequence[Draws | None]) -> None:
    """Ask the one thing about contexts that matters most: a policy cannot look at what is not there yet."""
    if placed.undecided:
        placed.questions.append(
            f"Which of these are known before '{levels.levels[-1].action.look.name}' is decided: {_by_reason(placed.undecided)}? "
            "The log cannot tell, so that they are left out; move those that are known from the comment into the context."
        )
    pairs = list(zip(levels.levels, placed.contexts, strict=True))
    shown = [f"before '{level.action.look.name}': {_by_reason(contexts)}" for level, contexts in pairs if contexts]
    if not shown:
        return
    blind = [level for (level, found), drawn in zip(pairs, told, strict=True) if found and drawn is None]
    unsure = ", ".join(f"'{level.action.look.name}'" for level in blind)
    doubt = (
        f" The log cannot tell for {unsure}: that takes known chances for all actions and {FEWEST} episodes." if unsure else ""
    )
    placed.questions.append(
        f"Is every context known when the decision is taken? The draft believes it, {'; '.join(shown)}. A result among "
        f"them makes a policy that cannot be run: delete it.{doubt}"
    )


def _by_reason(contexts: Sequence[Context]) -> str:
    """Return all names, those with one reason together."""
    reasons = dict.fromkeys(context.why for context in contexts)
    named = {why: ", ".join(_named(context) for context in contexts if context.why == why) for why in reasons}
    return ", ".join(f"{names} ({why})" for why, names in named.items())


def _named(context: Context) -> str:
    if context.kind != "vector":
        return f"'{context.name}'"
    return f"'{context.name}' ({', '.join(look.name for look in context.looks)})"


def suggested_guards(placed: Placed) -> list[Look]:
    """Return results that people often do not want to get worse: those named like harm or cost, and further results."""
    chosen = None if placed.outcome is None else placed.outcome.name
    found = [look for look in placed.results if look.kind == "number" and look.count > 1]
    return [look for look in found if look.name != chosen or is_named(look.name, GUARD)]
