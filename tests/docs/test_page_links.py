"""Links of the prose pages lead to files that exist, and to sections that are in them."""

from __future__ import annotations

import re
from pathlib import Path

import page_steps
import pytest

PAGES = [
    "claims.md",
    "comparison.md",
    "concepts.md",
    "deterministic.md",
    "extending.md",
    "faq.md",
    "three-levels.md",
    "tutorial.md",
]
ELSEWHERE = {"continuous.md", "bring-your-own.md"}  # pages of other parts of the documentation


def anchor(heading: str) -> str:
    """Return the anchor that Markdown readers give a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", ""))
    return kept.replace(" ", "-")


def anchors(path: Path) -> set[str]:
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    return {anchor(found) for found in re.findall(r"^#+ (.*)$", text, flags=re.M)}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    text = re.sub(r"^```.*?^```$", "", page_steps.page(name), flags=re.M | re.S)
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("https://")]
    assert len(links) >= 4
    for link in links:
        target, _, part = link.partition("#")
        path = (page_steps.DOCS / (target or name)).resolve()
        if target in ELSEWHERE and not path.exists():
            continue
        assert path.exists(), link
        assert not part or part in anchors(path), f"{name}: {link}: no such section; there are {sorted(anchors(path))}"


@pytest.mark.parametrize("name", PAGES)
def test_no_registry_is_named(name: str) -> None:
    text = page_steps.page(name)
    assert not re.search(r"(pypi|anaconda)\.org", text)
    assert text.startswith("# ") and text.endswith("\n")
