"""Formulas of pages: KaTeX can read each of them, and they come out as HTML that needs no script."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "tools"))

import doc_formulas  # noqa: E402
from doc_formulas import FormulaError, assets, typeset, typeset_page  # noqa: E402

pytest.importorskip("quickjs", reason="quickjs-ng is not installed: pip install 'aegis-handover[docs]'")
markdown = pytest.importorskip("markdown", reason="Markdown is not installed: pip install 'aegis-handover[docs]'")
pytest.importorskip("pymdownx", reason="pymdown-extensions is not installed: pip install 'aegis-handover[docs]'")
try:
    importlib.metadata.version("jupyterlab-katex")
except importlib.metadata.PackageNotFoundError:
    pytest.skip("jupyterlab-katex is not installed: pip install 'aegis-handover[docs]'", allow_module_level=True)

EXTENSIONS = ["tables", "sane_lists", "pymdownx.superfences", "pymdownx.arithmatex"]
PAGES = [
    *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "benchmarks/RESULTS.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]


def content_of(text: str) -> str:
    """Return the HTML of a page as the generator makes it, before the hook."""
    return markdown.markdown(text, extensions=EXTENSIONS, extension_configs={"pymdownx.arithmatex": {"generic": True}})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_formulas_of_pages_can_be_typeset(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if "$" not in text and "\\(" not in text and "\\[" not in text:
        return
    content, wrong = typeset_page(content_of(text))
    assert wrong == []
    assert "arithmatex" not in content


def test_a_formula_becomes_the_html_of_katex() -> None:
    content, wrong = typeset_page(content_of("A bound $\\hat V_n \\ge 1/\\delta$ in a line.\n\n$$\n\\sum_{i < n} w_i r_i\n$$\n"))
    assert wrong == []
    inline, display = re.split("(?=<div)", content)
    assert '<span class="formula" data-search-exclude><span class="katex">' in inline
    assert '<div class="formula" data-search-exclude><span class="katex-display">' in display
    assert all('class="katex-html"' in part and "<math" in part for part in (inline, display))
    assert "<script" not in content


def test_money_and_code_are_no_formulas() -> None:
    text = "It costs $5 or $ 6, `$x$` and \\$y\\$.\n\n    echo $HOME $PATH\n\n```sh\necho $A$B\n```\n"
    assert "arithmatex" not in content_of(text)


def test_a_formula_that_katex_cannot_read_stays_and_is_named() -> None:
    content, wrong = typeset_page(content_of("First $x$, then $\\nosuchthing{y}$ twice: $\\nosuchthing{y}$."))
    assert "katex-html" in content
    assert content.count(r"\(\nosuchthing{y}\)") == 2
    (error,) = wrong
    assert "\\nosuchthing" in error
    with pytest.raises(FormulaError, match="parse error"):
        typeset("\\frac{1}")


def test_the_style_names_only_fonts_that_come_with_it() -> None:
    found = assets()
    (style,) = [text for text in found.values() if isinstance(text, str)]
    named = set(re.findall(r"url\(([^)]*)\)", style))
    assert len(named) >= 19
    assert named == {path.name for path in found.values() if isinstance(path, Path)}
    assert all(path.is_file() for path in found.values() if isinstance(path, Path))
    assert ".katex-display" in style and "KaTeX_Math" in style


@pytest.mark.parametrize("package", ["jupyterlab-katex", "quickjs-ng"])
def test_without_katex_formulas_stay_and_the_reason_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise (importlib.metadata.PackageNotFoundError if package == "jupyterlab-katex" else ModuleNotFoundError)(name)

    before = content_of("$x$")
    module, name = (importlib.metadata, "files") if package == "jupyterlab-katex" else (doc_formulas.importlib, "import_module")
    monkeypatch.setattr(module, name, missing)
    for cached in (doc_formulas._bundle, doc_formulas._katex):
        cached.cache_clear()
    try:
        content, wrong = typeset_page(before)
    finally:
        for cached in (doc_formulas._bundle, doc_formulas._katex):
            cached.cache_clear()
    assert content == before
    assert len(wrong) == 1
    assert package in wrong[0] and "pip install 'aegis-handover[docs]'" in wrong[0]
