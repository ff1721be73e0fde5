"""What is measured: a function from resolved settings and seeds to the metrics of each seed, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aegis.experiments.measures.gate import gate
from aegis.experiments.measures.offline import offline
from aegis.experiments.measures.online import online
from aegis.experiments.measures.shift import shift
from aegis.experiments.measures.split import split

Measure = Callable[[Mapping[str, Any], Sequence[int]], list[dict[str, Any]]]
MEASURES: Mapping[str, Measure] = {"gate": gate, "offline": offline, "online": online, "shift": shift, "split": split}
