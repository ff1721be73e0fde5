"""The command line: its commands, each imported when it is used so that `aegis --help` is instant, and how a command ends."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from aegis.errors import AegisError, did_you_mean
from aegis.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


# command, which is also its module under aegis.cli.commands -> one line for the list of commands
COMMANDS = {
    "demo": "Watch control being handed over on a simulated plant, and a policy certified from a log alone.",
    "simulate": "Write the log of a simulated plant under a legacy, or under a learning agent.",
    "dataset": "Write a log with its problem file: coating (simulated), HeartSteps, Open Bandit, oats or Hillstrom (published).",
    "init": "Draft a commented problem file from the columns of a log.",
    "convert": "Take over a log of another library (Vowpal Wabbit DSJSON, obp), or hand one over to it.",
    "audit": "Check whether a log is fit to certify from: findings, and what to do about each.",
    "plan": "Plan a study: how much exploration and how many episodes until a gain is certified.",
    "learn": "Learn a candidate policy from one side of a log; the other side is left to certify on.",
    "certify": "Certify from a log alone how much better a policy is than the incumbent, at which risk.",
    "compare": "Show estimators and bounds side by side on the same units: which are certificates, which not.",
    "verify": "Recompute a certificate bit for bit; report a changed row, policy or setting.",
    "explain": "Show where a policy differs from the incumbent, by level and context.",
    "decide": "Apply a policy to a table of contexts: probabilities of every action, and a drawn one.",
    "handover": "Run the gate on a simulated plant, or your own: levels change hands once a gain is certified.",
    "serve": "Run the live gate beside a controller: decisions over HTTP, a store that loses nothing, a dashboard.",
    "token": "Make, list and revoke the tokens of a live gate.",
    "store": "Look after the store of a live gate: upgrade, verify, back up, restore, export.",
    "validate": "Measure on a simulated plant, or your own, how often every bound is wrong and how wide it is.",
    "bench": "Run the experiments of the paper, or your own: numbers beside the paper's, claims with verdicts.",
    "doctor": "Check the environment: versions, threads, and whether things work.",
    "completion": "Let your shell complete commands, options and files: bash, zsh or fish.",
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports them only when one is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"aegis.cli.commands.{cmd_name}").command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the nearest command for a misspelt one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"no such command '{args[0]}'{did_you_mean(args[0], COMMANDS)}; commands: {', '.join(COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Say where to start, at the end, which stays on the screen."""
        with formatter.section("Start here"):
            formatter.write_dl(list(FIRST_STEPS))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names of commands without importing them."""
        from click.shell_completion import CompletionItem

        names = [CompletionItem(name, help=line) for name, line in COMMANDS.items() if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


# what to type, and what it does
FIRST_STEPS = (
    ("aegis demo", "the whole story on simulated plants, and pages to read"),
    ("aegis init LOG", "your own log: a draft of its problem file comes first"),
    ("aegis COMMAND --help", "what a command does, with examples"),
    ("docs/tutorial.md", "in the sources: a certificate in ten minutes"),
)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="aegis")
def app() -> None:
    """AEGIS: can we trust this agent here, and at what risk?

    Reads the log of the controller in charge, learns a better policy, and hands control over one timescale at a time.
    """


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit; errors that can be expected are printed without a traceback."""
    from aegis.engine import limit_blas_threads

    limit_blas_threads()
    with raise_on_sigterm():
        code = exit_code(lambda: app.main(arguments, prog_name="aegis", standalone_mode=False))
    sys.exit(code)


def first_step_lines() -> list[str]:
    """Return the steps as lines of text."""
    width = max(len(typed) for typed, _ in FIRST_STEPS)
    return [f"  {typed:<{width}}  {outcome}" for typed, outcome in FIRST_STEPS]


# ---- the end of a command ---------------------------------------------------------------------------------------------------

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
