"""How commands end: exit codes, one line about what went wrong, signals, and outputs that cannot be written."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from aegis.agents import checkpoint_episode
from aegis.cli import Terminated, describe_kept_episodes, exit_code, main, note_resumption, raise_on_sigterm
from aegis.errors import InputError

AEGIS = [sys.executable, "-m", "aegis"]


def raising(error: BaseException) -> Callable[[], None]:
    def command() -> None:
        raise error

    return command


ENDS: list[tuple[BaseException, int, str]] = [
    (InputError("wrong"), 2, "aegis: wrong"),
    (OSError(28, "No space left on device"), 2, "aegis: the system refused to read or write: No space left on device"),
    (FileNotFoundError(2, "No such file or directory", "x.csv"), 2, "No such file or directory (x.csv)"),
    (MemoryError("Unable to allocate 7 TiB"), 2, "aegis: there is not enough memory for this (Unable to allocate 7 TiB)"),
    (MemoryError(), 2, "not enough memory"),
    (OverflowError("math range error"), 2, "aegis: a number is too large to compute with (math range error)"),
    (click.UsageError("no such option"), 2, "no such option"),
    (click.exceptions.Abort(), 130, "aegis: interrupted\n"),
    (KeyboardInterrupt(), 130, "aegis: interrupted\n"),
    (Terminated(), 143, "aegis: terminated\n"),
    (SystemExit(3), 3, ""),
    (SystemExit(None), 0, ""),
]


@pytest.mark.parametrize(("error", "code", "line"), ENDS, ids=[repr(error) for error, _, _ in ENDS])
def test_errors_have_codes_and_lines(error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(raising(error)) == code
    captured = capsys.readouterr()
    assert line in captured.err and "Traceback" not in captured.err
    assert len(captured.err.strip().splitlines()) <= 2


def test_a_closed_pipe_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(raising(BrokenPipeError())) == 0
    assert capsys.readouterr().err == ""


def test_errors_of_the_program_itself_are_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        exit_code(raising(ZeroDivisionError()))


def test_an_interruption_promises_only_what_was_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        with note_resumption(lambda: describe_kept_episodes(checkpoint_episode(tmp_path), tmp_path)):
            raise KeyboardInterrupt

    assert exit_code(command) == 130
    assert capsys.readouterr().err.strip() == (
        "aegis: interrupted; no episodes were kept yet, so the same command starts from the beginning"
    )


def test_the_handler_of_signals_is_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Terminated), raise_on_sigterm():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_commands_may_run_in_other_threads() -> None:
    found: list[str] = []

    def work() -> None:
        with raise_on_sigterm():
            found.append("done")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == ["done"]


def buffered() -> dict[str, str]:
    """Return an environment in which output is kept back until it is flushed, as it is for users."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


# As `python -m aegis`, with Ctrl-C at its default: a process started in the background of a shell inherits it as ignored.
INTERRUPTIBLE = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from aegis.cli import main; main()",
]


def signalled(arguments: list[str], number: int, ready: Callable[[], bool]) -> tuple[int, str]:
    """Start a command, send it a signal once it is `ready`, and return exit code and stderr."""
    with subprocess.Popen([*INTERRUPTIBLE, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as victim:
        try:
            while not ready():
                assert victim.poll() is None, "the command ended before it was ready"
                time.sleep(0.02)
            victim.send_signal(number)
            _, err = victim.communicate(timeout=120)
        finally:
            victim.kill()
        return victim.returncode, err


@pytest.mark.skipif(os.name == "nt", reason="signals as on POSIX systems")
def test_a_terminated_legacy_log_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "log"
    code, err = signalled(
        ["simulate", "--episodes", "100000000", "--out", str(out)], signal.SIGTERM, lambda: bool(list(out.glob(".log*.part")))
    )
    assert code == 143 and "Traceback" not in err
    assert err.splitlines()[-1] == "aegis: terminated"
    assert list(out.iterdir()) == []


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupted_agent_says_from_where_it_goes_on_and_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    first = out / "parts" / "part-000000000.parquet"
    arguments = ["simulate", "--agent", "greedy_nig", "--set", "inner_steps=1", "--episodes", "1000000", "--out", str(out)]
    kept, written = 0, set()

    @contextlib.contextmanager
    def interrupting(label: str, quiet: bool) -> Iterator[Callable[[int, int, str], None]]:
        yield lambda done, total, note: signal.raise_signal(numbers[-1]) if checkpoint_episode(out) > kept else None

    monkeypatch.setattr("aegis.cli.commands.simulate.progress", interrupting)
    numbers: list[signal.Signals] = []
    for number, code, word in ((signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")):
        numbers.append(number)
        with pytest.raises(SystemExit) as end:
            main(arguments)
        err = capsys.readouterr().err
        assert end.value.code == code and "Traceback" not in err
        line = re.search(rf"aegis: {word}; (\d+) episodes are kept in .*, and the same command goes on from there", err)
        assert line is not None and int(line[1]) == checkpoint_episode(out) > kept
        assert not list(out.rglob(".*"))
        kept = int(line[1])
        written.add(first.stat().st_mtime_ns)
    assert len(written) == 1, "the first part was written once"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", [["--help"], ["completion", "--json"]])
def test_stdout_on_a_full_device_is_one_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*AEGIS, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=buffered())
    assert done.returncode == 2
    assert done.stderr == "aegis: the system refused to read or write: No space left on device\n"


@pytest.mark.skipif(os.name == "nt", reason="pipes as on POSIX systems")
@pytest.mark.parametrize("arguments", [["--help"], ["completion", "--json"]])
def test_a_reader_that_leaves_early_is_no_error(arguments: list[str]) -> None:
    with subprocess.Popen(
        [*AEGIS, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=buffered()
    ) as command:
        assert command.stdout is not None and command.stderr is not None
        command.stdout.close()
        assert command.stderr.read() == ""
