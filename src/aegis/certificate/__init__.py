"""Certificates: what a log shows about a candidate policy, and at which risk."""

from aegis.certificate.candidate import (
    PROBABILITY_STEPS,
    Candidate,
    FrozenTests,
    GateWindow,
    LearnedPolicy,
    cap_of,
    code_digest,
    code_modules,
    is_code,
)
from aegis.certificate.certificate import (
    CERTIFIED,
    NOT_YET,
    REFUSED,
    Certificate,
    LevelResult,
    Verdict,
    certificate_schema,
    certificate_table,
    check_sealed,
    load_certificate,
)
from aegis.certificate.certify import LookTerms, certify, issue_certificate
from aegis.certificate.claims import CLAIMED_QUANTITIES, ChallengeTerms, Claim, challenge_claims, margin_of, scopes_of
from aegis.certificate.digests import DataDigest
from aegis.certificate.evidence import ClaimEvidence, fit_models, next_station, place_grid
from aegis.certificate.ledger import COMPARE, PLAN, Ledger, hold_ledger_folder, ledger_folder
from aegis.certificate.methods import CLAIM_METHODS, EvidencePart, Reach, can_water_fill, gain_parts
from aegis.certificate.registration import Registration, record_result, register
from aegis.certificate.request import Request, declare_claims
from aegis.certificate.results import FORESEEABLE, THIN_UNITS
from aegis.certificate.risk import RiskShare
from aegis.certificate.scan import scan_log
from aegis.certificate.unit_split import (
    GAP_COLUMN,
    EarliestUnits,
    UnitSplit,
    add_placing_split,
    first_open_unit,
    gap_columns,
    learned_splits,
    placing_in_time,
    prior_units,
    read_head,
)
from aegis.certificate.verdict import MANY_UNITS, format_at_least
from aegis.certificate.verify import Discrepancy, Verification, stated_problem, verify

__all__ = [
    "CERTIFIED",
    "CLAIMED_QUANTITIES",
    "CLAIM_METHODS",
    "COMPARE",
    "FORESEEABLE",
    "GAP_COLUMN",
    "MANY_UNITS",
    "NOT_YET",
    "PLAN",
    "PROBABILITY_STEPS",
    "REFUSED",
    "THIN_UNITS",
    "Candidate",
    "Certificate",
    "ChallengeTerms",
    "Claim",
    "ClaimEvidence",
    "DataDigest",
    "Discrepancy",
    "EarliestUnits",
    "EvidencePart",
    "FrozenTests",
    "GateWindow",
    "LearnedPolicy",
    "Ledger",
    "LevelResult",
    "LookTerms",
    "Reach",
    "Registration",
    "Request",
    "RiskShare",
    "UnitSplit",
    "Verdict",
    "Verification",
    "add_placing_split",
    "can_water_fill",
    "cap_of",
    "certificate_schema",
    "certificate_table",
    "certify",
    "challenge_claims",
    "check_sealed",
    "code_digest",
    "code_modules",
    "declare_claims",
    "first_open_unit",
    "fit_models",
    "format_at_least",
    "gain_parts",
    "gap_columns",
    "hold_ledger_folder",
    "is_code",
    "issue_certificate",
    "learned_splits",
    "ledger_folder",
    "load_certificate",
    "margin_of",
    "next_station",
    "place_grid",
    "placing_in_time",
    "prior_units",
    "read_head",
    "record_result",
    "register",
    "scan_log",
    "scopes_of",
    "stated_problem",
    "verify",
]
