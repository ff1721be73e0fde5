"""Audit: is this log fit to certify from? Findings with codes, figures and remedies, from one pass over the log."""

from aegis.audit.auditing import audit_log
from aegis.audit.auditor import Auditor
from aegis.audit.codes import CODES, PROPENSITIES_MOVE, SEVERAL_LOGGERS, Code
from aegis.audit.finding import ANYTIME, CAVEAT, SEVERITIES, Audit, Finding, Severity, Verdict

__all__ = [
    "ANYTIME",
    "CAVEAT",
    "CODES",
    "PROPENSITIES_MOVE",
    "SEVERAL_LOGGERS",
    "SEVERITIES",
    "Audit",
    "Auditor",
    "Code",
    "Finding",
    "Severity",
    "Verdict",
    "audit_log",
]
