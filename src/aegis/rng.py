"""Named random streams: adding a stream never shifts another, and a restart at episode k is exact."""

from __future__ import annotations

import hashlib

import numpy as np

from aegis.errors import SettingError


def stream(seed: int, *key: str | int) -> np.random.Generator:
    """Return the generator named by `key` under `seed`.

    `stream(1, "world", 7)` is always the same stream, independent of all other streams. A key consists of words and of
    whole numbers from 0 to 2^32 - 1; a seed is a whole number from 0 to 2^128 - 1. Beyond that numpy would give two names
    the same stream.
    """
    if not _whole(seed, 2**128):
        raise SettingError(f"a seed is a whole number from 0 to 2^128 - 1, found {seed!r}")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(int(seed), spawn_key=_spawn_key(key))))


def _spawn_key(key: tuple[str | int, ...]) -> tuple[int, ...]:
    words: list[int] = []
    for part in key:
        if isinstance(part, str):
            words.append(int.from_bytes(hashlib.blake2b(part.encode(), digest_size=8).digest(), "little"))
        elif _whole(part, 2**32):
            words.append(int(part))
        else:
            raise SettingError(f"the name of a stream consists of words and whole numbers from 0 to 2^32 - 1, found {part!r}")
    return tuple(words)


def _whole(number: object, limit: int) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool) and 0 <= int(number) < limit
