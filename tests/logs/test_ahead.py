"""Reading ahead: the same items in the same order, errors at their turn, and nothing left running."""

from __future__ import annotations

import threading
from collections.abc import Generator

import pytest

from aegis.logs.ahead import DEPTH, ahead


def counting(stop: int, log: list[str], fail: int | None = None) -> Generator[int, None, None]:
    try:
        for number in range(stop):
            if number == fail:
                raise ValueError(f"item {number}")
            log.append(f"made {number}")
            yield number
    finally:
        log.append("closed")


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("aegis-read")]


@pytest.mark.parametrize("stop", [0, 1, 2, 7])
def test_all_items_come_in_order(stop: int) -> None:
    log: list[str] = []
    assert list(ahead(counting(stop, log))) == list(range(stop))
    assert log[-1] == "closed" and not readers()


def test_an_error_comes_at_its_turn() -> None:
    log: list[str] = []
    found: list[int] = []
    with pytest.raises(ValueError, match="item 3"):
        found.extend(ahead(counting(6, log, fail=3)))
    assert found == [0, 1, 2] and not readers()


def test_leaving_early_closes_the_generator_and_makes_few_items_more() -> None:
    log: list[str] = []
    items = ahead(counting(100, log))
    assert next(items) == 0
    items.close()  # type: ignore[attr-defined]
    assert log[-1] == "closed" and log[:-1] == [f"made {item}" for item in range(len(log) - 1)] and not readers()
    assert len(log) - 1 <= 1 + DEPTH


def test_items_are_made_in_another_thread() -> None:
    def who() -> Generator[str, None, None]:
        yield threading.current_thread().name

    assert next(ahead(who())).startswith("aegis-read")
