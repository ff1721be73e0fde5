"""Every error that AEGIS raises on purpose, in one tree.

AegisError
├── InputError            something that the user gave is wrong (exit code 2)
│   ├── ProblemError      the problem definition or its YAML file
│   │   └── GraphError    the causal graph inside it
│   ├── LogError          the content of a log: names file, row and column
│   ├── PolicyError       a policy that does not fit, or a policy file that cannot be used
│   ├── SettingError      a parameter of a world, model, rule or command
│   └── OutputError       a place that cannot be written
├── RefusedError          an assumption of a certificate fails: which, where, what would repair it (exit code 4)
└── ModelError            a computation that cannot go on (for example a matrix that is not positive definite)

A message says what is wrong, where, and what is allowed. `fix` says what to do.
"""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable


class AegisError(Exception):
    """Base of all errors raised by AEGIS; `exit_code` is what the command line returns.

    message, fix: what is wrong, and what to do about it; the text of the error is both.
    """

    exit_code = 2

    def __init__(self, message: str = "", fix: str = "") -> None:
        super().__init__(f"{message}; {fix}" if fix else message)
        self.message, self.fix = message, fix


class InputError(AegisError):
    """Something the user gave is wrong."""


class ProblemError(InputError):
    """The problem definition is wrong."""


class GraphError(ProblemError):
    """The causal graph is cyclic, breaks the order of levels or names unknown variables."""


class LogError(InputError):
    """The content of a log is wrong."""


class PolicyError(InputError):
    """A policy does not fit the problem, or its file cannot be used."""


class SettingError(InputError):
    """A parameter has a value that is not allowed."""


class OutputError(InputError):
    """A file or folder cannot be written."""


class RefusedError(AegisError):
    """An assumption that a certificate rests on does not hold in the data.

    code: of the finding that it makes, if it has one of its own.
    """

    exit_code = 4

    def __init__(self, message: str, code: str = "", fix: str = "") -> None:
        super().__init__(message, fix)
        self.code = code


class ModelError(AegisError):
    """A computation cannot go on."""


def did_you_mean(word: str, allowed: Iterable[object]) -> str:
    """Return ` (did you mean 'x'?)` for the allowed word closest to `word`, or an empty string."""
    names = [str(name) for name in allowed]
    closest = difflib.get_close_matches(str(word), names, n=1, cutoff=0.5)
    return f" (did you mean '{closest[0]}'?)" if closest else ""


def check_choice(word: str, allowed: Iterable[object], what: str, error: type[InputError] = SettingError) -> None:
    """Raise `error` unless `word` is one of `allowed`."""
    names = [str(name) for name in allowed]
    if word not in names:
        raise error(f"unknown {what} '{word}'{did_you_mean(word, names)}; allowed: {', '.join(names)}")


def whole_number(name: str, value: object, least: int = 1, most: float = math.inf, error: type[InputError] = SettingError) -> int:
    """Return a setting as an int; raise `error` unless it is a whole number from `least` to `most`."""
    number = int(value) if isinstance(value, numbers.Integral) and not isinstance(value, bool) else None
    if number is None or not least <= number <= most:
        limit = "" if most == math.inf else f" to {most}"
        raise error(f"{name} is a whole number from {least}{limit}, found {value!r}")
    return number


def finite_number(
    name: str,
    value: object,
    low: float = -math.inf,
    high: float = math.inf,
    above: float = -math.inf,
    below: float = math.inf,
    error: type[InputError] = SettingError,
) -> float:
    """Return a setting as a float; raise `error` unless it is finite, in [low, high] and in the open interval (above, below)."""
    try:
        number = float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
    except OverflowError:  # a whole number beyond the floats
        number = math.inf
    if not (math.isfinite(number) and low <= number <= high and above < number < below):
        upper = "to" if math.isfinite(low) else "and at most"
        limits = (("from", low), ("above", above), (upper, high), ("and below", below))
        allowed = "".join(f" {word} {limit:g}" for word, limit in limits if math.isfinite(limit))
        raise error(f"{name} is a finite number{allowed}, found {value!r}")
    return number


def pluralise(number: float, things: str, before: str = "") -> str:
    """Return a number with the right form of its plural `things`: 1 episode, 2 further episodes."""
    return f"{number:.0f} {before}{things.removesuffix('s') if number == 1 else things}"
