"""docs/faq.md: what it names exists: commands, options, keys of the problem file, findings, pages and their sections."""

from __future__ import annotations

import math
import re
from urllib.parse import urlparse

import page_steps
import pytest

from aegis.audit import CODES
from aegis.cli import COMMANDS, LazyGroup
from aegis.problem import parse_problem

PAGE = page_steps.page("faq.md")


def test_every_question_is_answered() -> None:
    parts = re.split(r"^### ", PAGE, flags=re.M)[1:]
    assert len(parts) >= 20
    for part in parts:
        question, answer = part.split("\n", 1)
        assert len(re.sub(r"^## .*", "", answer, flags=re.M).split()) > 10, question


def test_options_exist() -> None:
    group = LazyGroup("aegis")
    known = {
        option
        for name in COMMANDS
        for parameter in getattr(group.get_command(None, name), "params", [])  # type: ignore[arg-type]
        for option in parameter.opts
    }
    named = set(re.findall(r"`[^`]*?(--[a-z][a-z-]*)", PAGE))
    assert len(named) >= 6 and named <= known, named - known


def test_options_stand_behind_commands_that_have_them() -> None:
    typed = re.findall(r"`aegis\s+([a-z]+)([^`]*--[^`]*)`", PAGE)
    assert len(typed) >= 2
    for name, rest in typed:
        command = LazyGroup("aegis").get_command(None, name)  # type: ignore[arg-type]
        known = {option for parameter in getattr(command, "params", []) for option in parameter.opts}
        assert set(re.findall(r"--[a-z][a-z-]*", rest)) <= known, name
    for name in ("certify", "plan", "handover", "serve"):  # said to have a delta
        command = LazyGroup("aegis").get_command(None, name)  # type: ignore[arg-type]
        assert "--delta" in {option for parameter in getattr(command, "params", []) for option in parameter.opts}


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("My propensities were not logged. Can I use AEGIS?", ("estimated: true", "wrong_by", "epsilon")),
        ("Rewards arrive late", ("closed",)),
        ("The plant drifts, or the legacy was changed", ("drift", "--split time", "monitor")),
        ("Episodes depend on each other", ("cluster", "most")),
        ("There are hundreds of actions", ("capped", "available")),
        ("Which delta?", ("--delta", "not yet")),
    ],
)
def test_what_users_of_other_libraries_ask_is_answered(topic: str, words: tuple[str, ...]) -> None:
    answer = PAGE.split(f"### {topic}\n")[1].split("\n### ")[0]
    assert all(word in answer for word in words)


def test_findings_exist() -> None:
    assert {"drift", "several-versions"} <= set(CODES)


@pytest.mark.parametrize(
    "propensity",
    sorted(set(re.findall(r"`(?:propensity: )?(\{(?:policy|base|column)[^`]*\})`", PAGE))),
)
def test_propensities_on_the_page_can_be_declared(propensity: str) -> None:
    level = f"{{name: a, action: {{column: a, values: [0, 1]}}, propensity: {propensity}}}"
    text = f"episode: k\nreward: {{column: r}}\nlevels: [{level}]\n"
    assert parse_problem(text, "faq").levels[0].propensity is not None


def test_the_price_of_a_smaller_delta() -> None:
    (told,) = re.findall(r"about ([\d.]+) times as many episodes as 0.05", PAGE)
    assert round(math.log(1000) / math.log(20), 1) == float(told)


def test_threads_are_those_of_public_trackers() -> None:
    threads = re.findall(r"\]\((https://[^)]+)\)", PAGE)
    assert len(threads) >= 8
    for thread in threads:
        assert re.fullmatch(r"/[\w.-]+/[\w.-]+/(issues|pull)/\d+", urlparse(thread).path), thread
