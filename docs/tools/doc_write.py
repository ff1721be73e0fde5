"""Write the generated pages of docs: `python docs/tools/doc_write.py`, as `make docs` does."""

from __future__ import annotations

from pathlib import Path

from doc_api import api_pages
from doc_cli import cli_page
from doc_items import items_page
from doc_references import references_page

DOCS = Path(__file__).parents[1]


def pages() -> dict[str, str]:
    """Return the generated pages by their place under docs/."""
    written = {"paper-items.md": items_page(), "references.md": references_page(), "reference/cli.md": cli_page()}
    return {**written, **api_pages()}


def write() -> list[str]:
    """Write every generated page, remove those that are no longer made, and return the places of what changed."""
    wanted = pages()
    changed = []
    for place, text in wanted.items():
        path = DOCS / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(place)
    for path in sorted((DOCS / "reference").rglob("*.md")):
        if path.relative_to(DOCS).as_posix() not in wanted:
            path.unlink()
            changed.append(path.relative_to(DOCS).as_posix())
    return changed


if __name__ == "__main__":
    for name in write():
        print(f"docs/{name}: written again")
