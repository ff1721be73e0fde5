"""`aegis handover`: the gate on a simulated plant or on your own, level by level; an interrupted run can be resumed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from aegis.cli import describe_kept_episodes, note_resumption, options
from aegis.cli.output import print_json
from aegis.errors import SettingError

HANDOVER_PAGE = "report.html"
PAUSED = 4  # the exit code of a run whose gate is paused: its audit refused, an assumption failed, or an operator said so


@click.command("handover")
@options.word_option("--world", "level world", "{words}.  [default: additive]")
@options.plant
@click.option(
    "--legacy",
    metavar="SPEC",
    help="Who is in control first: one of the world's, such as sign:epsilon=0.3, or your own module:object. With --log: who "
    "wrote it, a policy folder or module:object.  [default: uniform]",
)
@options.word_option(
    "--host",
    "host",
    "Who proposes challengers: {words}; or your own policy folder or module:object.  [default: ncts]",
)
@options.path_option(
    "--host-log",
    "LOG",
    "A log of the plant from before the run, which host pessimistic starts from. Not behind --gate published.",
)
@click.option(
    "--gate", metavar="NAME", help="challenger, pac-bayes, or published (which is not a certificate).  [default: challenger]"
)
@click.option(
    "--log",
    multiple=True,
    type=options.LogPath(),
    metavar="LOG",
    help="Judge a recorded log of the legacy by --gate published, with --problem, instead of a run; repeatable.",
)
@options.path_option("--problem", "FILE", "The problem file of --log.")
@click.option("--episodes", type=click.IntRange(min=1), help="[default: 1000]")
@click.option("--seed", type=click.IntRange(min=0), help="Everything random follows from it.  [default: 1]")
@options.gate_limits
@options.word_option("--mode", "mode", "live, approve (shows what waits) or shadow (never flips).  [default: live]")
@options.repeated_option("--margin", "[LEVEL=]GAIN", "Gain that makes a switch worth it; repeatable.")
@options.gate_settings
@options.path_option("--out", "FOLDER", "Keeps the run, to go on from; and its files.")
@options.path_option("--report", "FILE", "Write the page. With --out: FOLDER/report.html.")
@options.repeated_option(
    "--operator",
    "ACTION[:LEVEL]",
    "What an operator says of the run in --out before it goes on: approve:LEVEL, revert:LEVEL, pause, resume, or live, ask or "
    "shadow for the mode.",
)
@click.option("--who", help="Who says it.")
@click.option("--why", help="And why.")
@options.path_option("--ledger", "FOLDER", "Where gates of a plant are counted, as looks are.")
@options.path_option("--config", "FILE", "A YAML file with these options by name.")
@options.settings
@options.as_json
def command(
    config: Path | None,
    margin: tuple[str, ...],
    gate_set: tuple[str, ...],
    caps: str | None,
    log: tuple[Path | str, ...],
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
      aegis handover --gate published --log log.parquet --problem problem.yaml
      aegis handover --config run.yaml --episodes 1200 --operator approve:inner --who ann --why "the trend holds"
    """
    from aegis.cli.config import merge_request, parse_margins

    typed |= {
        "host-log": typed.pop("host_log"),
        "caps": None if caps is None else list(options.parse_caps(caps)),
        "log": [str(path) for path in log] or None,
        "margin": parse_margins(margin),
        "set": options.parse_settings(overrides),
        "gate-set": options.parse_settings(gate_set, "--gate-set"),
    }
    request = merge_request(typed, config)
    if request.log is not None:
        show_log_looks(request, operator, as_json)
        return 0
    result = run_handover(request, as_json, parse_operator(operator, who, why, request.out))
    if as_json:
        print_json(result)
    return PAUSED if result["paused"] is not None else 0


def show_log_looks(request: Any, operator: tuple[str, ...], as_json: bool) -> None:
    """Judge a recorded log as the request says, and show the outcome."""
    from aegis.cli.log_looks import judge_request, print_log_looks

    if operator:
        raise SettingError("--operator is about a run that is kept: a recorded log has none")
    outcome, result = judge_request(request)
    if as_json:
        print_json(result)
    else:
        print_log_looks(outcome)


def parse_operator(texts: tuple[str, ...], who: str | None, why: str | None, out: Path | None) -> list[Any]:
    """Return the actions of an operator; SettingError unless they have a name, a reason, and a run that is kept."""
    from aegis.handover import OperatorAction

    if not texts:
        if who is not None or why is not None:
            raise SettingError("--who and --why belong to --operator: say what is to be done")
        return []
    if not who or not why:
        raise SettingError("--operator is said by a person for a reason: give --who and --why")
    if out is None:
        raise SettingError("--operator is about a run that is kept: name its folder with --out")
    pairs = [text.partition(":") for text in texts]
    return [
        OperatorAction(action=action.strip(), who=who, why=why, episode=0, level=level.strip() or None)
        for action, _, level in pairs
    ]


def run_handover(request: Any, quiet: bool, actions: Sequence[Any] = ()) -> dict[str, Any]:
    """Run a request, show it unless quiet, write its page; return the result as plain data. actions: of an operator."""
    from aegis.cli.handover_run import prepare_run, print_run, run_result
    from aegis.cli.live_view import watch_run
    from aegis.handover import count_gate, run_in_folder, summarise_run

    out = request.out
    page = request.report or (None if out is None else out / HANDOVER_PAGE)
    options.spare_inputs({"--report": page}, [])
    lost = "nothing was kept; --out FOLDER keeps the run"
    with note_resumption(lambda: lost if out is None else describe_kept_episodes(count_kept_episodes(out), out)):
        run = prepare_run(request)
        with watch_run(run.gate, request.episodes, run.certificate, quiet) as watch:
            if out is None:
                count_gate(run.gate, request.about, request.ledger)
                run.gate.advance(request.episodes, watch)
                summary = summarise_run(run.gate)
            else:
                summary = run_in_folder(out, run.gate, request.episodes, request.about, watch, actions, request.ledger)
    result = run_result(run, summary)
    untouched = result["note"] is not None and not actions
    if page is not None and not (untouched and request.report is None):
        from aegis.report import write_handover_report

        write_handover_report(run.gate, page, request.about, result["values"], run.certificate)
        result["report"] = str(page)
    if not quiet:
        print_run(run, result)
    return result


def count_kept_episodes(folder: Path) -> int:
    """Return how many closed episodes the run in a folder has kept."""
    from aegis.handover import EVENTS_FILE

    try:
        with (folder / EVENTS_FILE).open("rb") as file:
            return sum(line.startswith(b'{"kind": "unit"') and line.endswith(b"\n") for line in file)
    except OSError:
        return 0
