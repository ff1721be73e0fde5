"""From single runs to a verdict: does every certificate keep its promise?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from aegis.errors import RefusedError
from aegis.validation.runner import Found
from aegis.validation.summary import excess, rate_limit
from aegis.validation.trial import Outcome

SIGNIFICANT = 0.001  # about thirty certificates are tested at once: a sound one is called violated in few validations
HOLDS, VIOLATED, TOO_FEW = "holds", "violated", "too few runs"


@dataclass(frozen=True, slots=True)
class BoundRow:
    """One bound of one claim over all runs; rates are numbers of runs, p-values those of binomial tests against delta.

    at_end, ever: runs in which it was above the truth, in the end and at any time. nulls: runs in which there was nothing to
    certify; false: those of them in which a gain was certified, ever if the bound holds at any time and in the end otherwise.
    width: median of truth minus bound, scaled. units: median number to a certified gain; infinite if it takes more than there
    are, None of a value. verdict: of a certificate, None of what is none; 'too few runs' if no number of violations would be too
    many.
    """

    bound: str
    claim: str
    certificate: bool
    validity: str
    label: str
    runs: int
    at_end: int
    at_end_p: float
    ever: int
    ever_p: float
    nulls: int
    false: int
    false_p: float
    width: float
    truth: float
    units: float | None
    verdict: str | None

    @property
    def wrong(self) -> int:
        """Return the runs that count against the promise: at any time, or in the end if it speaks of one number of units."""
        return self.ever if self.validity == "anytime" else self.at_end

    @property
    def wrong_at_most(self) -> float:
        """Return the upper 95 % limit of the rate at which the bound is wrong."""
        return rate_limit(self.wrong, self.runs)

    def plain(self) -> dict[str, Any]:
        """Return plain data; units that are infinite are null."""
        found = asdict(self)
        units = None if self.units is None or math.isinf(self.units) else self.units
        return found | {"units": units, "wrong_at_most": self.wrong_at_most}


@dataclass(frozen=True, slots=True)
class Validation:
    """All rows: certificates first, gains before values. about: what was validated. refused: why runs were left out."""

    about: Mapping[str, Any]
    delta: float
    runs: int
    rows: tuple[BoundRow, ...]
    refused: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Say whether no certificate was violated more often than promised, beyond chance, and there were runs enough to tell."""
        return self.verdict == HOLDS

    @property
    def verdict(self) -> str:
        """Return that of all certificates together: the worst of theirs."""
        found = {row.verdict for row in self.rows}
        return next((verdict for verdict in (VIOLATED, TOO_FEW) if verdict in found), HOLDS)

    @property
    def worst(self) -> BoundRow | None:
        """Return the certificate whose rate of violations may be the largest; None if there are no certificates."""
        return max((row for row in self.rows if row.certificate), key=lambda row: row.wrong_at_most, default=None)

    @property
    def exit_code(self) -> int:
        """Return 4 if a certificate is violated, else 0."""
        return RefusedError.exit_code if self.verdict == VIOLATED else 0

    def row(self, bound: str, claim: str = "gain") -> BoundRow:
        """Return the row of a bound."""
        return next(row for row in self.rows if (row.bound, row.claim) == (bound, claim))

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        rows = [row.plain() for row in self.rows]
        return {
            **self.about,
            "delta": self.delta,
            "runs": self.runs,
            "verdict": self.verdict,
            "certificates": [row for row in rows if row["certificate"]],
            "not_certificates": [row for row in rows if not row["certificate"]],
            "refused": list(self.refused),
        }


def judged(found: Mapping[int, Found], delta: float, about: Mapping[str, Any]) -> Validation:
    """Return the rows of all runs; RefusedError if every one was refused."""
    refused = tuple(f"run {run}: {found[run][0]['refused']}" for run in found if found[run] and "refused" in found[run][0])
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for run in found:
        for item in found[run]:
            if "refused" not in item:
                groups.setdefault((item["bound"], item["claim"]), []).append(Outcome(**item))
    if not groups:
        raise RefusedError(refused[0] if refused else "no bound applies to this plant, legacy and candidate")
    rows = [_row(outcomes, delta) for outcomes in groups.values()]
    return Validation(about, delta, len(found), tuple(sorted(rows, key=lambda row: (not row.certificate, row.claim))), refused)


def _row(outcomes: Sequence[Outcome], delta: float) -> BoundRow:
    first, runs = outcomes[0], len(outcomes)
    anytime, certificate = first.validity == "anytime", all(outcome.certificate for outcome in outcomes)
    at_end, ever = sum(outcome.at_end for outcome in outcomes), sum(outcome.ever for outcome in outcomes)
    nulls = [outcome for outcome in outcomes if outcome.null and outcome.claim == "gain"]
    false = sum(outcome.ends_above or (anytime and outcome.above is not None) for outcome in nulls)
    false_p = excess(false, len(nulls), delta) if nulls else 1.0
    at_end_p, ever_p = excess(at_end, runs, delta), excess(ever, runs, delta)
    broken = min(ever_p if anytime else at_end_p, false_p) < SIGNIFICANT
    reached = [math.inf if outcome.above is None else outcome.above for outcome in outcomes]
    return BoundRow(
        first.bound,
        first.claim,
        certificate,
        first.validity,
        first.label if certificate else next(outcome.label for outcome in outcomes if not outcome.certificate),
        runs,
        at_end,
        at_end_p,
        ever,
        ever_p,
        len(nulls),
        false,
        false_p,
        float(np.median([outcome.truth - outcome.value for outcome in outcomes])),
        float(np.median([outcome.truth for outcome in outcomes])),
        median(reached) if first.claim == "gain" else None,
        _verdict(broken, runs, delta) if certificate else None,
    )


def _verdict(broken: bool, runs: int, delta: float) -> str:
    if broken:
        return VIOLATED
    # Were the bound wrong in every single run, the p-value would be delta to the power of their number.
    return TOO_FEW if delta**runs >= SIGNIFICANT else HOLDS


def median(values: Sequence[float]) -> float:
    """Return the median of numbers that may be infinite; halfway between a number and infinity lies infinity."""
    ordered = sorted(values)
    middle = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return math.inf if math.isinf(middle[1]) else (middle[0] + middle[1]) / 2
