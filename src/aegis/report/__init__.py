"""Pages for people: the reports of certificates and handovers, each one HTML file that needs nothing else."""

from __future__ import annotations

from aegis.report.certificate_page import render_certificate, write_report
from aegis.report.charts.comparison_chart import draw_comparison
from aegis.report.charts.contrast_chart import draw_contrast
from aegis.report.charts.plan_chart import draw_plan
from aegis.report.event_text import describe_cap, describe_event, describe_held_back, describe_need, describe_wait
from aegis.report.gate_standing import (
    LeadingChallenge,
    LevelStanding,
    challenge_bound,
    challenge_evidence,
    leading_challenge,
    level_standings,
)
from aegis.report.handover_page import render_handover, write_handover_report

__all__ = [
    "LeadingChallenge",
    "LevelStanding",
    "challenge_bound",
    "challenge_evidence",
    "describe_cap",
    "describe_event",
    "describe_held_back",
    "describe_need",
    "describe_wait",
    "draw_comparison",
    "draw_contrast",
    "draw_plan",
    "leading_challenge",
    "level_standings",
    "render_certificate",
    "render_handover",
    "write_handover_report",
    "write_report",
]
