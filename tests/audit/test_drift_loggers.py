"""Several policies that wrote one log are noticed; one policy is not taken for several."""

from __future__ import annotations

import itertools
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from audit_cases import logged, taken_only
from hostile_logs import one_level
from logger_cases import SLOPES, Floats, greedy, softmax

from aegis.audit import PROPENSITIES_MOVE, SEVERAL_LOGGERS, Audit, Auditor, Finding, audit_log, logger_findings
from aegis.audit.check import AuditSetting
from aegis.audit.checks.drift import Loggers
from aegis.audit.variogram import RANKS
from aegis.certificate import certify
from aegis.logs import Source, write_log
from aegis.logs.formats import base
from aegis.policies import Epsilon, Function, Legacy, LevelRule, Mixture, Nearest, Softmax
from aegis.problem import Actions, Batch, Level, LevelTable, Problem, Propensity, Reward, Rows, Variable, concat
from aegis.rng import stream
from aegis.worlds import make_world

Rule_ = Callable[[Floats, npt.NDArray[np.int64]], Floats]


def loggers_of(problem: Problem, *batches: Batch) -> list[Finding]:
    return logger_findings(problem, batches)


def interleaved(world: str, one: str, other: str, episodes: int, seed: int, share: float = 0.5) -> tuple[Problem, Batch]:
    """Return a log in which a second policy acted in a share of the episodes, drawn at random."""
    plant = make_world(world)
    turns = stream(seed, "turns").random(episodes) < share
    logs = [plant.episodes(0, episodes, plant.legacy(name), seed) for name in (one, other)]
    mixed = concat([logs[0].take_episodes(~turns), logs[1].take_episodes(turns)])
    return plant.problem, mixed.take_episodes(np.argsort(mixed.episode))


SINGLE: dict[str, Rule_] = {
    "sign": lambda x, c: greedy((x[:, 0] > 0).astype(np.int64)),
    "softmax": lambda x, c: softmax(x @ SLOPES[: x.shape[1]]),
    "sharp": lambda x, c: softmax(6.0 * x @ SLOPES[: x.shape[1]]),
    "by category": lambda x, c: greedy(c),
    "category and sign": lambda x, c: greedy((c + (x[:, 0] > 0.5)) % 3),
    "best of three": lambda x, c: greedy(np.argmax(x @ SLOPES[: x.shape[1]], axis=1)),
    "uniform": lambda x, c: np.full((len(x), 3), 1 / 3),
}


PILOTS: dict[str, Rule_] = {
    "uniform": SINGLE["uniform"],
    "other sign": lambda x, c: greedy((x[:, 0] <= 0).astype(np.int64)),
    "constant": lambda x, c: greedy(np.full(len(x), 2)),
}


def problem_of(numbers: int, full: bool = True, masked: bool = False, category: bool = True, labels: bool = True) -> Problem:
    context = [Variable("x", "vector", tuple(f"x{place}" for place in range(numbers)))] if numbers else []
    context += [Variable("c", "categorical", values=("a", "b", "c"))] if category else []
    actions = Actions.of("a", ("low", "middle", "high") if labels else (0, 1, 2))
    propensity = Propensity(columns=("p0", "p1", "p2")) if full else Propensity(column="p")
    available = ("m0", "m1", "m2") if masked else ()
    return Problem((Level("dose", actions, tuple(context), propensity, available=available),), Reward("r", (0.0, 1.0)))


def batch_of(problem: Problem, seed: int, episodes: int, rules: list[Rule_], share: float = 0.5) -> Batch:
    """Return a log of one-row episodes; the second rule, if there is one, acts in a share of them."""
    rng, level = stream(seed, "loggers"), problem.levels[0]
    numbers = next((len(variable.columns) for variable in level.context if variable.name == "x"), 0)
    x, c = rng.normal(size=(episodes, numbers)), rng.integers(0, 3, episodes)
    full = rules[0](x, c)
    if len(rules) > 1:
        full = np.where((rng.random(episodes) < share)[:, None], rules[1](x, c), full)
    available = None
    if level.available:
        available = rng.random((episodes, 3)) < 0.8
        available[np.arange(episodes), rng.integers(0, 3, episodes)] = True
        full = np.where(available, full, 0.0)
        full = full / full.sum(axis=1, keepdims=True)
    action = (rng.random(episodes)[:, None] > np.cumsum(full, axis=1)).sum(axis=1).clip(0, 2).astype(np.int32)
    context: dict[str, npt.NDArray[np.generic]] = {"x": x, "c": c.astype(np.int32)}
    taken = full[np.arange(episodes), action]
    table = LevelTable(
        np.arange(episodes, dtype=np.int32),
        {variable.name: context[variable.name] for variable in level.context},
        action,
        taken,
        full if level.propensity is not None and level.propensity.columns else None,
        available,
    )
    return Batch(np.arange(episodes), {"dose": table}, rng.random(episodes))


@pytest.mark.parametrize("numbers", [0, 1, 3])
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("name", SINGLE)
def test_one_policy_is_not_several(name: str, masked: bool, full: bool, numbers: int) -> None:
    if not numbers and name not in ("by category", "uniform"):
        return
    for (seed, episodes), labels in itertools.product(((1, 200), (2, 900)), (True, False)):
        problem = problem_of(numbers, full, masked, labels=labels)
        assert loggers_of(problem, batch_of(problem, seed, episodes, [SINGLE[name]])) == []


@pytest.mark.parametrize("share", [0.5, 0.2])
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("numbers", [0, 1, 2])
def test_two_policies_are_noticed(numbers: int, full: bool, share: float) -> None:
    problem = problem_of(numbers, full)
    legacy = SINGLE["sign" if numbers else "by category"]
    for seed in range(3):
        (item,) = loggers_of(problem, batch_of(problem, seed, 400, [legacy, PILOTS["uniform"]], share))
        assert (item.code, item.severity, item.level) == (SEVERAL_LOGGERS, "warning", "dose")


def test_contexts_that_are_equal_need_equal_probabilities() -> None:
    problem = problem_of(0)
    batch = batch_of(problem, 3, 400, [SINGLE["by category"]])
    assert loggers_of(problem, batch) == []
    table = batch.levels["dose"]
    for error, noticed in ((5e-4, False), (0.05, True)):
        moved = error * (np.arange(400) % 2 == 0)[:, None] * np.array([1.0, -1.0, 0.0])
        other = batch.with_level("dose", replace(table, mu_full=np.asarray(table.mu_full) + moved))
        assert bool(loggers_of(problem, other)) is noticed


def test_no_context_at_all() -> None:
    problem = problem_of(0, category=False)
    assert loggers_of(problem, batch_of(problem, 1, 300, [PILOTS["constant"]])) == []
    (item,) = loggers_of(problem, batch_of(problem, 1, 300, [PILOTS["constant"], PILOTS["uniform"]]))
    assert item.figures["share"] == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("form", ["base", "policy", "shares", "estimated"])
def test_propensities_that_follow_one_rule_by_declaration_are_left_out(form: str) -> None:
    problem = problem_of(1)
    batch = batch_of(problem, 1, 400, [SINGLE["sign"], PILOTS["other sign"]])
    assert loggers_of(problem, batch)
    forms = {
        "base": Propensity(base="meant", epsilon=0.2),
        "policy": Propensity(policy="uniform"),
        "shares": Propensity(shares=(0.5, 0.25, 0.25)),
        "estimated": Propensity(columns=("p0", "p1", "p2"), estimated=True),
    }
    declared = replace(problem, levels=(replace(problem.levels[0], propensity=forms[form]),))
    assert loggers_of(declared, batch) == []


LEGACIES = {
    "unified": ("natural", "natural:epsilon=0.1", "lever:epsilon=0.2", "sign", "constant", "uniform"),
    "additive": ("natural", "natural:epsilon=0.1", "lever:epsilon=0.2", "sign", "constant", "uniform"),
    "linear": ("natural", "constant", "uniform"),
    "plant": ("natural", "natural:epsilon=0.3", "uniform"),
    "clinic": ("natural", "softmax", "softmax:temperature=0.3", "uniform"),
    "dosing": ("natural", "constant", "uniform"),
}


MIXED = [
    ("unified", "sign", "natural"),
    ("unified", "natural", "uniform"),
    ("additive", "sign", "uniform"),
    ("additive", "lever:epsilon=0.2", "natural"),
    ("linear", "natural", "uniform"),
    ("linear", "constant", "natural"),
    ("plant", "natural", "uniform"),
    ("clinic", "softmax:temperature=0.3", "uniform"),
    ("dosing", "natural", "uniform"),
]


SPARSE = 3  # numbers, at which 300 decisions with a category have no like ones among those with the same action


@pytest.mark.parametrize(("world", "legacy"), [(world, legacy) for world, names in LEGACIES.items() for legacy in names])
def test_legacies_of_the_worlds_are_one_policy_each(world: str, legacy: str) -> None:
    problem, batch = logged(world, legacy, 300, 71)
    assert loggers_of(problem, batch) == []
    if world != "dosing":
        assert loggers_of(*taken_only(problem, batch)) == []


@pytest.mark.parametrize(("world", "one", "other"), MIXED)
@pytest.mark.parametrize("share", [0.5, 0.2])
def test_policies_that_take_turns_in_a_world_are_noticed(world: str, one: str, other: str, share: float) -> None:
    problem, batch = interleaved(world, one, other, 300, 5, share)
    assert loggers_of(problem, batch)
    if world != "dosing" and share == 0.5:  # fewer decisions of a rare pilot took the same action
        assert loggers_of(*taken_only(problem, batch))


def test_a_change_in_time_is_noticed() -> None:
    plant = make_world("additive")
    before, after = (plant.episodes(first, 200, plant.legacy(name), 4) for first, name in ((0, "sign"), (200, "natural")))
    assert {item.level for item in loggers_of(plant.problem, before, after)} == {"meta", "inner"}


@pytest.mark.parametrize("rule", [Nearest({"T": 1.0, "Q": 0.8}), Nearest({"Q": -1.5}, 0.5)])
def test_a_deterministic_rule_with_exploration_is_one_policy(rule: LevelRule) -> None:
    plant = make_world("unified")
    legacy = Legacy(plant.problem, {"meta": Epsilon(Nearest({"T": 1.0}), 0.2), "inner": Epsilon(rule, 0.2)})
    assert loggers_of(plant.problem, plant.episodes(0, 600, legacy, 2)) == []


def test_only_the_level_that_differs_is_named() -> None:
    plant = make_world("clinic")
    one, other = (
        Legacy(plant.problem, {"plan": Softmax((0.2, 1.0, -0.3)), "dose": Softmax((0.0, 0.3, 0.2, -0.4), {"level": slopes})})
        for slopes in ((-2.0, -0.5, 1.0, 2.0), (2.0, 0.5, -1.0, -2.0))
    )
    batch = concat([plant.episodes(0, 300, one, 1), plant.episodes(300, 300, other, 1)])
    named = [(item.code, item.level) for item in loggers_of(plant.problem, batch)]
    assert named == [(SEVERAL_LOGGERS, "dose"), (PROPENSITIES_MOVE, "dose")]  # one after the other: they move in time too


def test_a_controller_that_follows_the_episode_is_one_policy() -> None:
    plant = make_world("additive")
    poles = Mixture([plant.legacy(f"constant:value={value},epsilon=0.4") for value in (-2, 2)])
    batch = plant.episodes(0, 400, poles, 3, "sequential")
    full = np.asarray(batch.levels["inner"].mu_full)
    assert np.ptp(full[:, 0]) > 0.1  # given earlier doses the probabilities differ
    assert loggers_of(plant.problem, batch) == []


def test_many_actions_are_added_up_and_many_columns_left_out() -> None:
    rng = stream(8, "many")
    actions = Actions.grid("a", 0.0, 1.0, 500)
    names = tuple(f"x{place}" for place in range(40))
    for columns, noticed in ((names[:1], True), (names, False)):
        context = (Variable("x", "vector", columns),)
        level = Level("dose", actions, context, Propensity(columns=tuple(f"p{place}" for place in range(500))))
        problem = Problem((level,), Reward("r", (0.0, 1.0)))
        peak = 30 + 400 * (rng.random(300) < 0.5)
        full = softmax(-0.001 * (np.arange(500) - peak[:, None]) ** 2)
        table = LevelTable(np.arange(300, dtype=np.int32), {"x": rng.normal(size=(300, len(columns)))}, peak.astype(np.int32),
                           full[np.arange(300), peak], full)  # fmt: skip
        check = Loggers(AuditSetting(problem))
        check.add_batch(Batch(np.arange(300), {"dose": table}, rng.random(300)))
        assert check.samples["dose"]["quantity"].shape[1] <= 64
        assert bool(check.findings()) is noticed


def test_few_episodes_prove_nothing() -> None:
    problem, batch = interleaved("additive", "natural", "uniform", 3 * RANKS, 5)
    assert loggers_of(problem, batch) == []
    assert loggers_of(problem) == []


def test_parts_in_any_order_give_what_one_pass_gives() -> None:
    problem, batch = interleaved("clinic", "softmax:temperature=0.3", "uniform", 1500, 5)
    whole = Loggers(AuditSetting(problem))
    whole.add_batch(batch)
    findings = [item.plain() for item in whole.findings()]
    assert findings != []
    parts = []
    for rows in np.array_split(stream(1, "parts").permutation(1500), 4):
        part = Loggers(AuditSetting(problem))
        for some in np.array_split(np.sort(rows), 3):
            part.add_batch(batch.take_episodes(some))
        parts.append(pickle.loads(pickle.dumps(part)))
    for order in itertools.islice(itertools.permutations(parts), 0, 24, 7):
        joint = Loggers(AuditSetting(problem))
        for part in order:
            joint.merge(part)
        assert np.array_equal(joint.keys, whole.keys) and joint.keys.size == 1024
        assert [item.plain() for item in joint.findings()] == findings


@pytest.mark.parametrize("kind", ["text", "object", "several columns", "date"])
def test_ids_of_any_type_choose_the_sample(kind: str) -> None:
    problem, batch = interleaved("additive", "natural", "uniform", 1200, 5)
    numbers = np.arange(1200)
    ids = {
        "text": np.array([f"day-{number}" for number in numbers]),
        "object": np.array([f"day-{number}" for number in numbers], dtype=object),
        "several columns": np.array(list(zip(numbers, numbers[::-1], strict=True)), dtype=[("a", "i8"), ("b", "i8")]),
        "date": np.datetime64("2024-01-01") + numbers,
    }[kind]
    check = Loggers(AuditSetting(problem))
    check.add_batch(replace(batch, episode=ids))
    assert np.unique(check.keys).size == 1024 and check.findings()


def found(audit: Audit) -> list[Finding]:
    return [item for item in audit.findings if item.code == SEVERAL_LOGGERS]


def test_rows_of_the_file_are_named_and_pieces_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of seeds 0 to 39 one, 5, has a warning of 'siblings-interfere' too: that test warns of one in a hundred logs in order.
    problem, batch = interleaved("additive", "natural", "uniform", 400, 6)
    path = tmp_path / "log.parquet"
    write_log(batch, problem, path)
    pq.write_table(pq.read_table(path), path, row_group_size=500)
    whole = found(audit_log(Source(path, problem)))
    assert [item.level for item in whole] == ["meta", "inner"]
    for item in whole:
        assert re.search(
            r"^at like contexts the logged probabilities at level '(meta|inner)' differ: total variation 0\.\d+ between "
            r"neighbours, e\.g\. .*log\.parquet, row \d+ against .*log\.parquet, row \d+; several policies wrote this log, or",
            item.message,
        )
        assert "'incumbent'" in item.fix and "average of the log" in item.fix
        one, other = (int(row) - 1 for row in re.findall(r"row (\d+)", item.message))
        full = np.asarray(batch.levels["inner"].mu_full)
        if item.level == "inner":
            assert 0.5 * np.abs(full[one] - full[other]).sum() > 0.1
    monkeypatch.setattr(base, "CHUNK_ROWS", 1500)
    source = Source(path, problem)
    assert source.chunks() is not None
    assert [item.plain() for item in found(audit_log(source))] == [item.plain() for item in whole]


def test_the_words_for_the_action_taken_and_for_densities() -> None:
    (item, *_) = loggers_of(*taken_only(*interleaved("linear", "natural", "uniform", 400, 5)))
    assert re.search(
        r"differ: by 0\.\d+ on average between neighbours with like actions, e\.g\. episode \d+ against episode \d+;",
        item.message,
    )
    densities = [item for item in loggers_of(*interleaved("dosing", "natural", "uniform", 400, 5)) if item.level == "dose"]
    assert densities and "logged densities at level 'dose' differ" in densities[0].message


def test_it_warns_and_never_refuses() -> None:
    problem, batch = interleaved("additive", "natural", "uniform", 400, 6)
    auditor = Auditor(problem)
    auditor.add(batch)
    audit = auditor.result()
    assert audit.verdict == "fit with warnings" and audit.codes() == (SEVERAL_LOGGERS, SEVERAL_LOGGERS)


def legacy_and_pilot(seed: int, episodes: int, share: float = 0.5) -> pa.Table:
    """Return a log in which the second action pays 0.6 more. Legacy takes it with 0.9, a pilot with 0.2, in turns at random."""
    rng = stream(seed, "legacy and pilot")
    high = np.where(rng.random(episodes) < share, 0.2, 0.9)
    action = (rng.random(episodes) < high).astype(np.int64)
    reward = (rng.random(episodes) < 0.2 + 0.6 * action).astype(np.float64)
    columns = {"id": np.arange(episodes), "x": rng.normal(size=episodes), "a": action, "p0": 1 - high, "p1": high, "r": reward}
    return pa.table(columns)


def often_high(level: Level, rows: Rows) -> Floats:
    return np.tile([0.15, 0.85], (len(next(iter(rows.values()))), 1))


def test_a_certificate_from_a_legacy_and_a_pilot_says_so() -> None:
    problem = one_level()
    candidate = Function(problem, often_high)  # loses 0.03 against the legacy, gains 0.18 over the average
    for share, verdict, levels in ((0.5, "certified", {"dose"}), (0.0, "not yet", set())):
        source = Source(legacy_and_pilot(1, 1500, share), problem)
        certificate = certify(source, candidate, what=("gain",), delta=0.05, ledger=False)
        assert certificate.verdict.verdict == verdict
        assert {item["level"] for item in certificate.findings if item["code"] == SEVERAL_LOGGERS} == levels


def sizes(runs: int) -> list[int]:
    return [int(size) for size in np.geomspace(200, 2000, runs)]


def alarms(runs: int) -> tuple[int, int]:
    """Return how many logs that one policy wrote were taken for several, and how many there were."""
    alarmed = total = 0
    for (world, names), (run, episodes) in itertools.product(LEGACIES.items(), enumerate(sizes(runs))):
        for legacy in names:
            problem, batch = logged(world, legacy, episodes, 9000 + run)
            forms = [(problem, batch)] if world == "dosing" else [(problem, batch), taken_only(problem, batch)]
            alarmed, total = alarmed + sum(bool(loggers_of(*form)) for form in forms), total + len(forms)
    flags = (True, False)
    for name, numbers, full, masked, labels in itertools.product(SINGLE, (1, 2, 3), flags, flags, flags):
        problem = problem_of(numbers, full, masked, labels=labels)
        for run, episodes in enumerate(sizes(runs)):
            alarmed += bool(loggers_of(problem, batch_of(problem, 700 + run, episodes, [SINGLE[name]])))
            total += 1
    return alarmed, total


def test_false_alarms_are_rare() -> None:
    alarmed, total = alarms(1)
    assert total >= 100 and alarmed <= 1


@pytest.mark.soak
def test_false_alarms_are_rare_in_many_logs() -> None:
    alarmed, total = alarms(8)
    assert total >= 1000 and alarmed <= 0.01 * total


@pytest.mark.soak
@pytest.mark.parametrize("share", [0.5, 0.2])
def test_turns_are_noticed_in_nearly_all_logs(share: float) -> None:
    runs = 20
    whole: dict[str, list[bool]] = {}
    grids: dict[str, list[bool]] = {}
    for (world, one, other), run in itertools.product(MIXED, range(runs)):
        case = interleaved(world, one, other, 300, 300 + run, share)
        whole.setdefault(f"{world}, {one}, {other}", []).append(bool(loggers_of(*case)))
        if world != "dosing":
            grids.setdefault(f"{world}, {one}, {other}", []).append(bool(loggers_of(*taken_only(*case))))
    for numbers, full, (name, pilot) in itertools.product((1, 2, 3), (True, False), PILOTS.items()):
        if numbers == SPARSE and not full:
            continue
        problem = problem_of(numbers, full)
        for run in range(runs):
            batch = batch_of(problem, 400 + run, 300, [SINGLE["sign"], pilot], share)
            whole.setdefault(f"{numbers} numbers, {name}, {full}", []).append(bool(loggers_of(problem, batch)))
    assert np.mean([sum(noticed) / runs for noticed in whole.values()]) >= 0.95, whole
    assert np.mean([sum(noticed) / runs for noticed in grids.values()]) >= (0.9 if share == 0.5 else 0.6), grids
