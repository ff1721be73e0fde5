"""Running benches: nothing twice, nothing lost, failures listed."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench_cases import bench

from aegis.errors import InputError, OutputError
from aegis.paper import ResultStore, collect_results, load_bench, plan_bench, run_plans
from aegis.paper import bench_runs as running

pytestmark = pytest.mark.usefixtures("coarse_oracle")


def test_what_is_there_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_bench(bench(), "quick")
    assert run_plans([plan], ResultStore(tmp_path)) == []
    first = collect_results(plan, ResultStore(tmp_path)).rows()
    with monkeypatch.context() as patch:
        patch.setattr(running, "MEASURES", {})
        assert run_plans([plan], ResultStore(tmp_path)) == []
    assert collect_results(plan, ResultStore(tmp_path)).rows() == first
    more = plan_bench(bench(), "quick", {"seeds": 4})
    told: list[Any] = []
    assert run_plans([more], ResultStore(tmp_path), say=lambda *said: told.append(said[2])) == []
    assert told == ["small: linear", "small: table"]
    assert [row["runs"] for row in collect_results(more, ResultStore(tmp_path)).rows()] == [4, 4]


def test_benches_with_units_in_common_do_not_take_each_others_runs(tmp_path: Path) -> None:
    few, many = bench(), bench().model_copy(update={"name": "other"})
    plans = [plan_bench(few, "quick", {"seeds": 2}), plan_bench(many, "quick", {"seeds": 4})]
    assert plans[0].units[0].key == plans[1].units[0].key
    for plan in plans:
        run_plans([plan], ResultStore(tmp_path))
    kept = ResultStore(tmp_path)
    assert [{row["runs"] for row in collect_results(plan, kept).rows()} for plan in plans] == [{2}, {4}]


def test_seeds_do_not_depend_on_what_runs_beside_them_or_on_the_process_they_run_in(tmp_path: Path) -> None:
    plan, more = plan_bench(bench(), "quick", {"seeds": 2}), plan_bench(bench(), "quick", {"seeds": 7})
    alone, together = ResultStore(None), ResultStore(tmp_path)
    run_plans([plan], alone)
    run_plans([more], together)
    for unit in plan.units:
        assert {seed: together.read(unit)[seed] for seed in range(2)} == alone.read(unit)
        (part,) = running.split_seeds(unit, range(2))
        perform, sent = pickle.loads(pickle.dumps((running._perform, part)))  # as it is sent to another process
        results, why = perform(sent)
        assert dict(enumerate(results)) == alone.read(unit) and not why


def test_a_part_that_fails_is_listed_and_the_others_are_run(tmp_path: Path) -> None:
    plan = plan_bench(bench(), "quick")
    table = plan.units[1]
    plan = replace(plan, units=(plan.units[0], replace(table, settings={**table.settings, "agent": "x"})))
    (failure,) = run_plans([plan], ResultStore(tmp_path))
    assert failure.unit.arm == "table" and "unknown agent 'x'" in failure.why
    results = collect_results(plan, ResultStore(tmp_path))
    assert not results.complete and {row["agent"] for row in results.rows()} == {"linear"}


def test_whatever_is_raised_names_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(settings: object, seeds: object) -> None:
        raise ZeroDivisionError("by hand")

    monkeypatch.setattr(running, "MEASURES", {"online": broken})
    failures = run_plans([plan_bench(bench(), "quick")], ResultStore(None))
    assert len(failures) == 2
    assert "ZeroDivisionError: by hand" in failures[0].why and "test_bench_runs.py" in failures[0].why


def test_interrupted_it_keeps_what_was_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_bench(bench(), "quick")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_plans([plan], ResultStore(tmp_path), say=stop)
    kept = ResultStore(tmp_path)
    assert [len(kept.read(unit)) for unit in plan.units] == [3, 0]


def test_a_line_that_was_cut_off_is_run_again(tmp_path: Path) -> None:
    plan = plan_bench(bench(), "quick")
    run_plans([plan], ResultStore(tmp_path))
    unit = plan.units[0]
    path = tmp_path / "small" / f"{unit.key}.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    store = ResultStore(tmp_path)
    assert store.missing(unit, range(3)) == [2]
    assert run_plans([plan], store) == []
    assert ResultStore(tmp_path).missing(unit, range(3)) == []


def test_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "small").write_text("in the way")
    with pytest.raises(OutputError, match="cannot write"):
        run_plans([plan_bench(bench(), "quick")], ResultStore(tmp_path / "store"))


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
    cut = path.read_bytes()[:-9]  # perhaps another process is writing the rest
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


@pytest.mark.parametrize("name", ["1b", "1c", "firing-order"])
def test_seeds_that_are_not_run_in_lockstep_are_kept_one_by_one(name: str) -> None:
    unit = plan_bench(load_bench(name), "quick").units[0]
    parts = [seeds for _, seeds in running.split_seeds(unit, range(6))]
    assert parts == ([(0, 1, 2, 3, 4), (5,)] if name == "1b" else [(seed,) for seed in range(6)])
