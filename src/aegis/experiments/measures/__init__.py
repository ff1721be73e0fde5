"""What is measured: a function from resolved settings and seeds to the metrics of each seed, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aegis.experiments.measures.online import online
from aegis.experiments.measures.shift import shift

Measure = Callable[[Mapping[str, Any], Sequence[int]], list[dict[str, Any]]]
MEASURES: Mapping[str, Measure] = {"online": online, "shift": shift}
