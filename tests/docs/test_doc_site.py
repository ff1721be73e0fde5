"""`make docs`: every page has its place in the order, and the site is built without a complaint and fetches nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "tools"))

from doc_site import OUTSIDE, order  # noqa: E402

PAGES = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")} | set(OUTSIDE.values())


def test_every_page_has_one_place_in_the_order() -> None:
    placed = [page for section in order(PAGES) for pages in section.values() for page in pages]
    assert len(placed) == len(set(placed))
    assert PAGES - set(placed) == set(), "give them a place in SECTIONS of docs/tools/doc_site.py"
    assert placed[0] == "index.md"


def test_every_page_that_somebody_wrote_is_reached_from_the_front() -> None:
    front = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(([^)#]+)", front))
    written = {page for page in PAGES - set(OUTSIDE.values()) if not page.startswith(("reference/", "decisions/"))}
    assert written - linked == {"index.md"}
    assert {"reference/cli.md", "reference/api.md", "decisions"} <= linked  # and these lead on


def test_a_page_that_is_yet_to_come_is_passed_over() -> None:
    assert order({"index.md", "theory.md", "decisions/2.md", "decisions/1.md"}) == [
        {"Start": ["index.md"]},
        {"Concepts and theory": ["theory.md"]},
        {"Decisions": ["decisions/1.md", "decisions/2.md"]},
    ]


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build the site below a root as the Makefile does."""
    pytest.importorskip("properdocs", reason="ProperDocs is not installed: pip install 'aegis-handover[docs]'")
    (options,) = re.findall(r"-m properdocs (build .*)$", (ROOT / "Makefile").read_text(), flags=re.M)
    command = [sys.executable, "-m", "properdocs", *options.split(), "--site-dir", str(site)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def test_what_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs" / "tools", tmp_path / "docs" / "tools")
    shutil.copy(ROOT / "properdocs.yml", tmp_path)
    for name in (*OUTSIDE, "docs/index.md", "docs/faq.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("# A page\n\n[there](#a-page)\n")
    assert build(tmp_path, tmp_path / "site").returncode == 0
    (tmp_path / "docs" / "faq.md").write_text("[a](index.md#nowhere) [b](nothing.md)\n")
    (tmp_path / "docs" / "lost.md").write_text("# Without a place\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode == 1
    assert all(word in done.stderr for word in ("#nowhere", "nothing.md", "lost.md"))


@pytest.mark.ci
def test_the_site_is_built_and_fetches_nothing(tmp_path: Path) -> None:
    done = build(ROOT, tmp_path / "site")
    assert done.returncode == 0, done.stderr
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) >= len(PAGES)
    for page in pages:
        text = page.read_text(encoding="utf-8")
        fetched = re.findall(r"<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]+)", text)
        assert not fetched, f"{page.name} fetches {fetched}"
    for sheet in (tmp_path / "site").rglob("*.css"):
        assert not re.findall(r"url\([\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8")), sheet
    assert not (tmp_path / "site" / "tools").exists()
