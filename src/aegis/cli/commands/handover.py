"""`aegis handover`: the gate on a simulated plant or on your own, level by level; an interrupted run can be resumed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from aegis.cli import options
from aegis.cli.exit_status import Terminated
from aegis.cli.options import CompletedWord
from aegis.cli.output import console, print_json
from aegis.errors import SettingError

HANDOVER_PAGE = "report.html"
PAUSED = 4  # the exit code of a run whose gate is paused: its audit refused, an assumption failed, or an operator said so


@click.command("handover")
@click.option(
    "--world",
    type=CompletedWord("level world"),
    metavar="NAME",
    help="unified, additive, linear, plant or clinic.  [default: additive]",
)
@click.option("--preset", metavar="NAME", help="Parameters of the world that go together, as in 'aegis simulate'.")
@click.option("--plant", metavar="MODULE:OBJECT", help="A plant of your own, in the place of a world; needs --legacy.")
@click.option(
    "--legacy",
    metavar="SPEC",
    help="Who is in control first: one of the world's, such as sign:epsilon=0.3, or your own module:object.  [default: uniform]",
)
@click.option(
    "--host",
    type=CompletedWord("host"),
    metavar="NAME",
    help="Who proposes challengers: greedy, ncts, ucb, ids, pb, or your own policy folder or module:object.  [default: ncts]",
)
@click.option(
    "--gate", metavar="NAME", help="challenger, pac-bayes, or published (which is not a certificate).  [default: challenger]"
)
@click.option("--episodes", type=click.IntRange(min=1), help="[default: 1000]")
@click.option("--seed", type=click.IntRange(min=0), help="Everything random follows from it.  [default: 1]")
@click.option("--delta", type=float, help="Probability of any wrong handover, over the life of the gate.  [default: 0.05]")
@click.option("--first", type=int, help="Episodes before challengers are frozen for the first time.")
@click.option("--caps", metavar="W,W", help="How far challengers may differ from the legacy, such as 1.5,2,3 or 2,inf.")
@click.option("--patience", type=float, help="How long to wait for a larger cap: 1.5 is half as long again.")
@click.option("--floor", type=float, help="Share of decisions that a deployed policy leaves to the legacy.")
@click.option(
    "--mode",
    type=CompletedWord("mode"),
    metavar="NAME",
    help="live, approve (shows what waits) or shadow (never flips).  [default: live]",
)
@click.option("--margin", multiple=True, metavar="[LEVEL=]GAIN", help="Gain that makes a switch worth it; repeatable.")
@click.option("--gate-set", multiple=True, metavar="KEY=VALUE", help="Any setting of the gate (docs/handover.md); repeatable.")
@click.option(
    "--out", type=options.NamedPath(path_type=Path), metavar="FOLDER", help="Keeps the run, to go on from; and its files."
)
@click.option(
    "--report", type=options.NamedPath(path_type=Path), metavar="FILE", help="Write the page. With --out: FOLDER/report.html."
)
@click.option(
    "--operator",
    multiple=True,
    metavar="ACTION[:LEVEL]",
    help="What an operator says of the run in --out before it goes on: approve:LEVEL, revert:LEVEL, pause, resume, or live, ask "
    "or shadow for the mode.",
)
@click.option("--who", help="Who says it.")
@click.option("--why", help="And why.")
@click.option(
    "--ledger", type=options.NamedPath(path_type=Path), metavar="FOLDER", help="Where gates of a plant are counted, as looks are."
)
@click.option("--config", type=options.NamedPath(path_type=Path), metavar="FILE", help="A YAML file with these options by name.")
@options.settings
@options.as_json
def command(
    config: Path | None,
    margin: tuple[str, ...],
    gate_set: tuple[str, ...],
    caps: str | None,
    overrides: tuple[str, ...],
    operator: tuple[str, ...],
    who: str | None,
    why: str | None,
    as_json: bool,
    **typed: Any,
) -> int:
    """Run a gate: the legacy acts, a host learns beside it, and each level changes hands once a gain is certified there.

    With --out every event is kept: interrupted in any way, the same command goes on where it was and ends with the same bytes.

    \b
    Exit codes: 0 done (whether or not anything was handed over), 2 bad input,
    4 the gate is paused: an assumption failed, or an operator paused it.

    \b
    Examples:
      aegis handover --world additive --legacy uniform --episodes 1000 --seed 1 --out run/
      aegis handover --world unified --preset stress --legacy natural:epsilon=0.3 --margin meta=0.05 --report page.html
      aegis handover --mode shadow --caps 2,3 --gate-set generations=2 --episodes 300
      aegis handover --plant greenhouse:plant --legacy greenhouse:legacy --host greedy --out run/
      aegis handover --config run.yaml
      aegis handover --config run.yaml --episodes 1200 --operator approve:inner --who ann --why "the trend holds"
    """
    from aegis.cli.config import merge_request, parse_caps, parse_margins

    given = {
        **typed,
        "caps": None if caps is None else parse_caps(caps),
        "margin": parse_margins(margin),
        "set": options.parse_settings(overrides),
        "gate-set": options.parse_settings(gate_set, "--gate-set"),
    }
    wanted = merge_request(given, config)
    result = run_handover(wanted, as_json, parse_operator(operator, who, why, wanted.out))
    if as_json:
        print_json(result)
    return PAUSED if result["paused"] is not None else 0


def parse_operator(said: tuple[str, ...], who: str | None, why: str | None, out: Path | None) -> list[Any]:
    """Return what an operator says; SettingError unless somebody says it, with a reason, of a run that is kept."""
    from aegis.handover import OperatorAction

    if not said:
        if who is not None or why is not None:
            raise SettingError("--who and --why belong to --operator: say what is to be done")
        return []
    if not who or not why:
        raise SettingError("--operator is said by somebody for a reason: give --who and --why")
    if out is None:
        raise SettingError("--operator is about a run that is kept: name its folder with --out")
    pairs = [text.partition(":") for text in said]
    return [OperatorAction(action.strip(), who, why, 0, level.strip() or None) for action, _, level in pairs]


def run_handover(wanted: Any, quiet: bool, said: Sequence[Any] = ()) -> dict[str, Any]:
    """Run what is asked for, show it unless quiet, write its page; return the result as plain data. said: by an operator."""
    from aegis.cli.handover_run import prepare_run, print_run, run_result
    from aegis.cli.live_view import watch_run
    from aegis.handover import count_gate, run_in_folder, summarise_run

    page = wanted.report or (None if wanted.out is None else wanted.out / HANDOVER_PAGE)
    options.spare_inputs({"--report": page}, [])
    with _resumable(wanted.out):
        made = prepare_run(wanted)
        gate = made.gate
        with watch_run(gate, wanted.episodes, made.certificate, quiet) as watch:
            if wanted.out is None:
                count_gate(gate, wanted.about, wanted.ledger)
                gate.advance(wanted.episodes, watch)
                found = summarise_run(gate)
            else:
                found = run_in_folder(wanted.out, gate, wanted.episodes, wanted.about, watch, said, wanted.ledger)
    result = run_result(made, found)
    untouched = result["note"] is not None and not said
    if page is not None and not (untouched and wanted.report is None):
        from aegis.report import write_handover_report

        write_handover_report(gate, page, wanted.about, result["values"], made.certificate)
        result["report"] = str(page)
    if not quiet:
        print_run(made, result, console())
    return result


@contextlib.contextmanager
def _resumable(out: Path | None) -> Iterator[None]:
    """Say, if what is inside is interrupted, from where the same command would go on."""
    try:
        yield
    except (KeyboardInterrupt, Terminated) as stop:
        kept = 0 if out is None else count_kept_episodes(out)
        if out is None:
            stop.add_note("nothing was kept; --out FOLDER keeps the run")
        elif kept:
            stop.add_note(f"{kept} episodes are kept in {out}, and the same command goes on from there")
        else:
            stop.add_note("no episodes were kept yet, so the same command starts from the beginning")
        raise


def count_kept_episodes(folder: Path) -> int:
    """Return how many closed episodes the run in a folder has kept."""
    from aegis.handover import EVENTS_FILE

    try:
        with (folder / EVENTS_FILE).open("rb") as file:
            return sum(line.startswith(b'{"kind": "unit"') and line.endswith(b"\n") for line in file)
    except OSError:
        return 0
