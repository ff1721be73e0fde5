"""Decisions that were learned from are known again after harmless exports; honest data are not, whatever repeats in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from aegis.agents import CandidateSettings, Learned, learn
from aegis.certificate import REFUSED, certify
from aegis.certificate.contamination import CONTAMINATION_ALPHA, SeenDecisions
from aegis.logs import Source
from aegis.problem import Batch, LevelTable, Problem, TraceCollector, parse_problem

TEXT = """
episode: id
reward: {column: REWARD, range: [0, MOST]}
levels:
  - name: dose
    context: [{name: x, columns: [x0, x1, x2, x3]}]
    action: {column: a, values: [0, 1, 2]}
    propensity: {columns: [p0, p1, p2]}
"""


def problem_of(reward: str = "r", most: float = 1) -> Problem:
    return parse_problem(TEXT.replace("REWARD", reward).replace("MOST", str(most)))


def log(seed: int = 1, rows: int = 240) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    numbers = {f"x{k}": rng.normal(size=rows) for k in range(4)}
    chances = {f"p{k}": np.full(rows, 1 / 3) for k in range(3)}
    return {"id": np.arange(rows), **numbers, "a": rng.integers(0, 3, rows), **chances, "r": rng.random(rows)}


@pytest.fixture(scope="module")
def learned() -> Learned:
    return learn(Source(pa.table(log()), problem_of()), settings=CandidateSettings("greedy"))


def sentence(table: dict[str, Any], candidate: Learned, problem: Problem, fresh: bool = True) -> tuple[str, str]:
    found = certify(Source(pa.table(table), problem), candidate, fresh=fresh, ledger=False)
    return found.verdict.verdict, found.verdict.sentence


def rounded(table: dict[str, Any], digits: int) -> dict[str, Any]:
    return {**table, **{f"x{k}": np.round(table[f"x{k}"], digits) for k in range(4)}}


RENAMED = {**log(), "id": np.arange(240) + 10**6}
EXPORTS = {
    "contexts rounded to 3 digits": (rounded(RENAMED, 3), problem_of()),
    "contexts rounded to 2 digits": (rounded(RENAMED, 2), problem_of()),
    "rewards rounded": ({**RENAMED, "r": np.round(RENAMED["r"], 2)}, problem_of()),
    "rewards in cents": ({**RENAMED, "r": 100 * RENAMED["r"]}, problem_of(most=100)),
    "rewards under another name": ({**RENAMED, "margin": RENAMED["r"]}, problem_of("margin")),
    "episodes in pairs": ({**log(), "id": np.arange(240) // 2 + 10**6}, problem_of()),
}


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("export", EXPORTS)
def test_exports_are_known_again(learned: Learned, export: str, fresh: bool) -> None:
    verdict, text = sentence(*_pair(export, learned), fresh)
    assert verdict == REFUSED and "of the certified decisions have the contexts, to about three digits" in text
    assert "for example in episode 10" in text and "certify on other data" in text


def _pair(export: str, learned: Learned) -> tuple[dict[str, Any], Learned, Problem]:
    table, problem = EXPORTS[export]
    return table, learned, problem


def test_new_data_are_fresh_even_with_the_same_contexts(learned: Learned) -> None:
    """Contexts may come again by design: the actions that are drawn in them are new."""
    new = log(2)
    assert sentence(new, learned, problem_of())[0] != REFUSED
    assert sentence(new, learned, problem_of("r", 100))[0] != REFUSED
    again = {**RENAMED, "a": new["a"], "r": new["r"]}
    verdict, text = sentence(again, learned, problem_of())
    assert verdict != REFUSED, text


def made(contexts: np.ndarray[Any, Any], actions: np.ndarray[Any, Any], chance: Any) -> Batch:
    rows = np.arange(actions.size, dtype=np.int32)
    chances = np.broadcast_to(np.asarray(chance, dtype=np.float64), rows.shape)
    return Batch(rows, {"dose": LevelTable(rows, {"x": contexts}, actions.astype(np.int32), chances)})


def retraced(old: Batch, new: Batch) -> SeenDecisions:
    tracing = TraceCollector("c")
    tracing.add(old)
    found = SeenDecisions(tracing.done())
    found.add(new, np.ones(len(new), dtype=bool))
    return found


def test_honest_actions_in_the_same_contexts_are_hardly_ever_refused() -> None:
    """The wealth is fair: its mean over honest logs is one, and 1 / ALPHA is out of reach; uneven probabilities included."""
    rng = np.random.default_rng(5)
    shares = np.array([0.9, 0.08, 0.02])
    wealth = []
    for _ in range(600):
        contexts, pair = rng.normal(size=12), rng.choice(3, (2, 12), p=shares)
        found = retraced(made(contexts, pair[0], 0.5), made(contexts, pair[1], shares[pair[1]]))
        assert not found.beyond_chance and 8 <= found.compared <= 12
        wealth.append(np.exp(found.wealth[0]))
    assert abs(np.mean(wealth) - 1.0) < 5 * np.std(wealth) / np.sqrt(600) and CONTAMINATION_ALPHA <= 1e-4


@pytest.mark.parametrize(("chance", "expected"), [(0.5, True), (0.9, True), (1.0, False), (np.nan, False)])
def test_copies_are_known_where_actions_were_drawn(chance: float, expected: bool) -> None:
    """An action that could not have been another one tells nothing, and neither does one without a probability."""
    rng = np.random.default_rng(6)
    old = made(rng.normal(size=200), rng.integers(0, 2, 200), chance)
    assert retraced(old, old).beyond_chance == expected


def test_some_copies_among_new_decisions_are_enough() -> None:
    rng = np.random.default_rng(7)
    contexts, actions = rng.normal(size=(300, 4)), rng.integers(0, 2, 300)
    mixed = actions.copy()
    mixed[40:] = rng.integers(0, 2, 260)
    elsewhere = contexts.copy()
    elsewhere[40:] = rng.normal(size=(260, 4))
    old = made(contexts, actions, 0.5)
    assert retraced(old, made(elsewhere, mixed, 0.5)).beyond_chance
    assert not retraced(old, made(elsewhere, rng.integers(0, 2, 300), 0.5)).beyond_chance


def test_contexts_that_repeat_tell_nothing() -> None:
    rng = np.random.default_rng(8)
    old = made(rng.integers(0, 4, 300).astype(np.float64), rng.integers(0, 2, 300), 0.5)
    found = retraced(old, old)
    assert found.traces.empty and found.compared == 0 and not found.beyond_chance


def test_only_certified_episodes_count() -> None:
    rng = np.random.default_rng(9)
    old = made(rng.normal(size=100), rng.integers(0, 2, 100), 0.5)
    tracing = TraceCollector("c")
    tracing.add(old)
    found = SeenDecisions(tracing.done())
    mask = np.arange(100) >= 90
    assert found.add(old, mask) is not None and found.compared <= 10
    assert found.add(old, np.zeros(100, dtype=bool)) is None
