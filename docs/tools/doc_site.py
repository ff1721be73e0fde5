"""What `make docs` adds to the generator: the order of the pages, pages from outside docs/, and anchors as code hosts make them.

A hook of properdocs.yml. The order is `SECTIONS`; a name without a page is passed over, a page without a place fails the build.
"""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import Any

from doc_text import LINK, slug

ROOT = Path(__file__).parents[2]
SECTIONS: dict[str, tuple[str, ...]] = {
    "Start": ("index.md", "tutorial.md", "faq.md"),
    "Guides": (
        *("deterministic.md", "bring-your-own.md", "three-levels.md", "continuous.md", "scale.md", "serve.md", "extending.md"),
        *("examples/heartsteps.md", "examples/open-bandit.md", "examples/oats.md", "examples/hillstrom.md"),
    ),
    "Commands": (
        "commands.md",
        *("init.md", "audit.md", "plan.md", "learn.md", "certify.md", "report.md", "compare.md", "handover.md", "validate.md"),
        "bench.md",
    ),
    "Concepts and theory": ("concepts.md", "theory.md", "claims.md", "comparison.md", "glossary.md"),
    "Reference": ("problem.md", "logs.md", "agents.md", "reference/cli.md"),
    "Python": ("reference/api.md", "reference/api/*.md"),
    "Decisions": ("decisions/*.md",),
    "Results": ("coverage.md", "paper.md", "paper-items.md", "open-problems.md", "measurements.md"),
    "Project": ("contributing.md", "security.md", "release.md", "changelog.md"),
}
OUTSIDE = {
    "benchmarks/RESULTS.md": "measurements.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
HOME = {"README.md": "index.md"}  # the front of the repository is the front of the site


def on_config(config: Any) -> Any:
    """Let headings have the anchors that links between the files name."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    return config


def on_files(files: Any, config: Any) -> Any:
    """Take in the pages from outside docs/, and put all pages in order."""
    for source, page in OUTSIDE.items():
        files.append(_generated(config, page, ROOT / source))
    config.nav = order({file.src_uri for file in files.documentation_pages()})
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Let links lead to where the pages are on the site."""
    return moved(markdown, page.file.src_uri)


def order(pages: set[str]) -> list[dict[str, list[str]]]:
    """Return the pages that exist by section, in the order of the table; a pattern ending in `*.md` takes what is there."""
    found: list[dict[str, list[str]]] = []
    for title, names in SECTIONS.items():
        here: list[str] = []
        for name in names:
            folder, star, _ = name.partition("*")
            here += sorted(page for page in pages if page.startswith(folder)) if star else [name] if name in pages else []
        found += [{title: here}] if here else []
    return found


def moved(text: str, page: str) -> str:
    """Return the text of a page with links as the site has them; what the site does not hold stays as words."""
    here = next((source for source, name in OUTSIDE.items() if name == page), f"docs/{page}")

    def lead(link: Any) -> str:
        target, hash_, anchor = link["target"].partition("#")
        if not target or "://" in target or target.startswith("mailto:"):
            return link[0]
        there = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
        name = there.removeprefix("docs/") if there.startswith("docs/") else {**OUTSIDE, **HOME}.get(there)
        if name is None or (ROOT / there).is_dir():
            return link["words"][1:-1] if (ROOT / there).exists() else link[0]
        return f"{link['words']}({posixpath.relpath(name, posixpath.dirname(page) or '.')}{hash_}{anchor})"

    return LINK.sub(lead, text)


def _generated(config: Any, page: str, source: Path) -> Any:
    from properdocs.structure.files import File

    return File.generated(config, page, abs_src_path=str(source))
