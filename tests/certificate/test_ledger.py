"""The ledger: every look is written down before the data are opened, and later certificates print it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_logs import better, better_policy, make_table, problem_of, replaced, saved, source_of, worse_policy

from aegis.certificate import Candidate, Ledger, certify, ledger_folder, scan, verify
from aegis.certificate.ledger import USUAL_RISK, LookRecord, request_key, summarise_looks
from aegis.errors import InputError, OutputError
from aegis.files import LOCK, json_digest
from aegis.logs import Source
from aegis.policies import Function, TargetColumns

DECLARED: dict[str, Any] = {"candidates": [{"name": "a", "digest": "1"}], "delta": 0.05}
OTHER: dict[str, Any] = {"candidates": [{"name": "b", "digest": "2"}], "delta": 0.05}


def book(folder: Path) -> Ledger:
    return Ledger.of("d" * 64, folder)


def open_look(ledger: Ledger, declared: dict[str, Any], when: str) -> list[LookRecord]:
    return ledger.add(lambda _: LookRecord(request_key(declared), when, dict(declared)))


def test_a_look_is_written_before_and_gets_its_verdict_after(tmp_path: Path) -> None:
    ledger = book(tmp_path)
    assert ledger.looks() == [] and open_look(ledger, DECLARED, "monday") == []
    (look,) = ledger.looks()
    assert (look.when, look.verdict, look.declared) == ("monday", None, DECLARED)
    ledger.close(DECLARED, "monday", "certified")
    assert ledger.looks()[0].verdict == "certified"
    (earlier,) = open_look(ledger, OTHER, "tuesday")
    assert earlier.verdict == "certified"
    assert len(json.loads(ledger.path.read_text())["looks"]) == 2


def test_a_repeated_look_is_told_from_another_one(tmp_path: Path) -> None:
    ledger = book(tmp_path)
    open_look(ledger, DECLARED, "monday")
    found = summarise_looks(open_look(ledger, DECLARED, "tuesday"), DECLARED, ledger)
    assert found["number"] == 1 and [look["same"] for look in found["earlier"]] == [True]
    found = summarise_looks(open_look(ledger, OTHER, "wednesday"), OTHER, ledger)
    assert found["number"] == 2 and [look["same"] for look in found["earlier"]] == [False, False]
    assert found["ledger"] == str(ledger.path)


def test_data_have_ledgers_of_their_own(tmp_path: Path) -> None:
    open_look(Ledger.of("a" * 64, tmp_path), DECLARED, "monday")
    assert Ledger.of("b" * 64, tmp_path).looks() == []


def test_the_folder_is_the_users_own_unless_one_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AEGIS_LEDGER", str(tmp_path / "here"))
    assert ledger_folder() == tmp_path / "here"
    monkeypatch.delenv("AEGIS_LEDGER")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert ledger_folder() == tmp_path / "aegis" / "looks"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert ledger_folder() == tmp_path / ".local" / "state" / "aegis" / "looks"


def test_other_files_in_the_folder_are_no_looks_and_a_ledger_under_another_name_is(tmp_path: Path) -> None:
    ledger = book(tmp_path)
    for name, text in (
        ("certificate.json", '{"looks": {"number": 1, "earlier": []}}'),
        ("list.json", "[1]"),
        ("data.json", "{}"),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert ledger.sharing() == []
    (tmp_path / "cut.json").write_text('{"looks": [', encoding="utf-8")
    assert [look.damaged for look in ledger.sharing()] == [f"{tmp_path / 'cut.json'}, line 1"]
    ledger.path.write_text('{"looks": {"number": 1}}', encoding="utf-8")
    assert [look.damaged for look in ledger.looks()] == [f"{ledger.path}, which is no list of looks"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"looks": [1]}', '{"looks": [{"key": "k"}]}', '{"others": []}', "\xff"])
def test_a_damaged_ledger_counts_as_a_look_and_stops_nobody(tmp_path: Path, text: str) -> None:
    ledger = book(tmp_path)
    open_look(ledger, DECLARED, "monday")
    ledger.path.write_bytes(text.encode("latin-1"))
    for number, when in enumerate(("tuesday", "wednesday")):
        earlier = open_look(ledger, OTHER, when)
        damaged = [look for look in earlier if look.damaged]
        assert len(damaged) == 1 and damaged[0].damaged.startswith(f"{ledger.path}, ") and len(earlier) == 1 + number
        ledger.close(OTHER, when, "not yet")
    assert summarise_looks(ledger.looks(), DECLARED, ledger)["number"] == 3  # this one, the other one, and what cannot be read
    assert ledger.path.read_bytes() == text.encode("latin-1")  # nothing is mended in silence
    beside = tmp_path / f"{ledger.path.stem}-2.json"
    assert [look["verdict"] for look in json.loads(beside.read_text())["looks"]] == ["not yet", "not yet"]


def three_looks(folder: Path) -> tuple[Ledger, list[str]]:
    ledger = book(folder)
    for when in ("monday", "tuesday", "wednesday"):
        open_look(ledger, {**DECLARED, "delta": len(when) / 100}, when)
    return ledger, ledger.path.read_text().splitlines()


@pytest.mark.parametrize("how", ["broken", "cut", "byte"])
def test_a_file_that_cannot_be_read_spends_at_least_the_risk_of_all_its_looks(tmp_path: Path, how: str) -> None:
    ledger, lines = three_looks(tmp_path)
    spent = sum(look.risk for look in ledger.looks())
    (place,) = [number for number, line in enumerate(lines) if '"when": "wednesday"' in line]
    text = "\n".join(lines)
    if how == "broken":
        text = text.replace('"when": "wednesday"', '"when"= "wednesday"')
    elif how == "byte":
        text = text.replace("tuesday", "tues\udcffday")
    else:
        text = "\n".join(lines[: place + 1])
    ledger.path.write_bytes(text.encode("utf-8", errors="surrogateescape"))
    (damaged,) = ledger.looks()
    assert damaged.damaged.startswith(f"{ledger.path}, ") and damaged.statement
    lost = 0.09 - USUAL_RISK if how == "cut" else 0.0  # what is cut off counts at the usual risk
    assert damaged.risk >= spent - lost > USUAL_RISK
    if how == "broken":
        assert damaged.damaged == f"{ledger.path}, line {place + 1}"


def test_a_look_that_lacks_a_field_is_named_and_the_others_still_count(tmp_path: Path) -> None:
    ledger, _ = three_looks(tmp_path)
    ledger.path.write_text(ledger.path.read_text().replace('"when": "tuesday"', '"wen": "tuesday"'))
    looks = ledger.looks()
    assert [look.when for look in looks if not look.damaged] == ["monday", "wednesday"]
    assert [(look.damaged, look.risk) for look in looks if look.damaged] == [(f"{ledger.path}, look 2", 0.07)]


def test_what_is_damaged_counts_at_all_data_and_a_restored_file_brings_all_looks_back(tmp_path: Path) -> None:
    ledger, lines = three_looks(tmp_path)
    whole = ledger.path.read_bytes()
    ledger.path.write_text("\n".join(lines[:-8]))
    other = Ledger.of("e" * 64, tmp_path)
    (look,) = other.sharing()
    assert look.part and look.damaged and look.elsewhere and summarise_looks([look], OTHER, other)["number"] == 2
    ledger.path.write_text("\n".join(lines[3:-8]))  # nor can it be read which data it is about: it counts as a result on all
    (look,) = other.sharing()
    assert look.damaged and look.statement
    ledger.path.write_text("\n".join(lines[:-8]))
    open_look(ledger, OTHER, "thursday")
    assert len(other.sharing()) == 1
    ledger.path.write_bytes(whole)
    assert [look.when for look in ledger.looks()] == ["monday", "tuesday", "wednesday", "thursday"]
    assert other.sharing() == []
    open_look(ledger, OTHER, "friday")
    assert len(ledger.looks()) == 5


@settings(max_examples=30, deadline=None)
@given(cut=st.integers(0, 2000), junk=st.binary(max_size=4))
def test_no_damage_forgets_that_there_were_looks(cut: int, junk: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        ledger, _ = three_looks(Path(name))
        raw = ledger.path.read_bytes()
        place = min(cut, len(raw))
        ledger.path.write_bytes(raw[:place] + junk)
        found = ledger.looks()
        if place < len(raw.rstrip()):
            assert any(look.damaged for look in found)


def test_a_certificate_says_that_the_ledger_is_damaged(tmp_path: Path) -> None:
    source = source_of(make_table(40))
    certified(source, tmp_path)
    (path,) = tmp_path.glob("*.json")
    path.write_text(path.read_text()[:-40])
    barred = certified(source, tmp_path)
    assert {"chosen-after-results", "damaged-ledger"} <= {found["code"] for found in barred.findings}
    again = certified(source, tmp_path, delta=0.12, fixed_before="registered in May; the disk failed")
    assert again.settings["delta"] == pytest.approx(0.07)  # what cannot be read counts as a look at the usual risk
    (said,) = [found for found in again.findings if found["code"] == "damaged-ledger"]
    assert said["severity"] == "warning" and f"{path}, line " in said["message"] and "restore the file" in said["fix"]
    assert again.looks["number"] == 2 and again.looks["earlier"][0]["verdict"] == "cannot be read"
    assert not any(found["code"] == "earlier-looks" for found in again.findings)
    other = certified(source_of(make_table(40, seed=5)), tmp_path)  # the ledger still says that it is about other files
    assert [found["code"] for found in other.findings if "ledger" in found["code"]] == ["damaged-ledger"]
    assert other.verdict.verdict != "refused"
    path.write_text(path.read_text().replace('"files"', '"fi'))
    assert certified(source_of(make_table(40, seed=6)), tmp_path).findings[0]["code"] == "chosen-after-results"
    assert verify(again.to_json(), source, [Candidate.of(better_policy(source.problem))]).holds


def certified(source: Source, folder: Path, **more: Any) -> Any:
    return certify(source, better_policy(source.problem), ledger=folder, **more)


def test_a_folder_that_cannot_be_written_is_noticed_before_the_data_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    source = source_of(make_table(40))
    opened: list[object] = []
    batches = Source.batches
    monkeypatch.setattr(Source, "batches", lambda self, *rest, **more: opened.append(1) or batches(self, *rest, **more))
    with pytest.raises(OutputError, match="cannot write"):
        certified(source, tmp_path / "file" / "ledger")
    assert opened == []
    certified(source, tmp_path / "ledger")
    assert opened


def verdicts_in(folder: Path) -> list[str | None]:
    return [look["verdict"] for path in folder.glob("*.json") for look in json.loads(path.read_text())["looks"]]


def test_a_look_that_ends_in_a_refusal_is_down(tmp_path: Path) -> None:
    table = make_table(40)
    broken = replaced(table, "margin", [2.0 if k == 7 else 0.5 for k in range(table.num_rows)])
    certificate = certified(source_of(broken), tmp_path)
    assert certificate.verdict.verdict == "refused"
    assert verdicts_in(tmp_path) == ["refused"]


def broken_policy(level: Any, rows: Any) -> Any:
    raise KeyError("temprature")


def test_what_is_wrong_before_anything_is_looked_at_is_no_look(tmp_path: Path) -> None:
    """A typo costs nothing: in a column, a policy, a scope, a group, a cell of the first rows, a range that is not declared."""
    table, problem = make_table(40), problem_of()
    blank = replaced(table, "dose", pa.array([None if k == 7 else 1 for k in range(table.num_rows)]))
    source, taken = source_of(table), problem_of(full=False)
    attempts: list[Any] = [
        lambda: certified(source_of(blank), tmp_path),
        lambda: certified(source_of(table.drop_columns(["p_2"])), tmp_path),
        lambda: certify(source_of(table, taken), TargetColumns(taken, {"dose": "new_dos"}), scopes=[["dose"]], ledger=tmp_path),
        lambda: certify(source, Function(problem, broken_policy), ledger=tmp_path),
        lambda: certified(source, tmp_path, scopes=[["doze"]]),
        lambda: certified(source, tmp_path, by=("tsk",)),
        lambda: certified(source, tmp_path, method="robst"),
    ]
    for attempt in attempts:
        with pytest.raises(InputError):
            attempt()
    loose = replace(problem, reward=replace(problem.reward, range=None))
    assert certified(source_of(table, loose), tmp_path).verdict.verdict == "refused"
    assert verdicts_in(tmp_path) == []
    assert certified(source, tmp_path).looks["earlier"] == []


def test_a_look_that_breaks_off_after_units_were_opened_stays_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of(make_table(40))
    add = scan._add_view
    calls: list[int] = []

    def failing(*arguments: Any) -> None:
        calls.append(1)
        if len(calls) > 1:
            raise InputError("the disk is gone")
        add(*arguments)

    monkeypatch.setattr(scan, "_add_view", failing)
    batches = Source.batches
    monkeypatch.setattr(Source, "batches", lambda self, *rest, **more: batches(self, *rest, **{**more, "rows": 30}))
    with pytest.raises(InputError, match="the disk is gone"):
        certified(source, tmp_path)
    assert verdicts_in(tmp_path) == [None]
    monkeypatch.undo()
    assert [look["verdict"] for look in certified(source, tmp_path).looks["earlier"]] == [None]


def test_a_policy_without_a_digest_is_never_the_same(tmp_path: Path) -> None:
    """A function without a name may be another one than yesterday: its second look comes after a result."""
    source = source_of(make_table(40))
    policy = Function(source.problem, lambda level, rows: better(level, rows))
    for number in range(3):
        found = certify(source, policy, ledger=tmp_path, now=f"day {number // 2}")  # two within one second
        looks = found.looks
        assert looks["number"] == 1 + (number > 0) and [look["same"] for look in looks["earlier"]] == [False] * (number > 0)
        assert ("chosen-after-results" in [item["code"] for item in found.findings]) == (number > 0)


def test_code_that_behaves_otherwise_is_not_the_same(tmp_path: Path) -> None:
    ledger = book(tmp_path)
    for when, sums in (("monday", "1"), ("tuesday", "2")):
        earlier = open_look(ledger, DECLARED, when)
        ledger.close(DECLARED, when, "not yet", {"a": {"dose": sums}})
    (look,) = earlier
    assert look.behaviour == {"a": {"dose": "1"}}
    for sums, same in (("1", True), ("2", False)):
        found = summarise_looks(earlier, DECLARED, ledger, {"a": {"dose": sums}})
        assert [item["same"] for item in found["earlier"]] == [same] and found["number"] == (1 if same else 2)


def test_an_earlier_look_at_part_of_the_data_is_printed(tmp_path: Path) -> None:
    """A log that grew, by a file or by rows, has a ledger of its own; looks at what it grew from are looks at a part of it."""
    table, more, folder = make_table(80), make_table(30, seed=3), tmp_path / "looks"
    more = replaced(more, "batch", [f"n{name}" for name in more["batch"].to_pylist()])
    paths = [saved(table, tmp_path / "one.parquet"), saved(more, tmp_path / "two.parquet")]
    grown = saved(pa.concat_tables([table, more]), tmp_path / "grown.parquet")
    other = saved(make_table(80, seed=9), tmp_path / "other.parquet")
    certified(Source([paths[0]], problem_of()), folder)
    for parts, delta in ((paths, 0.2), ([grown], 0.3)):
        certificate = certified(Source(parts, problem_of()), folder, delta=delta)
        assert {(look["part"], look["same"]) for look in certificate.looks["earlier"]} == {(True, False)}
        (note,) = [found for found in certificate.findings if found["code"] == "earlier-looks"]
        assert "at a part of them" in note["message"]
        refused = certified(Source(parts, problem_of()), folder, delta=0.04)
        assert "risk-spent" in [found["code"] for found in refused.findings]
    assert certified(Source([other], problem_of()), folder).looks["earlier"] == []


def test_a_ledger_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    ledger = book(tmp_path)
    ledger.path.parent.mkdir(exist_ok=True)
    old = {"key": json_digest(DECLARED), "when": "monday", "declared": DECLARED, "verdict": "not yet"}
    ledger.path.write_text(json.dumps({"looks": [old]}))
    (look,) = open_look(ledger, DECLARED, "tuesday")
    assert look.same(request_key({**DECLARED, "delta": 0.1}), {})  # the risk is not part of what a request is known by
    assert not look.same(request_key(OTHER), {}) and look.risk == 0.05
    assert len(ledger.looks()) == 2


def test_later_certificates_print_earlier_looks(tmp_path: Path) -> None:
    table = make_table(60)
    first = certified(source_of(table), tmp_path)
    assert (first.looks["number"], first.looks["earlier"]) == (1, [])
    again = certified(source_of(table), tmp_path)
    assert again.looks["number"] == 1 and [look["same"] for look in again.looks["earlier"]] == [True]
    assert not any(found["code"] == "earlier-looks" for found in again.findings)
    declared = {"delta": 0.12, "fixed_before": "minutes of the meeting of 3 May"}
    other = certify(source_of(table), worse_policy(problem_of()), ledger=tmp_path, **declared)
    assert other.looks["number"] == 2
    (note,) = [found for found in other.findings if found["code"] == "earlier-looks"]
    assert note["severity"] == "note" and "2 other looks" in note["message"]
    assert note["message"].endswith("The risk of all statements on these data together is at most 12 %")
    assert certified(source_of(make_table(60, seed=2)), tmp_path).looks["number"] == 1
    assert certify(source_of(table), better_policy(problem_of()), ledger=False).looks == {}


def test_a_look_at_the_same_data_written_in_another_file_is_the_same_data(tmp_path: Path) -> None:
    """Digests are of the content of files: a copy under another name has the looks of the first."""
    import pyarrow.parquet as pq

    table = make_table(40)
    for name in ("one.parquet", "two.parquet"):
        pq.write_table(table, tmp_path / name)
    found = [certified(Source([tmp_path / name], problem_of()), tmp_path / "looks") for name in ("one.parquet", "two.parquet")]
    assert [len(certificate.looks["earlier"]) for certificate in found] == [0, 1]


SCRIPT = """
import sys
from aegis.certificate.ledger import Ledger, LookRecord, request_key
for k in range(3):
    declared = {"candidates": [{"name": sys.argv[2]}], "k": k}
    ledger = Ledger.of("d" * 64, sys.argv[1])
    ledger.add(lambda _: LookRecord(request_key(declared), str(k), declared))
    ledger.close(declared, str(k), "not yet")
"""


def test_two_processes_lose_no_look(tmp_path: Path) -> None:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    arguments = [sys.executable, "-c", SCRIPT, str(tmp_path), "other"]
    other = subprocess.Popen(arguments, env=environment, stderr=subprocess.PIPE)
    mine, number = book(tmp_path), 0
    while other.poll() is None or number < 3:  # as long as the other one is at it
        declared = {"candidates": [{"name": "mine"}], "k": number}
        open_look(mine, declared, str(number))
        mine.close(declared, str(number), "not yet")
        number += 1
        time.sleep(0.02)
    _, err = other.communicate()
    assert other.returncode == 0, err.decode()
    looks = mine.looks()
    assert len(looks) == number + 3 and {look.verdict for look in looks} == {"not yet"}
    for name, count in (("other", 3), ("mine", number)):
        own = [look.declared["k"] for look in looks if look.declared["candidates"][0]["name"] == name]
        assert own == list(range(count))


def test_a_folder_that_stays_locked_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")
    from aegis.certificate import ledger as module

    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + max(seconds, 1.0)))
    assert time is module.time
    with (tmp_path / LOCK).open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(OutputError, match="another process is writing"):
            open_look(book(tmp_path), DECLARED, "monday")
