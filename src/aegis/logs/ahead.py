"""Reading ahead: the next block is made ready in a thread while the present one is worked on."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def ahead(items: Generator[Item, None, None]) -> Iterator[Item]:
    """Yield what a generator yields, one item ahead of its use; what it raises is raised at that item's turn.

    Decoding and most of the work on arrays runs outside Python's lock, so that a second core is put to use. One more item is in
    memory. Leaving early waits for the item that is being made, and closes the generator.
    """
    end = object()
    try:
        with ThreadPoolExecutor(1, thread_name_prefix="aegis-read") as pool:
            coming = pool.submit(next, items, end)
            while (item := coming.result()) is not end:
                coming = pool.submit(next, items, end)
                yield item  # type: ignore[misc]
    finally:
        items.close()
