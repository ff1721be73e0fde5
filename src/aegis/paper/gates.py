"""The gates of the paper by name.

| name | decides by | a certificate |
|---|---|---|
| `pac-bayes` | the sharp PAC-Bayes bound with a data-free prior, on the log of the phase | yes |
| `published` | Algorithm 2 of the paper as published | no |
"""

from __future__ import annotations

from collections.abc import Mapping

from aegis.handover import GateKind, register_gate
from aegis.paper.pac_bayes_gate import PacBayesGate, PacBayesSettings
from aegis.paper.published_gate import PublishedGate
from aegis.paper.published_looks import PublishedSettings

PAPER_GATES: Mapping[str, GateKind] = {
    "pac-bayes": GateKind(PacBayesGate, PacBayesSettings),
    "published": GateKind(PublishedGate, PublishedSettings),
}


def register_gates() -> None:
    """Make the gates of the paper available by name in this process; to do it again changes nothing."""
    for name, kind in PAPER_GATES.items():
        register_gate(name, kind)
