"""docs/problem.md: every example in it is a problem, and every field of the file is in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from aegis.problem import dump_problem, parse_problem, problem_file

PAGE = (Path(__file__).parents[2] / "docs" / "problem.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
SECTIONS = [member for member in vars(problem_file).values() if isinstance(member, type) and issubclass(member, BaseModel)]


def test_there_are_examples() -> None:
    assert len(BLOCKS) == 3


@pytest.mark.parametrize("text", BLOCKS)
def test_every_example_is_a_problem(text: str) -> None:
    problem = parse_problem(text)
    assert all(problem.backdoor(name).admissible for name in problem.names)
    assert problem.levels


def test_the_examples_show_every_field_of_the_whole() -> None:
    shown = {key for text in BLOCKS for key in dump_problem(parse_problem(text))}
    assert shown | {"carry_over"} == set(problem_file._File.model_fields)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_field_is_on_the_page(section: type[BaseModel]) -> None:
    for field in section.model_fields:
        assert re.search(rf"[`{{ ]{field}[`:]", PAGE), f"docs/problem.md does not explain '{field}' of {section.__name__}"
