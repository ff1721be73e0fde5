"""A handover that is interrupted says what was kept, and the same command ends with the same bytes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typed import done
from typed import run as aegis

from aegis.cli import Terminated
from aegis.cli.commands.handover import count_kept_episodes
from aegis.handover import run_folder
from case_choice import few

QUICK: tuple[object, ...] = (
    *("handover", "--set", "f_a=2.0", "--set", "inner_steps=3", "--host", "greedy", "--caps", "2"),
    *("--gate-set", "upgrades=false", "--episodes", 70, "--json"),
)
KEPT = ("events.jsonl", "log.parquet", "summary.json", "report.html", "problem.yaml")
# As `python -m aegis`, with Ctrl-C at its default: a process started in the background of a shell inherits it as ignored.
INTERRUPTIBLE = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from aegis.cli import main; main()",
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the run that was not interrupted."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert done(*QUICK, "--out", out) == 0
    return out


@pytest.fixture(scope="module")
def whole(finished: Path) -> dict[str, bytes]:
    """Return the files of that run."""
    return {name: (finished / name).read_bytes() for name in KEPT}


@pytest.mark.parametrize(("stop", "blocks"), few([(KeyboardInterrupt, 1), (MemoryError, 2), (Terminated, 4)], [(MemoryError, 2)]))
def test_stopped_between_blocks_it_goes_on_and_ends_with_the_same_bytes(
    stop: type[BaseException],
    blocks: int,
    whole: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    append, calls = run_folder._append, []

    def stopping(path: Path, events: Sequence[Any]) -> None:
        if len(calls) == blocks:
            raise stop
        calls.append(len(events))
        append(path, events)

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "_append", stopping)
        code, _, err = aegis(*QUICK, "--out", out, capsys=capsys)
    kept = count_kept_episodes(out)
    words = f"{kept} episodes are kept in {out}, and the same command goes on" if kept else "starts from the beginning"
    assert code == {KeyboardInterrupt: 130, Terminated: 143, MemoryError: 2}[stop]
    assert ("not enough memory" if stop is MemoryError else words) in err
    assert (kept > 0) is (blocks > 1)
    code, _, err = aegis(*QUICK, "--out", out, capsys=capsys)
    assert code == 0, err
    assert {name: (out / name).read_bytes() for name in KEPT} == _with_folder(whole, out)


@pytest.mark.skipif(os.name == "nt", reason="signals as on POSIX systems")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.ci)])
def test_killed_it_goes_on_and_ends_with_the_same_bytes(
    number: int, code: int, whole: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    command = [*INTERRUPTIBLE, *map(str, QUICK), "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as victim:
        try:
            while not count_kept_episodes(out):
                if victim.poll() is not None:
                    break  # so quick that there was nothing to interrupt
                time.sleep(0.002)
            victim.send_signal(number)
            _, err = victim.communicate(timeout=120)
        finally:
            victim.kill()
    if victim.returncode != 0:
        assert victim.returncode == code and "Traceback" not in err
        if code > 0 and not (out / "summary.json").exists():
            assert re.search(r"aegis: (terminated|interrupted); \d+ episodes are kept in .*, and the same command goes on", err)
    ended, _, err = aegis(*QUICK, "--out", out, capsys=capsys)
    assert ended == 0, err
    assert {name: (out / name).read_bytes() for name in KEPT} == _with_folder(whole, out)


@pytest.mark.parametrize("kind", [b"certified", b"flip"])
def test_a_write_that_was_broken_off_before_a_decision(
    kind: bytes, finished: Path, whole: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = Path(shutil.copytree(finished, tmp_path / "run"))
    lines = (out / "events.jsonl").read_bytes().splitlines(keepends=True)
    decided = next(place for place, line in enumerate(lines) if line.startswith(b'{"kind": "' + kind))
    (out / "events.jsonl").write_bytes(b"".join(lines[:decided]) + lines[decided][:20])
    (out / "summary.json").unlink()
    code, _, err = aegis(*QUICK, "--out", out, capsys=capsys)
    assert code == 0, err
    assert (out / "events.jsonl").read_bytes() == whole["events.jsonl"]


def test_without_a_folder_it_says_that_nothing_was_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from aegis.handover import Handover

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Handover, "advance", stopped)
    code, out, err = aegis(*QUICK, capsys=capsys)
    assert (code, out) == (130, "") and "nothing was kept; --out FOLDER keeps the run" in err


def test_a_damaged_line_is_named_and_nothing_is_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert aegis(*QUICK, "--episodes", 20, "--out", out, capsys=capsys)[0] == 0
    lines = (out / "events.jsonl").read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b'"unit"', b'"unti"')
    (out / "events.jsonl").write_bytes(b"".join(lines))
    code, _, err = aegis(*QUICK, "--episodes", 20, "--out", out, capsys=capsys)
    assert code == 2 and "events.jsonl, line 5" in err
    assert (out / "events.jsonl").read_bytes() == b"".join(lines)


def _with_folder(files: dict[str, bytes], out: Path) -> dict[str, bytes]:
    """Return the files; none of them names the folder it lies in."""
    assert not any(str(out).encode() in content for content in files.values())
    return files
