"""Work beside work: the next blocks are made ready in a thread, or looked at in another, while the present one is worked on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Item = TypeVar("Item")
DEPTH = 2  # more than one, so that neither side waits for the other's slow items, such as the first ones


def ahead(items: Generator[Item, None, None], depth: int = DEPTH) -> Generator[Item, None, None]:
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


class Beside(Generic[Item]):
    """Shows items to somebody in a thread, one after the other, while the caller goes on working with them.

    A context: leaving it waits until all have been seen. What is raised there is raised at the next item, or on leaving.
    """

    def __init__(self, look: Callable[[Item], None], most: int = 1) -> None:
        """Show items to `look`; at most `most` of them wait."""
        self._look, self._most = look, most
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="aegis-look")
        self._waiting: deque[Future[None]] = deque()

    def show(self, item: Item) -> None:
        """Show an item soon; waits if too many are waiting."""
        while len(self._waiting) >= self._most:
            self._waiting.popleft().result()
        self._waiting.append(self._pool.submit(self._look, item))

    def __enter__(self) -> Beside[Item]:
        """Return itself."""
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Wait for all items; what was raised on the way is raised, unless the caller has raised something already."""
        self._pool.shutdown(wait=True)
        while self._waiting:
            waiting = self._waiting.popleft()
            if error is None:
                waiting.result()
