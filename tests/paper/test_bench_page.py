"""docs/bench.md: every key, measure, test and figure is there, and its examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aegis.paper import MEASURES, TESTS, Bench, ResultStore, parse_bench, plan_bench, run_plans
from aegis.paper.bench_figures import FIGURES

PAGE = (Path(__file__).parents[2] / "docs" / "bench.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*MEASURES, *TESTS, *FIGURES, *sorted(set(Bench.model_fields) - {"name"})])
def test_every_name_is_on_the_page(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_the_file_on_the_page_is_a_bench() -> None:
    text = re.search(r"```yaml\n(.*?)```", PAGE, re.S)
    assert text is not None
    bench = parse_bench(text[1], "mine", "docs/bench.md")
    assert run_plans([plan_bench(bench, "quick", {"episodes": 3, "seeds": 1})], ResultStore(None)) == []


def test_the_program_on_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = re.search(r"```python\n(.*?)```", PAGE, re.S)
    assert text is not None
    exec(text[1], {})
    assert "thompson" in capsys.readouterr().out
