"""AEGIS: certified handover of control.

The public names of every package are imported when first used, so that `import aegis` is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aegis.lazy import import_on_use
from aegis.version import __version__

if TYPE_CHECKING:
    from aegis.agents import AGENTS, Agent, CandidateSettings, Learned, Online, learn, make_online, run, run_to
    from aegis.api import load_candidate
    from aegis.audit import audit_log
    from aegis.certificate import Candidate, Certificate, certificate_schema, certify, load_certificate, register, verify
    from aegis.comparison import Comparison, ComparisonSettings, compare
    from aegis.logs import Source, Split, draft_problem, write_log
    from aegis.mechanisms import Belief, LevelRewards, ModelSettings, build_belief, fit_scalings
    from aegis.planning import Integration, Planned, load_policy, load_rewards
    from aegis.policies import (
        Capped,
        FullColumns,
        Function,
        Hybrid,
        Legacy,
        Logged,
        Mixture,
        StatedIncumbent,
        TargetColumns,
        save_policy,
        with_incumbent,
    )
    from aegis.problem import Batch, Incumbent, Level, Problem, Scope, load_problem, save_problem
    from aegis.report import write_report
    from aegis.service import Client
    from aegis.validation import Plan, Validation, plan, validate
    from aegis.worlds import WORLDS, OraclePolicy, make_world, oracle_value, true_value

_PACKAGES = {
    "agents": "AGENTS Agent CandidateSettings Learned Online learn make_online run run_to",
    "audit": "audit_log",
    "certificate": "Candidate Certificate certificate_schema certify load_certificate register verify",
    "api": "load_candidate",
    "comparison": "Comparison ComparisonSettings compare",
    "logs": "Source Split draft_problem write_log",
    "mechanisms": "Belief LevelRewards ModelSettings build_belief fit_scalings",
    "planning": "Integration Planned load_policy load_rewards",
    "policies": "Capped FullColumns Function Hybrid Legacy Logged Mixture StatedIncumbent "
    "TargetColumns save_policy with_incumbent",
    "problem": "Batch Incumbent Level Problem Scope load_problem save_problem",
    "report": "write_report",
    "service": "Client",
    "validation": "Plan Validation plan validate",
    "worlds": "WORLDS OraclePolicy make_world oracle_value true_value",
}

__all__ = [
    "AGENTS",
    "WORLDS",
    "Agent",
    "Batch",
    "Belief",
    "Candidate",
    "CandidateSettings",
    "Capped",
    "Certificate",
    "Client",
    "Comparison",
    "ComparisonSettings",
    "FullColumns",
    "Function",
    "Hybrid",
    "Incumbent",
    "Integration",
    "Learned",
    "Legacy",
    "Level",
    "LevelRewards",
    "Logged",
    "Mixture",
    "ModelSettings",
    "Online",
    "OraclePolicy",
    "Plan",
    "Planned",
    "Problem",
    "Scope",
    "Source",
    "Split",
    "StatedIncumbent",
    "TargetColumns",
    "Validation",
    "__version__",
    "audit_log",
    "build_belief",
    "certificate_schema",
    "certify",
    "compare",
    "draft_problem",
    "fit_scalings",
    "learn",
    "load_candidate",
    "load_certificate",
    "load_policy",
    "load_problem",
    "load_rewards",
    "make_online",
    "make_world",
    "oracle_value",
    "plan",
    "register",
    "run",
    "run_to",
    "save_policy",
    "save_problem",
    "true_value",
    "validate",
    "verify",
    "with_incumbent",
    "write_log",
    "write_report",
]  # fmt: skip

__getattr__ = import_on_use("aegis", _PACKAGES)


def __dir__() -> list[str]:
    return sorted(__all__)
