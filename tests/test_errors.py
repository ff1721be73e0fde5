"""The tree of errors, drawn at the top of its file, and the help with misspelt words."""

from __future__ import annotations

import inspect
import math
import pickle

import numpy as np
import pytest

from aegis import errors
from aegis.errors import (
    AegisError,
    InputError,
    ModelError,
    PolicyError,
    ProblemError,
    RefusedError,
    SettingError,
    check_choice,
    did_you_mean,
    finite_number,
    whole_number,
)

CLASSES = [member for _, member in inspect.getmembers(errors, inspect.isclass) if member.__module__ == "aegis.errors"]


def drawn() -> dict[str, str]:
    """Parent of each class in the drawing, read off the indentation."""
    parents: dict[str, str] = {}
    stack: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        name = line.lstrip("│├└─ ").split(" ")[0]
        if not name.endswith("Error"):
            continue
        depth = len(line) - len(line.lstrip("│├└─ "))
        while stack and stack[-1][0] >= depth:
            stack.pop()
        parents[name] = stack[-1][1] if stack else "Exception"
        stack.append((depth, name))
    return parents


def test_the_drawing_is_the_tree() -> None:
    assert drawn() == {member.__name__: member.__bases__[0].__name__ for member in CLASSES}


@pytest.mark.parametrize("member", CLASSES)
def test_every_error_can_be_caught_shown_and_sent(member: type[AegisError]) -> None:
    error = member("what was found")
    assert isinstance(error, AegisError) and str(error) == "what was found"
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is member and str(copy) == str(error)
    assert member.exit_code == (4 if member is RefusedError else 2) and member.__doc__


def test_input_is_told_from_computation() -> None:
    assert issubclass(PolicyError, InputError) and not issubclass(ModelError, InputError)


@pytest.mark.parametrize(
    ("word", "allowed", "hint"),
    [
        ("rewrad", ["reward", "range"], " (did you mean 'reward'?)"),
        ("xyz", ["reward", "range"], ""),
        ("reward", [], ""),
        ("12", [1, 13], " (did you mean '1'?)"),
    ],
)
def test_the_nearest_word(word: str, allowed: list[object], hint: str) -> None:
    assert did_you_mean(word, allowed) == hint


def test_choosing_a_word() -> None:
    check_choice("lcb", ["ucb", "lcb"], "rule")
    with pytest.raises(SettingError, match=r"^unknown rule 'lcd' \(did you mean 'lcb'\?\); allowed: ucb, lcb$"):
        check_choice("lcd", ["ucb", "lcb"], "rule")
    with pytest.raises(PolicyError, match="unknown policy 'x'; allowed: uniform"):
        check_choice("x", ["uniform"], "policy", PolicyError)


def test_an_error_says_what_is_wrong_and_what_to_do() -> None:
    error = PolicyError("there is no policy in the folder", fix="learn one")
    assert str(error) == "there is no policy in the folder; learn one"
    assert (error.message, error.fix) == ("there is no policy in the folder", "learn one")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.message, copy.fix) == (str(error), error.message, error.fix)
    refused = RefusedError("the log is empty", "no-data", "log more")
    assert (refused.code, refused.fix, str(refused)) == ("no-data", "log more", "the log is empty; log more")
    assert SettingError("plain").fix == ""


@pytest.mark.parametrize("value", [0, 11, 1.0, True, "3", None, float("nan")])
def test_whole_numbers_in_a_range(value: object) -> None:
    assert whole_number("'k'", np.int64(3), 1, 10) == 3 and whole_number("'k'", 10**400) == 10**400
    with pytest.raises(SettingError, match=r"'k' is a whole number from 1 to 10, found "):
        whole_number("'k'", value, 1, 10)
    with pytest.raises(ProblemError, match="from 1, found -1"):
        whole_number("'k'", -1, error=ProblemError)


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf, 10**400, True, "0.5", None])
def test_finite_numbers_in_a_range(value: object) -> None:
    assert finite_number("'p'", np.float32(0.5), 0.0, 1.0) == 0.5 and finite_number("'p'", 1, 0.0, 1.0) == 1.0
    with pytest.raises(SettingError, match="'p' is a finite number from 0 to 1, found "):
        finite_number("'p'", value, 0.0, 1.0)


def test_ends_of_an_open_interval_are_refused() -> None:
    assert finite_number("'p'", 0.5, above=0.0, below=1.0) == 0.5
    for value in (0.0, 1.0):
        with pytest.raises(SettingError, match="'p' is a finite number above 0 and below 1, found"):
            finite_number("'p'", value, above=0.0, below=1.0)
