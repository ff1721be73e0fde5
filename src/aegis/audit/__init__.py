"""Audit: is this log fit to certify from? Findings with codes, figures and remedies, from one pass over the log."""

from aegis.audit.auditor import Auditor, audit_log, skips_costly_checks
from aegis.audit.check import ANYTIME, CAVEAT, SEVERITIES, Audit, Check, Finding, Severity, Verdict, make_finding
from aegis.audit.checks import CHECKS
from aegis.audit.checks.density import COARSE_LATTICE
from aegis.audit.checks.drift import logger_findings
from aegis.audit.checks.overlap import WEIGHT_DOUBT, chance_words, check_incumbent, doubtful_weights, knows_all_propensities
from aegis.audit.codes import CAPPED_NEEDS, CODES, FOLLOWS_MOVING_LOG, NO_DENSITY, PROPENSITIES_MOVE, SEVERAL_LOGGERS, Code

__all__ = [
    "ANYTIME",
    "CAPPED_NEEDS",
    "CAVEAT",
    "CHECKS",
    "COARSE_LATTICE",
    "CODES",
    "FOLLOWS_MOVING_LOG",
    "NO_DENSITY",
    "PROPENSITIES_MOVE",
    "SEVERAL_LOGGERS",
    "SEVERITIES",
    "WEIGHT_DOUBT",
    "Audit",
    "Auditor",
    "Check",
    "Code",
    "Finding",
    "Severity",
    "Verdict",
    "audit_log",
    "chance_words",
    "check_incumbent",
    "doubtful_weights",
    "knows_all_propensities",
    "logger_findings",
    "make_finding",
    "skips_costly_checks",
]
