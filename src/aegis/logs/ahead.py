"""Reading ahead: the next blocks are made ready in a thread while the present one is worked on."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
DEPTH = 6  # more than one, so that neither side waits for the other's slow items, such as the first ones


def ahead(items: Generator[Item, None, None], depth: int = DEPTH) -> Iterator[Item]:
    """Yield what a generator yields, made ready before its use; what it raises is raised at that item's turn.

    Decoding and most of the work on arrays runs outside Python's lock, so that a second core is put to use. `depth` more items
    are in memory. Leaving early waits for the items that are being made, and closes the generator.
    """
    end = object()
    try:
        with ThreadPoolExecutor(1, thread_name_prefix="aegis-read") as pool:
            coming = deque(pool.submit(next, items, end) for _ in range(depth))
            while (item := coming.popleft().result()) is not end:
                coming.append(pool.submit(next, items, end))
                yield item  # type: ignore[misc]
    finally:
        items.close()
