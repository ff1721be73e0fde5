"""Every block of code on a page is run by somebody: by its page's test, by another that is named, or it says why not."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from page_claims import FOLLOWED, HAS, LIKE, NOT_RUN, QUICKER, RUN_BY, SEVERAL
from typeable import accept

from pages import ROOT, blocks_of, pages

CLAIMS = {**RUN_BY, **LIKE, **NOT_RUN}


def test_tables_do_not_overlap() -> None:
    assert len(CLAIMS) == len(RUN_BY) + len(LIKE) + len(NOT_RUN)


@pytest.mark.parametrize("claim", CLAIMS, ids=" ".join)
def test_what_is_claimed_is_on_the_page(claim: tuple[str, str]) -> None:
    page, start = claim
    found = [block for block in blocks_of(page) if block.first.startswith(start)]
    assert len(found) == SEVERAL.get(claim, 1), f"{page} has {len(found)} blocks that begin with '{start}': see page_claims.py"


@pytest.mark.parametrize("page", FOLLOWED)
def test_pages_are_followed_by_a_test_that_names_them(page: str) -> None:
    assert (ROOT / page).name in (ROOT / FOLLOWED[page]).read_text(encoding="utf-8")


@pytest.mark.parametrize("claim", {**LIKE, **NOT_RUN}, ids=" ".join)
def test_commands_that_are_not_run_could_be_typed(
    claim: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page, start = claim
    for block in blocks_of(page):
        if block.first.startswith(start):
            for line in block.text.splitlines():
                if line.startswith("aegis "):
                    accept(line)


def test_what_could_not_be_typed_is_noticed() -> None:
    for line in ("aegis audit --no-such-option", "aegis learn log.parquet", "aegis nothing"):
        with pytest.raises(click.UsageError):
            accept(line)


@pytest.mark.parametrize(("claim", "test"), RUN_BY.items(), ids=map(" ".join, RUN_BY))
def test_the_test_that_is_named_reads_the_page(claim: tuple[str, str], test: str) -> None:
    path, _, name = test.partition("::")
    text = (ROOT / path).read_text(encoding="utf-8")
    assert re.search(rf"^def {name}\(", text, flags=re.M), f"{path} has no test '{name}'"
    assert f'"{claim[0].removeprefix("docs/")}"' in text, f"{path} does not read {claim[0]}"


def test_the_files_that_are_named_exist() -> None:
    for path in LIKE.values():
        assert (ROOT / path).exists(), path
    assert all(len(reason.split()) > 2 for reason in NOT_RUN.values())


def test_what_is_made_quicker_is_on_the_page() -> None:
    for page, parts in QUICKER.items():
        code = "".join(block.text for block in blocks_of(page))
        assert all(old in code for old in parts), page
    assert set(HAS) <= set(pages())
