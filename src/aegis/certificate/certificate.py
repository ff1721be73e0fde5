"""The certificate: what was claimed, what the data say, at which risk, under which assumptions; one JSON document, its schema and
its tables.

Numbers are in the user's units unless a name says scaled. A gain above 0 is better for either goal. `value_lower` is what the
candidate earns at worst: with goal minimise, the largest cost. In the Arrow tables a number that does not exist because a scope
was refused is null, never 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass

from aegis.errors import InputError, check_choice
from aegis.files import json_digest, write_text

CERTIFICATE_FORMAT = 1
CERTIFICATE_KIND = "aegis-certificate"

VerdictWord = Literal["certified", "not yet", "refused"]

# The verdicts of a certificate, and of each of its levels.
CERTIFIED: Final = "certified"
NOT_YET: Final = "not yet"  # the evidence does not reach the margin
REFUSED: Final = "refused"  # an assumption fails, or the request came after results on these data

_PLAIN = ConfigDict(extra="forbid", json_schema_serialization_defaults_required=True)


@dataclass(frozen=True, slots=True, kw_only=True, config=_PLAIN)
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


@dataclass(frozen=True, slots=True, config=_PLAIN)
class GuardResult:
    """A guard: the certified worst change of its column, above 0 is better; it may fall by at most `max_worsening`."""

    column: str
    change_lower: float | None
    max_worsening: float
    verdict: str


@dataclass(frozen=True, slots=True, config=_PLAIN)
class Station:
    """The bound on the gain after some units, in log order."""

    units: int
    gain_lower: float


@dataclass(frozen=True, slots=True, config=_PLAIN)
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


@dataclass(frozen=True, slots=True, kw_only=True, config=_PLAIN)
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
    verdict: VerdictWord
    reason: str
    delta: float
    margin: float
    gain_lower: float | None = None
    estimate: float | None = None
    estimate_error: float | None = None
    value_lower: float | None = None
    value_estimate: float | None = None
    legacy_value: float | None = None
    units: int
    further_units: int | None = None
    method: str = "none"
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


@dataclass(frozen=True, slots=True, kw_only=True, config=_PLAIN)
class Verdict:
    """The first line of every rendering: what to do, in one sentence, with the numbers it rests on."""

    verdict: VerdictWord
    sentence: str
    candidate: str | None
    scope: tuple[str, ...]
    gain_lower: float | None = None
    estimate: float | None = None
    unit: str
    units: int
    unit_word: str
    delta: float
    further_units: int | None = None
    next_step: str


@dataclass(frozen=True, slots=True, config=_PLAIN)
class Assumption:
    """Something a certificate rests on, and how far it was checked."""

    code: str
    statement: str
    checked: str


@dataclass(frozen=True, slots=True, kw_only=True, config=_PLAIN)
class Certificate:
    """Everything a certificate says; see the module."""

    verdict: Verdict = Field(serialization_alias="summary")
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
        raise InputError(f"the certificate does not cover the scope {' + '.join(scope)}; it covers: {known}")

    def to_json(self) -> dict[str, Any]:
        """Return plain data, sealed with a digest of itself; what is not a finite number becomes null.

        The verdict comes first as a word, then as a `summary` with its sentence and numbers.
        """
        rest = json.loads(_DOCUMENT.dump_json(self, by_alias=True))
        content = {
            "verdict": self.verdict.verdict,
            "summary": rest.pop("summary"),
            "format": CERTIFICATE_FORMAT,
            "kind": CERTIFICATE_KIND,
            **rest,
        }
        return {**content, "seal": json_digest(content)}

    def table(self, name: str = "levels") -> pa.Table:
        """Return one of its Arrow tables: levels, claims, guards, paths or findings; see `certificate_table`."""
        return certificate_table(self, name)

    def save(self, path: str | Path) -> None:
        """Write the JSON document in one step."""
        write_text(path, json.dumps(self.to_json(), indent=1) + "\n")


_DOCUMENT = TypeAdapter(Certificate)


def load_certificate(path: str | Path) -> dict[str, Any]:
    """Read a stored certificate.

    Parameters
    ----------
    path
        The file that `Certificate.save` or `aegis certify --out` wrote.

    Returns
    -------
    dict
        The JSON document.

    Raises
    ------
    InputError
        The file is no certificate, has another format, or was changed after it was written.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        todo = f"; `aegis certify LOG ... --out {path}` writes one" if isinstance(error, FileNotFoundError) else ""
        raise InputError(f"{path}: cannot be read: {error.strerror or error}{todo}") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path}: is not a certificate (JSON): {error}") from error
    check_sealed(content, str(path))
    checked: dict[str, Any] = content
    return checked


def check_sealed(content: Any, where: str = "certificate") -> None:
    """Raise InputError unless the content is a certificate of this format, as it was issued."""
    if not isinstance(content, Mapping) or content.get("kind") != CERTIFICATE_KIND:
        raise InputError(f"{where}: is not a certificate of AEGIS; give the file that 'aegis certify --out' wrote")
    if content.get("format") != CERTIFICATE_FORMAT:
        raise InputError(
            f"{where}: has the format {content.get('format')}, this version reads {CERTIFICATE_FORMAT}; use a matching version"
        )
    unsealed = {key: value for key, value in content.items() if key != "seal"}
    if json_digest(unsealed) != content.get("seal"):
        raise InputError(f"{where}: was changed after it was written; use the certificate as it was issued")


def certificate_schema() -> dict[str, Any]:
    """Return the schema of a certificate.

    Returns
    -------
    dict
        JSON Schema, draft 2020-12, of what `Certificate.to_json` writes.
    """
    schema = _bare_schema(_DOCUMENT.json_schema(mode="serialization"))
    definitions = schema.pop("$defs")
    schema["properties"] |= {
        "verdict": definitions["Verdict"]["properties"]["verdict"],
        "format": {"const": CERTIFICATE_FORMAT},
        "kind": {"const": CERTIFICATE_KIND},
        "seal": {"type": "string"},
    }
    schema["required"] = ["summary", "format", "kind", "verdict", *schema["required"][1:], "seal"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "AEGIS certificate",
        **schema,
        "$defs": definitions,
    }


def _bare_schema(schema: Any) -> Any:
    """Return a schema without the titles and defaults of pydantic, each description on one line."""
    if isinstance(schema, list):
        return [_bare_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    bare = {name: _bare_schema(item) for name, item in schema.items() if name not in ("title", "default")}
    if isinstance(bare.get("description"), str):
        bare["description"] = " ".join(bare["description"].split())
    if "enum" in bare:
        bare.pop("type")
    return bare


_REAL = {"gain_lower", "margin", "value_lower", "estimate", "estimate_error", "value_estimate", "legacy_value", "incumbent_value"}
_REAL |= {"exploration", "delta", "gamma", "margin_scaled", "lower_scaled", "change_lower", "max_worsening"}
_TYPES = {
    **dict.fromkeys(_REAL, pa.float64()),
    **dict.fromkeys(("units", "further_units", "units_needed"), pa.int64()),
    "certified": pa.bool_(),
}  # of columns that are not text


def _schema(columns: str) -> pa.Schema:
    return pa.schema({name: _TYPES.get(name, pa.string()) for name in columns.split()})


TABLE_SCHEMAS: dict[str, pa.Schema] = {
    "levels": _schema(
        "candidate scope verdict gain_lower margin value_lower estimate estimate_error value_estimate legacy_value "
        "incumbent_value exploration comparator others against units further_units delta method gamma reason created data"
    ),
    "claims": _schema("candidate scope what column method delta margin_scaled lower_scaled certified units units_needed"),
    "guards": _schema("candidate scope column verdict change_lower max_worsening"),
    "paths": _schema("candidate scope units gain_lower"),
    "findings": _schema("severity code message fix"),
}


def certificate_table(certificate: Certificate | Mapping[str, Any], name: str = "levels") -> pa.Table:
    """Return one table of a certificate, or of one that was loaded: levels, claims, guards, paths or findings.

    levels: a row for each candidate and scope, numbers in the reward's units. claims: every test, scaled to [0, 1]. guards:
    what must not get worse. paths: the bound on its way through the log. scope: level names joined by ' + '. Raises
    SettingError for another name, InputError for a certificate that was changed.
    """
    check_choice(name, TABLE_SCHEMAS, "table of a certificate")
    if isinstance(certificate, Certificate):
        content: Mapping[str, Any] = certificate.to_json()
    else:
        check_sealed(dict(certificate))
        content = certificate
    return pa.Table.from_pylist(_table_rows(content, name), TABLE_SCHEMAS[name])


def _table_rows(content: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    if name == "findings":
        return [dict(finding) for finding in content["findings"]]
    rows: list[dict[str, Any]] = []
    for level in content["levels"]:
        place = {"candidate": level["candidate"], "scope": " + ".join(level["scope"])}
        if name == "levels":
            data = str(content["digests"].get("data") or "")
            gamma = level["sensitivity"]["gamma"]
            rows.append({**level, **place, "gamma": gamma, "created": content["created"], "data": data})
        elif name == "claims":
            rows += [{**test, **place, "method": " + ".join(test["method"])} for test in level["tests"]]
        else:
            rows += [{**place, **part} for part in level["guards" if name == "guards" else "path"]]
    return rows
