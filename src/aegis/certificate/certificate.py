"""The certificate: what was claimed, what the data say, at which risk, under which assumptions; one JSON document.

Numbers are in the user's units unless a name says scaled. A gain above 0 is better whatever the goal. `value_lower` is what the
candidate earns at worst: with goal minimise, the largest cost.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from aegis.errors import InputError
from aegis.files import digest_of, write_text

FORMAT = 1
KIND = "aegis-certificate"
CERTIFIED, NOT_YET, REFUSED = "certified", "not yet", "refused"  # one of the three verdicts


@dataclass(frozen=True, slots=True)
class Test:
    """One claim as it was tested: sums of the sketches in units of 2^-32, enough to recompute the bound."""

    what: str
    column: str
    method: tuple[str, ...]
    delta: float
    margin_scaled: float
    lower_scaled: float | None
    certified: bool
    units: int
    units_needed: int | None
    centres: tuple[int, ...]
    sums: tuple[tuple[str | None, ...], ...]
    grids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GuardResult:
    """A guard: the certified worst change of its column, above 0 is better; it may fall by at most `max_worsening`."""

    column: str
    change_lower: float | None
    max_worsening: float
    verdict: str


@dataclass(frozen=True, slots=True)
class Station:
    """The bound on the gain after some units, in log order."""

    units: int
    gain_lower: float


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How wrong the logged probabilities may be: it stays certified if each one in scope is wrong by a factor of up to gamma.

    gamma: the largest of those tried up to which all were survived; 1 if none was; None if there is nothing to survive or it
    could not be found out, and `reason` says why. method, units: the tests that were used, and on how many units.
    """

    gamma: float | None
    reason: str
    tried: tuple[float, ...] = ()
    method: str = "none"
    units: int = 0


@dataclass(frozen=True, slots=True)
class LevelResult:
    """What is certified of a candidate at a scope: gains are over the comparator.

    comparator: who the candidate is compared with, in words. others: how the other levels act meanwhile, in words.
    against: whether that is the `incumbent`, the `log` (the policy that wrote it) or the `average of the log`. legacy_value: what
    the log earned. incumbent_value, exploration: estimates of what the comparator earns, and of how much more than the log; None
    where the comparator is the policy that wrote the log. explored: the log differs from the incumbent by its exploration alone,
    as far as is known. unreached: the share of the incumbent's probability on actions that the log never takes. There it is
    taken to earn the most, so that both estimates are the largest possible.
    """

    candidate: str
    scope: tuple[str, ...]
    verdict: str
    reason: str
    delta: float
    margin: float
    gain_lower: float | None
    estimate: float | None
    estimate_error: float | None
    value_lower: float | None
    value_estimate: float | None
    legacy_value: float | None
    units: int
    further_units: int | None
    method: str
    guards: tuple[GuardResult, ...] = ()
    path: tuple[Station, ...] = ()
    tests: tuple[Test, ...] = ()
    weights: Mapping[str, Any] = field(default_factory=dict)
    comparator: str = ""
    others: str = ""
    incumbent_value: float | None = None
    exploration: float | None = None
    against: str = ""
    explored: bool = False
    unreached: float = 0.0
    sensitivity: Sensitivity = Sensitivity(None, "nothing is certified that could survive")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The first line of every rendering: what to do, in one sentence, with the numbers it rests on."""

    verdict: str
    sentence: str
    candidate: str | None
    scope: tuple[str, ...]
    gain_lower: float | None
    estimate: float | None
    unit: str
    units: int
    unit_word: str
    delta: float
    further_units: int | None
    next_step: str


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something a certificate rests on, and how far it was checked."""

    code: str
    statement: str
    checked: str


@dataclass(frozen=True, slots=True)
class Certificate:
    """Everything a certificate says; see the module."""

    verdict: Verdict
    levels: tuple[LevelResult, ...]
    findings: tuple[Mapping[str, Any], ...]
    assumptions: tuple[Assumption, ...]
    blocking: str
    counts: Mapping[str, int]
    candidates: tuple[Mapping[str, Any], ...]
    splits: tuple[Mapping[str, Any], ...]
    looks: Mapping[str, Any]
    settings: Mapping[str, Any]
    digests: Mapping[str, Any]
    problem: Mapping[str, Any]
    diagnostics: Mapping[str, Any]
    versions: Mapping[str, str]
    created: str

    @property
    def certified(self) -> bool:
        """Say whether the asked or recommended scope is certified."""
        return self.verdict.verdict == CERTIFIED

    @property
    def exit_code(self) -> int:
        """Return 0 if certified, 3 if not yet, 4 if refused."""
        return {CERTIFIED: 0, NOT_YET: 3, REFUSED: 4}[self.verdict.verdict]

    def level(self, *scope: str) -> LevelResult:
        """Return the result of a scope (of the first candidate that has it); InputError if it was not certified for."""
        for result in self.levels:
            if set(result.scope) == set(scope):
                return result
        known = "; ".join(" + ".join(result.scope) for result in self.levels) or "none"
        raise InputError(f"the certificate does not speak of the scope {' + '.join(scope)}; its scopes: {known}")

    def to_json(self) -> dict[str, Any]:
        """Return plain data, sealed with a digest of itself; what is not a finite number becomes null.

        The verdict comes first as a word, then as a `summary` with its sentence and numbers.
        """
        rest = _plain(asdict(self))
        summary = rest.pop("verdict")
        content = {"verdict": self.verdict.verdict, "summary": summary, "format": FORMAT, "kind": KIND, **rest}
        return {**content, "seal": digest_of(content)}

    def table(self, name: str = "levels") -> pa.Table:
        """Return one of its Arrow tables: levels, claims, guards, paths or findings; see `certificate_table`."""
        from aegis.certificate.tables import certificate_table  # made from this class

        return certificate_table(self, name)

    def save(self, path: str | Path) -> None:
        """Write the JSON document in one step."""
        write_text(path, json.dumps(self.to_json(), indent=1) + "\n")


def load_certificate(path: str | Path) -> dict[str, Any]:
    """Return a stored certificate; InputError if it is not one, is newer, or was changed after it was written."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        todo = f"; `aegis certify LOG ... --out {path}` writes one" if isinstance(error, FileNotFoundError) else ""
        raise InputError(f"{path}: cannot be read: {error.strerror or error}{todo}") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path}: is not a certificate (JSON): {error}") from error
    check_sealed(found, str(path))
    checked: dict[str, Any] = found
    return checked


def check_sealed(content: Any, where: str = "certificate") -> None:
    """Raise InputError unless the content is a certificate of this format, as it was issued."""
    if not isinstance(content, Mapping) or content.get("kind") != KIND:
        raise InputError(f"{where}: is not a certificate of AEGIS; give the file that 'aegis certify --out' wrote")
    if content.get("format") != FORMAT:
        raise InputError(f"{where}: has the format {content.get('format')}, this version reads {FORMAT}; use a matching version")
    unsealed = {key: value for key, value in content.items() if key != "seal"}
    if digest_of(unsealed) != content.get("seal"):
        raise InputError(f"{where}: was changed after it was written; use the certificate as it was issued")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "item"):
        return _plain(value.item())
    return value
