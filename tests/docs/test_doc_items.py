"""docs/paper-items.yaml: every item has code and a test, or a reason; and what it names exists."""

from __future__ import annotations

import ast
import functools
import importlib
import re
import sys
from pathlib import Path

import pytest

from aegis.paper import list_benches

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "tools"))

from doc_items import COMPLETE, DIFFERENT, OPEN, OPEN_PROBLEM, PaperItem, items_page, load_items  # noqa: E402

ITEMS = load_items()
KINDS = {
    *("definition", "assumption", "remark", "equation", "lemma", "theorem", "corollary", "algorithm line", "effect", "switch"),
    *("host", "agent", "world", "axis", "preset", "backend", "experiment", "table", "figure", "test", "sensitivity"),
    OPEN_PROBLEM,
}
# How many of each the paper has at least: an item that is lost is noticed.
LEAST = {
    "definition": 13,
    "assumption": 8,
    "equation": 47,
    "algorithm line": 22,
    "effect": 7,
    "switch": 5,
    "host": 10,
    "agent": 9,
}


@functools.cache
def functions(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_ids_are_unique_and_kinds_and_states_are_known() -> None:
    assert len({item.id for item in ITEMS}) == len(ITEMS)
    for item in ITEMS:
        assert item.kind in KINDS, item.id
        assert item.status in ((OPEN,) if item.kind == OPEN_PROBLEM else (COMPLETE, DIFFERENT)), item.id
        assert item.where and item.says.endswith("."), item.id
        assert not item.reason.endswith("."), item.id


def test_the_paper_has_all_its_items() -> None:
    assert len(ITEMS) >= 259
    for kind, count in LEAST.items():
        assert sum(item.kind == kind for item in ITEMS) >= count, kind


def test_nothing_is_pending() -> None:
    assert [item.id for item in ITEMS if item.pending] == []


@pytest.mark.parametrize("item", [item for item in ITEMS if not item.pending], ids=lambda item: item.id)
def test_an_item_has_what_backs_it(item: PaperItem) -> None:
    assert (item.code and item.tests) or item.reason, "code and a test, or a reason why there is none"
    assert item.reason or item.status == COMPLETE, "what is different on purpose or open has a reason"
    for path in item.code:
        module, _, names = path.partition(":")
        functools.reduce(getattr, filter(None, names.split(".")), importlib.import_module(module))
    for test in item.tests:
        file, _, name = test.partition("::")
        assert re.fullmatch(r"tests/[\w/]+\.py", file) and (ROOT / file).exists(), test
        assert name in functions(file), test
    assert set(item.bench) <= set(list_benches())


def test_every_bench_belongs_to_an_item() -> None:
    assert set(list_benches()) == {name for item in ITEMS for name in item.bench}


def test_the_page_shows_every_item() -> None:
    page = items_page()
    for item in ITEMS:
        assert f"| {item.kind}: {item.id} | {item.where} | {item.says} |" in page
    assert (ROOT / "docs" / "paper-items.md").read_text(encoding="utf-8") == page, "write it again: make docs"
