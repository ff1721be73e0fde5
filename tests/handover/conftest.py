"""The tests of gates run over all gates by name, those of the paper among them."""

from __future__ import annotations

from aegis.paper import register_gates

register_gates()
