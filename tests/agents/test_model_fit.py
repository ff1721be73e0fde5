"""A sample of a stream: evenly spread, bounded, and the same whatever the blocks of the stream."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from aegis.agents import model_fit as module
from aegis.agents.model_fit import EpisodeSample
from aegis.errors import LogError
from aegis.problem import Batch
from aegis.worlds import make_world

WORLD = make_world("additive", inner_steps=2)
LOG = WORLD.episodes(0, 90, WORLD.legacy("uniform"), 1)


def sampled(cuts: list[int], episodes: int, rows: int) -> tuple[EpisodeSample, Batch]:
    """Return the sample of LOG, streamed in blocks that end at the cuts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_EPISODES", episodes)
        patch.setattr(module, "MOST_ROWS", rows)
        found, ends = EpisodeSample(), [0, *sorted(set(cuts)), 90]
        parts = [LOG.take_episodes(np.arange(start, stop)) for start, stop in itertools.pairwise(ends) if stop > start]
        passed = list(found.watch(parts))
    assert sum(len(part) for part in passed) == 90
    return found, found.batch()


@given(hs.lists(hs.integers(1, 89), max_size=6), hs.integers(1, 100), hs.integers(2, 300))
@settings(max_examples=40, deadline=None)
def test_every_so_many_episodes_whatever_the_blocks(cuts, episodes, rows):
    found, batch = sampled(cuts, episodes, rows)
    wanted = np.arange(0, 90, found.stride)
    np.testing.assert_array_equal(batch.reward, LOG.take_episodes(wanted).reward)
    assert len(batch) <= episodes
    assert len(batch.levels["inner"]) <= rows or len(batch) == 1
    if found.stride > 1:  # half the stride would have been too much
        denser = LOG.take_episodes(np.arange(0, 90, found.stride // 2))
        assert len(denser) > episodes or len(denser.levels["inner"]) > rows


def test_nothing_to_sample_is_an_error() -> None:
    with pytest.raises(LogError, match="no episodes"):
        EpisodeSample().batch()
