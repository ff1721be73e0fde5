"""The draft as a commented problem file."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import yaml

from aegis.logs.column_values import all_numeric
from aegis.logs.draft import vocabulary as words
from aegis.logs.draft.context_columns import ContextGuess, PlacedColumns, suggest_guards
from aegis.logs.draft.guesses import ActionGuess, IdGuess, LevelGuess, LevelsGuess
from aegis.logs.draft.reward_column import RewardGuess, wide_range
from aegis.logs.draft.vocabulary import has_word
from aegis.problem import DRAFT_HEADER, Value, read_yaml

_PLAIN = re.compile(r"^[A-Za-z_][A-Za-z0-9_.-]*( [A-Za-z0-9_.-]+)*$")


def yaml_scalar(value: Value) -> str:
    """Return a value such that a problem file reads it back as the same one, inside or outside of brackets."""
    if isinstance(value, str):
        if _PLAIN.match(value) and read_yaml(value, "draft") == value:
            return value
        return yaml.safe_dump(value, default_style='"', allow_unicode=True, width=math.inf).strip()
    return yaml.safe_dump(value).removesuffix("...\n").strip()


def yaml_list(values: Iterable[Value], indent: int, width: int = 118) -> str:
    """Return a list in brackets, broken over several lines if it is long."""
    lines = [""]
    texts = [yaml_scalar(value) for value in values]
    for position, text in enumerate(texts):
        piece = text + (", " if position < len(texts) - 1 else "")
        if lines[-1] and indent + len(lines[-1]) + len(piece) > width:
            lines.append("")
        lines[-1] += piece
    return "[" + ("\n" + " " * (indent + 1)).join(line.rstrip() for line in lines) + "]"


def comment_text(text: str) -> str:
    """Return text on one line without characters that would end a comment."""
    return "".join(character if character.isprintable() else "?" for character in " ".join(text.split()))


_WIDTH = 118
_MOST_LISTED = 12  # whole numbers; from more evenly spaced ones on, a grid is written

_RANGE = (
    "CHECK: the range is declared by you, never taken from the data. Which rewards are possible at all? Every certificate rests "
    "on it; a narrower range, if it is true, needs less data."
)

_CARRY_OVER = (
    "CHECK: 'none' says that a decision affects only what happens below it. Write 'within' if it may also change later decisions "
    "of the same episode, or their rewards."
)

_NO_CHANCES = (
    "MISSING: the probability with which '{action}' was chosen. Nothing can be certified at this level until it is logged: write "
    "it down when the action is drawn. If a column holds it:"
)

_NO_DENSITY = (
    "MISSING: the density with which '{action}' was drawn. Nothing can be certified at this level until it is logged: write "
    "down, beside the number that was drawn, its density per unit of '{action}' (of a uniform draw from {low:g} to {high:g} that "
    "is {even:.6g} in every row). If a column holds it:"
)

_KNOWN_RULE = "Or, if every available action was equally likely in all circumstances:"

_SHARES = (
    "Or, if a coin (a random number) with fixed probabilities decided in each case, in all circumstances, as in a "
    "randomised trial: fill these in, in the order of the values. Two days in seven is not a share, and how often each came is "
    "no more than an estimate:"
)


_EPSILON = (
    "Or, if the controller did '{meant}', except for a fixed share of decisions in which it drew '{action}' uniformly: fill in "
    "that share as the controller is programmed. How often the two differ is an estimate, and no certificate can rest on it:"
)


@dataclass(frozen=True, slots=True)
class DraftContent:
    """Everything a draft is written from; reward and levels may be missing."""

    origin: str
    ids: IdGuess
    levels: LevelsGuess
    reward: RewardGuess | None
    placed: PlacedColumns | None
    questions: tuple[str, ...]
    read_as: tuple[str, ...] = ()


def draft_text(guesses: DraftContent) -> str:
    """Return the problem file, with comments that say what is to be checked and which columns are not used."""
    lines = [*_head(guesses), *_top(guesses), *_reward(guesses.reward)]
    lines += [*_guards(guesses.placed), *_outcome(guesses.placed)]
    lines += ["levels:  # outermost first"] if guesses.levels.levels else _no_levels()
    for position, level in enumerate(guesses.levels.levels):
        contexts = guesses.placed.contexts[position] if guesses.placed is not None else []
        innermost = level is guesses.levels.levels[-1]
        undecided = guesses.placed.undecided if guesses.placed is not None and innermost else []
        lines += _level(level, contexts, undecided)
    lines += _unused(guesses.placed)
    return "\n".join(lines) + "\n"


def is_even_grid(values: Sequence[Value]) -> bool:
    """Say whether values are best written as a grid: evenly spaced numbers, whole ones only if there are many."""
    if len(values) < 3 or not all_numeric(values):
        return False
    if all(isinstance(value, int) for value in values) and len(values) <= _MOST_LISTED:
        return False
    numbers = np.asarray(values, dtype=np.float64)
    grid = np.linspace(numbers[0], numbers[-1], numbers.size)
    return bool(np.all(np.abs(numbers - grid) <= 1e-10 * (numbers[-1] - numbers[0])))


def _comment(text: str, indent: int = 0, hang: str = "") -> list[str]:
    pad = " " * indent
    return [f"{pad}# {line}" for line in textwrap.wrap(comment_text(text), _WIDTH - indent - 2, subsequent_indent=hang)]


def _head(guesses: DraftContent) -> Iterator[str]:
    yield from _comment(
        f"{DRAFT_HEADER.removeprefix('# ')}{guesses.origin}. Every line is a guess from names and values: read it once."
    )
    for line in guesses.read_as:
        yield from _comment(f"{line}.")
    if guesses.questions:
        yield "# To be decided by you:"
        for number, question in enumerate(guesses.questions, 1):
            yield from _comment(f"{number}. {question}", hang="   ")
    yield ""


def _top(guesses: DraftContent) -> Iterator[str]:
    ids = guesses.ids
    if ids.counted:
        yield from _comment(
            "CHECK: no column tells units apart: each row is one. A column called 'row', if there ever is one, counts instead."
        )
    names = yaml_scalar(ids.episode[0]) if len(ids.episode) == 1 else yaml_list(ids.episode, 9)
    yield f"episode: {names}  # one value per independent unit"
    if ids.cluster is not None:
        yield f"cluster: {yaml_scalar(ids.cluster)}  # CHECK: its episodes depend on each other"
    if ids.time is not None:
        yield f"time: {yaml_scalar(ids.time)}"
    yield from _comment(_CARRY_OVER)
    yield "carry_over: none"


def _reward(reward: RewardGuess | None) -> Iterator[str]:
    if reward is None:
        yield from _comment("No column of numbers is left for the reward; name it:")
        yield "# reward: {column: reward, range: [0, 1]}"
        return
    low, high = reward.seen
    yield "reward:"
    yield f"  column: {yaml_scalar(reward.look.name)}"
    yield from _comment(f"{_RANGE} The log holds {low:g} to {high:g}.", 2)
    yield f"  range: {yaml_list([_short(limit) for limit in reward.limits], 9)}"
    yield "  # unit: EUR"
    yield "  goal: minimise  # CHECK: less of it is better" if reward.minimise else "  goal: maximise"
    yield f"  per: {yaml_scalar(reward.per)}  # decision, the name of a level, or episode: whose decisions earned it"


def _guards(placed: PlacedColumns | None) -> Iterator[str]:
    looks = suggest_guards(placed) if placed is not None else []
    if not looks:
        return
    yield from _comment(
        "What must not get worse? Remove the # to let certificates watch it; set range and goal as you know them:"
    )
    yield "# guards:"
    for look in looks:
        known = np.zeros(1) if look.numbers is None else look.numbers[~np.isnan(look.numbers)]
        low, high = wide_range(known)
        limits = yaml_list([_short(low), _short(high)], 0)
        goal = "minimise" if has_word(look.name, words.GUARD) else "FILL"  # FILL is refused: the user knows which way is worse
        worse = _short(float(f"{(high - low) / 100:.1g}"))
        yield f"#   - {{column: {yaml_scalar(look.name)}, range: {limits}, max_worsening: {yaml_scalar(worse)}, goal: {goal}}}"


def _outcome(placed: PlacedColumns | None) -> Iterator[str]:
    if placed is not None and placed.outcome is not None:
        yield f"outcome: {_variable(placed.outcome, 9)}  # what an innermost decision brings about, before its reward"


def _no_levels() -> list[str]:
    return [
        *_comment("No action was found: a column with a few values that the controller chose. Name it, with its probability:"),
        "# levels:",
        "#   - name: setting",
        "#     context: [temperature]",
        "#     action: {column: setting, values: [low, high]}",
        "#     propensity: {column: p_setting}",
    ]


def _level(level: LevelGuess, contexts: Sequence[ContextGuess], undecided: Sequence[ContextGuess]) -> Iterator[str]:
    yield f"  - name: {yaml_scalar(level.name)}"
    if level.decision is not None:
        yield f"    decision: {yaml_scalar(level.decision)}"
    if not contexts:
        yield "    context: []"
    else:
        yield "    context:  # CHECK: known before the decision?"
        yield from (f"      - {_variable(context, 8)}  # {comment_text(context.why)}" for context in contexts)
    if undecided:
        yield from _comment(f"CHECK: contexts as well, if they are known before '{level.action.look.name}' is decided:", 4)
        for context in undecided:
            line = " ".join(_variable(context, 8).split("\n"))
            yield f"    #   - {line}  # {comment_text(context.why)}"
    yield f"    action: {_action(level.action)}"
    if level.action.available:
        yield f"    available: {yaml_list([look.name for look in level.action.available], 15)}"
    yield from _propensity(level.action)
    if level.action.meant is not None:
        yield f"    incumbent: {{base: {yaml_scalar(level.action.meant.name)}}}  # CHECK: who acts if nothing is handed over"
    yield "    # margin: 0.0  # the gain that makes a switch worth it, in units of the reward"


def _variable(context: ContextGuess, indent: int) -> str:
    if context.kind == "vector":
        names = yaml_list([look.name for look in context.looks], indent + 2)
        return f"{{name: {yaml_scalar(context.name)}, columns: {names}}}"
    if context.kind == "categorical":
        return f"{{column: {yaml_scalar(context.name)}, values: {yaml_list(context.looks[0].values, indent + 2)}}}"
    return f"{{column: {yaml_scalar(context.name)}}}" if indent > 8 else yaml_scalar(context.name)


def _action(action: ActionGuess) -> str:
    column = yaml_scalar(action.look.name)
    if action.density:
        start, stop = (float(value) for value in action.values)
        ends = f"[{yaml_scalar(_short(start))}, {yaml_scalar(_short(stop))}]"
        reach = float(f"{(stop - start) / 20:.2g}")
        return f"{{column: {column}, interval: {ends}, bandwidth: {yaml_scalar(_short(reach))}}}  # CHECK: both"
    if is_even_grid(action.values):
        low, high = (yaml_scalar(_short(float(value))) for value in (action.values[0], action.values[-1]))
        return f"{{column: {column}, grid: {{low: {low}, high: {high}, points: {len(action.values)}}}}}"
    return f"{{column: {column}, values: {yaml_list(action.values, 12)}}}"


def _propensity(action: ActionGuess) -> Iterator[str]:
    if action.full:
        yield f"    propensity: {{columns: {yaml_list([look.name for look in action.full], 26)}}}"
    elif action.taken is not None and action.density:
        yield f"    propensity: {{column: {yaml_scalar(action.taken.name)}, density: true}}  # per unit of the action"
    elif action.taken is not None:
        yield f"    propensity: {{column: {yaml_scalar(action.taken.name)}}}  # the probability of the action taken"
    elif action.density:
        low, high = (float(value) for value in action.values)
        missing = _NO_DENSITY.format(action=action.look.name, low=low, high=high, even=1 / (high - low))
        yield from _comment(missing, 4)
        yield f"    # propensity: {{column: {yaml_scalar(_suspected(action, 'density_'))}, density: true}}"
    else:
        yield from _comment(_NO_CHANCES.format(action=action.look.name), 4)
        yield f"    # propensity: {{column: {yaml_scalar(_suspected(action, 'p_'))}}}"
        yield from _comment(_KNOWN_RULE, 4)
        yield "    # propensity: {policy: uniform}"
        yield from _known_shares(action)
        if action.meant is not None:
            yield from _comment(_EPSILON.format(action=action.look.name, meant=action.meant.name), 4)
            yield f"    # propensity: {{base: {yaml_scalar(action.meant.name)}, epsilon: FILL}}"


def _suspected(action: ActionGuess, head: str) -> str:
    """Return the column that most likely holds the chances, else a name for it."""
    return action.suspects[0].name if action.suspects else head + action.look.name


def _known_shares(action: ActionGuess) -> Iterator[str]:
    """Offer to declare fixed probabilities; a word that is no number stands in for those that only the user knows."""
    if not action.available and len(action.values) <= _MOST_LISTED:
        yield from _comment(_SHARES, 4)
        yield f"    # propensity: {{shares: {yaml_list(['FILL'] * len(action.values), 0)}}}"


def _unused(placed: PlacedColumns | None) -> Iterator[str]:
    if placed is None or not placed.unused:
        return
    yield ""
    yield "# Columns that are not used:"
    for name, why in placed.unused:
        yield from _comment(f"- {name}: {why}", hang="  ")


def _short(number: float) -> Value:
    """Return a whole number as such; it reads better."""
    return int(number) if number.is_integer() and abs(number) < 1e15 else number
