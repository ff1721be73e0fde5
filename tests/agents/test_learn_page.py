"""The values on docs/learn.md are those of the results file, and no candidate is said to beat the best possible."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("benchmarks_learn", BENCHMARKS / "learn.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_the_results_file(benchmark: ModuleType) -> None:
    content = json.loads((BENCHMARKS / "learn.json").read_text())
    page = (BENCHMARKS.parent / "docs" / "learn.md").read_text()
    assert page.count(benchmark.START) == page.count(benchmark.END) == 1
    shown = page.split(benchmark.START)[1].split(benchmark.END)[0].strip().splitlines()
    assert shown == benchmark.value_lines(content), "write it again: python benchmarks/learn.py"
    assert [(row["world"], row["legacy"]) for row in content["rows"]] == [
        (world, legacy) for world in benchmark.WORLDS for legacy in benchmark.LEGACIES
    ]


def test_nothing_is_said_to_beat_the_best_possible(benchmark: ModuleType) -> None:
    for row in json.loads((BENCHMARKS / "learn.json").read_text())["rows"]:
        for kind in benchmark.KINDS:
            assert row[kind]["value"] <= row["best"] + 4 * row[kind]["error"] + 1e-9
            assert row[kind]["value"] >= row["legacy_value"] - 4 * row[kind]["error"]
