"""What is damaged, misspelt or interrupted is told in words, and costs nothing that was done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench_cases import SMALL, bench

from aegis.errors import InputError, SettingError
from aegis.paper import MEASURES, ResultStore, load_bench, parse_bench, plan_bench, run_plans
from aegis.paper import bench_runs as running
from aegis.paper.measure_table import metrics_of

ADDITIVE = {"name": "additive", "inner_steps": 3}


@pytest.fixture
def stored(tmp_path: Path) -> tuple[Path, Any]:
    """Return the file of the first arm of a small bench that has been run, and the plan."""
    plan = plan_bench(bench(), "quick")
    run_plans([plan], ResultStore(tmp_path))
    return tmp_path / "small" / f"{plan.units[0].key}.jsonl", plan


def changed(line: bytes, **parts: Any) -> bytes:
    return json.dumps({**json.loads(line), **parts}).encode()


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: b"{not json",
        lambda line: b"\xff\xfe" + line,
        lambda line: b"[1, 2]",
        lambda line: line.replace(b'"run"', b'"rin"'),
        lambda line: changed(line, run="1"),
        lambda line: changed(line, outcomes=3),
        lambda line: changed(line, outcomes=[]),
        lambda line: line.replace(b'"reward"', b'"rewrd"'),
    ],
)
def test_a_damaged_line_is_run_again(damage: Any, stored: tuple[Path, Any]) -> None:
    path, plan = stored
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*lines[:2], damage(lines[2]), lines[3], b""]))
    store = ResultStore(path.parents[1])
    assert store.missing(plan.units[0], range(3)) == [1]
    assert run_plans([plan], store) == []
    assert path.read_bytes().splitlines()[-1] == lines[2]
    assert ResultStore(path.parents[1]).missing(plan.units[0], range(3)) == []


def test_reading_changes_nothing_on_disk(stored: tuple[Path, Any]) -> None:
    path, plan = stored
    cut = path.read_bytes()[:-9]  # perhaps somebody is just writing the rest
    path.write_bytes(cut)
    assert len(ResultStore(path.parents[1]).read(plan.units[0])) == 2
    assert path.read_bytes() == cut


def test_a_file_that_cannot_be_read(stored: tuple[Path, Any]) -> None:
    path, plan = stored
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match="cannot read"):
        ResultStore(path.parents[1]).read(plan.units[0])


class Interrupted:
    """An engine whose team is interrupted when its first part is done; its second is done as well."""

    workers = 2

    def team(self, fn: Any, parts: Any) -> Interrupted:
        """Return itself."""
        self.fn, self.parts = fn, parts
        return self

    def __enter__(self) -> Interrupted:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        yield 0, self.fn(self.parts[0])
        raise KeyboardInterrupt

    def finished(self) -> list[tuple[int, Any]]:
        return [(1, self.fn(self.parts[1]))]


def test_what_others_have_done_is_kept_when_it_is_interrupted(tmp_path: Path) -> None:
    plan = plan_bench(bench(), "quick", {"seeds": 12})
    with pytest.raises(KeyboardInterrupt):
        run_plans([plan], ResultStore(tmp_path), Interrupted())
    kept = ResultStore(tmp_path)
    assert [len(kept.read(unit)) for unit in plan.units] == [10, 0]


def test_interrupted_while_it_stores_it_stores_after_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, interrupted = running.append_runs, []

    def once(*arguments: Any) -> None:
        if not interrupted:
            interrupted.append(arguments)
            raise KeyboardInterrupt
        whole(*arguments)

    monkeypatch.setattr(running, "append_runs", once)
    plan = plan_bench(bench(), "quick")
    with pytest.raises(KeyboardInterrupt):
        run_plans([plan], ResultStore(tmp_path))
    kept = ResultStore(tmp_path)
    assert [len(kept.read(unit)) for unit in plan.units] == [3, 0]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"agent": "nobody"}, "'agent': unknown agent 'nobody'"),
        ({"legacy": 5}, "'legacy' should be a text, found 5"),
        ({"legacy": "natural:epsilon=2"}, "'legacy': "),
        ({"world.name": "additve"}, "'world': unknown world 'additve' (did you mean 'additive'?)"),
        ({"world.f_q": 1}, "'world': world 'additive' has no setting 'f_q'"),
        ({"world.inner_steps": "x"}, "'world'"),
        ({"episodes": "many"}, "'episodes' should be a whole number"),
        ({"episodes": 0}, "'episodes' should be greater than or equal to 1"),
        ({"model.temer": 1}, "'model': unknown setting of a model 'temer' (did you mean 'temper'?)"),
        ({"model.precision": "x"}, "'model'"),
        ({"rule.particels": 3}, "rule 'thompson' has no setting 'particels'"),
        ({"outer_rule": "best"}, "unknown rule 'best'"),
        ({"options.points": [3]}, "unknown option of the measure 'online' 'points'"),
        ({"legacy": None}, "'legacy' is changed to nothing"),
    ],
)
def test_a_setting_that_cannot_work_is_named_before_anything_runs(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingError) as raised:
        plan_bench(bench(SMALL.replace("flat_joint", "nested_nig")), "quick", changes)
    assert says in str(raised.value) and "bench small" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "changes", "says"),
    [
        ("1c", {"episodes": 20}, "--set options.points=[20]"),
        ("1c", {"options.points": [300, 200]}, "'options.points' are numbers of episodes that grow"),
        ("1c", {"options.points": 5}, "'options.points' should be a list"),
        ("1c", {"options.lam": "none"}, "'options.lam' should be 'root' or 'closed form'"),
        ("1c", {"options.scope": ["iner"]}, "'options.scope': "),
        ("1a", {"options.shifts": ["X"]}, "'options.shifts': "),
        ("firing-order", {"options.host": "x"}, "'options.host': unknown host 'x'"),
        ("firing-order", {"options.gate": "x"}, "unknown gate 'x'"),
        ("firing-order", {"options.gate_settings.upgrads": True}, "'options.gate_settings': "),
        ("firing-order", {"agent": "nested_cts"}, "the measure 'gate' has no agent"),
        ("offline-1", {"options.prior_world": {"f_x": 1}}, "'options.prior_world': "),
        ("offline-1", {"options.prior_world": {"name": "clinic"}}, "'options.prior_world': "),
        ("offline-1", {"options.alpha": 1.5}, "'options.alpha' should be less than 1"),
        ("offline-1", {"episodes": 1}, "leaves none to learn from"),
        ("offline-1", {"options.scope": ["iner"]}, "'options.scope': "),
        ("3b", {"world.inner_points": 5}, "sweeps 'world.inner_points'"),
    ],
)
def test_a_setting_of_a_measure_that_cannot_work(name: str, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingError) as raised:
        plan_bench(load_bench(name), "full", changes)
    assert says in str(raised.value) and f"bench {name}" in str(raised.value)


SWEPT = "\nsweep: {key: world.f_a, values: [1, 2, 3]}\n"
CLAIM = "claims: [{says: so, test: %s, with: {%s}}]"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("figures: [{kind: barz}]", "unknown kind of a figure 'barz' (did you mean 'bars'?)"),
        ("figures: [{kind: bars, metric: rewad}]", "unknown metric of a figure of the arm 'linear' 'rewad'"),
        ("figures: [{kind: bars, metric: curve}]", "'curve' is a list"),
        ("figures: [{kind: curves, metric: reward}]", "unknown list for the curve"),
        ("figures: [{kind: sweep}]", "needs a 'sweep'"),
        ("figures: [{kind: flips}]", "shows a handover"),
        ("figures: [{kind: convergence}]", "needs the measure 'split'"),
        ("figures: [{kind: bars}]" + SWEPT, "has no place for what is swept"),
        ("metrics: [reward, regert]", "unknown metric in 'metrics' of the arm 'linear' 'regert' (did you mean 'regret'?)"),
        ("metrics: [curve]", "'curve' is a list"),
        ("metrics: [curve@7]\npoints: [5]", "unknown point of 'curve'"),
        (CLAIM % ("welch", "above: linear, below: tabel"), "unknown arm 'tabel' (did you mean 'table'?)"),
        (CLAIM % ("welch", "above: linear, belo: table"), "under 'with': 'below' is missing; unknown key 'belo'"),
        (CLAIM % ("welch", "above: linear"), "under 'with': 'below' is missing"),
        (CLAIM % ("within", "arm: linear, metric: rewad, low: 1"), "unknown metric under 'with.metric' 'rewad'"),
        (CLAIM % ("within", "arm: linear, metric: curve, low: 1"), "'curve' is a list"),
        (CLAIM % ("within", "arm: linear, low: high"), "under 'with': 'low' should be a number, found 'high'"),
        (CLAIM % ("within", "arm: linear, low: 1") + SWEPT, "name the value, such as linear@1"),
        (CLAIM % ("within", "arm: linear@7, low: 1") + SWEPT, "linear was not run at 7"),
        (CLAIM % ("trend", "arm: linear, sign: 1"), "the test 'trend' needs a 'sweep'"),
    ],
)
def test_what_can_never_come_out_of_a_bench_is_told_before_it_runs(line: str, says: str) -> None:
    text = SMALL[: SMALL.index("paper:")] + line
    with pytest.raises(InputError) as raised:
        plan_bench(parse_bench(text, "small", "small.yaml"), "quick")
    assert says in str(raised.value) and "bench small" in str(raised.value)


SETTINGS: dict[str, dict[str, Any]] = {
    "gate": {"world": ADDITIVE, "episodes": 6},
    "offline": {"world": ADDITIVE, "agent": "nested_nig", "episodes": 12},
    "online": {"world": ADDITIVE, "agent": "nested_nig", "episodes": 6},
    "shift": {"world": {"name": "unified"}, "agent": "nested_nig", "episodes": 3, "options": {"shifts": ["T", "U"], "target": 2}},
    "split": {
        "world": ADDITIVE,
        "agent": "nested_nig",
        "episodes": 12,
        "options": {"points": [8, 12], "particles": 2, "draws": 2},
    },
}


@pytest.mark.parametrize("measure", MEASURES)
def test_the_names_of_metrics_are_those_that_a_measure_gives(measure: str) -> None:
    (own,) = MEASURES[measure](SETTINGS[measure], [0])
    names = metrics_of(measure, SETTINGS[measure])
    assert {name for name, item in own.items() if isinstance(item, list)} == set(names.lists)
    assert {name for name, item in own.items() if not isinstance(item, list)} == set(names.numbers)


@pytest.mark.parametrize("name", ["1b", "1c", "firing-order"])
def test_seeds_that_are_not_run_in_lockstep_are_kept_one_by_one(name: str) -> None:
    unit = plan_bench(load_bench(name), "quick").units[0]
    parts = [part.seeds for part in running._parts(unit, list(range(6)))]
    assert parts == ([(0, 1, 2, 3, 4), (5,)] if name == "1b" else [(seed,) for seed in range(6)])
