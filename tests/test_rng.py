"""Named streams: stable, independent, and not disturbed by each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.errors import SettingError
from aegis.rng import stream

PARTS = st.one_of(st.text(max_size=6), st.integers(0, 2**32 - 1))
NAMES = st.tuples(st.integers(0, 2**128 - 1), st.lists(PARTS, max_size=3).map(tuple))


def test_the_numbers_of_a_name_never_change() -> None:
    np.testing.assert_array_equal(stream(0).integers(0, 1000, 4), [850, 636, 511, 269])
    np.testing.assert_array_equal(stream(1, "world", 7).integers(0, 1000, 4), [270, 818, 471, 638])
    np.testing.assert_array_equal(stream(2**64, "Größe").integers(0, 1000, 4), [336, 543, 288, 706])
    assert stream(1, "world", 7).random() == 0.8189132484305154


def test_other_streams_and_their_order_change_nothing() -> None:
    names = [("world", 1), ("world", 2), ("policy", 1), ("policy",)]
    alone = {name: stream(5, *name).random(3).tolist() for name in names}
    generators = {name: stream(5, *name) for name in reversed(names)}
    drawn: dict[tuple[object, ...], list[float]] = {name: [] for name in names}
    for _ in range(3):
        for name in names[::2] + names[1::2]:
            drawn[name].append(generators[name].random())
    assert drawn == alone


@settings(max_examples=100, deadline=None)
@given(NAMES, NAMES)
def test_two_names_are_two_streams(one: tuple[int, tuple[object, ...]], other: tuple[int, tuple[object, ...]]) -> None:
    first, second = stream(one[0], *one[1]).integers(0, 2**63, 2), stream(other[0], *other[1]).integers(0, 2**63, 2)  # type: ignore[arg-type]
    assert np.array_equal(first, second) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [(("ab",), ("a", "b")), (("a", 1), ("a1",)), ((1,), ("1",)), ((), (0,)), ((), ("",)), ((0,), (0, 0)), ((1, 2), (2, 1))],
)
def test_names_that_look_alike_are_two_streams(one: tuple[str | int, ...], other: tuple[str | int, ...]) -> None:
    assert stream(3, *one).random() != stream(3, *other).random()


def test_streams_of_neighbouring_episodes_are_not_correlated() -> None:
    # 300 streams of 200 uniforms: under independence each pair's correlation has standard deviation 1/sqrt(200).
    draws = np.array([stream(11, "world", k).random(200) for k in range(300)])
    correlations = np.corrcoef(draws)[np.triu_indices(300, 1)]
    assert abs(correlations.mean()) < 4 / np.sqrt(200 * correlations.size)
    assert np.abs(correlations).max() < 6 / np.sqrt(200)
    assert abs(draws.mean() - 0.5) < 4 / np.sqrt(12 * draws.size)


def test_numpy_integers_are_whole_numbers() -> None:
    assert stream(np.int64(4), "a", np.int32(2)).random() == stream(4, "a", 2).random()  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [-1, 1.0, "1", None, True, 2**128, float("nan")])
def test_a_bad_seed_is_refused(seed: object) -> None:
    with pytest.raises(SettingError, match="a seed is a whole number from 0 to"):
        stream(seed, "world")  # type: ignore[arg-type]


@pytest.mark.parametrize("part", [-1, 1.5, None, True, 2**32, ("a",)])
def test_a_bad_name_is_refused(part: object) -> None:
    with pytest.raises(SettingError, match="words and whole numbers from 0 to"):
        stream(1, "world", part)  # type: ignore[arg-type]
