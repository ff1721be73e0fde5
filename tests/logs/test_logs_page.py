"""docs/logs.md: its examples run, and what it lists is what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aegis.logs import Source
from aegis.logs.dialects import SEPARATORS
from aegis.logs.findings import MOST
from aegis.logs.formats import FORMATS
from aegis.logs.schema import PROPENSITY_NAMES
from aegis.logs.split import KINDS
from aegis.logs.texts import MISSING_WORDS
from aegis.problem import load_problem

PAGE = (Path(__file__).parents[2] / "docs" / "logs.md").read_text(encoding="utf-8")


def block(kind: str, number: int = 0) -> str:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, flags=re.DOTALL)[number]


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "problem.yaml").write_text(block("yaml"), encoding="utf-8")
    (tmp_path / "log.csv").write_text(block("csv"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_example_is_the_log_it_says(example: Path) -> None:
    batch = Source("log.csv", load_problem("problem.yaml")).read()
    assert batch.episode.tolist() == ["B-1", "B-2"]
    assert batch.levels["recipe"].parent.tolist() == [0, 0, 1]
    assert batch.levels["recipe"].mu_taken.tolist() == [0.8, 0.3, 0.5]
    assert batch.levels["dose"].context["temperature"].tolist() == [71.5, 70.0, 69.5, 73.0]
    assert batch.observed is not None and batch.observed.tolist() == [True, False, True, False]
    assert batch.closed is not None and batch.closed.tolist() == [True, True, True, False]


@pytest.mark.parametrize("number", [0, 1])
def test_the_snippets_run(number: int, example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, object] = {}
    exec(block("python", number), found)
    if number == 0:
        assert "2 episodes" in capsys.readouterr().out
    else:
        assert [len(found[side]) for side in ("prior", "certify")] == [1, 1]  # type: ignore[arg-type]


def test_what_the_page_lists_is_what_there_is() -> None:
    words = [*FORMATS, *[word for word in MISSING_WORDS if word.lower() != "nan" and word not in ("", "Null")], "nan"]
    for word in (*words, *PROPENSITY_NAMES, *KINDS):
        assert f"`{word}`" in PAGE, word
    for separator in SEPARATORS.values():
        assert separator in PAGE
    assert MOST == 10 and "up to ten kinds" in PAGE
