"""Probabilities that the user points at: `COLUMN`, or `ACTION=COLUMN` where there are several actions."""

from __future__ import annotations

from collections.abc import Sequence

from aegis.errors import InputError, nearest
from aegis.logs.drafting.chances import positive
from aegis.logs.drafting.continuous import any_number
from aegis.logs.drafting.misread import misread
from aegis.logs.drafting.sheet import Look, Sheet
from aegis.logs.drafting.strays import in_words, nothing_in


def declared_pairs(given: Sequence[str], sheet: Sheet) -> list[tuple[str | None, Look]]:
    """Return action, None where it is not said, and column of each; InputError for what is not in the log or cannot be meant."""
    found: list[tuple[str | None, Look]] = []
    for text in given:
        action, column = _split(text, sheet)
        look = sheet.looks.get(column)
        if look is None:
            raise InputError(f"the log has no column '{column}' for a propensity{nearest(column, sheet.looks)}")
        if action is not None and action not in sheet.looks:
            raise InputError(f"the log has no column '{action}' for an action{nearest(action, sheet.looks)}")
        if said := misread(look):
            raise InputError(f"column '{column}' cannot be a propensity as it is: it {said}")
        if not positive(look):
            raise InputError(
                f"column '{column}' cannot be a propensity: it holds {_trouble(look)}; a propensity is the probability of the "
                "action taken, above 0 and at most 1 in every row (of an action on an interval its density, above 0)"
            )
        if look in [other for _, other in found]:
            raise InputError(f"column '{column}' is named twice as a propensity; every action has a probability of its own")
        found.append((action, look))
    return found


def check_probability(action: Look, column: Look) -> None:
    """Raise InputError unless a column can be the chance of an action: at most 1 unless the action is any number."""
    if any_number(action) or column.within(0, 1):
        return
    high = 0.0 if column.numbers is None else float(column.numbers.max())
    raise InputError(
        f"column '{column.name}' cannot be the probability of '{action.name}': it goes up to {high:g}, and a probability is at "
        f"most 1{' (divide percentages by 100)' if high <= 100 else ''}"
    )


def _split(text: str, sheet: Sheet) -> tuple[str | None, str]:
    """Return action and column; a name with an equals sign in it is taken as it stands if it is that of a column."""
    if text in sheet.looks or "=" not in text:
        return None, text
    places = [place for place, character in enumerate(text) if character == "="]
    pairs = [(text[:place], text[place + 1 :]) for place in places]
    return next((pair for pair in pairs if pair[0] in sheet.looks and pair[1] in sheet.looks), pairs[0])


def _trouble(look: Look) -> str:
    if look.kind != "number" or look.numbers is None:
        return {"text": "text", "flag": "flags", "date": "dates"}.get(look.kind, "no numbers") + in_words(look)
    if look.missing:
        return nothing_in(look)
    return f"{look.numbers.min():g}"
