"""Pages for people: the report of a certificate, one HTML file that needs nothing else."""

from __future__ import annotations

from aegis.report.page import render_certificate, write_report

__all__ = ["render_certificate", "write_report"]
