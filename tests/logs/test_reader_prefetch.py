"""Reading ahead: the same items in the same order, errors at their turn, and nothing left running."""

from __future__ import annotations

import threading
from collections.abc import Generator

import pytest

from aegis.logs import BackgroundObserver
from aegis.logs.reader import PREFETCH_DEPTH, prefetch


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
    assert list(prefetch(counting(stop, log))) == list(range(stop))
    assert log[-1] == "closed" and not readers()


def test_an_error_comes_at_its_turn() -> None:
    log: list[str] = []
    found: list[int] = []
    with pytest.raises(ValueError, match="item 3"):
        found.extend(prefetch(counting(6, log, fail=3)))
    assert found == [0, 1, 2] and not readers()


def test_leaving_early_closes_the_generator_and_makes_few_items_more() -> None:
    log: list[str] = []
    items = prefetch(counting(100, log))
    assert next(items) == 0
    items.close()  # type: ignore[attr-defined]
    assert log[-1] == "closed" and log[:-1] == [f"made {item}" for item in range(len(log) - 1)] and not readers()
    assert len(log) - 1 <= 1 + PREFETCH_DEPTH


def test_items_are_made_in_another_thread() -> None:
    def who() -> Generator[str, None, None]:
        yield threading.current_thread().name

    assert next(prefetch(who())).startswith("aegis-read")


def lookers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("aegis-look")]


def test_items_are_shown_beside_in_order() -> None:
    seen: list[int] = []
    with BackgroundObserver(seen.append, 2) as beside:
        for number in range(20):
            beside.show(number)
    assert seen == list(range(20)) and not lookers()


def test_no_more_items_wait_than_agreed() -> None:
    gate = threading.Event()
    seen: list[int] = []

    def look(number: int) -> None:
        gate.wait(20)
        seen.append(number)

    with BackgroundObserver(look, 2) as beside:
        beside.show(0)
        beside.show(1)
        third = threading.Thread(target=beside.show, args=(2,))
        third.start()
        third.join(0.05)
        assert third.is_alive() and not seen
        gate.set()
        third.join()
    assert seen == [0, 1, 2]


def refuse(number: int) -> None:
    if number == 1:
        raise ValueError(f"item {number}")


def show_all(count: int, most: int) -> None:
    with BackgroundObserver(refuse, most) as beside:
        for number in range(count):
            beside.show(number)


@pytest.mark.parametrize(("count", "most"), [(2, 8), (3, 1)])
def test_what_is_raised_beside_is_raised(count: int, most: int) -> None:
    with pytest.raises(ValueError, match="item 1"):
        show_all(count, most)
    assert not lookers()


def test_an_error_of_the_caller_is_the_one_that_is_raised() -> None:
    seen: list[int] = []

    def fail() -> None:
        with BackgroundObserver(seen.append, 8) as beside:
            beside.show(0)
            raise KeyError("the caller's own")

    with pytest.raises(KeyError):
        fail()
    assert seen == [0] and not lookers()  # what was shown has been seen
