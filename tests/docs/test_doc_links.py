"""Every link of every page leads to a file and a heading that exist. Links to the outside are listed, not fetched."""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "tools"))

from doc_site import OUTSIDE, moved  # noqa: E402
from doc_text import anchors, blocks, links, prose, slug  # noqa: E402

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "benchmarks/RESULTS.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
# Hosts to which pages may lead: standards, papers by their permanent addresses, sources of other libraries.
ABROAD = {"keepachangelog.com", "semver.org", "doi.org", "arxiv.org", "github.com"}


def names(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_every_link_leads_somewhere(page: Path) -> None:
    wrong = []
    for line, link in links(page.read_text(encoding="utf-8")):
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            host = re.match(r"https://(?:www\.)?([^/]+)", link)
            if not host or host[1] not in ABROAD:
                wrong.append(f"line {line}: {link} leads abroad; add its host to ABROAD if it should")
            continue
        place = (page.parent / target).resolve() if target else page
        if not place.exists() or not place.is_relative_to(ROOT):
            wrong.append(f"line {line}: {link} leads to no file of the repository")
        elif anchor and (place.suffix != ".md" or anchor not in anchors(place.read_text(encoding="utf-8"))):
            wrong.append(f"line {line}: {link} leads to no heading")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_pages_read_the_same_as_files_and_on_the_site(page: Path) -> None:
    """The generator needs a blank line before a list or a table; code hosts do not."""
    kept = prose(page.read_text(encoding="utf-8"))
    item, row = re.compile(r"([-*+]|\d+\.) "), re.compile(r"\|")
    for (_, before), (line, text) in itertools.pairwise(kept):
        for begins in (item, row):
            starts = begins.match(text) and before.strip() and not begins.match(before)
            assert not (starts and not before.startswith(" ")), f"{names(page)}, line {line}: needs a blank line before"


def test_headings_are_named_as_code_hosts_do() -> None:
    assert slug("What if the *logged* probabilities (`p`) are wrong?") == "what-if-the-logged-probabilities-p-are-wrong"
    assert slug("A - B") == "a---b"
    assert anchors("# One\n\n```text\n# two\n```\n\n## [Three](x.md) four\n") == {"one", "three-four"}


def test_links_in_code_are_no_links() -> None:
    assert links("[two\nlines](a.md) [b\nc](d.md)\n") == [(1, "a.md"), (2, "d.md")]
    assert links("a `[x](y)` [b](c.md#d)\n\n    [e](f)\n\n```\n[g](h)\n```\n![i](j.svg)\n") == [(1, "c.md#d"), (8, "j.svg")]


def test_code_is_found_with_what_is_said_before_it() -> None:
    found = blocks(
        "First.\n\nSave\n`a.py`:\n\n```python\nx = 1\n```\n\n    aegis doctor\n\n    aegis demo\n\ntext\n    no code\n"
    )
    assert [(block.line, block.language, block.text, block.before) for block in found] == [
        (6, "python", "x = 1\n", "Save `a.py`:"),
        (10, "", "aegis doctor\n\naegis demo\n", ""),
    ]


def test_links_lead_to_the_pages_of_the_site() -> None:
    text = "[a](../benchmarks/RESULTS.md#x) [b](../deploy) [c](audit.md) [d](../README.md) [e](../nowhere.md) [f](#g)"
    assert moved(text, "serve.md") == "[a](measurements.md#x) b [c](audit.md) [d](index.md) [e](../nowhere.md) [f](#g)"
    assert moved("![p](../docs/figures/growth-rows.svg)", "measurements.md") == "![p](figures/growth-rows.svg)"
    assert moved("[c](../audit.md)", "decisions/0001-leaves.md") == "[c](../audit.md)"
    assert all((ROOT / source).exists() for source in OUTSIDE)
