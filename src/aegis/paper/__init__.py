"""The paper as published: its gates, the counter-example, benches, figures and page. Only the command line imports it."""

from aegis.paper.gates import PAPER_GATES, register_gates

__all__ = ["PAPER_GATES", "register_gates"]
