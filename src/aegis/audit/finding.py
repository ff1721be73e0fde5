"""Findings of an audit, each with a code, a severity, a message and a remedy, and the verdict that follows from all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from aegis.audit.codes import CODES
from aegis.errors import SettingError, check_choice

Severity = Literal["note", "warning", "refused"]  # how grave a finding is
Verdict = Literal["fit", "fit with warnings", "refused"]  # of an audit: as grave as its gravest finding
SEVERITIES: tuple[Severity, ...] = ("refused", "warning", "note")  # the gravest first
# What a finding rests on, where a test has both: figure 'test'.
ANYTIME, FIXED = "by betting, at any time", "by a standard score, for a log of fixed length"
# What every audit says about itself.
CAVEAT = "The audit is necessary, not sufficient: hidden confounding passes."


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of an audit: a stable code, its severity, a message, what to do, where, and the numbers behind it.

    level, column: where, None if it concerns the whole log. A finding at a level matters for the scopes that contain it.
    """

    code: str
    severity: Severity
    message: str
    fix: str
    level: str | None = None
    column: str | None = None
    figures: Mapping[str, float | str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice(self.code, CODES, "code of a finding")
        check_choice(self.severity, SEVERITIES, "severity")
        if not self.message or not self.fix:
            raise SettingError(f"finding '{self.code}': says what was found and what to do; one of the two is empty")

    def plain(self) -> dict[str, Any]:
        """Return the finding as plain data."""
        return {
            "code": self.code,
            "severity": self.severity,
            "level": self.level,
            "column": self.column,
            "message": self.message,
            "fix": self.fix,
            "figures": dict(self.figures),
        }


@dataclass(frozen=True, slots=True)
class Audit:
    """The outcome: a verdict, the findings (gravest first) and figures about the log as a whole."""

    verdict: Verdict
    findings: tuple[Finding, ...]
    figures: Mapping[str, float | str]

    @classmethod
    def of(cls, findings: list[Finding], figures: Mapping[str, float | str]) -> Audit:
        """Return the audit of these findings: refused if one of them refuses, else with warnings if there are any."""
        ordered = tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))
        gravest = ordered[0].severity if ordered else "note"
        verdict: Verdict = "refused" if gravest == "refused" else "fit with warnings" if gravest == "warning" else "fit"
        return cls(verdict, ordered, dict(figures))

    @property
    def refused(self) -> tuple[Finding, ...]:
        """Return the findings that refuse."""
        return tuple(finding for finding in self.findings if finding.severity == "refused")

    def codes(self, severity: Severity | None = None) -> tuple[str, ...]:
        """Return the codes that were found, of one severity or of all."""
        return tuple(finding.code for finding in self.findings if severity in (None, finding.severity))

    def plain(self) -> dict[str, Any]:
        """Return the audit as plain data."""
        return {
            "verdict": self.verdict,
            "findings": [finding.plain() for finding in self.findings],
            "figures": dict(self.figures),
            "caveat": CAVEAT,
        }


def make_finding(
    code: str,
    severity: Severity,
    message: str,
    level: str | None = None,
    column: str | None = None,
    fix: str | None = None,
    figures: Mapping[str, float | str] | None = None,
    **more: float | str,
) -> Finding:
    """Return a finding; what to do comes from the table of codes unless given, figures as a mapping or by name."""
    check_choice(code, CODES, "code of a finding")
    return Finding(code, severity, message, CODES[code].fix if fix is None else fix, level, column, {**(figures or {}), **more})
