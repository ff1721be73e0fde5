"""docs/references.yaml: every citation leads to a work, and every work is cited or says why not."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "tools"))

from doc_references import cited_keys, load_references, references_page  # noqa: E402
from doc_text import anchors, slug  # noqa: E402

REFERENCES = load_references()
KEYS = {work.key for work in REFERENCES}
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
PAGES += sorted(path for path in (ROOT / "docs").rglob("*.md") if path.name != "references.md")
CITED = cited_keys(page.read_text(encoding="utf-8") for page in PAGES)


def test_every_citation_leads_to_a_work() -> None:
    assert set() == CITED - KEYS, "add them to docs/references.yaml"


def test_every_work_is_cited_or_says_why_not() -> None:
    idle = {work.key for work in REFERENCES if work.key not in CITED and not work.uncited}
    assert idle == set(), "cite them, give them `uncited: REASON`, or take them out of docs/references.yaml"


def test_keys_are_the_anchors_of_the_page() -> None:
    page = references_page()
    assert len(KEYS) == len(REFERENCES)
    assert anchors(page) >= KEYS
    assert [slug(work.heading) for work in REFERENCES] == [work.key for work in REFERENCES]


def test_a_work_has_what_identifies_it() -> None:
    for work in REFERENCES:
        assert work.authors and all(" " in author for author in work.authors), work.key
        assert work.key.endswith(f"-{work.year}") or work.key == "aegis-paper", work.key
        assert re.fullmatch(r"|10\.\d{4,}/\S+", work.doi), work.key
        assert re.fullmatch(r"|\d{4}\.\d{4,5}", work.arxiv), work.key
        assert work.about.endswith(".") and not work.title.endswith("."), work.key


def test_the_paper_is_the_one_that_the_project_asks_to_cite() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["preferred-citation"]
    (work,) = [work for work in REFERENCES if work.key == "aegis-paper"]
    assert (work.title, work.year) == (cited["title"], cited["year"])
    assert list(work.authors) == [f"{author['given-names']} {author['family-names']}" for author in cited["authors"]]


def test_citations_are_found_on_any_page() -> None:
    texts = ["[a](references.md#ville-1939) `[b](references.md#b)`", '[c](../references.md#c-d-2020 "title") [d](references.md)']
    assert cited_keys(texts) == {"ville-1939", "c-d-2020"}


def test_a_field_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    (tmp_path / "works.yaml").write_text(
        "- {key: a-2000, authors: [A B], title: T, year: 2000, venue: V, about: W., dio: 10.1/x}\n"
    )
    with pytest.raises(TypeError, match="dio"):
        load_references(tmp_path / "works.yaml")
