"""The tree of errors, drawn at the top of its file, and the help with misspelt words."""

from __future__ import annotations

import inspect
import pickle

import pytest

from aegis import errors
from aegis.errors import AegisError, InputError, ModelError, PolicyError, RefusedError, SettingError, check_choice, did_you_mean

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
