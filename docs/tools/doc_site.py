"""What `make docs` adds to the generator: the order of pages, pages from outside docs/, formulas, and anchors as on code hosts.

A hook of properdocs.yml. The order is `SECTIONS`; a name without a page is passed over, a page without a place fails the build.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

from doc_formulas import FOLDER, FormulaError, assets, typeset_page
from doc_text import LINK, slug

LOG = logging.getLogger("properdocs.plugins.doc_site")
ROOT = Path(__file__).parents[2]
SECTIONS: dict[str, tuple[str, ...]] = {
    "Get started": ("index.md", "tutorial.md", "faq.md"),
    "Tutorials": ("examples/heartsteps.md", "examples/open-bandit.md", "examples/oats.md", "examples/hillstrom.md"),
    "How-to": (
        *("deterministic.md", "bring-your-own.md", "three-levels.md", "continuous.md", "serve.md", "scale.md"),
        *("init.md", "audit.md", "plan.md", "learn.md", "certify.md", "report.md", "compare.md", "handover.md", "validate.md"),
        "bench.md",
    ),
    "Explanation": ("concepts.md", "theory.md"),
    "Reference": (
        *(
            "commands.md",
            "reference/cli.md",
            "problem.md",
            "logs.md",
            "agents.md",
            "reference/api.md",
            "reference/api/*.md",
            "references.md",
        ),
    ),
    "Evidence": (
        *("claims.md", "coverage.md", "comparison.md", "paper.md", "paper-items.md", "open-problems.md", "measurements.md"),
    ),
    "Developers": ("contributing.md", "extending.md", "decisions/*.md", "release.md", "security.md", "changelog.md"),
}
GROUPS = {"reference/api/*.md": "Python packages", "decisions/*.md": "Decisions"}  # what a pattern of SECTIONS is called
LISTS = ("reference/api", "decisions/", "paper-items.md", "measurements.md", "changelog.md")
OUTSIDE = {
    "benchmarks/RESULTS.md": "measurements.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
CELL = re.compile(r"<td\b.*?</td>", re.DOTALL)
CODE = re.compile(r"(?<=<code>)[^<]{16,}(?=</code>)")
FETCHED = re.compile(r'"https://[\w.]+/(?:resize-observer-polyfill|mermaid@)[^"]*"')  # strings in the theme's scripts
HOME = {"README.md": "index.md"}  # the front of the repository is the front of the site


def on_config(config: Any) -> Any:
    """Let headings have the anchors that links between the files name."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    return config


def on_files(files: Any, config: Any) -> Any:
    """Take in the pages from outside docs/ and what formulas need, and put all pages in order."""
    for source, page in OUTSIDE.items():
        files.append(_generated(config, page, ROOT / source))
    try:
        for place, content in assets().items():
            files.append(_generated(config, place, content))
        config.extra_css.append(f"{FOLDER}/katex.css")
    except FormulaError as error:
        LOG.info("%s", error)  # a page with a formula warns, and a warning fails the build
    config.nav = order({file.src_uri for file in files.documentation_pages()})
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Let links lead to where the pages are on the site, and let search name long lists behind other pages."""
    if page.file.src_uri.startswith(LISTS):
        page.meta.setdefault("search", {"boost": 0.1})
    return moved(markdown, page.file.src_uri)


def on_page_content(content: str, page: Any, config: Any, files: Any) -> str:
    """Typeset the formulas, and let long names in cells break at their dots and underscores."""
    typeset, wrong = typeset_page(content)
    for error in wrong:
        LOG.warning("%s: %s", page.file.src_uri, error)
    return breakable(typeset)


def on_post_build(config: Any) -> None:
    """Take from the theme's scripts what they would fetch from the network: help for browsers of long ago, and diagrams."""
    for script in Path(config.site_dir, "assets", "javascripts").rglob("*.js"):
        text = script.read_text(encoding="utf-8")
        script.write_text(FETCHED.sub('""', text), encoding="utf-8")


def order(pages: set[str]) -> list[dict[str, list[Any]]]:
    """Return the pages that exist by section, in the order of the table; a pattern ending in `*.md` is a group."""
    sections: list[dict[str, list[Any]]] = []
    for title, names in SECTIONS.items():
        here: list[Any] = []
        for name in names:
            folder, star, _ = name.partition("*")
            if not star:
                here += [name] if name in pages else []
            elif group := sorted(page for page in pages if page.startswith(folder)):
                here.append({GROUPS[name]: group})
        sections += [{title: here}] if here else []
    return sections


def breakable(content: str) -> str:
    """Return the HTML of a page in which long names in cells of tables may break behind dots and underscores."""
    return CELL.sub(lambda cell: CODE.sub(lambda code: re.sub(r"(?<=\w)[._](?=\w)", r"\g<0><wbr>", code[0]), cell[0]), content)


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


def _generated(config: Any, place: str, content: str | Path) -> Any:
    from properdocs.structure.files import File

    return File.generated(config, place, **({"content": content} if isinstance(content, str) else {"abs_src_path": str(content)}))
