"""The random stream of an episode: a far-away part of one named stream, the same whenever it is asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.agents.online_run import episode_stream
from aegis.errors import SettingError
from aegis.rng import stream


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**128 - 1), st.integers(0, 2**32))
def test_an_episode_is_numpys_own_jump_of_the_named_stream(seed: int, episode: int) -> None:
    jumped = np.random.Generator(stream(seed, "agent", "name").bit_generator.jumped(episode))
    np.testing.assert_array_equal(episode_stream(seed, "agent", "name", episode).random(9), jumped.random(9))


def test_streams_are_fresh_and_do_not_disturb_each_other() -> None:
    first, second = episode_stream(1, "agent", "a", 3), episode_stream(1, "agent", "a", 3)
    wanted = first.standard_normal(6)
    np.testing.assert_array_equal(np.concatenate([second.standard_normal(3), second.standard_normal(3)]), wanted)


def test_episodes_seeds_and_names_have_different_numbers() -> None:
    keys = [(1, "agent", "a", 0), (1, "agent", "a", 1), (2, "agent", "a", 0), (1, "agent", "b", 0), (1, "other", "a", 0)]
    numbers = [tuple(episode_stream(*key).random(4)) for key in keys]
    assert len(set(numbers)) == len(keys)


def test_neighbouring_episodes_are_uncorrelated() -> None:
    drawn = np.array([episode_stream(7, "agent", "a", k).standard_normal(50) for k in range(400)])
    lagged = (drawn[1:] * drawn[:-1]).mean(axis=0) * np.sqrt(399)  # one standard normal number for each place in the stream
    assert abs((np.square(lagged).sum() - 50) / np.sqrt(2 * 50)) < 4
    assert abs(drawn.mean()) < 4 / np.sqrt(drawn.size)
    assert abs(drawn.var() - 1) < 4 * np.sqrt(2 / drawn.size)


@pytest.mark.parametrize("episode", [-1, 2.5, True, "3", None, 2**64])
def test_an_episode_is_a_whole_number(episode: object) -> None:
    with pytest.raises(SettingError, match="the number of an episode is a whole number from 0"):
        episode_stream(1, "agent", "a", episode)  # type: ignore[arg-type]
