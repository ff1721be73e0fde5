"""Named random streams: adding a stream never shifts another, and a restart at episode k is exact."""

from __future__ import annotations

import hashlib

import numpy as np

from aegis.errors import SettingError


def stream(seed: int, *key: str | int) -> np.random.Generator:
    """Return the generator named by `key` under `seed`.

    `stream(1, "world", 7)` is always the same stream, whatever other streams are in use.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise SettingError(f"a seed is a whole number from 0, found {seed!r}")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(int(seed), spawn_key=_spawn_key(key))))


def _spawn_key(key: tuple[str | int, ...]) -> tuple[int, ...]:
    words: list[int] = []
    for part in key:
        if isinstance(part, str):
            words.append(int.from_bytes(hashlib.blake2b(part.encode(), digest_size=8).digest(), "little"))
        else:
            words.append(int(part))
    return tuple(words)
