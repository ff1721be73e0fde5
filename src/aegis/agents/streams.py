"""One random stream per episode, at the cost of a few microseconds.

`aegis.rng.stream` mixes its name into a seed, which takes longer than drawing a small belief. The stream of an episode is
therefore a part of one named stream, reached by a jump: numpy's own way to independent parts (`PCG64.jumped`), so that episode
k is at hand without the episodes before it, and a restart is exact.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.random.bit_generator import ISeedSequence

from aegis.errors import SettingError
from aegis.rng import stream

JUMP = 0x9E3779B97F4A7C15F39CC0605CEDC835  # numpy's: the golden ratio times 2^128, which leaves parts far apart and unaligned
MOST_EPISODES = 2**64
STREAMS = "jumps of one stream"  # recorded with a run: other random numbers would not go on where these stopped


def episode_stream(seed: int, name: str, part: str, episode: int) -> np.random.Generator:
    """Return the generator of one episode under `stream(seed, name, part)`: as far from its start as `episode` jumps."""
    if isinstance(episode, bool) or not isinstance(episode, int | np.integer) or not 0 <= episode < MOST_EPISODES:
        raise SettingError(f"episodes are counted from 0, found {episode!r}")
    bits = np.random.PCG64(_start(seed, name, part))  # type: ignore[arg-type]  # any ISeedSequence will do
    bits.advance(int(episode) * JUMP)
    return np.random.Generator(bits)


class _Words(ISeedSequence):
    """The words with which a stream starts, kept, so that they need not be mixed again."""

    def __init__(self, words: npt.NDArray[Any]) -> None:
        self.words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> npt.NDArray[Any]:
        """Return the words; PCG64 always asks for the same ones."""
        return self.words


@functools.lru_cache(maxsize=1024)
def _start(seed: int, name: str, part: str) -> _Words:
    sequence = stream(seed, name, part).bit_generator.seed_seq
    return _Words(sequence.generate_state(4, np.uint64))
