"""Certificates: from a log and a policy to a number one can stand behind."""

from aegis.certificate.candidate import Candidate
from aegis.certificate.certificate import CERTIFIED, NOT_YET, REFUSED, Certificate, LevelResult, Verdict, load_certificate
from aegis.certificate.certify import certify
from aegis.certificate.ledger import Ledger
from aegis.certificate.registration import Registration, register
from aegis.certificate.schema import certificate_schema
from aegis.certificate.tables import certificate_table
from aegis.certificate.verify import Difference, Verification, stated_problem, verify

__all__ = [
    "CERTIFIED", "NOT_YET", "REFUSED", "Candidate", "Certificate", "Difference", "Ledger", "LevelResult",
    "Registration", "Verdict", "Verification", "certificate_schema", "certificate_table", "certify", "load_certificate",
    "register", "stated_problem", "verify",
]  # fmt: skip
