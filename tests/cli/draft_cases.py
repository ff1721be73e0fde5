"""Logs as people have them, and their drafts."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aegis.problem import Problem, load_problem

LOG, OUT = "log.csv", "problem.yaml"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command answered."""

    code: int
    out: str
    err: str


Shell = Callable[..., Answer]


def drafted(shell: Shell, *options: str, log: str = LOG) -> tuple[Problem, str, str]:
    """Return the problem that init writes, its text, and the questions, each on a line."""
    answer = shell("init", log, *options, "--out", OUT)
    assert answer.code == 0, answer.err + answer.out
    text = Path(OUT).read_text(encoding="utf-8")
    questions = answer.out.split("To be decided by you:")[1]
    assert "..." not in questions
    return load_problem(OUT), text, questions


def audited(shell: Shell, text: str, *, log: str = LOG, code: int = 0) -> str:
    """Write the file as it was answered, and return what the audit says."""
    Path(OUT).write_text(text, encoding="utf-8")
    answer = shell("audit", log, "--problem", OUT)
    assert answer.code == code, answer.out + answer.err
    return answer.out


def contexts(problem: Problem) -> list[str]:
    return [column for level in problem.levels for variable in level.context for column in variable.columns]


def asked(questions: str, *parts: str) -> bool:
    """Say whether one question holds all parts."""
    return any(all(part in line for part in parts) for line in questions.splitlines())


def rows(header: str, count: int, row: Callable[[random.Random, int], str], seed: int = 1) -> str:
    rng = random.Random(seed)
    return "\n".join([header, *(row(rng, number) for number in range(count))]) + "\n"
