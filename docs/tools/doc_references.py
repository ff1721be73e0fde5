"""The page docs/references.md from docs/references.yaml: the works that pages cite, each under a heading that is its key."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

from doc_text import links

DATA = Path(__file__).parents[1] / "references.yaml"
HEADINGS = {"aegis-paper": "AEGIS paper"}  # of keys without a family name
HEAD = """# References

For readers who want the source of a method, a bound or a proof. Pages of this documentation cite a work by its heading here.
Written by `make docs` from `docs/references.yaml`.
"""


@dataclass(frozen=True, slots=True)
class Reference:
    """A work. key: how pages cite it. about: what it holds that AEGIS uses. uncited: why no page cites it yet, else empty."""

    key: str
    authors: tuple[str, ...]
    title: str
    year: int
    venue: str
    about: str
    doi: str = ""
    arxiv: str = ""
    uncited: str = ""

    @property
    def heading(self) -> str:
        """Return the heading of the work, whose anchor is the key."""
        name, _, year = self.key.rpartition("-")
        return HEADINGS.get(self.key) or f"{name.title()} {year}"


def load_references(path: Path = DATA) -> list[Reference]:
    """Return the works in the order of their keys; a field that does not exist is a TypeError."""
    rows = yaml.safe_load(path.read_text(encoding="utf-8"))
    return sorted((Reference(**{**row, "authors": tuple(row["authors"])}) for row in rows), key=lambda work: work.key)


def references_page() -> str:
    """Return the page in Markdown."""
    return "\n".join([HEAD, *(_entry(work) for work in load_references())])


def cited_keys(texts: Iterable[str]) -> set[str]:
    """Return the keys that the texts of pages cite, `references.md#KEY`."""
    targets = (re.fullmatch(r"(?:.*/)?references\.md#(.*)", target) for text in texts for _, target in links(text))
    return {match[1] for match in targets if match}


def _entry(work: Reference) -> str:
    *others, last = work.authors
    authors = f"{', '.join(others)} and {last}" if others else last
    title = work.title if work.title.endswith("?") else f"{work.title}."
    addresses = [f"[doi:{work.doi}](https://doi.org/{work.doi})"] if work.doi else []
    addresses += [f"[arXiv:{work.arxiv}](https://arxiv.org/abs/{work.arxiv})"] if work.arxiv else []
    venue = f"{work.venue[0].upper()}{work.venue[1:]}{''.join(f', {link}' for link in addresses)}."
    return f"## {work.heading}\n\n{authors} ({work.year}). *{title}* {venue}\n\n{work.about}\n"
