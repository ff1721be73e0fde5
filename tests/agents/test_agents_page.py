"""The page about agents is what the tables say, and the command line names every agent."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from aegis.agents import AGENTS
from aegis.cli.commands.simulate import command
from aegis.planning import COMMITS, RULES

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from agents_page import COMMIT_WORDS, agents_page  # noqa: E402

PAGE = ROOT / "docs" / "agents.md"


def test_the_page_is_written_from_the_tables() -> None:
    assert PAGE.read_text() == agents_page(), "write it again: python benchmarks/agents_page.py > docs/agents.md"


def test_everything_is_on_it() -> None:
    page = agents_page()
    for name in (*AGENTS, *RULES, *COMMITS):
        assert f"| `{name}` |" in page
    assert set(COMMIT_WORDS) == set(COMMITS)


def test_the_help_of_simulate_names_every_agent() -> None:
    (option,) = [found for found in command.params if found.name == "agent"]
    words = re.findall(r"\w+", option.help)  # type: ignore[attr-defined]
    assert set(AGENTS) <= set(words)
