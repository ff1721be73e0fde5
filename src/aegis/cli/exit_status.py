"""The end of a command: its exit code, the error line on stderr, and the note after an interruption."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from aegis.errors import AegisError

BAD, INTERRUPTED, TERMINATED = 2, 130, 143


class Terminated(BaseException):
    """The system asked the process to end (SIGTERM). Not an Exception, so that nothing on the way takes it for an error."""


def exit_code(command: Callable[[], Any]) -> int:
    """Run a command and return its exit code; expected errors are printed in one line, without a traceback."""
    try:
        code = _returned_code(command)
        sys.stdout.flush()  # while an error can still be printed
        return code
    except (click.exceptions.Abort, KeyboardInterrupt) as error:
        _print_error("\naegis: " + _with_notes("interrupted", error.__cause__ or error))
        return INTERRUPTED
    except Terminated as error:
        _print_error("aegis: " + _with_notes("terminated", error))
        return TERMINATED
    except click.ClickException as error:
        error.show(file=sys.stderr)
        return BAD
    except AegisError as error:
        _print_error(f"aegis: {error}")
        return error.exit_code
    except BrokenPipeError:
        return 0  # the reader of our output has seen enough
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        _print_error(f"aegis: the system refused to read or write: {error.strerror or error}{where}")
        return BAD
    except MemoryError as error:
        _print_error(f"aegis: there is not enough memory for this ({error or 'no details'}); use smaller numbers")
        return BAD
    except OverflowError as error:
        _print_error(f"aegis: a number is too large to compute with ({error}); use smaller ones")
        return BAD
    finally:
        _release_stdout()


@contextlib.contextmanager
def raise_on_sigterm() -> Iterator[None]:
    """Let SIGTERM raise Terminated, so that temporary files and locks are removed; a second one ends the process at once."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may say what a signal does
        yield
        return

    def end(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def note_resumption(describe: Callable[[], str]) -> Iterator[None]:
    """Add a note to an interruption: from where the same command would go on. describe: returns it."""
    try:
        yield
    except (KeyboardInterrupt, Terminated) as stop:
        stop.add_note(describe())
        raise


def describe_kept_episodes(episodes: int, folder: Path) -> str:
    """Return from where a run that keeps its episodes in a folder would go on."""
    if episodes:
        return f"{episodes} episodes are kept in {folder}, and the same command goes on from there"
    return "no episodes were kept yet, so the same command starts from the beginning"


def _returned_code(command: Callable[[], Any]) -> int:
    try:
        code = command()
    except SystemExit as stop:
        code = stop.code
    return code if isinstance(code, int) else 0 if code is None else BAD


def _with_notes(what: str, error: BaseException) -> str:
    return "; ".join([what, *getattr(error, "__notes__", [])])


def _print_error(line: str) -> None:
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def _release_stdout() -> None:
    """Point stdout elsewhere if it cannot be written: Python would try again at exit, and complain."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
