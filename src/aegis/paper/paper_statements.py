"""Statements of the paper: what it claims, judged under every reading of what it leaves open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from aegis.paper.bench_claims import FAILS, HOLDS, UNTESTED, JudgedClaim

PARTLY = "holds under some readings"


@dataclass(frozen=True)
class Statement:
    """A statement of the paper. readings: by name the verdict of each; a reading without a name is the only one."""

    words: str
    readings: dict[str, str]

    @property
    def verdict(self) -> str:
        """Return the verdict over all readings that can be tested."""
        tested = {verdict for verdict in self.readings.values() if verdict != UNTESTED}
        return tested.pop() if len(tested) == 1 else PARTLY if tested else UNTESTED

    def holds_under(self) -> list[str]:
        """Return the names of the readings under which it holds."""
        return [name for name, verdict in self.readings.items() if verdict == HOLDS and name]


def judge_statements(claims: Iterable[JudgedClaim]) -> dict[str, Statement]:
    """Return the statements of the paper by their words.

    A reading may have several claims, such as one for each noise level: it fails if any of them does, and holds if all do.
    """
    verdicts: dict[str, dict[str, list[str]]] = {}
    for claim in claims:
        if claim.of == "paper":
            verdicts.setdefault(claim.statement, {}).setdefault(claim.reading, []).append(claim.verdict)
    return {
        words: Statement(words, {name: _of_all(own) for name, own in readings.items()}) for words, readings in verdicts.items()
    }


def _of_all(verdicts: list[str]) -> str:
    return next((verdict for verdict in (FAILS, UNTESTED) if verdict in verdicts), HOLDS)
