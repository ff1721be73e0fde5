"""Scalars, lists and comments of a draft read back as they were; grids."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.logs.draft.yaml_text import comment_text, is_even_grid, yaml_list, yaml_scalar
from aegis.problem import read_yaml

names = st.text(min_size=1, max_size=12).filter(
    lambda text: "\x00" not in text and not any("\ud800" <= c <= "\udfff" for c in text)
)


@given(st.one_of(names, st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False)))
@settings(max_examples=50, deadline=None)
def test_a_scalar_reads_back_as_itself(value: str | bool | int | float) -> None:
    for text, inside in ((yaml_scalar(value), lambda x: x), (f"{{a: [{yaml_scalar(value)}, 1]}}", lambda x: x["a"][0])):
        found = inside(read_yaml(text, "test"))
        assert found == value and type(found) is type(value)


@given(st.lists(names, min_size=1, max_size=30))
@settings(max_examples=25, deadline=None)
def test_long_lists_are_broken_and_read_back(values: list[str]) -> None:
    assert read_yaml(f"a: {yaml_list(values, 3, width=40)}", "test") == {"a": values}


@given(names)
@settings(max_examples=30, deadline=None)
def test_remarks_stay_on_their_line(text: str) -> None:
    assert read_yaml(f"a: 1  # {comment_text(text)}\nb: 2", "test") == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("values", "is_even"), [((-2.0, 0.0, 2.0), True), ((1, 2, 3), False), ((0.0, 1.0, 3.0), False), (("a", "b", "c"), False)]
)
def test_grids(values: tuple[object, ...], is_even: bool) -> None:
    assert is_even_grid(values) == is_even  # type: ignore[arg-type]
    assert is_even_grid(tuple(range(20)))
