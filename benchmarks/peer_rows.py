"""What a comparison with a peer finds: times and errors of either side on the same data, and whether a claim holds."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from peer_envs import ENVIRONMENTS, PEERS

DATA = ENVIRONMENTS / "data"
WANTED = {"interval": 5.0, "path": 5.0, "batch": 5.0, "point": 1.0, "fit": 1.0}  # times as fast as the peer
NOISE = 0.05  # a ratio this close below what is wanted is a tie: times of one run vary by as much
ALIKE = 0.01  # errors that differ by less, relative to the peer's, count as equal


def _stopwatch() -> Any:
    """Return the module that the peers time with."""
    spec = importlib.util.spec_from_file_location("stopwatch", PEERS / "stopwatch.py")
    if spec is None or spec.loader is None:
        raise SystemExit("the stopwatch of the peers is missing")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


smallest: Callable[[Callable[[], Any], int], tuple[dict[str, float], Any]] = _stopwatch().smallest


@dataclass(frozen=True, slots=True)
class Row:
    """One task of one peer: kind is a key of WANTED, theirs and ours are times, errors are smaller the better.

    error: what the two errors are. alike: how much larger than theirs our error may be, relative to it, and still count as equal.
    """

    peer: str
    task: str
    kind: str
    theirs: dict[str, float]
    ours: dict[str, float]
    error: str
    their_error: float
    our_error: float
    alike: float = ALIKE
    why: str = ""

    @property
    def ratio(self) -> float:
        """Return how many times our CPU time theirs is."""
        return self.theirs["cpu"] / max(self.ours["cpu"], 1e-9)

    @property
    def fast(self) -> bool:
        """Say whether the ratio is what is wanted of this kind of task."""
        wanted = WANTED[self.kind]
        return self.ratio >= (wanted * (1.0 - NOISE) if wanted == 1.0 else wanted)

    @property
    def accurate(self) -> bool:
        """Say whether our error is no larger."""
        return self.our_error <= self.their_error * (1.0 + self.alike) + 1e-9

    @property
    def strictly(self) -> bool:
        """Say whether the claim holds without any allowance for noise: as fast as wanted, and an error that is not larger."""
        return self.ratio >= WANTED[self.kind] and self.our_error <= self.their_error + 1e-9

    @property
    def verdict(self) -> str:
        """Return whether the claim holds and, if not, what fails and why."""
        failed = [*([] if self.fast else ["slower than wanted"]), *([] if self.accurate else ["less accurate"])]
        return "holds" if not failed else " and ".join(failed) + (f": {self.why}" if self.why else "")

    def cells(self) -> list[str]:
        """Return the row of the table."""
        times = [f"{shown(side['cpu'])} ({shown(side['wall'])})" for side in (self.theirs, self.ours)]
        errors = f"{self.error}: {self.their_error:.3g} / {self.our_error:.3g}"
        ratio = f"{self.ratio:.2g}" if self.ratio < 10 else f"{self.ratio:.0f}"
        return [self.peer, self.task, *times, ratio, errors, self.verdict]


HEAD = ["peer", "task", "theirs, CPU (wall)", "ours, CPU (wall)", "times ours", "errors, theirs / ours", "claim"]


def shown(seconds: float) -> str:
    """Return a time with its unit."""
    return f"{seconds:.2f} s" if seconds >= 1.0 else f"{seconds * 1e3:.3g} ms"


def saved(name: str, **arrays: np.ndarray[Any, Any]) -> str:
    """Write arrays where the peers find them and return the path."""
    DATA.mkdir(parents=True, exist_ok=True)
    path = Path(DATA / f"{name}.npz")
    np.savez(path, **arrays)
    return str(path)
