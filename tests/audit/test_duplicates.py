"""Episodes that are there twice are noticed, beyond chance; chance alone is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from audit_cases import audited, logged, taken_only
from hostile_logs import certified, codes_of, even, one_level, rows_of, runs_and_doses, two_levels

from aegis.audit import Auditor
from aegis.audit.check import AuditSetting, Known
from aegis.audit.checks import duplicates
from aegis.audit.checks.duplicates import DuplicateEpisodes
from aegis.problem import Batch, Problem, concat
from aegis.rng import stream

Make = Callable[[np.random.Generator], Batch]


CATEGORY = "{column: x, values: [u, v]}"


def rows(rng: np.random.Generator, count: int, context: str, reward: str) -> Batch:
    codes = rng.integers(0, 2, count).astype(np.int32)
    x = {"number": rng.normal(size=count), "category": codes, "many": rng.integers(0, 300, count).astype(float)}[context]
    action = rng.integers(0, 2, count)
    values = {"number": rng.random(count), "coin": (rng.random(count) < 0.3 + 0.4 * action).astype(float)}
    values["noiseless"] = (x + 300 * action) / 600
    return Batch(np.arange(count), {"dose": even(np.arange(count), action, x=x)}, values[reward])


LOGS: dict[str, tuple[Problem, Make]] = {
    "coins, numbers": (one_level(), lambda rng: rows(rng, 120, "number", "coin")),
    "numbers, categories": (one_level(context=CATEGORY), lambda rng: rows(rng, 120, "category", "number")),
    "numbers, numbers": (one_level(), lambda rng: rows(rng, 120, "number", "number")),
    "two levels": (two_levels(), lambda rng: runs_and_doses(rng, 60)),
}


def twice(rng: np.random.Generator) -> Batch:
    """Return a design in which each context comes exactly twice, with a coin as the reward."""
    batch = rows(rng, 3000, "number", "coin")
    table = batch.levels["dose"]
    return batch.with_level("dose", replace(table, context={"x": np.repeat(np.arange(1500.0), 2)}))


CHANCE: dict[str, tuple[Problem, Make]] = {
    "a design of pairs": (one_level(), twice),
    "coins, categories": (one_level(context=CATEGORY), lambda rng: rows(rng, 300, "category", "coin")),
    "no noise, many contexts": (one_level(), lambda rng: rows(rng, 400, "many", "noiseless")),
}


@pytest.mark.parametrize("runs", [1, pytest.param(3, marks=pytest.mark.ci)])
@pytest.mark.parametrize("taken", [False, True])
@pytest.mark.parametrize("name", LOGS)
def test_a_copied_log_is_refused(name: str, taken: bool, runs: int) -> None:
    problem, make = LOGS[name]
    for run in range(runs):
        rng = stream(run, "copies", name)
        batch = make(rng)
        moved = replace(batch, episode=batch.episode + 9000).take_episodes(rng.permutation(len(batch)))
        form = taken_only(problem, batch) if taken else (problem, batch)
        assert "duplicated-episodes" not in audited(*form).codes()
        copied = taken_only(problem, concat([batch, moved])) if taken else (problem, concat([batch, moved]))
        found = next(item for item in audited(*copied).refused if item.code == "duplicated-episodes")
        assert found.figures["copies"] == len(batch)
        pieces = [copied[1].take_episodes(part) for part in np.array_split(np.arange(2 * len(batch)), 7)]
        assert "duplicated-episodes" in audited(copied[0], *pieces).codes()


def test_a_part_that_was_copied_is_refused() -> None:
    batch = rows(stream(1, "part"), 2000, "number", "coin")
    part = replace(batch.take_episodes(np.arange(0, 2000, 40)), episode=9000 + np.arange(50))
    assert audited(one_level(), concat([batch, part])).codes("refused") == ("duplicated-episodes",)


@pytest.mark.parametrize(("runs", "most"), [(10, 2), pytest.param(20, 4, marks=pytest.mark.ci)])
@pytest.mark.parametrize("name", [*CHANCE, *LOGS])
def test_what_chance_repeats_is_not_refused(name: str, runs: int, most: int) -> None:
    problem, make = {**LOGS, **CHANCE}[name]
    alarms = 0
    for run in range(runs):
        batch = make(stream(run, "chance", name))
        whole = DuplicateEpisodes(AuditSetting(problem, alpha=0.05))
        auditor = Auditor(problem, alpha=0.05)
        auditor.add(batch)
        alarms += "duplicated-episodes" in auditor.result().codes()
        assert whole.findings(Known()) == []
    assert alarms <= most


def test_memory_is_bounded_and_copies_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "MOST", 256)
    problem = one_level()
    batches = [rows(stream(run, "large"), 500, "number", "coin") for run in range(8)]
    auditor = Auditor(problem)
    for batch in batches:
        auditor.add(batch)
    assert auditor._checks["duplicate-episodes"].by_context.size <= 256 and "duplicated-episodes" not in auditor.result().codes()
    for batch in batches:
        auditor.add(replace(batch, episode=batch.episode + 9000))
    found = next(item for item in auditor.result().refused if item.code == "duplicated-episodes")
    assert found.figures["copies"] == found.figures["sample"] / 2 and "a sample of" in found.message


def test_few_values_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "MOST", 256)
    auditor = Auditor(one_level(context=CATEGORY))
    for run in range(4):
        auditor.add(rows(stream(run, "few"), 500, "category", "coin"))
    assert (
        auditor._checks["duplicate-episodes"].by_context.size <= 256
        and auditor._checks["duplicate-episodes"].by_reward.size <= 256
    )


@pytest.mark.parametrize("world", ["clinic", "plant"])
def test_anything_that_differs_makes_another_episode(world: str) -> None:
    problem, batch = logged(world, "uniform", 40, 1)
    assert batch.reward is not None
    other = replace(batch, episode=np.arange(1000, 1040))
    innermost = problem.innermost.name
    table = batch.levels[innermost]
    rows_changed = np.searchsorted(batch.episode_of(innermost), np.arange(40), side="right") - 1
    for name, values in table.context.items():
        changed = values.copy()
        changed[rows_changed] = 1 - changed[rows_changed] if changed.dtype.kind == "i" else changed[rows_changed] + 1e-9
        log = other.with_level(innermost, replace(table, context={**table.context, name: changed}))
        assert "duplicated-episodes" not in audited(problem, concat([batch, log])).codes(), name
    reward = batch.reward.copy()
    reward[rows_changed] = np.nextafter(reward[rows_changed], 0.5)
    assert "duplicated-episodes" not in audited(problem, concat([batch, replace(other, reward=reward)])).codes()
    assert "duplicated-episodes" in audited(problem, concat([batch, other])).codes()


def redone(rng: np.random.Generator, batch: Batch, same: bool) -> Batch:
    """Return a log in which every third episode is done once more, in the same context; same: with the same action."""
    count = len(batch)
    again = np.sort(np.concatenate([np.arange(count), np.arange(0, count, 3)]))
    found = replace(batch.take_episodes(again), episode=np.arange(again.size))
    table = found.levels["dose"]
    second = np.flatnonzero(np.diff(again, prepend=-1) == 0)
    action = table.action.copy()
    action[second] = action[second] if same else rng.integers(0, 2, second.size)
    reward = np.asarray(found.reward).copy()
    reward[second] = rng.random(second.size)
    return replace(found.with_level("dose", replace(table, action=action)), reward=reward)


@pytest.mark.parametrize("runs", [5, pytest.param(16, marks=pytest.mark.ci)])
def test_episodes_done_again_with_the_same_action_are_refused_and_with_a_new_draw_they_are_not(runs: int) -> None:
    alarms = 0
    for run in range(runs):
        rng = stream(run, "redone")
        batch = rows(rng, 120, "number", "number")
        assert audited(one_level(), redone(rng, batch, same=True)).codes("refused") == ("episodes-redone",)
        alarms += bool(audited(one_level(), redone(rng, batch, same=False)).refused)
        codes = rows(rng, 300, "category", "number")
        alarms += "episodes-redone" in audited(one_level(context=CATEGORY), codes).codes()
    assert alarms == 0


def test_a_file_that_was_copied_is_refused() -> None:
    problem = one_level()
    refused = 0
    for run in range(4):
        rng = stream(run, "copied")
        table = rows_of(rng.integers(0, 2, 300), rng.integers(0, 2, 300).astype(float), x=rng.normal(size=300))
        assert "duplicated-episodes" not in codes_of(certified(problem, table))
        again = table.set_column(0, "id", pa.array(np.arange(5000, 5300)))
        found = certified(problem, pa.concat_tables([table, again]))
        refused += found.verdict.verdict == "refused" and "duplicated-episodes" in codes_of(found)
    assert refused == 4
