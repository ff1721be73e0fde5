"""A comparison: its settings, estimates, bounds with their validity, and the methods that could not be computed.

Numbers are in the user's units. A gain above 0 is better for either goal; a `value` with goal minimise is a cost, of which a
lower bound of the scaled value is an upper one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
from pydantic_core import to_json

from aegis.errors import SettingError
from aegis.evidence import Quantity
from aegis.problem import SCOPE_SEPARATOR


@dataclass(frozen=True, slots=True)
class ComparisonSettings:
    """Thresholds and declarations of a comparison.

    clip: the largest weight that clipped IPS lets through. switch: above this weight SWITCH trusts the reward model.
    largest_weight: a declared bound on the weight of the candidate, which B and the ranges of the classic bounds are made of;
    None takes what the problem file and the cap of the candidate promise. posterior: also learn the posterior of the published
    bounds from the log. particles: its draws. seed: of draws and resamples.
    """

    clip: float = 10.0
    switch: float = 10.0
    largest_weight: float | None = None
    posterior: bool = False
    particles: int = 16
    seed: int = 1

    def __post_init__(self) -> None:
        for name, weight in (("clip", self.clip), ("switch", self.switch)):
            if not weight >= 0:
                raise SettingError(f"'{name}' is a weight from 0, infinity allowed, found {weight}")
        if self.largest_weight is not None and not (math.isfinite(self.largest_weight) and self.largest_weight >= 1):
            raise SettingError(f"a largest weight is a finite number from 1 (weights average one), found {self.largest_weight}")
        if isinstance(self.particles, bool) or not isinstance(self.particles, int) or self.particles < 1:
            raise SettingError(f"a posterior is drawn from once or more, found {self.particles!r} particles")


ESTIMATE_LABEL = "estimate, not a certificate"


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate of the candidate's value or gain with its standard error over units: never a certificate.

    settings: thresholds it was made with. note: what the standard error leaves out, or what biases it.
    """

    method: str
    what: Quantity
    value: float
    error: float
    units: int
    note: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def certificate(self) -> bool:
        """Return False."""
        return False

    @property
    def label(self) -> str:
        """Return what must stand next to the number wherever it is shown."""
        return f"{ESTIMATE_LABEL}{': ' if self.note else ''}{self.note}"


@dataclass(frozen=True, slots=True)
class LowerBound:
    """A one-sided bound: a gain, or what the candidate earns at worst.

    validity: 'anytime', 'fixed time' or 'approximate'. met, unmet: conditions of the theorem behind it, in words. claim: what it
    speaks of. provenance: how lam, B, bets, split and KL came about, in scaled units.
    """

    method: str
    what: Quantity
    value: float
    delta: float
    units: int
    validity: str
    certificate: bool
    label: str
    claim: str
    met: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MissingMethod:
    """A method that has no number here, and why."""

    method: str
    reason: str


@dataclass(frozen=True, slots=True)
class ScopeChoice:
    """The scope with the largest bound by one method, all scopes at an equal share of the risk."""

    method: str
    scope: tuple[str, ...]
    bounds: Mapping[str, LowerBound]
    delta: float
    certificate: bool
    label: str

    @property
    def name(self) -> str:
        """Return the name of the scope, under which `bounds` has it."""
        return SCOPE_SEPARATOR.join(self.scope)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All methods on the same certified units.

    delta: the risk of gain, value and guards together, as `certify` shares it. each: the risk of every single bound below.
    prior_units: how many placed bets and chose lam. legacy: what the log earned. verdict: of the certificate. comparator: who
    gains are over, in words. incumbent: an estimate of what the comparator earns, None where that is the logger.
    """

    candidate: str
    scope: tuple[str, ...]
    unit: str
    goal: str
    unit_word: str
    units: int
    prior_units: int
    delta: float
    each: float
    verdict: str
    legacy: Estimate
    estimates: tuple[Estimate, ...]
    bounds: tuple[LowerBound, ...]
    choices: tuple[ScopeChoice, ...]
    missing: tuple[MissingMethod, ...]
    notes: tuple[str, ...]
    settings: Mapping[str, Any]
    comparator: str = ""
    incumbent: Estimate | None = None

    @property
    def certificates(self) -> tuple[LowerBound, ...]:
        """Return the bounds that may be called certificates."""
        return tuple(bound for bound in self.bounds if bound.certificate)

    @property
    def others(self) -> tuple[LowerBound, ...]:
        """Return the bounds that may not."""
        return tuple(bound for bound in self.bounds if not bound.certificate)

    def bound(self, method: str, what: Quantity) -> LowerBound | None:
        """Return the bound of a method, if it has one."""
        return next((bound for bound in self.bounds if bound.method == method and bound.what == what), None)

    def estimate(self, method: str, what: Quantity) -> Estimate | None:
        """Return the estimate of a method, if it has one."""
        return next((estimate for estimate in self.estimates if estimate.method == method and estimate.what == what), None)

    def to_json(self) -> dict[str, Any]:
        """Return plain data: certificates apart from the other numbers, each with its label."""
        document = {"kind": "aegis-comparison", **asdict(self)}
        bounds = document.pop("bounds")
        del document["estimates"]
        document["legacy"] = _labelled(self.legacy)
        if self.incumbent is not None:
            document["incumbent"] = _labelled(self.incumbent)
        document["certificates"] = [item for item in bounds if item["certificate"]]
        document["not_certificates"] = {
            "estimates": [_labelled(item) for item in self.estimates],
            "bounds": [item for item in bounds if not item["certificate"]],
        }
        plain: dict[str, Any] = json.loads(to_json(document, inf_nan_mode="null"))
        return plain


def _labelled(estimate: Estimate) -> dict[str, Any]:
    return {**asdict(estimate), "certificate": False, "label": estimate.label}


COMPARISON_SCHEMA = pa.schema(
    {
        "candidate": pa.string(),
        "scope": pa.string(),
        "method": pa.string(),
        "what": pa.string(),
        "kind": pa.string(),
        "certificate": pa.bool_(),
        "value": pa.float64(),
        "error": pa.float64(),
        "delta": pa.float64(),
        "units": pa.int64(),
        "holds": pa.string(),
        "label": pa.string(),
    }
)


def comparison_table(comparison: Comparison) -> pa.Table:
    """Return every estimate and bound; `kind` is 'estimate' or 'bound', `certificate` says which may be relied on, `label` why
    not.

    error: the standard error of an estimate. delta, holds: the risk of a bound, and whether it holds 'anytime', at a 'fixed
    time' or is 'approximate'. Methods without a number are not in the table.
    """
    place: dict[str, Any] = {"candidate": comparison.candidate, "scope": SCOPE_SEPARATOR.join(comparison.scope)}
    shared = ("method", "what", "certificate", "value", "units", "label")
    rows = [
        {**place, "kind": "bound", "delta": item.delta, "holds": item.validity, **{name: getattr(item, name) for name in shared}}
        for item in (*comparison.certificates, *comparison.others)
    ]
    rows += [
        {**place, "kind": "estimate", "error": estimate.error, **{name: getattr(estimate, name) for name in shared}}
        for estimate in comparison.estimates
    ]
    return pa.Table.from_pylist(rows, COMPARISON_SCHEMA)
