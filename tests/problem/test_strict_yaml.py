"""One reading of every plain word, and no key given twice."""

from __future__ import annotations

import json
import math

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aegis.errors import ProblemError
from aegis.problem import read_yaml, write_yaml


@pytest.mark.parametrize(
    "word", ["on", "off", "yes", "no", "y", "010", "12:30", "1_000", "0x1f", "2020-01-01", "2020-99-99", "1e", "--1"]
)
def test_these_are_texts(word: str) -> None:
    assert read_yaml(f"x: {word}", "t") == {"x": word}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("true", True), ("False", False), ("null", None), ("~", None), ("", None), ("0", 0), ("-12", -12), ("+3", 3),
        ("1.", 1.0), (".5", 0.5), ("-0.25", -0.25), ("1e-3", 0.001), ("2.5E+2", 250.0), (".inf", math.inf), ("-.inf", -math.inf),
        ("'5'", "5"), ('"true"', "true"),
    ],
)  # fmt: skip
def test_these_are_not(word: str, value: object) -> None:
    found = read_yaml(f"x: {word}", "t")["x"]
    assert found == value and type(found) is type(value)


def test_json_is_read_as_other_readers_of_it_do() -> None:
    content = {"name": "Rezept 🧪", "👩\u200d🔬": ["快", "\u2028"]}
    assert read_yaml(json.dumps(content), "x") == content
    with pytest.raises(ProblemError, match="not valid YAML"):
        read_yaml('{"name": "\\ud83e"}', "x")


def test_not_a_number() -> None:
    assert math.isnan(read_yaml("x: .nan", "t")["x"])


@pytest.mark.parametrize("text", ["a: 1\na: 2\n", "x: {b: 1, b: 1}", "- {c: 1, 'c': 2}", "x: {1: a, 1.0: b}"])
def test_a_key_given_twice_is_refused(text: str) -> None:
    with pytest.raises(ProblemError, match=r"^source: not valid YAML: the key .* is given twice\n.*line \d"):
        read_yaml(text, "source")


def test_shared_parts_may_be_merged_and_overridden() -> None:
    assert read_yaml("a: &x {k: 1, m: 2}\nb: {<<: *x, k: 3}", "t")["b"] == {"k": 3, "m": 2}


@pytest.mark.parametrize(
    "text",
    [
        "a: [1",
        "a: b: c",
        "? [a]\n: 1",
        "a: *nothing",
        "a: !!python/object:os.system x",
        "a: 1\n---\nb: 2",
        "\x00",
        "a: " + "9" * 5000,
    ],
)
def test_broken_text_is_refused(text: str) -> None:
    with pytest.raises(ProblemError, match=r"^t: not valid YAML: "):
        read_yaml(text, "t")


def test_text_nested_too_deeply_is_refused() -> None:
    with pytest.raises(ProblemError, match=r"^t: not a problem file: nested too deeply"):
        read_yaml("[" * 1000, "t")


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(categories=["L", "N", "P", "Zs"])),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abnoyes0123456789e:.~<=", max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from("abc"), PLAIN))
@example({"a": {"0.e0": None}, "b": "1.e5", "c": ".5E3"})
def test_what_is_written_is_read_back(content: dict[str, object]) -> None:
    text = write_yaml(content)
    assert read_yaml(text, "t") == content


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text("onyesf0123456789:._eE+-tru~", max_size=7)))
def test_other_readers_see_the_same_texts(words: list[str]) -> None:
    assert yaml.safe_load(write_yaml({"x": words})) == {"x": words}


@pytest.mark.parametrize("word", ["1e3", "-2E-4", "on", "null", "~", "010", "5", "0.5", ".inf", "true", "<<", "2020-01-01", ""])
def test_texts_that_look_like_something_else_are_quoted(word: str) -> None:
    text = write_yaml({"x": word})
    assert read_yaml(text, "t") == {"x": word} == yaml.safe_load(text)
