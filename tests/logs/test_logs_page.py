"""docs/logs.md: its examples run, and what it lists is what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aegis.errors import LogError
from aegis.logs import Source
from aegis.logs.column_values import MISSING_WORDS
from aegis.logs.columns import MOST_KINDS, PROPENSITY_NAMES
from aegis.logs.formats.csv import SEPARATORS
from aegis.logs.log_files import FORMATS
from aegis.logs.source import SPLIT_KINDS
from aegis.problem import load_problem, parse_problem

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


def test_the_messages_are_those_of_the_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{row},{7 if row == 9 else 1 + row % 3},{0 if 4 <= row <= 16 else 0.5},1.0" for row in range(1, 19)]
    Path("log.csv").write_text("\n".join(["episode,dose,p,reward", *rows]) + "\n")
    problem = parse_problem(
        "episode: episode\nreward: {column: reward, range: [0, 2]}\nlevels:\n"
        "  - {name: dose, action: {column: dose, values: [1, 2, 3]}, propensity: {column: p}}\n"
    )
    with pytest.raises(LogError) as caught:
        Source("log.csv", problem).read()
    shown = re.findall(r"^    (log\.csv, row .*)$", PAGE, flags=re.M)
    assert str(caught.value).splitlines()[-2:] == shown


def test_what_the_page_lists_is_what_there_is() -> None:
    words = [*FORMATS, *[word for word in MISSING_WORDS if word.lower() != "nan" and word not in ("", "Null")], "nan"]
    for word in (*words, *PROPENSITY_NAMES, *SPLIT_KINDS):
        assert f"`{word}`" in PAGE, word
    for separator in SEPARATORS.values():
        assert separator in PAGE
    assert MOST_KINDS == 10 and "up to ten kinds" in PAGE
