"""Pages for people: the reports of certificates and handovers, each one HTML file that needs nothing else."""

from __future__ import annotations

from aegis.report.handover_page import render_handover, write_handover_report
from aegis.report.page import render_certificate, write_report

__all__ = ["render_certificate", "render_handover", "write_handover_report", "write_report"]
