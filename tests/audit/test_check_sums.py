"""Partial results add up: numbers, arrays, sets, mappings and nested results; nothing gives way to something."""

from __future__ import annotations

import numpy as np

from aegis.audit.check import Sums, merged


class Counts(Sums):
    adds = ("number", "names", "parts", "rows")

    def __init__(self, number: int = 0) -> None:
        self.number, self.limit = number, 10
        self.names: set[str] = set()
        self.parts: dict[str, Counts | np.ndarray] = {}
        self.rows: np.ndarray | None = None


def test_every_kind_of_result_adds_up_and_settings_stay() -> None:
    one, other = Counts(2), Counts(3)
    one.names, other.names = {"a"}, {"a", "b"}
    one.parts, other.parts = {"x": np.ones(2), "y": Counts(1)}, {"y": Counts(4), "z": np.zeros(1)}
    other.rows, other.limit = np.arange(3), 99
    one.merge(other)
    assert (one.number, one.names, one.limit, list(one.parts)) == (5, {"a", "b"}, 10, ["x", "y", "z"])
    assert isinstance(one.parts["y"], Counts) and one.parts["y"].number == 5
    assert one.rows is not None and one.rows.tolist() == [0, 1, 2]


def test_flags_stay_flags_and_lists_follow_each_other() -> None:
    assert merged(True, True) is True and merged(False, True) is True
    assert merged([1], [2]) == [1, 2] and merged(None, [2]) == [2] and merged(3.0, None) == 3.0
