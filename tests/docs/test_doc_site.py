"""`make docs`: every page has its place in the order, and the site is built without a complaint and fetches nothing."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "tools"))

from doc_formulas import FOLDER  # noqa: E402
from doc_site import OUTSIDE, breakable, order  # noqa: E402

PAGES = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")} | set(OUTSIDE.values())


def flat(pages: list[Any]) -> list[str]:
    """Return the pages of a section with those of its groups."""
    return [page for item in pages for page in ([item] if isinstance(item, str) else flat(next(iter(item.values()))))]


def test_every_page_has_one_place_in_the_order() -> None:
    placed = [page for section in order(PAGES) for pages in section.values() for page in flat(pages)]
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
        {"Get started": ["index.md"]},
        {"Explanation": ["theory.md"]},
        {"Developers": [{"Decisions": ["decisions/1.md", "decisions/2.md"]}]},
    ]


def test_long_names_in_cells_may_break() -> None:
    long = "aegis.problem.batch_of"
    assert breakable(f"<td>a.b <code>{long}</code></td>") == "<td>a.b <code>aegis.<wbr>problem.<wbr>batch_<wbr>of</code></td>"
    assert (
        breakable(f"<p><code>{long}</code></p><td><code>a.b</code></td>")
        == f"<p><code>{long}</code></p><td><code>a.b</code></td>"
    )


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build the site below a root as the Makefile does."""
    for name in ("properdocs", "material", "pymdownx", "quickjs"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install 'aegis-handover[docs]'")
    (options,) = re.findall(r"-m properdocs (build .*)$", (ROOT / "Makefile").read_text(), flags=re.M)
    command = [sys.executable, "-m", "properdocs", *options.split(), "--site-dir", str(site)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def test_what_leads_nowhere_or_cannot_be_typeset_fails_the_build(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs" / "tools", tmp_path / "docs" / "tools")
    shutil.copy(ROOT / "properdocs.yml", tmp_path)
    for name in (*OUTSIDE, "docs/index.md", "docs/faq.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("# A page\n\n[there](#a-page), $\\hat V_n$\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "faq.html").read_text(encoding="utf-8")
    assert '<span class="katex-html" aria-hidden="true">' in page and f'href="{FOLDER}/katex.css"' in page
    (tmp_path / "docs" / "faq.md").write_text("[a](index.md#nowhere) [b](nothing.md) $\\wrong$\n")
    (tmp_path / "docs" / "lost.md").write_text("# Without a place\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode == 1
    assert all(word in done.stderr for word in ("#nowhere", "nothing.md", "lost.md", "faq.md: KaTeX parse error"))


# Addresses in the theme's files that no page fetches: names of XML, licences, and an interface asked only if `repo_url` is set.
NOT_FETCHED = {
    *("www.w3.org", "fontawesome.com", "clipboardjs.com", "lunrjs.com", "tartarus.org", "bit.ly", "api.github.com"),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the whole site."""
    folder = tmp_path_factory.mktemp("built") / "site"
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.ci
def test_the_site_is_built_and_refers_to_no_other_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) >= len(PAGES)
    for page in pages:
        text = page.read_text(encoding="utf-8")
        fetched = re.findall(r"<(?:script|img|iframe|link|source)\b[^>]*?(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]+)", text)
        assert not fetched, f"{page.name} fetches {fetched}"
    for file in [*site.rglob("*.css"), *site.rglob("*.js")]:
        if file.name != "search_index.js":  # the words of the pages
            hosts = set(re.findall(r"(?:https?:|[\"'(])//((?:\w[\w-]*\.)+[a-z]{2,})", file.read_text(encoding="utf-8")))
            assert hosts <= NOT_FETCHED, f"{file.relative_to(site)}: {hosts - NOT_FETCHED}"
    assert not (site / "tools").exists()
    assert not (site / "references.yaml").exists()


@pytest.fixture
def page_of(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield a function that opens a page of the site from the disk, and see that the page asks for nothing else."""
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "service"))
    with importlib.import_module("browser").opened_browser() as browser:
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))

        def opened(name: str) -> Any:
            page.goto((site / name).as_uri())
            page.wait_for_load_state("load")
            return page

        yield opened
        assert [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:"))] == []


@pytest.mark.ci
def test_pages_are_searched_and_darkened_from_the_disk(page_of: Any) -> None:
    page = page_of("references.html")
    page.locator("input[name=query]").fill("Gauthier-Villars")
    first = page.locator(".md-search-result__link").first
    first.wait_for(timeout=20_000)
    assert "references.html" in str(first.get_attribute("href"))
    page.keyboard.press("Escape")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.emulate_media(color_scheme="dark")
    page.reload()
    assert page.evaluate(colour) != light


@pytest.mark.ci
def test_code_can_be_copied_and_is_coloured(page_of: Any) -> None:
    page = page_of("extending.html")
    assert page.locator(".highlight .md-code__button, .highlight .md-clipboard").count() > 0
    assert page.locator(".highlight code .kn").count() > 0
    assert page.evaluate("[...document.querySelectorAll('.highlight code .kn')].map(e => getComputedStyle(e).color)[0]")


@pytest.mark.ci
def test_a_formula_is_typeset_with_the_fonts_of_the_site(page_of: Any) -> None:
    page = page_of("references.html")
    assert page.locator("#ville-1939 ~ p .formula .katex .katex-html").count() > 0
    page.evaluate("document.fonts.ready.then(() => true)")
    assert page.evaluate("[...document.fonts].some(font => font.family.includes('KaTeX') && font.status === 'loaded')")
