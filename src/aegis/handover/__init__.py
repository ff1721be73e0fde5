"""Handing control over, level by level, as soon as it is certified: challengers, the gate, its events, the monitor."""

from aegis.handover.challengers import Challenger, make_challenger
from aegis.handover.folder import handover_to, read_events
from aegis.handover.gate import Proposed, step
from aegis.handover.history import History
from aegis.handover.hosts import HOSTS, Host, Proposal
from aegis.handover.run import Handover
from aegis.handover.settings import GateSettings
from aegis.handover.state import GateState, replay
from aegis.handover.summary import summary
from aegis.handover.tables import events_table

__all__ = [
    "HOSTS",
    "Challenger",
    "GateSettings",
    "GateState",
    "Handover",
    "History",
    "Host",
    "Proposal",
    "Proposed",
    "events_table",
    "handover_to",
    "make_challenger",
    "read_events",
    "replay",
    "step",
    "summary",
]
