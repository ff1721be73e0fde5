"""The pages do what they say: their code runs top to bottom, and prints what they show."""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
from pathlib import Path

import pytest
from page_claims import FOLLOWED, HAS, LIKE, NOT_RUN, QUICKER, RUN_BY

from pages import ROOT, CannotRun, assert_alike, blocks_of, pages, run_page, typed

TODAY = "quality,blend,viscosity,temperature,acidity\n0.1,-0.5,0.2,1.5,0.3\n-0.5,1.0,0.4,-1.5,1.2\n"
GENERATED = "docs/reference/"  # tests/docs/test_doc_reference.py


@functools.cache
def followed() -> set[str]:
    """Return the pages that a test of their own follows from top to bottom: it calls `follow("NAME.md", ...)`."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*_page.py")]
    return {f"docs/{name}" for text in texts for name in re.findall(r"\bfollow\(\"([\w/-]+\.md)\"", text)}


def others(page: str) -> set[str]:
    """Return the first lines of the blocks that are run elsewhere, or not at all."""
    if page in FOLLOWED:
        return {block.first for block in blocks_of(page)}
    starts = tuple(start for where, start in {**RUN_BY, **LIKE, **NOT_RUN} if where == page)
    by_their_test = ("sh", "python", "text", "diff") if page in followed() else ()
    return {block.first for block in blocks_of(page) if block.first.startswith(starts) or block.language in by_their_test}


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what a reader of most pages has: a log, its problem file, and a policy learned from it."""
    folder = tmp_path_factory.mktemp("study")
    with contextlib.chdir(folder):
        typed("aegis simulate --world plant --legacy natural:epsilon=0.3 --episodes 150 --out .")
        typed("aegis learn log.parquet --problem problem.yaml --kind capped --scope dose --out policy")
        shutil.copy("log.parquet", "pilot.parquet")
        Path("today.csv").write_text(TODAY)
    return folder


@pytest.mark.parametrize(
    "page",
    [
        page
        for page in pages()
        if not page.startswith(GENERATED) and any(block.first not in others(page) for block in blocks_of(page))
    ],
)
def test_the_code_of_the_page_runs(page: str, study: Path, tmp_path: Path) -> None:
    for name in HAS.get(page, ()):
        if (study / name).is_dir():
            shutil.copytree(study / name, tmp_path / name)
        else:
            shutil.copy(study / name, tmp_path / name)
    run_page(page, tmp_path, others(page), QUICKER.get(page))


def fails(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: type[BaseException]) -> None:
    monkeypatch.setattr("pages.ROOT", tmp_path)
    (tmp_path / "page.md").write_text(text)
    with pytest.raises(expected):
        run_page("page.md", tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Page\n\n```python\n1 / 0\n```\n", ZeroDivisionError),
        ("    aegis audit --explain no-such-code\n", AssertionError),
        ("    aegis audit --explain drift # exit code 3\n", AssertionError),
        ("    curl http://127.0.0.1:8741\n", CannotRun),
        ("```ini\n[Unit]\n```\n", CannotRun),
        ("```yaml\na: [1\n```\n", Exception),
        ("```csv\na,b\n1\n```\n", AssertionError),
        ("```text\nnothing printed this\n```\n", CannotRun),
        ("```python\nprint('one 1.00')\n```\n\n```text\none 1.03\n```\n", AssertionError),
        ("```python\nprint('one')\nprint('two')\n```\n\n```text\none\n```\n", AssertionError),
    ],
)
def test_a_page_that_does_not_do_what_it_says_is_noticed(
    text: str, expected: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails(text, tmp_path, monkeypatch, expected)


def test_files_output_and_exit_codes_of_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pages.ROOT", tmp_path)
    (tmp_path / "page.md").write_text(
        "Save this as `mine.py`:\n\n```python\nNUMBER = 4\n```\n\nThen:\n\n"
        "```python\nfrom mine import NUMBER\nprint(NUMBER, 2.001)\nprint('a')\nprint('b')\n```\n\n"
        "```text\n4 2.000\n...\nb\n```\n\n"
        "- a list with\n\n    more in the same item, which is no code\n\nEnd.\n\n"
        "    pip install 'aegis-handover[report]'\n    python mine.py > nothing.txt\n"
        "    aegis audit --explain no-such-code # exit code 2\n    aegis doctor --help > help.txt\n"
    )
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    run_page("page.md", tmp_path)
    assert (tmp_path / "nothing.txt").read_text() == ""
    assert (tmp_path / "help.txt").read_text().startswith("Usage: aegis doctor")


def test_lines_may_be_left_out_but_not_changed() -> None:
    assert_alike("a\n...\nd", "a\nb\nc\nd\n")
    with pytest.raises(AssertionError, match="the page shows"):
        assert_alike("a\n...\ne", "a\nb\nc\nd\n")
