"""What somebody does next who has just installed AEGIS."""

from __future__ import annotations

# what to type, and what comes of it
STEPS = (
    ("aegis demo", "the whole story on simulated plants, and pages to read"),
    ("aegis init LOG", "your own log: a draft of its problem file comes first"),
    ("aegis COMMAND --help", "what a command does, with examples"),
    ("docs/tutorial.md", "in the sources: your own CSV to a verdict"),
)


def lines() -> list[str]:
    """Return the steps as lines of text."""
    width = max(len(typed) for typed, _ in STEPS)
    return [f"  {typed:<{width}}  {outcome}" for typed, outcome in STEPS]
