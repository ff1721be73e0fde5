"""`aegis convert`: logs of other libraries as a log and a problem file, and an AEGIS log as theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from aegis.cli import options
from aegis.cli.output import print_json, print_line
from aegis.errors import SettingError

FORMS = ("dsjson", "obp")


@click.command("convert")
@click.argument("file", nargs=-1, required=True, type=options.LogPath())
@click.option("--from", "form", type=click.Choice(FORMS), help="What FILE is: dsjson (also .gz), or obp (.npz without pickle).")
@click.option("--to", "target", type=click.Choice(["obp"]), help="FILE is a log of ours; write obp's feedback dictionary (.npz).")
@options.path_option("--out", "PLACE", "--from: a folder. --to: an .npz file.", required=True)
@click.option("--force", is_flag=True, help="Overwrite what is there.")
@click.option(
    "--reward-range", type=float, nargs=2, metavar="LOW HIGH", help="Declared limits of a reward (of dsjson: of a cost times -1)."
)
@click.option(
    "--thinned", is_flag=True, help="dsjson: events that are missing were left out by a coin toss that looked at nothing."
)
@options.word_option(
    "--unobserved", "unobserved", "dsjson: events without an outcome earned their 'cost', or are 'missing' it.", "WHAT"
)
@options.word_option(
    "--skipped",
    "skipped",
    "dsjson: _skipLearn or never activated events are 'missing' their reward, or 'left out'.",
    "WHAT",
)
@click.option("--action-key", metavar="FEATURE", help="dsjson: the feature that names an action, such as item.id or _tag.")
@options.repeated_option("--context", "FEATURE", "dsjson: a shared feature to keep; repeatable. Default: all.")
@click.option("--cluster", metavar="FEATURE", help="dsjson: the shared feature that dependent events have in common.")
@click.option("--problem", type=click.Path(path_type=Path), metavar="FILE", help="--to: the problem file of the log.")
@click.option("--policy", metavar="POLICY", help="--to: also write a candidate's action_dist; see 'aegis certify'.")
@options.as_json
def command(
    file: tuple[Path | str, ...],
    form: str | None,
    target: str | None,
    out: Path,
    force: bool,
    reward_range: tuple[float, float] | None,
    problem: Path | None,
    policy: str | None,
    as_json: bool,
    **declared: Any,
) -> None:
    """Take over a log of another library, as log.parquet and problem.yaml in a folder; or hand a log of ours over to it.

    What a file cannot say, and certificates depend on, is refused until you declare it; nothing is guessed or left out in
    silence. Read problem.yaml before you certify: it says what is a context, and which range rewards have.

    \b
    Examples:
      aegis convert events.dsjson --from dsjson --reward-range 0 1 --out log/
      aegis convert day1.json.gz day2.json.gz --from dsjson --action-key item.id --unobserved cost --out log/
      aegis convert feedback.npz --from obp --reward-range 0 1 --out log/
      aegis convert log/log.parquet --problem log/problem.yaml --to obp --policy full-columns:q_1,q_2 --out feedback.npz
    """
    if (form is None) == (target is None):
        raise SettingError("say what FILE is (--from dsjson or --from obp), or what to make of a log of ours (--to obp)")
    of_dsjson = [f"--{name.replace('_', '-')}" for name, value in declared.items() if value]
    if of_dsjson and form != "dsjson":
        raise SettingError(f"{', '.join(of_dsjson)}: about dsjson files; leave it out")
    if target is not None and reward_range is not None:
        raise SettingError("--reward-range belongs to --from: a log of ours has its range in the problem file")
    if target is None and (problem is not None or policy is not None):
        raise SettingError("--problem and --policy belong to --to")
    if form is None:
        result = _export_log(file, problem, policy, out, force)
    else:
        result = _import_log(file, form, out, force, {**declared, "reward_range": reward_range})
    if as_json:
        print_json(result)
        return
    for note in result["notes"]:
        print_line(f"note: {note}")
    for name in ("log", "problem", "feedback"):
        if name in result:
            print_line(f"{name}: {result[name]}")


def _import_log(file: tuple[Path | str, ...], form: str, out: Path, force: bool, declared: dict[str, Any]) -> dict[str, Any]:
    """Convert a file of another library into a folder; return its sizes, notes and places as plain data."""
    from aegis.adapters import (
        LOG_NAME,
        PROBLEM_NAME,
        DsjsonDeclaration,
        convert_dsjson,
        from_feedback,
        load_feedback,
        write_converted,
    )

    options.refuse_overwriting({f"--out ({name})": out / name for name in (LOG_NAME, PROBLEM_NAME)}, file, force)
    if form == "dsjson":
        contexts = declared.pop("context") or None
        rows, problem, notes = convert_dsjson(list(file), out, DsjsonDeclaration(**declared, contexts=contexts))
    else:
        if len(file) > 1:
            raise SettingError(f"--from obp takes one file, found {len(file)}")
        log = from_feedback(load_feedback(file[0]), declared["reward_range"])
        rows, problem, notes = write_converted([log.table], log.problem, out), log.problem, log.notes
    level = problem.innermost
    return {
        "from": form,
        "rows": rows,
        "actions": level.actions.count,
        "contexts": [variable.name for variable in level.context],
        "full_propensities": level.propensity is not None and level.propensity.full,
        "notes": list(notes),
        "log": str(out / LOG_NAME),
        "problem": str(out / PROBLEM_NAME),
    }


def _export_log(file: tuple[Path | str, ...], problem: Path | None, policy: str | None, out: Path, force: bool) -> dict[str, Any]:
    """Write a log of ours as a feedback dictionary; return its sizes, notes and place as plain data."""
    from aegis.adapters import action_dist, save_feedback, to_feedback
    from aegis.api import load_candidate
    from aegis.logs import Source
    from aegis.problem import load_problem

    if problem is None:
        raise SettingError("--to obp reads a log of ours: name its problem file with --problem")
    options.refuse_overwriting({"--out": out}, [*file, problem], force)
    source = Source(file, load_problem(problem))
    candidate = None if policy is None else load_candidate(policy, source.problem)
    batch = source.read(() if candidate is None else candidate.columns)
    feedback = to_feedback(batch, source.problem)
    notes = ["rewards are as logged; obp's estimators are means over rounds, and not one of them is a certificate"]
    if candidate is not None:
        feedback["action_dist"] = action_dist(candidate.policy, batch, source.problem)
        if candidate.record:
            notes.append("the policy was learned from one side of a log: estimates on that side are optimistic")
    save_feedback(feedback, out)
    return {
        "to": "obp",
        "rows": feedback["n_rounds"],
        "actions": feedback["n_actions"],
        "keys": [key for key, value in feedback.items() if value is not None],
        "notes": notes,
        "feedback": str(out),
    }
